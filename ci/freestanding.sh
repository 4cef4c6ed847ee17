#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The core compiles without any C library, without floating point, variable arrays or deep stacks,
# and asks for nothing but memcpy, memset, memmove and memcmp: for five kinds of processor, with gcc
# and clang.
#
#   ci/freestanding.sh [SOURCE...]    the sources of the core, unless told otherwise
source "$(dirname "$0")/lib.sh"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wframe-larger-than=2048 -Werror"
sources=("$@")
[ ${#sources[@]} -gt 0 ] || sources=(core/*.c)
tried=0

# try NAME COMPILER...: NAME is of a processor. What keeps a compiler from registers of floating
# point differs; armv7 without them passes doubles to functions of a library, which nm would show.
try() {
    local name=$1 kind=gcc include file unit undefined general=-mgeneral-regs-only; shift
    if [ "$1" = clang ]; then kind=clang; fi
    case $name in
        riscv64) general="-march=rv64imac -mabi=lp64" ;;
        armv7) general="-march=armv7-a -mfloat-abi=soft" ;;
    esac
    # shellcheck disable=SC2206
    local call=("$@" $general $warnings -std=c11 -ffreestanding -nostdlib -nostdinc -O2
        -fno-stack-protector -fno-pic)
    include=$("$@" -print-file-name=include)
    rm -f "$out"/*
    for file in "${sources[@]}"; do
        unit=$(basename "$file" .c)
        "${call[@]}" -isystem "$include" -c "$file" -o "$out/$unit.o" ||
            die "$name, $kind: $file is not freestanding"
        # What one file asks of another is found when they are one.
        nm -g --defined-only "$out/$unit.o" | awk '{ print $3 }' >>"$out/defined"
        nm -u "$out/$unit.o" | awk '{ print $2 }' >>"$out/asked"
    done
    undefined=$(sort -u "$out/asked" | grep -vxF -f "$out/defined" |
        grep -vxE 'memcpy|memset|memmove|memcmp' || true)
    [ -z "$undefined" ] || die "$name, $kind: the core asks for $undefined"
    echo "freestanding: $name, $kind: $(size -t "$out"/*.o | awk 'END { print $1 }') bytes of code"
    tried=$((tried + 1))
}

# The same where that compiler builds for it.
try_if() {
    if echo 'int weir_probe;' | "${@:2}" -xc -c - -o /dev/null 2>/dev/null; then
        try "$@"
    else
        echo "freestanding: $1, $(basename "${@: -1}"): skipped, that compiler is not there"
    fi
}

# Debian's cross compilers conflict with gcc-multilib, which the tests need: so they are unpacked
# beside the builds, and not installed.
cross() {
    local triple=$1 arch=$2 at=$PWD/build-cross/$1 package
    [ ! -e "$at/done" ] || return 0
    have apt-get && [ "$(uname -m)" = x86_64 ] || return 0
    mkdir -p "$at"
    if ! (cd "$at" && apt-get download -qq "binutils-$triple" "cpp-12-$triple" "gcc-12-$triple" \
            "libgcc-12-dev-$arch-cross" >log 2>&1); then
        cat "$at/log" >&2
        return 0
    fi
    for package in "$at"/*.deb; do dpkg-deb -x "$package" "$at"; done
    find "$at" -name lto1 -delete
    rm -f "$at"/*.deb
    touch "$at/done"
}

# cross_if NAME TRIPLE ARCH: Debian's name of the architecture.
cross_if() {
    local at=$PWD/build-cross/$2/usr
    cross "$2" "$3"
    try_if "$1" env LD_LIBRARY_PATH="$at/lib/x86_64-linux-gnu" "$at/bin/$2-gcc-12"
}

# No file of the core knows of a kernel; kernel/weir_port.h does.
! grep -ln '__KERNEL__\|<linux/' core/* || die "the core knows of a kernel"
need gcc clang binutils
if [ "$(uname -m)" = x86_64 ]; then need gcc-multilib; fi
try_if x86-64 gcc -m64
try_if x86-32 gcc -m32
cross_if aarch64 aarch64-linux-gnu arm64
cross_if riscv64 riscv64-linux-gnu riscv64
cross_if armv7 arm-linux-gnueabihf armhf
try_if x86-64 clang --target=x86_64-linux-gnu
try_if x86-32 clang --target=i686-linux-gnu
try_if aarch64 clang --target=aarch64-linux-gnu
try_if riscv64 clang --target=riscv64-linux-gnu
try_if armv7 clang --target=armv7-linux-gnueabi
[ "$tried" -gt 0 ]
