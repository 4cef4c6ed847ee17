#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds the fuzz targets as OSS-Fuzz and ClusterFuzzLite want them: with $CC, $CFLAGS and
# $LIB_FUZZING_ENGINE, into $OUT, each with its corpus. Needs cmake, ninja, zip and the static
# libraries of zlib, libzstd and json-c.
cd "$(dirname "$0")/.."
: "${CC:?}" "${OUT:?}" "${LIB_FUZZING_ENGINE:?}"
WORK=${WORK:-build-oss-fuzz}
targets="pool pages range conf trace"

# The sanitizers are in CFLAGS already, for the engine's own way to link them.
cmake -S . -B "$WORK/weir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_C_FLAGS="${CFLAGS:-}" -DCMAKE_EXE_LINKER_FLAGS="${CFLAGS:-}" -DWEIR_TESTS=OFF \
    -DWEIR_CUDA=OFF -DWEIR_FUZZ=ON -DWEIR_WERROR=OFF -DWEIR_ASSERT=ON -DWEIR_TOOLS_STATIC=ON \
    -DWEIR_FUZZ_ENGINE="$LIB_FUZZING_ENGINE"
for target in $targets; do
    ninja -C "$WORK/weir" "fuzz_$target"
    cp "$WORK/weir/bin/fuzz_$target" "$OUT/"
    (cd "fuzz/corpus/$target" && zip -q "$OUT/fuzz_${target}_seed_corpus.zip" ./*)
    printf '[libfuzzer]\nmax_len = 512\n' >"$OUT/fuzz_$target.options"
done
