#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds for gcov into build-cov, runs the tests, measures core/ by lines and branches; does the same
# with clang-19 in build-mcdc for MC/DC (each condition decided its expression by itself); and holds
# the results against coverage/thresholds. What is not reached must be in coverage/uncovered.md. The
# last line is the result. build-cov/report has the pages, build-cov/uncovered.txt the lines that were
# not reached.
source "$(dirname "$0")/../ci/lib.sh"
have lcov || { echo "skipped: lcov is not there"; exit 77; }
dir=build-cov
objects=$dir/CMakeFiles/weir_core.dir
branch=lcov_branch_coverage=1
case $(lcov --version) in *"version 2."*) branch=branch_coverage=1 ;; esac

configure $dir -DCMAKE_BUILD_TYPE=Debug -DWEIR_COVERAGE=ON -DWEIR_CUDA=OFF
ninja -C $dir -j "$JOBS" --quiet
find $dir -name '*.gcda' -delete
ctest --test-dir $dir -j "$JOBS" -LE vendoring --no-tests=error --output-on-failure \
    >$dir/ctest.log 2>&1 || { cat $dir/ctest.log; die "a test failed, so nothing was measured"; }

# lcov under a newer Perl prints warnings about itself, so it speaks only where it fails.
quietly() { "$@" >$dir/lcov.log 2>&1 || { cat $dir/lcov.log; die "$1 failed"; }; }
quietly lcov --rc $branch --capture --directory $objects --output-file $dir/all.info
quietly lcov --rc $branch --extract $dir/all.info "$PWD/core/*" --output-file $dir/core.info
if have genhtml; then
    quietly genhtml --rc $branch --branch-coverage $dir/core.info --output-directory $dir/report
fi
awk -F'[:,]' -v root="$PWD/" '
    /^SF:/ { file = substr($0, 4 + length(root)) }
    /^DA:/ && $3 == 0 { print file ":" $2 }
' $dir/core.info >$dir/uncovered.txt

# MC/DC. Sets mcdc.
measure_mcdc() {
    local out=build-mcdc binary objects=() words=()
    mcdc="not measured"
    if ! have clang-19 || ! have llvm-cov-19; then
        echo "MC/DC is not measured: clang-19 and llvm-19 are not there"
        return
    fi
    configure $out -DCMAKE_BUILD_TYPE=Debug -DWEIR_CUDA=OFF -DWEIR_WERROR=OFF \
        -DCMAKE_C_COMPILER=clang-19 \
        "-DCMAKE_C_FLAGS=-fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc -w"
    ninja -C $out -j "$JOBS" --quiet >$out/build.log 2>&1 || { cat $out/build.log; die "MC/DC: no build"; }
    rm -rf $out/profile
    LLVM_PROFILE_FILE=$PWD/$out/profile/%8m.profraw ctest --test-dir $out -j "$JOBS" \
        -LE vendoring --no-tests=error --output-on-failure >$out/ctest.log 2>&1 ||
        { cat $out/ctest.log; die "a test failed, so nothing was measured"; }
    llvm-profdata-19 merge -sparse $out/profile/*.profraw -o $out/all.profdata
    for binary in "$out"/bin/*_test; do
        ! nm "$binary" | grep -q ' T weir_pool_create$' || objects+=("$binary")
    done
    for binary in "${objects[@]:1}"; do words+=(-object "$binary"); done
    llvm-cov-19 export "${objects[0]}" "${words[@]}" -instr-profile=$out/all.profdata core \
        >$out/export.json 2>$out/export.log
    python3 -B coverage/mcdc.py $out/export.json "$PWD" coverage/uncovered.md >$out/mcdc.txt
    sed '$d' $out/mcdc.txt
    mcdc=$(sed -n '$s/^mcdc //p' $out/mcdc.txt)
}
measure_mcdc

awk -F'[: ]' -v mcdc="$mcdc" '
    FNR == NR { if ($1 ~ /^(lines|branches|mcdc)$/) least[$1] = $2; next }
    /^LF:/ { lines += $2 }
    /^LH:/ { lines_hit += $2 }
    /^BRF:/ { branches += $2 }
    /^BRH:/ { branches_hit += $2 }
    function percent(hit, all) { return all > 0 ? int(1000 * hit / all) / 10 : 0 }
    function hold(what, is) {
        if (is < least[what]) {
            printf "%s: %.1f%% is below the threshold of %.1f%%\n", what, is, least[what]
            bad = 1
        } else if (is >= least[what] + 0.5) {
            printf "%s: the threshold can be raised from %.1f to %.1f\n", what, least[what], is
        }
    }
    END {
        l = percent(lines_hit, lines)
        b = percent(branches_hit, branches)
        hold("lines", l)
        hold("branches", b)
        if (mcdc ~ /%/) hold("mcdc", mcdc + 0)
        printf "lines %.1f%% branches %.1f%% mcdc %s\n", l, b, mcdc
        exit bad
    }' coverage/thresholds $dir/core.info
