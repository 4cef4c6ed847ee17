#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants bugs in the core, one at a time, and counts which of them the fast part of the suite sees.

historical  patches in historical/: bugs that other pools had, in the shape that they would have here
branch      each conditional jump of the compiled core made always or never (x86-64)
source      what universalmutator makes of the source, but for what compiles to the same code

A mutant is caught when a stage of the suite fails, crashes, or takes too long. One that is not is
`explained` if explained.tsv has its file, function, line and change; else it survived. Lines are
named by their text, so that the list stands when others move them. Ends 0 if none survived.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
PARTS = ["core", "hosted", "backends/sim", "backends/host", "tests/support", "tests/unit",
         "tests/field", "tests/property", "tests/plain", "tests/mutants"]

# (words for quick, steps of the property tests, ms of processor time for one test), cheapest first.
SLOW = ["property_", "threads", "fw_30", "pt_38", "sizes_that_no_memory", "rescues_when", "fw_10_with"]
STAGES = [(["layout::"], 0, 1000),
          (["-" + word for word in SLOW], 0, 1000),
          (["property_", "-threads"], 300, 1000),
          (["rescues_when", "pt_38", "fw_10_with"], 0, 2000)]
# For the few mutants that are known to matter.
STAGES_LONG = STAGES + [(["property_", "-threads"], 5000, 5000),
                        (["sizes_that_no_memory", "fw_30"], 0, 5000),
                        (["field_threads", "-sa_08"], 0, 10000)]


def caught(program, stages):
    """What saw the bug: the first line of a failing stage; None if nothing did."""
    for words, steps, ms in stages:
        env = dict(os.environ, WEIR_QUICK_MS=str(ms))
        env.pop("WEIR_TEST_SEED", None)
        env.pop("WEIR_TEST_STEPS", None)
        if steps:
            env["WEIR_TEST_STEPS"] = str(steps)
        try:
            run = subprocess.run([program] + words, env=env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, timeout=120)
        except subprocess.TimeoutExpired:
            return "took too long"
        if run.returncode != 0:
            lines = [line for line in run.stderr.decode(errors="replace").splitlines()
                     if "WEIR_TEST_SEED" not in line]
            return lines[0][:160] if lines else f"ended with {run.returncode}"
    return None


class Tally:
    """Counts, prints and compares with explained.tsv."""

    def __init__(self, whole):
        self.caught = self.explained = self.survived = 0
        self.whole = whole  # no sample: every reason must be of use
        self.used = set()
        self.reason = {}
        with open(os.path.join(HERE, "explained.tsv"), encoding="utf-8") as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    part = line.rstrip("\n").split("\t")
                    self.reason[tuple(part[:4])] = part[4]

    def note(self, key, by, label):
        if by is not None:
            self.caught += 1
        elif key in self.reason:
            self.explained += 1
            self.used.add(key)
        else:
            self.survived += 1
            print("survived: " + label, flush=True)

    def end(self, changes):
        stale = [key for key in self.reason if key not in self.used and changes(key[3])]
        for key in stale if self.whole else []:
            print("explained.tsv: nothing survives at " + "\t".join(key))
        total = self.caught + self.explained + self.survived
        print(f"{total} mutants, {self.caught} caught, {self.explained} explained, "
              f"{self.survived} survived", flush=True)
        return 0 if self.survived == 0 and total > 0 and not (stale and self.whole) else 1


