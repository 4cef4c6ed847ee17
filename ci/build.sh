#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what the build needs and builds the command weir into build/bin.
source "$(dirname "$0")/lib.sh"
need_build
say "build"
configure build -DCMAKE_BUILD_TYPE=Release
ninja -C build -j "$JOBS" --quiet weir
echo "built build/bin/weir"
