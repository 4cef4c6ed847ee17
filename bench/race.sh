#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The race: Weir and other allocators on a GPU. bench/gpu/README.md says what is measured and why it
# is fair.
#
#     bench/race.sh --pack DIR [--traces DIR]...     where the tools are: builds, predicts, packs
#     bench/race.sh --plan [N]                       what N shards hold, and how long they take
#     bench/race.sh --shard N/M --out DIR            on the GPU: one shard of M; or by name:
#     bench/race.sh --shard vit,moe,pairs --out DIR  traces, and pairs, stalls, threads
#     bench/race.sh --merge DIR... [--into FILE.md] [--json FILE]
#
# --from DIR     plan and shard: a pack; without one, what is built here and the bundled traces
# --seconds N    shard: its time, 450 if not said; what is left over then is written as left out
# Each shard writes race-NAME.jsonl and race-NAME.log. A contestant that fails or hangs is a result,
# and the race goes on. WEIR_TORCH: PyTorch's folder; python3 is asked otherwise.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
gpu=$root/bench/gpu
mode='' pack='' shard='' out='' from='' into='' json='' shards=1
seconds=450
folders=() results=()

die() { printf 'race.sh: %s\n' "$*" >&2; exit 2; }
say() { printf '%s\n' "$*" >&2; }
value() { [ $# -ge 2 ] || die "$1 needs a value"; printf '%s' "$2"; }

while [ $# -gt 0 ]; do
    case $1 in
    --pack) mode=pack pack=$(value "$@") || exit 2; shift ;;
    --shard) mode=shard shard=$(value "$@") || exit 2; shift ;;
    --plan) mode=plan; case ${2:-} in [0-9]*) shards=$2; shift ;; esac ;;
    --merge)
        mode=merge
        while [ $# -gt 1 ] && [ "${2#--}" = "$2" ]; do results+=("$2"); shift; done ;;
    --traces) folders+=("$(value "$@")") || exit 2; shift ;;
    --from) from=$(value "$@") || exit 2; shift ;;
    --out) out=$(value "$@") || exit 2; shift ;;
    --seconds) seconds=$(value "$@") || exit 2; shift ;;
    --into) into=$(value "$@") || exit 2; shift ;;
    --json) json=$(value "$@") || exit 2; shift ;;
    *) die "'$1' is no option; the head of this file says what there is" ;;
    esac
    shift
done

results_py() { python3 "$gpu/race_results.py" "$@"; }

torch_folder() {
    if [ -n "${WEIR_TORCH:-}" ]; then printf '%s' "$WEIR_TORCH"; return; fi
    python3 -c "import importlib.util as u
print(u.find_spec('torch').submodule_search_locations[0])" 2>/dev/null
}

torch_version() {
    sed -n "s/^__version__ = '\(.*\)'/\1/p" "$(torch_folder)/version.py" 2>/dev/null
}

# build DIR TARGET...: those targets that can be built here; says which cannot.
build() {
    local dir=$1 target; shift
    cmake -S "$root" -B "$dir" -DCMAKE_BUILD_TYPE=Release -DWEIR_RACE=ON -DWEIR_TESTS=OFF \
        -DWEIR_WERROR=OFF -DWEIR_RACE_TORCH="$(torch_folder)" >"$dir.log" 2>&1 ||
        { cat "$dir.log" >&2; return 1; }
    grep 'Weir: ' "$dir.log" >&2
    for target; do
        timeout 240 cmake --build "$dir" --target "$target" --parallel "$(nproc)" \
            >>"$dir.log" 2>&1 || { say "race.sh: $target was not built:"; tail -20 "$dir.log" >&2; }
    done
}

# ------------------------------------------------------------------------------------------ pack --

