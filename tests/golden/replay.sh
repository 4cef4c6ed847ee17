#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Plays the bundled traces through a pool and holds what it reserves and what the driver's calls cost
# against tests/golden/ceilings. Every allocation is served, the model agrees, and the host never waits,
# also where the GPU lags behind by 5 or 50 ms; at 1.02 times the peak requested all are served too.
source "$(dirname "$0")/lib.sh" "$@"
failed=0

fail() { echo "$trace: $*"; failed=1; }

# hold WHAT VALUE CEILING
hold() {
    awk -v is="$2" -v most="$3" 'BEGIN { exit !(is != "" && is + 0 <= most + 0) }' ||
        fail "$1 is '$2', above its ceiling of $3: see tests/golden/ceilings"
}

# must WHAT VALUE WANTED
must() { [ "$2" = "$3" ] || fail "$1 is '$2', not $3"; }

while read -r trace ratio cost; do
    report=$("$weir" replay --json "$traces/$trace.csv.gz") || fail "replay ended with $?"
    must failed_allocs "$(field "$report" failed_allocs)" 0
    must host_waits "$(field "$report" host_waits)" 0
    must verified "$(field "$report" verified)" true
    hold reserved_ratio "$(field "$report" reserved_ratio)" "$ratio"
    hold driver_ns_per_op "$(field "$report" driver_ns_per_op)" "$cost"
    for lag in 5000 50000; do
        late=$("$weir" replay --json --gpu-lag-us "$lag" "$traces/$trace.csv.gz") ||
            fail "replay with a lag of $lag us ended with $?"
        must "failed_allocs at a lag of $lag us" "$(field "$late" failed_allocs)" 0
        must "host_waits at a lag of $lag us" "$(field "$late" host_waits)" 0
        must "verified at a lag of $lag us" "$(field "$late" verified)" true
    done
    tight=$("$weir" replay --json --capacity 1.02x "$traces/$trace.csv.gz") ||
        fail "replay at 1.02x ended with $?"
    must "failed_allocs at 1.02x" "$(field "$tight" failed_allocs)" 0
    must "verified at 1.02x" "$(field "$tight" verified)" true
    echo "$trace: reserved_ratio $(field "$report" reserved_ratio) of at most $ratio," \
        "driver_ns_per_op $(field "$report" driver_ns_per_op) of at most $cost"
done < <(ceilings)
[ "$(ceilings | wc -l)" -gt 0 ] || { echo "tests/golden/ceilings names no trace"; failed=1; }
exit "$failed"