def spread(things, limit):
    """An evenly spread sample."""
    if not limit or limit >= len(things):
        return things
    return [things[i * len(things) // limit] for i in range(limit)]


def make(work, *words, quiet=False):
    command = ["make", "-s", "-C", f"{work}/tree/tests/mutants", f"OUT={work}/out", *words]
    return subprocess.run(command, stderr=subprocess.DEVNULL if quiet else None).returncode == 0


def link(work, name, instead, program):
    """The program with another object in place of that of one file of the core."""
    core = f"{work}/out/core"
    objects = [f"{core}/{other}" for other in sorted(os.listdir(core))
               if other.endswith(".o") and other != name[:-2] + ".o"]
    subprocess.run(["gcc", "-o", program, f"{work}/out/suite.o", instead, *objects, "-lpthread", "-lm"],
                   check=True)


def prepare(work, stages):
    """A copy of the tree and the program made of it, which must pass."""
    shutil.rmtree(work, ignore_errors=True)
    for part in PARTS:
        shutil.copytree(f"{TREE}/{part}", f"{work}/tree/{part}")
    os.makedirs(f"{work}/out")
    if not make(work):
        sys.exit("the program for mutants was not built")
    by = caught(f"{work}/out/quick", stages)
    if by is not None:
        sys.exit("without a mutant a test fails: " + by)


# ---------------------------------------------------------------------------------- historical --

def patch(work, path, *words):
    with open(path, encoding="utf-8") as file:
        return subprocess.run(["patch", "-p1", "-s", "-f", "--no-backup-if-mismatch", *words],
                              cwd=f"{work}/tree", stdin=file).returncode == 0


def historical(work, limit, verbose):
    folder = os.path.join(HERE, "historical")
    tally = Tally(False)
    for name in spread(sorted(os.listdir(folder)), limit):
        path = os.path.join(folder, name)
        if not patch(work, path):
            tally.note((name,), None, f"{name} no longer applies")
            patch(work, path, "-R")
            continue
        if make(work, quiet=not verbose):
            by = caught(f"{work}/out/quick", STAGES_LONG)
            tally.note((name,), by, name)
            if verbose:
                print(f"{name[:-6]}: {by}", flush=True)
        else:
            tally.note((name,), None, f"{name} does not compile")
        patch(work, path, "-R")
    return tally.end(lambda change: False)


# -------------------------------------------------------------------------------------- branch --

def functions(path):
    """For each line of a source file the function that it lies in, and its text."""
    name = at = ""
    lines = []
    with open(path, encoding="utf-8") as file:
        for text in file:
            head = re.match(r"[a-z][^;=]*?(\w+)\(", text)
            if head and not text.startswith(("typedef", "#")):
                at = head.group(1)
            if text.startswith("{"):
                name = at
            lines.append((name, text.strip()))
            if text.startswith("}"):
                name = ""
    return lines


def branch_label(path, out):
    """Assembles a file with a label on each conditional jump; (file, line) of each of them."""
    options = ["-std=c11", "-O0", "-w", "-g1", "-fno-jump-tables"]  # a jump for each condition
    core = os.path.dirname(path)
    subprocess.run(["gcc", *options, f"-I{core}", "-S", path, "-o", out + ".s"], check=True)
    files, lines, points, place = {}, [], [], None
    with open(out + ".s", encoding="utf-8") as file:
        for text in file:
            named = re.match(r'\s+\.file (\d+) (?:"[^"]*" )?"([^"]+)"', text)
            if named:
                files[named.group(1)] = os.path.basename(named.group(2))
            at = re.match(r"\s+\.loc (\d+) (\d+)", text)
            if at:
                place = (files[at.group(1)], int(at.group(2)))
            if re.match(r"\s+j(?!mp)[a-z]+\s+\.L", text):
                lines.append(f"mutant.{len(points)}:\n")
                points.append(place)
            lines.append(text)
    with open(out + ".s", "w", encoding="utf-8") as file:
        file.writelines(lines)
    subprocess.run(["gcc", "-c", out + ".s", "-o", out], check=True)
    return points


def branch_program(work, name):
    """The program with one file labelled and its points; the rest of the core is as ever."""
    out = f"{work}/branch/{name[:-2]}"
    os.makedirs(f"{work}/branch", exist_ok=True)
    points = branch_label(f"{work}/tree/core/{name}", out + ".o")
    link(work, name, out + ".o", out)
    return out, points


def branch_offsets(program):
    """Where in the file each labelled jump lies."""
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True,
                              check=True).stdout
    text = re.search(r"\] \.text\s+PROGBITS\s+([0-9a-f]+) ([0-9a-f]+)", sections)
    shift = int(text.group(2), 16) - int(text.group(1), 16)
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {int(number): int(addr, 16) + shift
            for addr, number in re.findall(r"([0-9a-f]+) t mutant\.(\d+)\n", names)}


def branch_bytes(code, change):
    """The jump at the start of `code` as one that is always made, or never; its length stays."""
    size = 6 if code[0] == 0x0F else 2
    if code[0] != 0x0F and not 0x70 <= code[0] <= 0x7F:
        sys.exit(f"no conditional jump where one was labelled: {code.hex()}")
    if change == "never":
        return b"\x90" * size
    return b"\x90\xe9" + code[2:6] if size == 6 else b"\xeb" + code[1:2]


def branch_write(program, offset, change):
    """A copy of the program with one jump changed."""
    with open(program, "rb") as file:
        image = file.read()
    new = branch_bytes(image[offset:offset + 6], change)
    mutant = program + ".mutant"
    with open(mutant, "wb") as file:
        file.write(image[:offset] + new + image[offset + len(new):])
    os.chmod(mutant, 0o755)
    return mutant


def branch(work, limit, verbose):
    core = f"{work}/tree/core"
    text = {name: functions(f"{core}/{name}") for name in os.listdir(core)}
    every = []
    for name in sorted(name for name in text if name.endswith(".c")):
        program, points = branch_program(work, name)
        if caught(program, STAGES) is not None:
            sys.exit(f"the labelled program of {name} fails without a mutant")
        offset = branch_offsets(program)
        every += [(program, offset[i], *point, change)
                  for i, point in enumerate(points) for change in ("always", "never")]
    tally = Tally(not limit)
    for program, offset, name, line, change in spread(every, limit):
        by = caught(branch_write(program, offset, change), STAGES)
        key = (name, *text[name][line - 1], change)
        tally.note(key, by, "\t".join(key) + f"\t({os.path.basename(program)}, line {line})")
        if verbose:
            print(f"{name}:{line} {change}: {by}", flush=True)
    return tally.end(lambda change: change in ("always", "never"))


# -------------------------------------------------------------------------------------- source --

def source_mutants(work, name):
    """(line number, old text, new text, path) of each mutant of a file."""
    folder = f"{work}/source/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    subprocess.run(["mutate", f"{work}/tree/core/{name}", "c", "--noCheck", "--mutantDir", folder],
                   stdout=subprocess.DEVNULL, check=True)
    with open(f"{work}/tree/core/{name}", encoding="utf-8") as file:
        old = file.read().splitlines()
    found = []
    for path in sorted(os.listdir(folder), key=lambda path: int(path.split(".")[-2])):
        with open(f"{folder}/{path}", encoding="utf-8") as file:
            new = file.read().splitlines()
        where = [i for i in range(min(len(old), len(new))) if old[i] != new[i]]
        if where:
            found.append((where[0], old[where[0]].strip(), new[where[0]].strip(),
                          f"{folder}/{path}"))
    return found


