#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Way 5: find_package after an install.
source "$(dirname "$0")/lib.sh"
install_weir
project "find_package(weir 0.1 REQUIRED)
add_executable(app main.c)
target_link_libraries(app PRIVATE weir::core weir::sim weir::hosted
    \$<TARGET_NAME_IF_EXISTS:weir::cuda>)" \
    -DCMAKE_PREFIX_PATH="$work/prefix"
