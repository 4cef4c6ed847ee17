#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Way 4: FetchContent, here from a folder instead of an address.
source "$(dirname "$0")/lib.sh"
project "include(FetchContent)
FetchContent_Declare(weir SOURCE_DIR $root)
FetchContent_MakeAvailable(weir)
add_executable(app main.c)
target_link_libraries(app PRIVATE weir::sim weir::hosted)"
