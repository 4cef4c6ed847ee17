#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The core compiles without any C library, without floating point, variable arrays or deep stacks,
# and asks for nothing but memcpy, memset, memmove and memcmp.
source "$(dirname "$0")/lib.sh"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wframe-larger-than=2048 -Werror"
tried=0

try() {
    local compiler=$1 include file name undefined
    include=$($compiler -print-file-name=include)
    for file in core/*.c; do
        name=$(basename "$file" .c)
        # shellcheck disable=SC2086
        $compiler -std=c11 -ffreestanding -nostdlib -nostdinc -isystem "$include" -O2 $warnings \
            -fno-stack-protector -fno-pic -mgeneral-regs-only -c "$file" -o "$out/$name.o" ||
            die "$compiler: $file is not freestanding"
    done
    # shellcheck disable=SC2086
    $compiler -nostdlib -r "$out"/*.o -o "$out/core.all"
    undefined=$(nm -u "$out/core.all" | awk '{ print $2 }' |
        grep -vxE 'memcpy|memset|memmove|memcmp' || true)
    [ -z "$undefined" ] || die "$compiler: the core asks for $undefined"
    echo "freestanding: $compiler, $(size "$out/core.all" | awk 'NR == 2 { print $1 }') bytes of code"
    tried=$((tried + 1))
    rm -f "$out"/*
}

for compiler in "gcc -m64" "gcc -m32" "clang -m64"; do
    if echo 'int weir_probe;' | $compiler -xc -c - -o /dev/null 2>/dev/null; then
        try "$compiler"
    else
        echo "freestanding: $compiler is not there"
    fi
done
[ "$tried" -gt 0 ]
