#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Proves what the core's arithmetic promises (sizes, bins, bitmaps, alignment, overflow) with z3 and
# cvc5, from the source as it stands, and that planted mistakes are seen. proofs/prove.py has the
# properties. Ends with 77 where a tool is missing. About ten minutes of one core.
#
#   ci/prove.sh [--seconds N] [WORD]...   N: for one question; properties that hold one of the words
source "$(dirname "$0")/lib.sh"
need z3 cvc5 python3-pycparser
for tool in z3 cvc5 python3; do
    have "$tool" || { echo "skipped: $tool is not there and can't be installed"; exit 77; }
done
python3 -c 'import pycparser' 2>/dev/null ||
    { echo "skipped: pycparser is not there and can't be installed"; exit 77; }
exec python3 -B proofs/prove.py "$@"
