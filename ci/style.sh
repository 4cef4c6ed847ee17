#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What CONTRIBUTING.md asks of every source file, as far as a script can see it; and that every key
# of WEIR_CONF has its row in docs/configuration.md.
source "$(dirname "$0")/lib.sh"
mapfile -t sources < <(find core hosted backends tools tests bench fuzz integrations \
    \( -name '*.c' -o -name '*.h' \) 2>/dev/null | LC_ALL=C sort)
[ ${#sources[@]} -gt 0 ] || die "no sources"
fail=0

awk '
    function say(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
    FNR == 1 { start = 0 }
    FNR == 1 && $0 != "/* SPDX-License-Identifier: MIT */" { say("the licence line is missing") }
    FNR == 2 && !/^\/\*/ { say("the file does not say what it owns") }
    FNR == 601 { say("the file has more than 600 lines") }
    /\t/ { say("a tab") }
    /[ ]$/ { say("a blank at the end of the line") }
    /(TO[D]O|FIX[M]E|X[X]X)/ { say("unfinished") }
    /^\{/ { start = FNR }
    /^\}/ && start > 0 {
        if (FNR - start - 1 > 70) say("a function of " FNR - start - 1 " lines; 70 are the most")
        start = 0
    }
    END { exit bad }' "${sources[@]}" || fail=1

twice=$(grep -hE '^static [^=;]*\(' core/*.c | grep -v ';$' |
    grep -oE '^static [^(]*[ *]([a-z_0-9]+)\(' | sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/' |
    sort | uniq -d)
[ -z "$twice" ] || { printf 'static names used twice in core/: %s\n' "$twice"; fail=1; }

while read -r key; do
    grep -q "\`$key\`" docs/configuration.md || { echo "docs/configuration.md lacks $key"; fail=1; }
done < <(sed -n '/key_table\[\]/,/^};/p' hosted/conf_keys.c |
    grep -oE '(^    \{|SIZE\(|NOT\(|REFUSED\()"[a-z0-9_]+"' | cut -d'"' -f2)

[ "$fail" = 0 ] && echo "style: ${#sources[@]} files hold to CONTRIBUTING.md"
exit "$fail"
