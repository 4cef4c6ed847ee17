#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A fuzzing campaign. Installs what it needs, builds the targets of fuzz/, runs each with each
# engine, and ends with a table; not 0 if anything crashed.
#
#   ci/fuzz.sh [--seconds N] [--engine libfuzzer|afl|both] [--target T] [--plain] [--record]
#              [--merge] [--work DIR]
#
#   --seconds N  for each target and engine (60)
#   --engine E   libfuzzer (with address and undefined behaviour sanitizers), afl (without), both
#   --target T   pool, pages, range, conf or trace, also several with commas; all
#   --plain      libfuzzer without sanitizers, for the number of executions
#   --record     adds a line for each run to coverage/fuzz.tsv
#   --merge      afterwards makes the corpora in fuzz/corpus again, as small as they can be
#   --work DIR   where builds, corpora and crashes are kept (build-fuzz)
source "$(dirname "$0")/lib.sh"
SECONDS_EACH=60 ENGINE=both TARGETS=pool,pages,range,conf,trace PLAIN='' RECORD='' MERGE=''
WORK=build-fuzz
TSV=coverage/fuzz.tsv
BYTES=320 # of the longest inputs: what is found is found by short ones, and they run faster
CORPUS_BYTES=262144 CORPUS_FILES=300

usage() { sed -n '3,17s/^# \{0,1\}//p' "$0"; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) SECONDS_EACH=${2:?}; shift ;;
        --engine) ENGINE=${2:?}; shift ;;
        --target) TARGETS=${2:?}; shift ;;
        --work) WORK=${2:?}; shift ;;
        --plain) PLAIN=1 ;;
        --record) RECORD=1 ;;
        --merge) MERGE=1 ;;
        *) usage ;;
    esac
    shift
done
case $ENGINE in libfuzzer|afl|both) ;; *) usage ;; esac
mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
TABLE=$WORK/table ROWS=$WORK/rows
: >"$TABLE"; : >"$ROWS"
CRASHED=0

uses() { [ "$ENGINE" = "$1" ] || [ "$ENGINE" = both ]; }

# The newest clang whose fuzzing library can be had.
find_clang() {
    if apt-cache show clang-19 >/dev/null 2>&1; then need clang-19 libclang-rt-19-dev; fi
    have clang-19 || need clang libclang-rt-14-dev
    if have clang-19; then CLANG=clang-19; else CLANG=clang; fi
    have "$CLANG" || die "no clang with libFuzzer; install clang and libclang-rt-dev"
}

# build DIR WHAT... [-- cmake arguments]
build() {
    local dir=$1 what=(); shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do what+=("$1"); shift; done
    shift
    say "building $dir"
    configure "$WORK/$dir" -DCMAKE_BUILD_TYPE=Release -DWEIR_TESTS=OFF -DWEIR_FUZZ=ON \
        -DWEIR_CUDA=OFF "$@" >"$WORK/$dir.log" 2>&1 || { cat "$WORK/$dir.log"; return 1; }
    ninja -C "$WORK/$dir" -j "$JOBS" --quiet "${what[@]}"
}

build_all() {
    local names=("${TARGET[@]/#/fuzz_}") sane=address,undefined extra=() unguided
    unguided=-fsanitize-coverage-ignorelist=$PWD/fuzz/unguided.txt
    build plain "${names[@]}" "${names[@]/%/_mutator}" fuzz_seed_make --
    if uses libfuzzer; then
        find_clang
        [ -z "$PLAIN" ] || sane=''
        extra=("-DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link -g $unguided")
        build "libfuzzer${PLAIN:+-plain}" "${names[@]}" -- -DCMAKE_C_COMPILER="$CLANG" \
            "${extra[@]}" -DWEIR_FUZZ_ENGINE=-fsanitize=fuzzer -DWEIR_SANITIZE="$sane" \
            -DWEIR_ASSERT="$([ -n "$PLAIN" ] && echo OFF || echo ON)"
    fi
    if uses afl; then
        need afl++
        have afl-clang-fast || die "afl++ is not there; install it or give --engine libfuzzer"
        AFL_QUIET=1 AFL_LLVM_DENYLIST=$PWD/fuzz/unguided.txt build afl "${names[@]}" -- \
            -DCMAKE_C_COMPILER=afl-clang-fast -DWEIR_FUZZ_ENGINE=-fsanitize=fuzzer
    fi
}

