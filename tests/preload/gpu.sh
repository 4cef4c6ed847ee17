#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The preload library on a GPU. Builds where the toolkit is and runs where the GPU is:
#
#   gpu.sh build BUILD DIR   programs, and the libraries of a build folder BUILD, into DIR
#   gpu.sh run DIR           one line "ok", "not ok" or "skip" for each case; 1 if one was not ok
#
# Every case has a limit of 60 seconds, Python's of 180.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/gpu" && pwd)

build() {
    local from=$1 to=$2 cuda=${CUDA_HOME:-/usr/local/cuda}
    mkdir -p "$to"
    cp -L "$from/libweir_preload.so" "$from/libweir_runtime.so.1" "$to/"
    cp "$source/python.py" "$to/"
    [ ! -x "$from/bin/weir" ] || cp "$from/bin/weir" "$to/"
    local arch=(-gencode 'arch=compute_80,code=sm_80'
        -gencode 'arch=compute_90,code=[sm_90,compute_90]')
    for kind in static shared; do
        "$cuda/bin/nvcc" -O2 -std=c++17 "${arch[@]}" -cudart "$kind" -o "$to/program_$kind" \
            "$source/program.cu" -ldl
    done
    "$cuda/bin/nvcc" -O2 -std=c++17 "${arch[@]}" -default-stream per-thread -cudart static \
        -o "$to/program_threads" "$source/program.cu" -ldl
    "$cuda/bin/nvcc" -O2 -std=c++17 "${arch[@]}" -cudart static -o "$to/speed" "$source/speed.cu"
    cc -O2 -I"$cuda/include" -o "$to/driver" "$source/driver.c" -L"$cuda/lib64/stubs" -lcuda
}

failed=0
# try NAME SECONDS COMMAND...
try() {
    local name=$1 limit=$2 got=0 said
    shift 2
    said=$(timeout "$limit" "$@" 2>&1) || got=$?
    case $got in
    0) echo "ok $name${said:+: $said}" ;;
    77) echo "skip $name: $said" ;;
    127) echo "skip $name: $said" ;;
    *) printf 'not ok %s: status %s: %s\n' "$name" "$got" "$(tail -n 20 <<<"$said")"; failed=1 ;;
    esac
}

run() {
    local dir
    dir=$(realpath "$1")
    local shim=(env "LD_PRELOAD=$dir/libweir_preload.so")
    try driver_alone 60 "$dir/driver"
    try driver 60 "${shim[@]}" "$dir/driver"
    for kind in static shared threads; do
        try "program_${kind}_alone" 60 "$dir/program_$kind"
        try "program_$kind" 60 "${shim[@]}" "$dir/program_$kind" weir
        try "program_${kind}_limit" 60 "${shim[@]}" WEIR_CONF=limit_mb:2048 "$dir/program_$kind" weir 2048
        for from in async malloc; do
            try "program_${kind}_$from" 60 "${shim[@]}" "WEIR_CONF=source:$from" \
                "$dir/program_$kind" weir
        done
    done
    try speed_alone 60 "$dir/speed"
    try speed 60 "${shim[@]}" "$dir/speed"
    try run 60 "$dir/weir" run --conf limit_mb:2048 --trace "$dir/trace.csv" -- \
        "$dir/program_static" weir 2048
    try replay 60 "$dir/weir" replay "$dir/trace.csv"
    # Python's frameworks with their own allocators, whose memory comes from cudaMalloc.
    for framework in torch cupy numba; do
        try "python_$framework" 180 "${shim[@]}" python3 "$dir/python.py" "$framework"
    done
    exit "$failed"
}

case ${1:-} in
build) build "${2:?}" "${3:?}" ;;
run) run "${2:?}" ;;
*) echo "usage: gpu.sh build BUILD DIR | gpu.sh run DIR" >&2; exit 2 ;;
esac
