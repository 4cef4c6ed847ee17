#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Field reports of trace tools, tried on `weir replay` ($1): bad input ends with 2 and a sentence that
# names file and line, a failed allocation with 1, and what was read is shown as it was.
set -euo pipefail
[ $# = 1 ] || { echo "usage: trace_input.sh PATH_OF_WEIR" >&2; exit 2; }
weir=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failed=0

# replay NAME STATUS PATTERN TRACE [OPTION]... : the status, and in the output a line like PATTERN.
replay() {
    local name=$1 wanted=$2 pattern=$3 trace=$4 got=0
    shift 4
    printf '%b' "$trace" >trace.csv
    "$weir" replay "$@" trace.csv >out 2>&1 || got=$?
    if [ "$got" != "$wanted" ]; then
        echo "$name: status $got, not $wanted"; cat out; failed=1
    elif ! grep -qE "$pattern" out; then
        echo "$name: nothing like '$pattern' in:"; cat out; failed=1
    fi
}

# rapidsai/rmm#2553: always 0 at the end, streams read as 0, failed allocations left out.
replay rm_19_streams_are_told_apart 0 '"streams":4,' \
    'a,1,9,0x0,0\na,2,9,0x1,0\na,3,9,0x7f0000001000,0\na,4,9,18446744073709551615,0\n' --json
replay rm_19_a_failed_allocation_is_counted 1 '"failed_allocs":1,' \
    'a,1,1048576,0,0\na,2,4194304,0,1\nf,1,1048576,0,2\n' --json --capacity 2M
replay rm_19_an_impossible_allocation_is_counted 1 '"failed_allocs":1,.*"verified":true' \
    'a,1,512,0,0\na,2,18446744073709551615,0,1\nf,1,512,0,2\n' --json
replay rm_19_a_failing_event_has_its_line 2 'trace.csv:2: .*bytes .many. is not a number' \
    'a,1,512,0,0\na,2,many,0,1\n'

# rapidsai/rmm#529, llnl/Umpire#192: rows out of order, unknown events only printed.
replay tr_07_rows_out_of_order 2 'trace.csv:2: time goes back from 9 to 5' \
    'a,1,100,0,9\nf,1,100,0,5\n'
replay tr_07_a_free_before_its_allocation 2 'trace.csv:1: block 1 is freed but was never' \
    'f,1,100,0,0\na,1,100,0,1\n'
replay tr_07_a_double_free 2 'trace.csv:3: block 1 is freed twice' \
    'a,1,100,0,0\nf,1,100,0,1\nf,1,100,0,2\n'
replay tr_07_a_block_that_is_still_live 2 'trace.csv:2: block 1 is allocated while it is live' \
    'a,1,100,0,0\na,1,100,0,1\n'
replay tr_07_a_name_used_again_is_a_new_block 0 '"peak_requested_bytes":200,.*"verified":true' \
    'a,1,100,0,0\nf,1,100,0,1\na,1,200,5,2\nf,1,200,5,3\n' --json
replay tr_07_an_unknown_op 2 "trace.csv:2: unknown op 'x'; there are" \
    'a,1,100,0,0\nx,1,100,0,1\n'
replay tr_07_a_cut_last_line 2 'trace.csv:2: the last line has no end' \
    'a,1,100,0,0\nf,1,100,0,1'
replay tr_07_other_line_ends 0 '"ops":2,.*"verified":true' \
    'a,1,100,0,0\r\nf,1,100,0,1\r\n' --json
replay tr_07_a_free_of_other_bytes 2 'trace.csv:2: block 1 was allocated with 100 bytes, not 99' \
    'a,1,100,0,0\nf,1,99,0,1\n'
replay tr_07_a_missing_field 2 'trace.csv:1: 4 fields where' 'a,1,100,0\n'
replay tr_07_nothing_at_all 2 'trace.csv: holds no operation' ''

# pytorch/pytorch#183387: a misspelt setting was ignored.
replay pt_18_a_misspelt_setting 2 'nearest valid key is expandable_segments' \
    'a,1,100,0,0\n' --conf expandeable_segments:True

exit "$failed"
