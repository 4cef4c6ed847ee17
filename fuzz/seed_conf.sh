#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# seed_conf.sh FOLDER: writes the settings that docs/configuration.md shows as seed inputs. The
# first byte of each is the device's memory, see fuzz_conf.c.
set -euo pipefail
docs=$(dirname "$0")/../docs/configuration.md
number=0
while read -r line; do
    number=$((number + 1))
    printf '\xa7%s' "$line" >"$1/docs-$number"
done < <(grep -oE '\b[a-z_0-9]+:[][A-Za-z0-9_.:>%,]+' "$docs")
[ "$number" -gt 0 ] || { echo "$docs shows no settings" >&2; exit 1; }
