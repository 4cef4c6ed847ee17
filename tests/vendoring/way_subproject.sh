#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Way 3: add_subdirectory. The consumer's build gets the libraries and nothing else of Weir's.
source "$(dirname "$0")/lib.sh"
project "add_subdirectory($root weir)
add_executable(app main.c)
target_link_libraries(app PRIVATE weir::core weir::sim weir::hosted)"
[ ! -e out/weir/bin ] && ! grep -q '^WEIR_WERROR:BOOL=ON' out/CMakeCache.txt ||
    fail "a subproject built tools or made warnings errors"
