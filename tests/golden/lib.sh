# SPDX-License-Identifier: MIT
# Shared by the scripts of tests/golden: sourced with the path of weir in $1.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $(basename "$0") PATH_OF_WEIR" >&2; exit 2; }
weir=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
traces=$here/../data/traces

# What a report in one line of JSON ($1) says of a key ($2).
field() { sed -nE "s/.*\"$2\":(\"([^\"]*)\"|([^,}]*)).*/\2\3/p" <<<"$1"; }

# The lines of the ceilings that are none of its comments: a trace, its ratio and its cost.
ceilings() { sed -e 's/#.*//' -e '/^ *$/d' "$here/ceilings"; }
