# SPDX-License-Identifier: MIT
"""Makes one table of what shard.py wrote.

    merge.py FILE... [--json OUT.json] [--into docs/results.md]

--into puts the section "Training" into a file of Markdown, in the place of the one that is there.
"""
import argparse
import json
import math
import random
import sys

WARM = 3  # the first steps of a run grow the pools and choose kernels: no part of the step times
HEAD = "## Training"
PEERS = ["native", "expandable", "weir"]
TABLE = "weir.train.table/1"
BACKENDS = {"native": ["native"], "expandable": ["native"], "weir": ["weir", "pluggable"]}


def load(paths):
    """Every workload once: the first of the files that finished it."""
    whole = {"files": [], "workloads": {}}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            part = json.load(file)
        if part.get("schema") == TABLE:
            continue  # what this program wrote beside them
        if part.get("schema") != "weir.train/1":
            sys.exit(f"merge.py: {path} is not of schema weir.train/1")
        whole["files"].append({key: part.get(key) for key in ("machine", "how", "size",
                                                              "seconds")})
        for one in part["workloads"]:
            known = whole["workloads"].get(one["workload"])
            if known is None or "left_out" in known:
                whole["workloads"][one["workload"]] = one
    return whole


def ratio(runs, over, under):
    """Geometric mean of the paired step times' ratios, and its 95 % interval by bootstrap."""
    pairs = list(zip(runs[over].get("seconds", []), runs[under].get("seconds", [])))[WARM:]
    if len(pairs) < 4:
        return None
    logs = [math.log(a / b) for a, b in pairs]
    source, means = random.Random(1), []
    for _ in range(4000):
        means.append(sum(source.choices(logs, k=len(logs))) / len(logs))
    means.sort()
    return {"ratio": math.exp(sum(logs) / len(logs)), "low": math.exp(means[100]),
            "high": math.exp(means[3899]), "steps": len(logs)}


def same(runs, one, other):
    """Whether two runs gave the same bits: each step's value, and the parameters at the end."""
    a, b = runs[one], runs[other]
    count = min(len(a.get("values", [])), len(b.get("values", [])))
    if not count:
        return None
    if a["values"][:count] != b["values"][:count]:
        return False
    return a.get("digest") == b.get("digest") if "failed" not in a and "failed" not in b else True


def misplaced(runs):
    """Which run had another allocator than it should have: its numbers mean nothing."""
    return {name: {"what": f"it ran on the allocator {runs[name]['backend']}"}
            for name in PEERS
            if runs[name].get("backend", "none") not in BACKENDS[name] + ["none"]}


def judge(one):
    """What a workload showed."""
    runs = {name: one["runs"].get(name, {"failed": {"what": "did not take part"}})
            for name in PEERS}
    for name, failed in misplaced(runs).items():
        runs[name] = {"failed": failed}
    return {"weir_over_native": ratio(runs, "weir", "native"),
            "expandable_over_native": ratio(runs, "expandable", "native"),
            "weir_is_native": same(runs, "weir", "native"),
            "expandable_is_native": same(runs, "expandable", "native"),
            "peak_reserved_bytes": {name: runs[name].get("peak_reserved_bytes")
                                    for name in PEERS},
            "peak_requested_bytes": runs["native"].get("peak_requested_bytes"),
            "failed": {name: runs[name]["failed"]["what"].split("\n")[0][:160]
                       for name in PEERS if "failed" in runs[name]}}


def shown(value):
    if value is None:
        return "–"
    return f"{value['ratio']:.3f} ({value['low']:.3f} to {value['high']:.3f})"


def bits(found):
    """The words for "equal to the last bit", native against itself through expandable segments
    being the control."""
    weir, control = found["weir_is_native"], found["expandable_is_native"]
    if weir is None:
        return "–"
    if weir:
        return "equal"
    return "differ" if control else "differ, as the peers do"


def gib(value):
    return "–" if not value else f"{value / 2**30:.3f}"


