#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The wheel weir-gpu is built from the tree, installed into an environment of its own, and used
# there on the stand-in for the driver, with nothing of the tree in sight. 77: pip cannot fetch what
# builds it.
#
#     tests/python/wheel.sh LIBFAKECUDA
set -euo pipefail
driver=$(realpath "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! python3 -m venv "$work/env" >"$work/log" 2>&1 ||
    ! "$work/env/bin/pip" install -q scikit-build-core >"$work/log" 2>&1; then
    echo "skipped: $(tail -1 "$work/log")"
    exit 77
fi
"$work/env/bin/pip" wheel -q --no-build-isolation --no-deps -w "$work/wheel" \
    -C build-dir="$work/build" "$root/integrations/python"
"$work/env/bin/pip" install -q --no-deps "$work"/wheel/weir_gpu-*.whl
cd "$work"
unset PYTHONPATH WEIR_RUNTIME_LIBRARY
WEIR_CUDA_LIBRARY=$driver "$work/env/bin/python" - <<'END'
import os
import weir
from weir import _build, _runtime

address = _runtime.allocate(0, 5000, 0)
assert weir.stats()["requested_bytes.all.current"] == 5000
_runtime.free(address, 0)
assert weir.library_path().endswith("weir/lib/libweir_runtime.so.1"), weir.library_path()
assert _build.throwing().endswith("weir/lib/libweir_torch_throw.so"), _build.throwing()
assert os.path.exists(os.path.join(_build.NATIVE, "weir_runtime.h"))
print("the wheel works")
END