pack_predict() {
    [ -x "$1" ] || { say "race.sh: no command weir, so nothing is predicted"; return; }
    results_py predict "$1" "$pack"/traces/*.csv.gz >"$pack/predictions.jsonl"
}

pack_peers() {
    python3 - "$root/tests/data/peers.jsonl" <<'END'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    peer = json.loads(line)
    if "expandable" in peer["allocator"] and peer.get("least_capacity_bytes"):
        print(peer["trace"], peer["least_capacity_bytes"])
END
}

run_pack() {
    local work name
    work=$(mktemp -d) || exit 1
    mkdir -p "$pack/bin" "$pack/traces"
    build "$work/build" racer racer_torch weir || die "nothing was built"
    for name in racer racer_torch; do
        rm -f "$pack/bin/$name"
        [ ! -x "$work/build/bin/$name" ] || cp "$work/build/bin/$name" "$pack/bin/"
    done
    for name in "$root/tests/data/traces" "${folders[@]}"; do
        cp "$name"/*.csv.gz "$pack/traces/" || die "$name holds no traces (*.csv.gz)"
    done
    { git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown; } \
        >"$pack/commit"
    torch_version >"$pack/torch_version"
    pack_peers >"$pack/peer_least"
    pack_predict "$work/build/bin/weir"
    rm -rf "$work"
    from=$pack
    run_plan
    du -sh "$pack" >&2
}

# ------------------------------------------------------------------------------------------ plan --

trace_files() {
    if [ -n "$from" ]; then printf '%s\n' "$from"/traces/*.csv.gz
    else printf '%s\n' "$root"/tests/data/traces/*.csv.gz; fi
}

run_plan() {
    local files i
    mapfile -t files < <(trace_files)
    for ((i = 1; i <= shards; i++)); do
        results_py plan "$i" "$shards" "${files[@]}" >/dev/null || exit 1
    done
}

# ----------------------------------------------------------------------------------------- shard --

left() { echo $((deadline - SECONDS)); }

failure() { # CONTESTANT EVENT TRACE WHAT
    printf '{"kind":"failure","contestant":"%s","event":"%s","trace":"%s","what":"%s"}\n' "$@" \
        >>"$lines"
}

# Programs of the pack where they start here and PyTorch is the same, else built here.
programs() {
    local there=$from/bin
    [ -n "$from" ] || there=/nowhere
    timeout 20 "$there/racer" list >/dev/null 2>&1 && racer=$there/racer
    if [ "$(torch_version)" = "$(cat "$from/torch_version" 2>/dev/null)" ] &&
        timeout 20 "$there/racer_torch" list >/dev/null 2>&1; then racer_torch=$there/racer_torch; fi
    if [ -n "$racer" ] && { [ -n "$racer_torch" ] || [ -z "$(torch_folder)" ]; }; then return; fi
    say "race.sh: building here"
    build "$work/build" racer racer_torch
    [ -n "$racer" ] || racer=$work/build/bin/racer
    [ -n "$racer_torch" ] || racer_torch=$work/build/bin/racer_torch
    [ -x "$racer" ] || say "race.sh: no racer: Weir and cudaMallocAsync do not take part"
    [ -x "$racer_torch" ] || say "race.sh: no racer_torch: PyTorch does not take part"
}

# one KEY LIMIT ARGUMENTS...: one process of one contestant, at most LIMIT seconds.
one() {
    local key=$1 limit=$2 program=$racer conf=''; shift 2
    case $key in
    torch-native) program=$racer_torch ;;
    torch-expandable) program=$racer_torch conf=expandable_segments:True ;;
    torch-async) program=$racer_torch conf=backend:cudaMallocAsync ;;
    cupy) timeout -k 5 "$limit" python3 "$gpu/race_cupy.py" "$@" >>"$lines" 2>>"$log"; return ;;
    esac
    local event=$1; shift
    env -u PYTORCH_CUDA_ALLOC_CONF -u WEIR_CONF PYTORCH_ALLOC_CONF="$conf" \
        timeout -k 5 "$limit" "$program" "$event" "$key" "$@" >>"$lines" 2>>"$log"
}

# event KEY EVENT [ARGUMENTS]: an event that is no trace.
event() {
    local key=$1 name=$2 limit
    limit=$(left); [ "$limit" -le 60 ] || limit=60
    if [ "$limit" -lt 5 ]; then failure "$key" "$name" '' 'left out for want of time'; return; fi
    say "$(date +%T) $key $name"
    if [ "$key" = cupy ]; then one cupy "$limit" "${@:2}"; else one "$key" "$limit" "${@:2}"; fi
    local code=$?
    [ "$code" = 0 ] || failure "$key" "$name" '' "the process ended with $code"
}

# replays KEY SECONDS TRACES...: all traces in one process; one that ends it is a failure, and the
# next process goes on behind it.
replays() {
    local key=$1 part=$2 limit begun code mark soft; shift 2
    while [ $# -gt 0 ]; do
        limit=$(left); [ "$limit" -le "$part" ] || limit=$part
        if [ "$limit" -lt 8 ]; then
            failure "$key" replays "$*" 'left out for want of time'; return
        fi
        say "$(date +%T) $key replays $# traces, at most $limit s"
        mark=$(wc -l <"$lines")
        soft=$((limit * 3 / 4))
        local options=(--seconds "$soft" --peer "$work/peer_least")
        [ "$key" != cupy ] || options=()
        one "$key" "$limit" replays "${options[@]}" "$@"
        code=$?
        [ "$code" != 0 ] || return
        begun=$(tail -n +"$((mark + 1))" "$lines" | grep -c '"kind": *"begin"')
        [ "$begun" -gt 0 ] || { failure "$key" replays '' "the process ended with $code"; return; }
        failure "$key" replays "$(basename "${!begun}" .csv)" "the process ended with $code"
        shift "$begun"
    done
}

# How many seconds a contestant may have for its traces, by what it is known to take.
part_of() {
    case $1 in
    cudaMallocAsync) echo 120 ;;
    torch-expandable | torch-native) echo 80 ;;
    *) echo 60 ;;
    esac
}

race_traces() { # KEYS -- all traces of the shard
    local key
    [ ${#csv[@]} -gt 0 ] || return
    for key; do replays "$key" "$(part_of "$key")" "${csv[@]}"; done
}

has() { case " ${units[*]} " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# The units of this shard and their traces, unpacked, since the program may have no zlib.
shard_units() {
    local files file name
    mapfile -t files < <(trace_files)
    case $shard in
    */*) mapfile -t units < <(results_py plan "${shard%/*}" "${shard#*/}" "${files[@]}") ;;
    *) IFS=, read -ra units <<<"$shard" ;;
    esac
    [ ${#units[@]} -gt 0 ] || die "shard '$shard' is empty: N/M, or names with commas"
    for name in "${units[@]}"; do
        case $name in pairs | stalls | threads) continue ;; esac
        printf '%s\n' "${files[@]}" | grep -q "/$name\.csv\.gz\$" ||
            die "'$name' is neither a trace nor pairs, stalls or threads"
    done
    for file in "${files[@]}"; do
        name=$(basename "$file" .csv.gz)
        has "$name" || continue
        python3 -c "import gzip, shutil, sys
shutil.copyfileobj(gzip.open(sys.argv[1]), open(sys.argv[2], 'wb'))" \
            "$file" "$work/$name.csv" && csv+=("$work/$name.csv")
        case $name in vit | unet_buckets) short+=("$work/$name.csv") ;; esac
    done
}

