#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares two results, B to A, workload by workload: 0.90 means that B takes a tenth less.
#
#     bench/compare.sh A.json B.json
#
# Both come from `bench/instructions.sh --json` or both from `weir_bench_core --json`.
set -euo pipefail
[ $# = 2 ] || { echo "compare.sh: two files are needed: compare.sh A.json B.json" >&2; exit 2; }
for file; do [ -r "$file" ] || { echo "compare.sh: $file cannot be read" >&2; exit 2; }; done

awk '
    function field(key) {
        if (!match($0, "\"" key "\":\"?[^,\"}]*")) return ""
        value = substr($0, RSTART, RLENGTH)
        sub(/^"[^"]*":"?/, "", value)
        return value
    }
    FNR == 1 { file++ }
    {
        name = field("workload")
        number = field("instructions_per_op")
        unit = number != "" ? "instructions" : "ns"
        if (number == "") number = field("ns_per_op")
        if (name == "" || number == "") next
        if (known != "" && known != unit) { mixed = 1; exit }
        known = unit
        if (file == 1) { a[name] = number; next }
        if (!(name in a)) next
        if (a[name] + 0 == 0 || number + 0 == 0) { zero = name; exit }
        if (++count == 1) printf "%-20s %12s %12s %8s   (%s per op)\n", "workload", "A", "B", "B/A",
            unit
        printf "%-20s %12.2f %12.2f %8.4f\n", name, a[name], number, number / a[name]
        sum += log(number / a[name])
    }
    END {
        error = mixed ? "one file counts instructions and the other nanoseconds" : \
            zero != "" ? zero " took nothing in one of the files, so there is no ratio" : \
            count == 0 ? "the files have no workload in common" : ""
        if (error != "") { print "compare.sh: " error > "/dev/stderr"; exit 1 }
        printf "%-20s %12s %12s %8.4f\n", "geometric mean", "", "", exp(sum / count)
    }' "$1" "$2"