# Seeds of a target: what is in git, and stretches of the recorded traces.
seeds() {
    local target=$1 to=$WORK/seeds/$1 kind
    mkdir -p "$to" "$WORK/corpus/$target" "$WORK/crashes/$target"
    for kind in corpus seeds crashes; do
        [ ! -d "fuzz/$kind/$target" ] || cp fuzz/$kind/"$target"/* "$to"/
    done
    if [ "$target" = conf ]; then fuzz/seed_conf.sh "$to"; return; fi
    "$WORK/plain/bin/fuzz_seed_make" "$target" "$to" tests/data/traces/*.csv.gz
}

number() { grep -oE "$2" "$1" | tail -1 | grep -oE '[0-9]+' | tail -1; }

# row TARGET ENGINE SECONDS EXECUTIONS EDGES NEW CRASHES
row() {
    local rate=$(($4 / ($3 > 0 ? $3 : 1))) commit
    printf '%-8s %-10s %8s %12s %8s %7s %6s %8s\n' "$1" "$2" "$3" "$4" "$rate" "$5" "$6" "$7" \
        >>"$TABLE"
    commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
    git diff-index --quiet HEAD -- core hosted backends tools 2>/dev/null || commit+=+
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$commit" "$(date -u +%F)" "$3" "$4" "$5" \
        "$7" >>"$ROWS"
}

# Keeps a crash, minimised where that works, and says how to see it again.
crash() {
    local target=$1 file=$2 least name
    name=$(sha1sum "$file" | cut -c1-12)
    least=$WORK/crashes/$target/$name
    cp "$file" "$least"
    if [ -n "${CLANG:-}" ]; then
        "$WORK/libfuzzer${PLAIN:+-plain}/bin/fuzz_$target" -minimize_crash=1 -runs=20000 \
            -max_total_time=20 -exact_artifact_path="$least.min" "$least" >/dev/null 2>&1 || true
        if [ -s "$least.min" ] && ! "$WORK/plain/bin/fuzz_$target" "$least.min" \
            >/dev/null 2>&1; then mv "$least.min" "$least"; fi
        rm -f "$least.min"
    fi
    CRASHED=$((CRASHED + 1))
    echo "crash: $WORK/plain/bin/fuzz_$target $least" | tee -a "$WORK/crashes.log"
}

# Starts again after a crash until the time is over.
run_libfuzzer() {
    local target=$1 left=$SECONDS_EACH begun bin total=0 crashes=0 edges=0 before log file done_now
    bin=$WORK/libfuzzer${PLAIN:+-plain}/bin/fuzz_$target
    log=$WORK/libfuzzer-$target.log
    before=$(find "$WORK/corpus/$target" -type f | wc -l)
    begun=$(date +%s)
    while [ "$left" -gt 0 ]; do
        rm -f "$WORK"/artifact-*
        "$bin" -max_total_time="$left" -max_len="$BYTES" -timeout=20 -rss_limit_mb=4096 \
            -print_final_stats=1 -artifact_prefix="$WORK/artifact-" "$WORK/corpus/$target" \
            "$WORK/seeds/$target" >"$log" 2>&1 || true
        done_now=$(number "$log" 'number_of_executed_units: *[0-9]+' || true)
        if [ -z "$done_now" ]; then tail -5 "$log"; die "fuzz_$target did not run"; fi
        total=$((total + done_now))
        edges=$(number "$log" 'cov: [0-9]+' || true)
        for file in "$WORK"/artifact-*; do
            [ -f "$file" ] || continue
            crashes=$((crashes + 1))
            grep -m1 -E '^(==.*ERROR|.*runtime error|/.*:[0-9]+: |simulated device)' "$log" || true
            crash "$target" "$file"
        done
        left=$((SECONDS_EACH - $(date +%s) + begun))
        [ "$crashes" -lt 5 ] || break
    done
    row "$target" "libfuzzer${PLAIN:+/plain}" $(($(date +%s) - begun)) "$total" "${edges:-0}" \
        $(($(find "$WORK/corpus/$target" -type f | wc -l) - before)) "$crashes"
}

run_afl() {
    local target=$1 out=$WORK/afl-$1 stats crashes=0 file
    rm -rf "$out"
    AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_UI=1 AFL_NO_AFFINITY=1 \
        AFL_FAST_CAL=1 AFL_CUSTOM_MUTATOR_LIBRARY=$WORK/plain/libfuzz_${target}_mutator.so \
        afl-fuzz -i "$WORK/seeds/$target" -o "$out" -G "$BYTES" -t 2000 -V "$SECONDS_EACH" \
        -- "$WORK/afl/bin/fuzz_$target" >"$WORK/afl-$target.log" 2>&1 || true
    stats=$out/default/fuzzer_stats
    [ -f "$stats" ] || { tail -5 "$WORK/afl-$target.log"; die "fuzz_$target did not run"; }
    for file in "$out"/default/crashes/id*; do
        [ -f "$file" ] || continue
        crashes=$((crashes + 1))
        [ "$crashes" -gt 5 ] || crash "$target" "$file"
    done
    row "$target" afl "$(number "$stats" 'run_time *: [0-9]+')" \
        "$(number "$stats" 'execs_done *: [0-9]+')" "$(number "$stats" 'edges_found *: [0-9]+')" \
        "$(number "$stats" 'corpus_found *: [0-9]+')" "$crashes"
    find "$out/default/queue" -name 'id*' -type f -exec cp {} "$WORK/corpus/$target/" \;
}

# The smallest set of inputs that reaches what all of them reach, within what git should hold:
# where there are too many, the shortest go, whose paths the longer ones mostly take too.
merge() {
    local target=$1 to=fuzz/corpus/$1 bytes=0 files=0 file size
    local least=$WORK/merged/$1
    rm -rf "$least"; mkdir -p "$least"
    "$WORK/libfuzzer${PLAIN:+-plain}/bin/fuzz_$target" -merge=1 -use_counters=0 -max_len=512 \
        "$least" "$WORK/corpus/$target" "$WORK/seeds/$target" >"$WORK/merge-$target.log" 2>&1 ||
        { tail -3 "$WORK/merge-$target.log"; return 1; }
    rm -rf "$to"; mkdir -p "$to"
    while read -r size file; do
        bytes=$((bytes + size)) files=$((files + 1))
        if [ "$bytes" -gt "$CORPUS_BYTES" ] || [ "$files" -gt "$CORPUS_FILES" ]; then break; fi
        cp "$file" "$to/$(sha1sum "$file" | cut -c1-16)"
    done < <(find "$least" -type f -printf '%s %p\n' | sort -rn)
    echo "$to: $(find "$to" -type f | wc -l) inputs of $(find "$least" -type f | wc -l)," \
        "$(cat "$to"/* | wc -c) bytes"
}

record() {
    [ -f "$TSV" ] ||
        printf 'target\tengine\tcommit\tdate\tseconds\texecutions\tedges\tcrashes\n' >"$TSV"
    cat "$ROWS" >>"$TSV"
    awk -F '\t' 'NR > 1 { n += $6; c += $8 }
        END { printf "recorded: %.0f executions in all, %d crashes\n", n, c }' "$TSV"
}

need_build
IFS=, read -ra TARGET <<<"$TARGETS"
for target in "${TARGET[@]}"; do [ -f "fuzz/fuzz_$target.c" ] || usage; done
: >"$WORK/crashes.log"
build_all
for target in "${TARGET[@]}"; do
    seeds "$target"
    say "$target"
    if uses libfuzzer; then run_libfuzzer "$target"; fi
    if uses afl; then run_afl "$target"; fi
done
if [ -n "$MERGE" ]; then
    [ -n "${CLANG:-}" ] || die "--merge wants --engine libfuzzer or both"
    say "merge"
    for target in "${TARGET[@]}"; do merge "$target"; done
fi
say "campaign"
printf '%-8s %-10s %8s %12s %8s %7s %6s %8s\n' target engine seconds executions per_s edges new \
    crashes
cat "$TABLE"
cat "$WORK/crashes.log"
[ -z "$RECORD" ] || record
[ "$CRASHED" = 0 ]
