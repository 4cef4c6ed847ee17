#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Way 1: copy core/ and compile it with your sources.
source "$(dirname "$0")/lib.sh"
cp -r "$root/core" weir
cp "$here/bare.c" .
$CC $strict -Iweir bare.c weir/*.c -o app
ends_ok ./app
