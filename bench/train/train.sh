#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains real models under PyTorch's native allocator, its expandable segments, and Weir, on this
# machine's GPU. bench/train/README.md says what is measured.
#
#     bench/train/train.sh --out DIR [--shard N/M] [--only vit,moe] [--steps N] [--seconds S] ...
#     bench/train/train.sh --merge FILE... [--json OUT] [--into docs/results.md]
#
# Builds the runtime, and the command weir if that can be built here. What is named is taken:
# WEIR_RUNTIME_LIBRARY; WEIR_COMMAND for `weir run`, WEIR_PRELOAD for the same by the environment,
# both empty for weir.torch.enable(). PYTHON: python3 if it is not set. WEIR_BUILD: where it builds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1

if [ "${1:-}" = --merge ]; then
    shift
    exec "$python" "$here/merge.py" "$@"
fi

build=${WEIR_BUILD:-$root/build-train}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# make_here TARGET...: whether they were built.
make_here() {
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DWEIR_TESTS=OFF -DWEIR_WERROR=OFF \
        >"$log" 2>&1 && cmake --build "$build" --target "$@" --parallel "$(nproc)" >>"$log" 2>&1
}

if [ -z "${WEIR_RUNTIME_LIBRARY:-}" ]; then
    make_here weir_runtime || { cat "$log" >&2; exit 1; }
    export WEIR_RUNTIME_LIBRARY=$build/libweir_runtime.so
fi
if [ -z "${WEIR_COMMAND+set}" ]; then
    WEIR_COMMAND=
    if make_here weir_preload; then
        : "${WEIR_PRELOAD=$build/libweir_preload.so}"
        if make_here weir; then WEIR_COMMAND=$build/bin/weir; fi
    fi
fi
export WEIR_COMMAND WEIR_PRELOAD=${WEIR_PRELOAD:-}
export WEIR_PYTHON=${WEIR_PYTHON:-$root/integrations/python/startup}
export WEIR_CACHE=${WEIR_CACHE:-$build/cache}
PYTHONPATH=$root/integrations/python/src "$python" -m weir.torch build >&2 ||
    echo "train.sh: Weir takes the pluggable route" >&2
"$python" "$here/shard.py" "$@"