def means(judged):
    """The line of geometric means, over the workloads that have both numbers."""
    def mean(values):
        values = [value for value in values if value]
        return math.exp(sum(map(math.log, values)) / len(values)) if values else None

    def over(name):
        return mean([j["peak_reserved_bytes"][name] / j["peak_requested_bytes"] for j in judged
                     if j["peak_reserved_bytes"].get(name) and j["peak_requested_bytes"]])

    return {"weir_over_native": mean([(j["weir_over_native"] or {}).get("ratio") for j in judged]),
            "expandable_over_native": mean([(j["expandable_over_native"] or {}).get("ratio")
                                            for j in judged]),
            "reserved_over_requested": {name: over(name) for name in PEERS}}


def number(value, digits=3):
    return "–" if value is None else f"{value:.{digits}f}"


def training_table(judged):
    lines = ["| workload | losses and weights | step time, Weir / native | expandable / native |"
             " peak reserved, GiB: native | expandable | Weir | peak requested |",
             "|---|---|---|---|---|---|---|---|"]
    for name, j in judged.items():
        held = j["peak_reserved_bytes"]
        lines.append(f"| {name} | {bits(j)} | {shown(j['weir_over_native'])} | "
                     f"{shown(j['expandable_over_native'])} | {gib(held['native'])} | "
                     f"{gib(held['expandable'])} | {gib(held['weir'])} | "
                     f"{gib(j['peak_requested_bytes'])} |")
    mean = means(list(judged.values()))
    held = mean["reserved_over_requested"]
    lines.append(f"| **geometric mean** | | {number(mean['weir_over_native'])} | "
                 f"{number(mean['expandable_over_native'])} | "
                 f"{number(held['native'])} x requested | {number(held['expandable'])} x | "
                 f"{number(held['weir'])} x | |")
    return lines


def cap_lines(cap):
    if not cap or "runs" not in cap:
        return []
    lines = ["", f"### The largest ViT-B/16 batch under {cap['cap_bytes'] / 2**30:g} GiB", "",
             "Six steps, one with a partial batch and one with an evaluation at twice the batch;"
             " bisection in steps of 16, each try in a process of its own.", "",
             "| allocator | largest batch |", "|---|---|"]
    for name in PEERS:
        run = cap["runs"].get(name, {})
        text = str(run.get("largest_batch", run.get("failed", "did not take part")))
        lines.append(f"| {name} | {text}{'' if run.get('finished', True) else ' (not finished)'} |")
    return lines


def failures(whole, judged):
    found = [f"- {name}, {who}: {what}" for name, j in judged.items()
             for who, what in j["failed"].items()]
    found += [f"- {name}: {one['left_out']}" for name, one in whole["workloads"].items()
              if "left_out" in one]
    return ["", "### What failed or was left out", ""] + (found or ["Nothing."])


def section(whole, judged):
    first = whole["files"][0]
    about = first["machine"]
    versions = {run["torch"] for one in whole["workloads"].values()
                for run in one.get("runs", {}).values() if "torch" in run}
    lines = [HEAD, "",
             f"Real models, random weights ({about['gpu']}; PyTorch {', '.join(sorted(versions))}; "
             f"commit {about['commit']}, {about['date']}; Weir by {first['how']}), "
             "`bench/train/shard.py`. Step times are paired: the same step of two allocators, made "
             "in turns; the ratio is the geometric mean over the steps after the first "
             f"{WARM}, in brackets its 95 % interval. Losses of every step and a hash of all "
             "weights at the end are compared bit by bit; native against expandable segments is "
             "the control.", ""]
    return lines + training_table(judged) + cap_lines(whole["workloads"].get("vit_cap")) \
        + failures(whole, judged) + [""]


def put_into(path, lines):
    """Replaces the section, or adds it at the end."""
    with open(path, encoding="utf-8") as file:
        text = file.read().split("\n")
    begin = text.index(HEAD) if HEAD in text else len(text)
    end = next((i for i in range(begin + 1, len(text)) if text[i].startswith("## ")), len(text))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(text[:begin] + lines + text[end:]).rstrip("\n") + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--json", default="")
    parser.add_argument("--into", default="")
    args = parser.parse_args()
    whole = load(args.files)
    judged = {name: judge(one) for name, one in whole["workloads"].items()
              if name != "vit_cap" and "runs" in one}
    lines = section(whole, judged)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"schema": TABLE, "judged": judged,
                       "means": means(list(judged.values())),
                       "vit_cap": whole["workloads"].get("vit_cap"), "files": whole["files"]},
                      file, indent=1)
    if args.into:
        put_into(args.into, lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
