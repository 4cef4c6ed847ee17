#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The preload library in odd places, beside others, in processes that know nothing of CUDA, and with
# settings that are wrong. places.sh LIBRARY RUNTIME STANDIN_FOLDER PROGRAM: PROGRAM is a test that
# passes only where Weir serves it.
set -euo pipefail
library=$(realpath "$1") runtime=$(realpath "$2") standin=$3 program=$(realpath "$4")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
failed=0
soname=$(basename "$runtime")
soname=${soname%%.so*}.so.1

# expect NAME STATUS COMMAND...: the exit status, and nothing on stdout or stderr.
expect() {
    local name=$1 status=$2 got=0 said
    shift 2
    said=$("$@" 2>&1) || got=$?
    if [ "$got" != "$status" ] || [ -n "$said" ]; then
        printf 'not ok: %s: status %s, not %s; said: %s\n' "$name" "$got" "$status" "$said"
        failed=1
    fi
}
served() { LD_PRELOAD=$1 LD_LIBRARY_PATH=$standin WEIR_CONF=limit_mb:128 "$program"; }

mkdir -p "$here/a b" "$here/deep/er" "$here/links"
cp "$library" "$here/deep/er/other name.so"
cp "$library" "$here/deep/er/shim.so"
cp "$runtime" "$here/deep/er/$soname"
ln -s "$here/deep/er/shim.so" "$here/links/shim.so"
ln -s "$here/deep/er/$soname" "$here/links/$soname"
cc -shared -o "$here/empty.so" -x c /dev/null

expect 'where it was built' 0 served "$library"
expect 'copied elsewhere' 0 served "$here/deep/er/shim.so"
expect 'through a link' 0 served "$here/links/shim.so"
(cd "$here/deep" && expect 'by a relative path' 0 served ./er/shim.so; exit "$failed") || failed=1
expect 'twice' 0 served "$library:$library"
expect 'after another' 0 served "$here/empty.so:$library"
expect 'before another, parted by a blank' 0 served "$library $here/empty.so"

# No GPU, no CUDA: nothing is loaded, said or changed.
expect 'a shell' 0 env LD_PRELOAD="$library" sh -c 'exit 0'
expect 'a failing program' 3 env LD_PRELOAD="$library" sh -c 'exit 3'
expect 'children' 0 env LD_PRELOAD="$library" sh -c 'ls / | sort | tail -1 >/dev/null'
expect 'wrong settings that nobody reads' 0 env WEIR_CONF=x LD_PRELOAD="$library" sh -c 'exit 0'
loads=$(LD_DEBUG=files LD_DEBUG_OUTPUT="$here/debug" LD_PRELOAD=$library ls / >/dev/null
    cat "$here"/debug.* | grep -c -e 'libcuda\|libweir_runtime' || true)
[ "$loads" = 0 ] || { echo "not ok: a process without CUDA loaded a driver or the runtime"; failed=1; }

# Wrong settings: one sentence, and no memory.
said=$(LD_PRELOAD=$library LD_LIBRARY_PATH=$standin WEIR_CONF=limit:1 "$program" 2>&1 >/dev/null) || true
if [ "$(printf '%s\n' "$said" | grep -c .)" != 1 ] || [[ $said != *limit:1* ]]; then
    printf 'not ok: wrong settings said: %s\n' "$said"; failed=1
fi

# Without the runtime the driver serves, and that is said.
mkdir "$here/alone"
cp "$library" "$here/alone/shim.so"
said=$(served "$here/alone/shim.so" 2>&1 >/dev/null) || true
[[ $said == *'runtime was not found'* ]] ||
    { printf 'not ok: without the runtime it said: %s\n' "$said"; failed=1; }

# What it asks of the C library: nothing private, and neither the driver nor the CUDA runtime.
if readelf -d "$library" | grep NEEDED | grep -q cuda; then
    echo 'not ok: it is linked with a library of CUDA'; failed=1
fi
if nm -D "$library" | grep -q GLIBC_PRIVATE; then
    echo 'not ok: it needs private symbols of glibc'; failed=1
fi
extra=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -vE '^(cu[A-Z].*|dlsym|dlvsym)$' || true)
[ -z "$extra" ] || { printf 'not ok: it exports %s\n' "$extra"; failed=1; }

[ "$failed" = 0 ] && echo "places: all as it should be"
exit "$failed"
