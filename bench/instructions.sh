#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Counts the instructions of the core for each operation, exactly, with valgrind's callgrind.
# Counted is what weir_alloc_on, weir_free and weir_use execute, and all below them; what a device
# call executes is not, nor the benchmark's own loop. The same build gives the same numbers on each
# run.
#
#     bench/instructions.sh [--json] [--check] [--only PREFIX] [--build DIR] [--keep DIR] [TRACE...]
#
# --check  ends with 1 if a target is missed
# --build  an existing build with WEIR_BENCH=ON; otherwise one is made in build/bench
# --keep   leaves callgrind's profiles there, for callgrind_annotate
# Without TRACE: all of tests/data/traces.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET_TRACES=150 TARGET_LIVE=1.2
json=0 check=0 only='' build='' keep=''

die() { printf 'instructions.sh: %s\n' "$*" >&2; exit 2; }
value() { [ $# -ge 2 ] || die "$1 needs a value"; printf '%s' "$2"; }

while [ $# -gt 0 ]; do
    case $1 in
    --json) json=1 ;;
    --check) check=1 ;;
    --only) only=$(value "$@"); shift ;;
    --build) build=$(value "$@"); shift ;;
    --keep) keep=$(value "$@"); shift ;;
    -*) die "'$1' is no option; there are --json, --check, --only, --build and --keep" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- "$root"/tests/data/traces/*.csv.gz
command -v callgrind_annotate >/dev/null || die "valgrind is not installed; install it"

if [ -z "$build" ]; then
    build=$root/build/bench
    { cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS=-g -DWEIR_BENCH=ON \
        -DWEIR_TESTS=OFF && cmake --build "$build" --parallel; } >&2
fi
[ -x "$build/bin/weir_bench_core" ] || die "$build/bin/weir_bench_core is not there; build it"

if [ -n "$keep" ]; then
    mkdir -p "$keep"
    dir=$keep
    rm -f "$dir"/profile*
else
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi

# The device's calls, by their names in the map of the simulated device.
toggles=(--toggle-collect=weir_alloc_on --toggle-collect=weir_free --toggle-collect=weir_use)
while read -r call; do
    toggles+=("--toggle-collect=meter_$call")
done < <(sed -n '/define WEIR_SIM_CALL_MAP/,/^$/p' "$root/backends/sim/sim.h" |
    grep -o 'X([a-z_]*)' | tr -d 'X()' | grep -v '^name$')

valgrind -q --tool=callgrind --instr-atstart=no --collect-atstart=no "${toggles[@]}" \
    --callgrind-out-file="$dir/profile" "$build/bin/weir_bench_core" --probe --json --only "$only" \
    "$@" >"$dir/results" 2>"$dir/errors" || { cat "$dir/errors" >&2; die "the benchmark failed"; }

# inclusive PROFILE FUNCTION: all that the function and what it called have executed.
inclusive() {
    callgrind_annotate --inclusive=yes --threshold=100 --auto=no --show-percs=no "$1" 2>/dev/null |
        awk -v name=":$2" '{ at = index($2, name) }
            at > 0 && length($2) == at + length(name) - 1 {
                gsub(",", "", $1); if ($1 + 0 > most) most = $1 + 0 }
            END { printf "%.0f", most }'
}

# A line for each workload: name, instructions of allocations, of frees with their uses.
for profile in "$dir"/profile.*; do
    [ -e "$profile" ] || die "no workload begins with '$only'"
    name=$(sed -n 's/^desc: Trigger: Client Request: //p' "$profile")
    [ -n "$name" ] || continue
    printf '%s %s %s %s\n' "$name" "$(inclusive "$profile" weir_alloc_on)" \
        "$(inclusive "$profile" weir_free)" "$(inclusive "$profile" weir_use)"
done >"$dir/counts"

awk -v json="$json" -v check="$check" -v traces_most="$TARGET_TRACES" -v live_most="$TARGET_LIVE" '
    function field(key) {
        if (!match($0, "\"" key "\":\"?[^,\"}]*")) return ""
        value = substr($0, RSTART, RLENGTH)
        sub(/^"[^"]*":"?/, "", value)
        return value
    }
    function summary(name, title, number, most) {
        if (json) printf "{\"schema\":\"weir.bench.instructions/1\",\"summary\":\"%s\"," \
            "\"value\":%.4f,\"most\":%s}\n", name, number, most
        else printf "%s: %.3f (target: at most %s)\n", title, number, most
        if (number > most) missed = 1
    }
    FILENAME == ARGV[1] { alloc[$1] = $2; free[$1] = $3 + $4; next }
    FNR == 1 && !json {
        printf "%-20s %9s %9s %10s %12s %11s\n", "workload", "live", "ops", "per op",
            "per alloc", "per free"
    }
    {
        name = field("workload"); ops = field("ops"); live = field("live_blocks")
        if (alloc[name] + 0 == 0 || free[name] + 0 == 0) { broken = name; exit }
        per = (alloc[name] + free[name]) / ops
        if (json) printf "{\"schema\":\"weir.bench.instructions/1\",\"workload\":\"%s\"," \
            "\"live_blocks\":%d,\"ops\":%d,\"instructions_per_op\":%.3f," \
            "\"instructions_per_alloc\":%.3f,\"instructions_per_free\":%.3f}\n", name, live, ops,
            per, 2 * alloc[name] / ops, 2 * free[name] / ops
        else printf "%-20s %9d %9d %10.1f %12.1f %11.1f\n", name, live, ops, per,
            2 * alloc[name] / ops, 2 * free[name] / ops
        if (name ~ /^trace:/) { sum += log(per); traces++ }
        of[name] = per
    }
    END {
        if (broken != "") {
            print "instructions.sh: " broken ": the profile names no call of weir_alloc_on or " \
                "weir_free; build without link-time optimization" > "/dev/stderr"
            exit 2
        }
        if (traces > 0)
            summary("traces_per_op", "instructions per op, geometric mean of " traces " traces",
                exp(sum / traces), traces_most)
        if (("random:1m" in of) && ("random:10k" in of))
            summary("live_ratio", "instructions per op, 1 million live blocks / 10 thousand",
                of["random:1m"] / of["random:10k"], live_most)
        exit check && missed ? 1 : 0
    }' "$dir/counts" "$dir/results"
