#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package on a machine with a GPU: builds the runtime, then runs the checks of gpu.py.
#
#     tests/python/gpu.sh [arguments of gpu.py]
#
# WEIR_RUNTIME_LIBRARY: a runtime that is built already. WEIR_COMMAND: the command weir, for
# `weir run`; WEIR_PRELOAD: the shim, for the same by the environment. WEIR_CACHE: where libraries
# for PyTorch are kept. PYTHON: python3 if it is not set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${WEIR_RUNTIME_LIBRARY:-}" ]; then
    if ! cmake -S "$root" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DWEIR_TESTS=OFF \
        -DWEIR_WERROR=OFF >"$work/log" 2>&1 ||
        ! cmake --build "$work/build" --target weir_runtime --parallel "$(nproc)" \
            >>"$work/log" 2>&1; then
        cat "$work/log" >&2
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    fi
    export WEIR_RUNTIME_LIBRARY=$work/build/libweir_runtime.so
    if cmake --build "$work/build" --target weir_preload --parallel "$(nproc)" \
        >>"$work/log" 2>&1; then export WEIR_PRELOAD=$work/build/libweir_preload.so; fi
    if [ -z "${WEIR_COMMAND:-}" ] &&
        cmake --build "$work/build" --target weir --parallel "$(nproc)" >>"$work/log" 2>&1; then
        export WEIR_COMMAND=$work/build/bin/weir
    fi
fi
export WEIR_CACHE=${WEIR_CACHE:-$work/cache} WEIR_PYTHON=$root/integrations/python/startup
PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" "$here/gpu.py" "$@"
