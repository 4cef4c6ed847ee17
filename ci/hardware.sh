#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The hardware suite: everything that wants a real GPU.
#
#     ci/hardware.sh                build here and run here
#     ci/hardware.sh --pack DIR     build here, for a machine that can't: DIR holds all it takes
#     ci/hardware.sh --run DIR      run what was packed; needs bash, python3 and the driver
#
# --quick      small sizes, about a minute: to see that all of it works
# --only A,B   these sections: probe, conformance, order, capture, threads, bounds, traces, sanitizer
# --out DIR    where logs and hardware.json go; if not said $WEIR_HARDWARE_OUT, else build-hardware/out
# Ends with 77 and one line where there is no GPU. Needs no network and installs nothing. The
# sanitizer's sections say "skip" where the tool refuses the machine.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mode=all dir=$root/build-hardware out='' quick='' only=''
PASSED=0 FAILED=0 SKIPPED=0

die() { printf 'hardware.sh: %s\n' "$*" >&2; exit 2; }

while [ $# -gt 0 ]; do
    case $1 in
    --pack | --run) mode=${1#--} dir=${2:?$1 needs a folder}; shift ;;
    --only) only=${2:?--only needs sections}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --quick) quick=--quick ;;
    *) die "'$1' is no option; the head of this file says what there is" ;;
    esac
    shift
done
out=${out:-${WEIR_HARDWARE_OUT:-$dir/out}}

# ----------------------------------------------------------------------------------------- build --

# Into $dir/bin. The command weir is linked with static libraries where they are there, so that it
# starts on machines without them; without any of them its sections are skipped.
build() {
    local work=$dir/build
    mkdir -p "$dir"
    cmake -S "$root" -B "$work" -DCMAKE_BUILD_TYPE=Release -DWEIR_HARDWARE=ON -DWEIR_TESTS=OFF \
        -DWEIR_TOOLS_STATIC=ON >"$dir/build.log" 2>&1 || { cat "$dir/build.log"; return 1; }
    sed -n 's/^-- Weir: //p' "$dir/build.log"
    cmake --build "$work" --parallel "$(nproc)" >>"$dir/build.log" 2>&1 ||
        { tail -30 "$dir/build.log"; return 1; }
    rm -rf "$dir/bin"
    mkdir -p "$dir/bin" "$dir/ci" "$dir/traces"
    cp "$work"/bin/hw_* "$dir/bin/"
    cp "$work"/bin/weir "$dir/bin/" 2>/dev/null
    cp "$root"/ci/hardware.sh "$root"/ci/hardware-sanitizer.sh "$dir/ci/"
    cp "$root"/tests/data/traces/*.csv.gz "$dir/traces/"
    git -C "$root" describe --always --dirty >"$dir/commit" 2>/dev/null || true
}

# -------------------------------------------------------------------------------------- sections --

# tally NAME LOG RC SECONDS [passed failed skipped]: one line, and the sums. A program that ended
# badly without a line that says so has failed all the same.
tally() {
    local name=$1 log=$2 rc=$3 seconds=$4 passed failed skipped
    passed=$(grep -c '^ok ' "$log"); failed=$(grep -c '^not ok ' "$log")
    skipped=$(grep -c '^skip ' "$log")
    if [ "$rc" = 77 ]; then skipped=$((skipped + 1)); rc=0; fi
    if [ "$rc" != 0 ] && [ "$failed" = 0 ]; then
        failed=1
        echo "not ok $name ended with $rc" >>"$log"
    fi
    if [ $((passed + failed + skipped)) = 0 ]; then failed=1; fi
    [ "$failed" = 0 ] || grep '^not ok ' "$log" | head -40
    grep '^skip' "$log" | head -20
    printf '%s: %d passed, %d failed, %d skipped, %d s\n' "$name" "$passed" "$failed" "$skipped" \
        "$seconds"
    printf '{"section":"%s","passed":%d,"failed":%d,"skipped":%d,"seconds":%d}\n' "$name" \
        "$passed" "$failed" "$skipped" "$seconds" >>"$out/sections.jsonl"
    PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + skipped))
}

wanted() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }

# section NAME LIMIT_S COMMAND...
section() {
    local name=$1 limit=$2 log=$out/$1.log rc=0 start; shift 2
    wanted "$name" || return 0
    printf '\n== %s\n' "$name"
    start=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$log" 2>&1 || rc=$?
    [ "$rc" != 124 ] || echo "not ok $name took more than $limit s" >>"$log"
    tally "$name" "$log" "$rc" $(($(date +%s) - start))
}

# The stand-in for Criterion prints one line of counts.
run_conformance() {
    local rc=0 tested passing
    "$dir/bin/hw_conformance" >"$out/conformance.txt" 2>&1 || rc=$?
    cat "$out/conformance.txt"
    read -r tested passing < <(sed -n \
        's/.*Tested: \([0-9]*\) | Passing: \([0-9]*\).*/\1 \2/p' "$out/conformance.txt")
    for ((i = 0; i < ${passing:-0}; i++)); do echo "ok conformance"; done
    for ((i = ${passing:-0}; i < ${tested:-1}; i++)); do echo "not ok conformance"; done
    return "$rc"
}

