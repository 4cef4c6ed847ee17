#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program says and answers under the preload library what it does without, and the real runtime's
# look-ups pass through it. same.sh LIBRARY STANDIN_FOLDER PROGRAM
set -euo pipefail
library=$(realpath "$1")
export LD_LIBRARY_PATH=$2
status=0 under=0
said=$("$3" 2>&1) || status=$?
said_under=$(LD_PRELOAD=$library "$3" 2>&1) || under=$?
if [ "$status" != "$under" ] || [ "$said" != "$said_under" ]; then
    printf 'not ok: %s, and under Weir %s: %s, %s\n' "$status" "$under" "$said" "$said_under"
    exit 1
fi
echo "same: $said"
