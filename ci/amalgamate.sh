#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes the core as one pair, weir.c and weir.h, into DIR (dist by default): headers inlined where
# they are first needed, and each file's macros taken back at its end.
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/dist}
set -euo pipefail
mkdir -p "$out"
cp "$root/core/weir.h" "$out/weir.h"
awk -v root="$root/core/" '
    function emit(name, inner,    line, part, macros, count, i) {
        while ((getline line < (root name)) > 0) {
            if (line ~ /^#include "/) {
                split(line, part, "\"")
                if (part[2] != "weir.h" && !(part[2] in seen)) {
                    seen[part[2]] = 1
                    emit(part[2], 1)
                }
            } else {
                print line
                if (!inner && line ~ /^#define [A-Za-z_]/) {
                    split(line, part, /[ (]/)
                    macros[++count] = part[2]
                }
            }
        }
        close(root name)
        for (i = 1; i <= count; i++) print "#undef " macros[i]
    }
    BEGIN {
        print "/* SPDX-License-Identifier: MIT */"
        print "/* Weir, all of core/ in one file. Made by ci/amalgamate.sh: change core/ instead. */"
        print "#include \"weir.h\""
        for (i = 1; i < ARGC; i++) emit(ARGV[i], 0)
    }' $(cd "$root/core" && LC_ALL=C ls ./*.c | sed 's|^\./||') >"$out/weir.c"
echo "wrote $out/weir.c, $(wc -l <"$out/weir.c") lines, and weir.h"
