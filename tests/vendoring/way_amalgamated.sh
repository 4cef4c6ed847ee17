#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Way 2: the pair weir.c and weir.h; the header in C++ too.
source "$(dirname "$0")/lib.sh"
"$root/ci/amalgamate.sh" "$work/weir"
cp "$here/bare.c" .
$CC $strict -Wc++-compat -Iweir -c weir/weir.c -o weir.o
$CC $strict -Iweir bare.c weir.o -o app
ends_ok ./app

command -v g++ >/dev/null || skip "the pair works in C, but there is no g++ to try its header"
cat >app.cc <<'CC'
#include "weir.h"
#include <cstdio>
int main()
{
    weir_pool *pool = nullptr;
    weir_config config = {};
    config.size = sizeof config;
    std::puts(weir_pool_create(&config, &pool) == WEIR_INVALID ? "ok" : "accepted no device");
}
CC
g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -Iweir app.cc weir.o -o app_cc
ends_ok ./app_cc
