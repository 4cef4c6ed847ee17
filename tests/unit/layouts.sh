#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes the numbers of layouts.h as the program unit_layout_test finds them now. For changes that
# are meant to place blocks elsewhere, and for no others.
#
#   tests/unit/layouts.sh [PROGRAM]   by default build/bin/unit_layout_test
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/bin/unit_layout_test}
numbers=$(mktemp)
trap 'rm -f "$numbers"' EXIT
WEIR_LAYOUT_RENEW=1 "$program" 2>/dev/null |
    sed -n 's/^layout \(.*\) \(0x[0-9a-f]*\)$/\1\t\2/p' >"$numbers"
[ -s "$numbers" ] || { echo "$program printed no layout" >&2; exit 1; }
while IFS=$'\t' read -r name number; do
    sed -i "s/^{\"$name\", [0-9a-fx]*,/{\"$name\", $number,/" tests/unit/layouts.h
done <"$numbers"
echo "$(wc -l <"$numbers") layouts written to tests/unit/layouts.h"
