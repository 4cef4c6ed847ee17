#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads what `llvm-cov export` wrote and tells what of core/ was not reached.

usage: mcdc.py EXPORT.json ROOT LIST.md

Prints each condition of core/ that was never true, never false, or never decided its expression by
itself, unless LIST.md names the line's text for that file, and each line of LIST.md that names
nothing. The last line is the percentage of MC/DC.
"""
import json
import re
import sys


def fragment(lines, at):
    """The source between two places; at = (line, column, line, column)."""
    if at[0] == at[2]:
        return lines[at[0] - 1][at[1] - 1:at[3] - 1]
    return lines[at[0] - 1][at[1] - 1:].strip() + " ..."


def gaps(file, lines):
    """(line number, what is missing) of a file, and how many conditions of MC/DC it has and lacks."""
    branch, decision = {}, {}
    for at in file["branches"]:
        seen = branch.setdefault(tuple(at[:4]), [0, 0])
        seen[0] += at[4]
        seen[1] += at[5]
    for at in file.get("mcdc_records", []):
        old = decision.get(tuple(at[:4]), [False] * len(at[-1]))
        decision[tuple(at[:4])] = [a or b for a, b in zip(old, at[-1])]
    found = []
    for at, (true, false) in sorted(branch.items()):
        text = fragment(lines, at)
        # A case of a switch has no false side of its own.
        if true == 0:
            found.append((at[0], f"never true: {text}"))
        elif false == 0 and not re.match(r"(case\b|default\b|\(weir_kind\))", text):
            found.append((at[0], f"never false: {text}"))
    for at, conditions in sorted(decision.items()):
        if not all(conditions):
            which = ", ".join(str(i + 1) for i, seen in enumerate(conditions) if not seen)
            found.append((at[0], f"condition {which} never decided: {fragment(lines, at)}"))
    conditions = [seen for one in decision.values() for seen in one]
    return found, len(conditions), conditions.count(False)


def reasons(path):
    """(file, text of the line) of each row of the list."""
    rows = set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = re.match(r"\| `([a-z_]+\.[ch])` \| `(.*?)` \|", line)
            if row:
                rows.add((row.group(1), row.group(2).replace("\\|", "|")))
    return rows


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        data = json.load(file)["data"][0]
    listed = reasons(sys.argv[3])
    used, total, lacking = set(), 0, 0
    for file in data["files"]:
        name = file["filename"].rpartition("/core/")[2]
        if not file["filename"].startswith(sys.argv[2] + "/core/"):
            continue
        with open(file["filename"], encoding="utf-8") as source:
            lines = source.read().split("\n")
        found, conditions, missing = gaps(file, lines)
        total += conditions
        lacking += missing
        for line, what in found:
            key = (name, lines[line - 1].strip())
            if key in listed:
                used.add(key)
            else:
                print(f"no reason in coverage/uncovered.md: {name}:{line}: {what}")
    for name, text in sorted(listed - used):
        print(f"coverage/uncovered.md: all of this is reached: {name}: {text}")
    print(f"mcdc {int(1000 * (total - lacking) / max(total, 1)) / 10:.1f}%")


if __name__ == "__main__":
    main()
