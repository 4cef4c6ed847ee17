# SPDX-License-Identifier: MIT
# Shared by the way_*.sh scripts: sourced, never run. Each tries one documented way to vendor Weir
# in a folder of its own, as its user would.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/tests/vendoring
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}
CMAKE=${CMAKE:-cmake}
strict="-std=c11 -O1 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
cd "$work"

fail() { printf '%s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
ends_ok() { [ "$("$@")" = ok ] || fail "$1 did not print ok"; }

# project BODY: a consumer's CMake project whose target `app` is main.c and links as BODY says.
project() {
    cp "$here/main.c" .
    printf 'cmake_minimum_required(VERSION 3.18)\nproject(consumer C)\n%s\n' "$1" >CMakeLists.txt
    shift
    "$CMAKE" -S . -B out -DCMAKE_C_COMPILER="$CC" "$@" >configure.log 2>&1 ||
        { cat configure.log; fail "the consumer could not be configured"; }
    "$CMAKE" --build out >build.log 2>&1 || { cat build.log; fail "the consumer did not build"; }
    ends_ok out/app
}

# Weir installed into ./prefix, without tools and tests.
install_weir() {
    "$CMAKE" -S "$root" -B weir -DCMAKE_C_COMPILER="$CC" -DCMAKE_INSTALL_PREFIX="$work/first" \
        -DWEIR_TESTS=OFF -DWEIR_TOOLS=OFF >install.log 2>&1 &&
        "$CMAKE" --build weir >>install.log 2>&1 && "$CMAKE" --install weir >>install.log 2>&1 ||
        { cat install.log; fail "Weir did not install"; }
    mv first prefix # what is installed may be moved
}
