#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The hardware suite under compute-sanitizer: ci/hardware-sanitizer.sh BIN_DIR. Each tool has to find
# its planted bug and to pass a clean program first; if it refuses the machine its runs are skipped.
set -uo pipefail
bin=${1:?the folder of the suite\'s programs}
tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
[ -n "$tool" ] || { echo "skip sanitizer: there is no compute-sanitizer"; exit 0; }
[ -x "$bin/hw_planted" ] || { echo "skip sanitizer: hw_planted was not built, which takes nvcc"; exit 0; }
failed=0

# under LIMIT_S "TOOL WITH OPTIONS" COMMAND...: 9 if the tool found something.
under() {
    local limit=$1 options=$2 calls=''; shift 2
    # Calls that are refused for want of memory are part of the tests.
    case $options in memcheck*) calls='--report-api-errors no' ;; esac
    # shellcheck disable=SC2086
    timeout -k 5 "$limit" "$tool" --tool $options $calls --error-exitcode 9 "$@" >"$log" 2>&1
}

# able "TOOL WITH OPTIONS" BUG: whether what the tool says counts.
able() {
    local rc=0
    under 60 "$1" "$bin/hw_planted" "$2" || rc=$?
    if [ "$rc" != 9 ]; then
        echo "skip $1: it does not find the planted $2 here: $(grep -m1 -iE 'error|not supported|refus' "$log")"
        return 1
    fi
    echo "ok $1 finds the planted $2"
    rc=0
    under 60 "$1" "$bin/hw_planted" clean || rc=$?
    [ "$rc" = 0 ] || { echo "not ok $1: a clean program: $(tail -1 "$log")"; failed=1; return 1; }
    echo "ok $1 passes a clean program"
}

# clean LIMIT_S "TOOL WITH OPTIONS" NAME COMMAND...
clean() {
    local limit=$1 options=$2 name=$3 rc=0; shift 3
    under "$limit" "$options" "$@" || rc=$?
    if [ "$rc" = 0 ]; then
        echo "ok $options: $name"
    else
        failed=1
        echo "not ok $options: $name: ended with $rc: $(grep -m1 -E '=========' <(grep -vE '= *COMPUTE|^=+ *$' "$log"))"
        grep -E '^=========|not ok' "$log" | head -30 >&2
    fi
}

# Memory that moves is read through another address than it was written through. The probe of moves
# finds its contents there, by its own check: if initcheck calls them uninitialised all the same, it
# goes by addresses, and what it says of memory that moves means nothing.
follows_aliases() {
    local rc=0
    under 60 initcheck "$bin/hw_probe" --quick --here moves || rc=$?
    case $rc in
    0) echo "ok initcheck follows memory to another address" ;;
    9) echo "skip initcheck of conformance: it does not follow memory to another address" ;;
    *) failed=1; echo "not ok initcheck: the probe of moves ended with $rc: $(tail -1 "$log")" ;;
    esac
    [ "$rc" = 0 ]
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if able "memcheck --leak-check full" oob && able "memcheck --leak-check full" leak; then
    clean 80 "memcheck --leak-check full" order "$bin/hw_order" --sanitizer
    clean 60 "memcheck --leak-check full" capture "$bin/hw_capture" --sanitizer
    clean 90 "memcheck --leak-check full" conformance "$bin/hw_conformance"
fi
if able initcheck uninit; then
    clean 80 initcheck order "$bin/hw_order" --sanitizer
    # Of what its threads map while graphs run initcheck (CUDA 13.0) loses track: in 3 of 5 runs it
    # called words uninitialised that the same kernel found right, in 3 it ended with a lost device.
    # memcheck, above, and the runs without a tool are clean.
    echo "skip initcheck of capture: it loses track of memory that is mapped beside running graphs"
    if follows_aliases; then clean 90 initcheck conformance "$bin/hw_conformance"; fi
fi
if able racecheck race; then clean 60 racecheck order "$bin/hw_order" --sanitizer; fi
if able synccheck barrier; then clean 60 synccheck order "$bin/hw_order" --sanitizer; fi
exit "$failed"