# trace FILE SETTINGS CAPACITY: with tags, all of them checked.
trace() {
    local name line
    name="$(basename "$1" .csv.gz) $2 ${3:-roomy}"
    line=$(timeout 60 "$dir/bin/weir" replay --backend cuda --json --conf "$2" ${3:+--capacity "$3"} \
        "$1" 2>&1)
    printf '%s\n' "$line" >>"$out/traces.jsonl"
    if python3 -c 'import json,sys
d = json.loads(sys.argv[1])
sys.exit(not (d["verified"] is True and d["failed_allocs"] == 0))' "$line" 2>/dev/null; then
        echo "ok $name"
    elif [[ $line == *"give --scale"* ]]; then
        echo "skip $name: ${line:0:200}" # the card is too small for it
    else
        echo "not ok $name: ${line:0:200}"
    fi
}

run_traces() {
    [ -x "$dir/bin/weir" ] || {
        echo "skip traces: weir was not built, which takes zlib, libzstd and json-c"; return 0; }
    for file in "$dir"/traces/*.csv.gz; do
        trace "$file" source:vmm
        trace "$file" source:vmm 1.02x
        trace "$file" source:async
        trace "$file" source:malloc
        [ -z "$quick" ] || break
    done
    "$dir/bin/weir" doctor >"$out/doctor.txt" 2>&1 && echo "ok doctor" || echo "not ok doctor"
}

# hardware.json: all of it, for machines. What was probed is there fact by fact.
report() {
    python3 - "$out" "$PASSED" "$FAILED" "$SKIPPED" "$(cat "$dir/commit" 2>/dev/null)" <<'END'
import json, os, subprocess, sys
out, commit = sys.argv[1], sys.argv[5]

def lines(name):
    path = os.path.join(out, name)
    return open(path, errors='replace').read().splitlines() if os.path.exists(path) else []

def results(name):
    found = {}
    for line in lines(name + '.log'):
        for word in ('ok', 'not ok', 'skip'):
            if line.startswith(word + ' '):
                what, _, why = line[len(word) + 1:].partition(': ')
                key = (word, what, why)
                found[key] = found.get(key, 0) + 1
    return [{'result': word, 'what': what, **({'why': why} if why else {}),
             **({'times': n} if n > 1 else {})} for (word, what, why), n in found.items()]

try:
    smi = subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader'],
                         capture_output=True, text=True).stdout.strip()
except OSError:
    smi = ''
sections = [json.loads(x) for x in lines('sections.jsonl')]
for section in sections:
    section['results'] = results(section['section'])
json.dump({'schema': 'weir.hardware/1', 'commit': commit, 'machine': smi,
           'passed': int(sys.argv[2]), 'failed': int(sys.argv[3]), 'skipped': int(sys.argv[4]),
           'sections': sections,
           'probe': [json.loads(x) for x in lines('probe.log') if x.startswith('{')]},
          open(os.path.join(out, 'hardware.json'), 'w'), indent=1)
END
}

export dir out quick
export -f run_conformance run_traces trace

# Before a build that would be for nothing; the programs look more closely.
may_have_gpu() {
    [ -n "${WEIR_CUDA_LIBRARY:-}" ] || ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' ||
        compgen -G '/dev/nvidia[0-9]*' >/dev/null
}

if [ "$mode" != pack ] && ! may_have_gpu; then
    echo "skipped: no GPU here: there is neither libcuda.so.1 nor a device of NVIDIA's"
    exit 77
fi
case $mode in
pack) build; exit $? ;;
all) build || exit 1 ;;
esac
[ -x "$dir/bin/hw_order" ] || die "$dir holds no programs; pack it first"
why=$("$dir/bin/hw_order" --device 2>&1)
if [ $? = 77 ]; then
    printf '%s\n' "$why" | head -1
    exit 77
fi
mkdir -p "$out"
rm -f "$out/sections.jsonl" "$out/traces.jsonl" "$out"/*.log
section probe 150 "$dir/bin/hw_probe" $quick
section conformance 120 bash -c run_conformance
section order 300 "$dir/bin/hw_order" $quick
section capture 90 "$dir/bin/hw_capture" $quick
section threads 60 "$dir/bin/hw_threads" $quick
section bounds 90 "$dir/bin/hw_bounds" $quick
section traces 240 bash -c run_traces
section sanitizer 400 bash "$dir/ci/hardware-sanitizer.sh" "$dir/bin"
report
printf '\n%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
[ "$FAILED" = 0 ]