machine_lines() {
    local commit
    commit=$(cat "$from/commit" 2>/dev/null || git -C "$root" describe --always --dirty \
        --abbrev=12 2>/dev/null || echo unknown)
    results_py machine --commit "$commit" --shard "$shard"
    [ ! -s "$from/predictions.jsonl" ] ||
        for file in "${csv[@]}"; do
            grep "\"trace\": \"$(basename "$file" .csv)\"" "$from/predictions.jsonl"
        done
}

run_shard() {
    [ -n "$out" ] || die "--shard needs --out"
    deadline=$seconds
    racer='' racer_torch='' units=() csv=() short=()
    local name=${shard//[^A-Za-z0-9]/-} key torch weir pools
    mkdir -p "$out"
    lines=$out/race-$name.jsonl log=$out/race-$name.log
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"; [ -z "${holder:-}" ] || kill "$holder" 2>/dev/null' EXIT
    : >"$log"
    : >"$work/peer_least"
    exec 2> >(tee -a "$log" >&2)
    [ ! -s "$from/peer_least" ] || cp "$from/peer_least" "$work/peer_least"
    shard_units
    machine_lines >"$lines"
    timeout 20 nvidia-smi >&2 2>&1 || say "race.sh: no nvidia-smi"
    torch=$(torch_folder)
    LD_LIBRARY_PATH=$torch/lib:${torch%/*}/nvidia/cu13/lib:${LD_LIBRARY_PATH:-}
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:${CUDA_HOME:-/usr/local/cuda}/lib64
    programs
    "$racer" hold "$seconds" 2>/dev/null &
    holder=$!
    torch='torch-expandable torch-native' weir='weir-vmm' pools='weir-shared weir-async weir-malloc'
    if has pairs; then
        for key in weir-vmm $torch cudaMallocAsync torch-async $pools cudaMalloc cupy; do
            event "$key" pairs
        done
    fi
    # shellcheck disable=SC2086 # lists of words
    race_traces $torch $weir cudaMallocAsync
    if has stalls; then
        for key in weir-vmm weir-shared $torch cudaMallocAsync cudaMalloc weir-async weir-malloc \
            torch-async; do event "$key" stalls; done
    fi
    # shellcheck disable=SC2086
    race_traces $pools torch-async
    if has threads; then
        for key in weir-vmm $torch cudaMallocAsync torch-async weir-async weir-malloc; do
            event "$key" threads
        done
    fi
    [ ${#short[@]} = 0 ] || replays cupy 60 "${short[@]}"
    say "$(date +%T) shard $shard took $SECONDS s; $(grep -c '"failure"' "$lines") failures"
}

# ----------------------------------------------------------------------------------------- merge --

run_merge() {
    local dir files=()
    [ ${#results[@]} -gt 0 ] || die "--merge needs folders with results"
    for dir in "${results[@]}"; do
        mapfile -t -O "${#files[@]}" files < <(find "$dir" -name 'race-*.jsonl' | LC_ALL=C sort)
    done
    [ ${#files[@]} -gt 0 ] || die "no race-*.jsonl in ${results[*]}"
    local arguments=()
    [ -z "$json" ] || arguments=(--json "$json")
    if [ -z "$into" ]; then results_py merge "${arguments[@]}" "${files[@]}"; return; fi
    results_py merge "${arguments[@]}" "${files[@]}" >"$into.new" && mv "$into.new" "$into"
}

case $mode in
pack) run_pack ;;
plan) run_plan ;;
shard) run_shard ;;
merge) run_merge ;;
*) die "one of --pack, --plan, --shard and --merge is needed" ;;
esac