def source_object(work, path, out):
    """Compiles a file; the text of its assembly, None if there is none."""
    command = ["gcc", "-std=c11", "-O1", "-w", f"-I{work}/tree/core", "-S", "-x", "c", path, "-o",
               out + ".s"]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
        return None
    subprocess.run(["gcc", "-c", out + ".s", "-o", out], check=True)
    with open(out + ".s", encoding="utf-8") as file:
        return "".join(line for line in file if not line.startswith("\t.file"))


def source(work, limit, verbose):
    core = f"{work}/tree/core"
    names = sorted(name for name in os.listdir(core) if name.endswith(".c"))
    mutants = [(name, *mutant) for name in names for mutant in source_mutants(work, name)]
    text = {name: functions(f"{core}/{name}") for name in names}
    plain = {name: source_object(work, f"{core}/{name}", f"{work}/source/plain.o") for name in names}
    tally = Tally(not limit)
    seen = {name: {plain[name]} for name in names}
    same = 0
    for name, line, old, new, path in spread(mutants, limit):
        code = source_object(work, path, f"{work}/source/mutant.o")
        if code is None or code in seen[name]:
            same += 1
            continue
        seen[name].add(code)
        program = f"{work}/source/mutant"
        link(work, name, f"{work}/source/mutant.o", program)
        by = caught(program, STAGES)
        key = (name, text[name][line][0], old, new)
        tally.note(key, by, "\t".join(key) + f"\t(line {line + 1})")
        if verbose:
            print(f"{name}:{line + 1} {new}: {by}", flush=True)
    print(f"{same} more do not compile, or to code that was tried already")
    return tally.end(lambda change: change not in ("always", "never"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["historical", "branch", "source"])
    parser.add_argument("work", help="folder for what is built")
    parser.add_argument("--limit", type=int, default=0, help="only so many, evenly spread")
    parser.add_argument("--verbose", action="store_true", help="say what saw each of them")
    args = parser.parse_args()
    work = os.path.abspath(args.work)
    prepare(work, STAGES_LONG if args.kind == "historical" else STAGES)
    kinds = {"historical": historical, "branch": branch, "source": source}
    return kinds[args.kind](work, args.limit, args.verbose)


if __name__ == "__main__":
    sys.exit(main())
