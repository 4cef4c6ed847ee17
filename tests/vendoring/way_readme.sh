#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example of README.md: it compiles, runs, and its last status is success.
source "$(dirname "$0")/lib.sh"
awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$root/README.md" >example
{
    grep '^#include' example
    echo 'int main(void) {'
    grep -v '^#include' example
    echo 'return (int)status; }'
} >example.c
$CC $strict -Wno-unused-but-set-variable -I"$root/core" -I"$root/hosted" -I"$root/backends/sim" \
    example.c "$root"/core/*.c "$root"/hosted/*.c "$root"/backends/sim/*.c -pthread -o example.bin
./example.bin || fail "the example of README.md ends with status $?"
