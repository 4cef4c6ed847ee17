#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every test that needs no GPU: the suite in five builds, then the scripts that look at what was
# built, boot it in a kernel, fuzz it for a while and plant bugs in it. Ends with one line that counts over all of them; not 0 if anything failed.
source "$(dirname "$0")/lib.sh"
PASSED=0 FAILED=0 SKIPPED=0

count() { PASSED=$((PASSED + $1)) FAILED=$((FAILED + $2)) SKIPPED=$((SKIPPED + $3)); }

# suite NAME DIR LABELS [cmake arguments]: LABELS are arguments of ctest, one word each.
suite() {
    local name=$1 dir=$2 labels=$3; shift 3
    local log rc=0 passed=0 failed=0 skipped=0
    say "$name"
    if ! configure "$dir" "$@" || ! ninja -C "$dir" -j "$JOBS" --quiet; then
        echo "$name did not build"
        count 0 1 0
        return
    fi
    log=$dir/ctest.log
    rm -f "$dir/ctest.xml"
    # shellcheck disable=SC2086
    $RUNNER ctest --test-dir "$dir" -j "$JOBS" --output-on-failure --output-junit ctest.xml \
        --test-output-size-passed 100000000 --test-output-size-failed 100000000 $labels \
        >"$log" 2>&1 || rc=$?
    if [ -f "$dir/ctest.xml" ]; then
        read -r passed failed skipped < <(awk -f ci/tally.awk "$dir/ctest.xml")
    fi
    # A failure that no single test shows is one all the same, and so is a suite without a test.
    if [ "$failed" = 0 ] && { [ "$rc" != 0 ] || [ $((passed + skipped)) = 0 ]; }; then failed=1; fi
    [ "$failed" = 0 ] || cat "$log"
    echo "$name: $passed passed, $failed failed, $skipped skipped"
    count "$passed" "$failed" "$skipped"
}

# job NAME COMMAND...: one test. 77 means that it had to be skipped, and says why.
job() {
    local name=$1 rc=0; shift
    say "$name"
    "$@" || rc=$?
    case $rc in
        0) count 1 0 0 ;;
        77) count 0 0 1 ;;
        *) echo "$name failed"; count 0 1 0 ;;
    esac
}

# The layout of a pool may not depend on the width of a pointer.
same_layout() {
    [ -x build/bin/weir_layout_hash ] || { echo "the build made no weir_layout_hash"; return 1; }
    if ! echo 'int main(void){return 0;}' | gcc -m32 -xc - -o /dev/null 2>/dev/null; then
        echo "skipped: gcc cannot build for 32 bits here"
        return 77
    fi
    configure build-m32 -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS=-m32 -DWEIR_TESTS=OFF \
        -DWEIR_TOOLS=OFF -DWEIR_CUDA=OFF || return 1
    ninja -C build-m32 -j "$JOBS" --quiet || return 1
    local wide narrow
    wide=$(build/bin/weir_layout_hash) || return 1
    narrow=$(build-m32/bin/weir_layout_hash) || return 1
    printf '64 bits: %s\n32 bits: %s\n' "$wide" "$narrow"
    [ -n "$wide" ] && [ "$wide" = "$narrow" ]
}

need_test
RUNNER=
suite "gcc, release" build "-LE none" -DCMAKE_BUILD_TYPE=Release
suite "gcc, address and undefined behaviour, all assertions" build-asan "-LE vendoring" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWEIR_SANITIZE=address,undefined -DWEIR_ASSERT_SLOW=ON
# The thread sanitizer wants memory where it expects it, which a randomised layout can deny.
if setarch "$(uname -m)" -R true 2>/dev/null; then RUNNER="setarch $(uname -m) -R"; fi
suite "gcc, threads" build-tsan "-L threads" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DWEIR_SANITIZE=thread -DWEIR_ASSERT=ON
RUNNER=
if have clang; then
    suite "clang, release" build-clang "-LE vendoring" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER=clang
else
    say "clang, release"; echo "skipped: clang is not there"; count 0 0 1
fi
job "same layout on 32 and 64 bits" same_layout
job "style" ci/style.sh
job "symbols" ci/symbols.sh
job "freestanding" ci/freestanding.sh
job "coverage" ci/coverage.sh
job "kernel" ci/kernel.sh
job "fuzz" ci/fuzz.sh --seconds 5 --engine libfuzzer
job "bugs of other pools" ci/mutants.sh --historical
job "proofs" ci/prove.sh bits rounding powers

echo
echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
