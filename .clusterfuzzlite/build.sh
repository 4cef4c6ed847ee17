#!/bin/bash -eu
# SPDX-License-Identifier: MIT
exec "$SRC/weir/fuzz/oss_fuzz.sh"
