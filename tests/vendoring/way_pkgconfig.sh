#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Way 6: pkg-config after an install.
source "$(dirname "$0")/lib.sh"
command -v pkg-config >/dev/null || skip "pkg-config is not there"
install_weir
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name weir.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion weir)" = 0.1.0 ] || fail "weir.pc has another version"
# shellcheck disable=SC2046
$CC $strict $(pkg-config --cflags weir) "$here/main.c" $(pkg-config --libs weir) -o app
ends_ok ./app
