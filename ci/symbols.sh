#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every external symbol of the libraries begins with weir_, and the core asks for nothing but the
# four memory functions that a compiler may call by itself.
source "$(dirname "$0")/lib.sh"
fail=0

for library in build/libweir_*.a; do
    [ -f "$library" ] || die "no libraries in build; run ci/build.sh first"
    foreign=$(nm -g --defined-only "$library" 2>/dev/null |
        awk 'NF == 3 && $3 !~ /^weir_/ { print $3 }' | sort -u)
    if [ -n "$foreign" ]; then
        printf '%s exports names of others:\n%s\n' "$library" "$foreign"
        fail=1
    fi
done

joined=$(mktemp)
trap 'rm -f "$joined"' EXIT
ld -r --whole-archive build/libweir_core.a -o "$joined"
# __stack_chk_fail comes from compilers that protect the stack by default.
asked=$(nm -u "$joined" | awk '{ print $2 }' |
    grep -vxE 'memcpy|memset|memmove|memcmp|__stack_chk_fail' || true)
if [ -n "$asked" ]; then
    printf 'the core asks for more than the memory functions:\n%s\n' "$asked"
    fail=1
fi
[ "$fail" = 0 ] && echo "symbols: all external names begin with weir_, the core needs no library"
exit "$fail"
