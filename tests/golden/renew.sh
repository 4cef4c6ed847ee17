#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Lowers tests/golden/ceilings to what the traces measure now. A value that has risen stays as it is,
# is named, and makes this end with 1: whoever wants it higher writes so by hand, and why.
source "$(dirname "$0")/lib.sh" "$@"
risen=0
new=$(mktemp)
trap 'rm -f "$new"' EXIT

# lower WHAT VALUE CEILING: the smaller of both.
lower() {
    if awk -v is="$2" -v most="$3" 'BEGIN { exit !(is > most + 0) }'; then
        echo "$trace: $1 has risen to $2, above its ceiling of $3" >&2
        risen=1
        lowest=$3
    else
        lowest=$2
    fi
}

sed '/^[^#]/,$d' "$here/ceilings" >"$new"
while read -r trace ratio cost; do
    report=$("$weir" replay --json --no-verify "$traces/$trace.csv.gz")
    lower reserved_ratio "$(field "$report" reserved_ratio)" "$ratio"; new_ratio=$lowest
    lower driver_ns_per_op "$(field "$report" driver_ns_per_op)" "$cost"
    printf '%-14s %-10s %s\n' "$trace" "$new_ratio" "$lowest" >>"$new"
done < <(ceilings)
cat "$new" >"$here/ceilings"
exit "$risen"
