# SPDX-License-Identifier: MIT
"""The tables of docs/results.md, from the results of one or more races."""
import math

WEIR = "Weir vmm"
SHARED = "Weir vmm, no rescue"
NATIVE = "PyTorch native"
EXPANDABLE = "PyTorch expandable_segments"
ASYNC = "cudaMallocAsync"
ORDER = [WEIR, SHARED, "Weir async", "Weir malloc", EXPANDABLE, NATIVE, "PyTorch cudaMallocAsync",
         ASYNC, "CuPy pool, through Python", "cudaMalloc, no pool"]
SHORT = {EXPANDABLE: "PyTorch expandable", SHARED: "Weir, no rescue",
         "PyTorch cudaMallocAsync": "PyTorch async", "CuPy pool, through Python": "CuPy (Python)",
         "cudaMalloc, no pool": "cudaMalloc"}
NONE = "–"


class Race:
    """Looks up results; where a shard was run twice, the last result counts."""

    def __init__(self, race):
        self.machine, self.shards = race["machine"], race["shards"]
        self.records = race["records"]
        self.by = {}
        for record in self.records:
            key = tuple(record.get(field) for field in
                        ("kind", "contestant", "trace", "capacity", "bytes", "threads", "case"))
            self.by[key] = record

    def get(self, kind, contestant, trace=None, capacity=None, size=None, threads=None, case=None):
        return self.by.get((kind, contestant, trace, capacity, size, threads, case))

    def value(self, field, *key, **more):
        record = self.get(*key, **more)
        return None if record is None else record.get(field)

    def distinct(self, kind, field):
        seen = {}
        for record in self.records:
            if record["kind"] == kind and record.get(field) is not None:
                seen[record[field]] = True
        return list(seen)

    def contestants(self, kind):
        there = self.distinct(kind, "contestant")
        return [name for name in ORDER if name in there] + \
            sorted(name for name in there if name not in ORDER)

    def traces(self):
        return sorted(self.distinct("replay", "trace"))

    def reserved(self, contestant, trace):
        return self.value("reserved_ratio", "replay", contestant, trace, "roomy")

    def roomy(self, contestant, trace):
        return self.value("ns_per_op", "replay", contestant, trace, "roomy")

    def least(self, contestant, trace):
        return self.value("least_capacity_ratio", "capacity", contestant, trace)

    def at_peer(self, contestant, trace):
        """The peer's own run at its least capacity is called so only there."""
        capacity = "least" if contestant == EXPANDABLE else "peer"
        return self.value("ns_per_op", "replay", contestant, trace, capacity)


# ----------------------------------------------------------------------------------------- parts --


def mean(values):
    """The geometric mean of what is there and above zero."""
    there = [value for value in values if value]
    return math.exp(sum(map(math.log, there)) / len(there)) if there else None


def shown(value, decimals=0):
    return NONE if value is None else f"{value:,.{decimals}f}"


def table(head, rows):
    """Nothing where there are no rows."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def head_of(names):
    return [SHORT.get(name, name) for name in names]


def mean_cell(values, decimals):
    there = [value for value in values if value is not None]
    text = shown(mean(there), decimals)
    return text if len(there) == len(values) else f"{text} ({len(there)} of {len(values)})"


def by_trace(race, names, look, decimals):
    """One row a trace, one column a contestant, and their geometric means."""
    traces = race.traces()
    columns = {name: [look(name, trace) for trace in traces] for name in names}
    names = [name for name in names if any(columns[name])]
    columns = [columns[name] for name in names]
    if not names:
        return ""
    rows = [[trace] + [shown(column[i], decimals) for column in columns]
            for i, trace in enumerate(traces)]
    rows.append(["**geometric mean**"] + [mean_cell(column, decimals) for column in columns])
    return table(["trace"] + head_of(names), rows)


# ---------------------------------------------------------------------------------------- target --


def ratios(race, above, below):
    pairs = [(above(trace), below(trace)) for trace in race.traces()]
    return [a / b for a, b in pairs if a and b]


def target_rows(race):
    def cost(peer):
        return ratios(race, lambda t: race.roomy(peer, t), lambda t: race.roomy(WEIR, t))

    same = ratios(race, lambda t: race.at_peer(WEIR, t), lambda t: race.at_peer(EXPANDABLE, t))
    least = [race.least(WEIR, trace) for trace in race.traces()]
    least = [value for value in least if value]
    pairs = [r["ns_per_pair"] for r in race.records
             if r["kind"] == "pairs" and r["contestant"] == WEIR]
    stalls = [r for r in race.records if r["kind"] == "stall" and r["contestant"] == WEIR]
    waits = [r["case"] for r in stalls if r["waited"]]
    worst = f"{max(same):.2f}" if same else NONE
    return [
        ("roomy cost of PyTorch native / Weir, geometric mean", "at least 5 (goal 8)",
         shown(mean(cost(NATIVE)), 1), cost(NATIVE) and mean(cost(NATIVE)) >= 5),
        ("roomy cost of PyTorch expandable / Weir, geometric mean", "at least 5 (goal 8)",
         shown(mean(cost(EXPANDABLE)), 1), cost(EXPANDABLE) and mean(cost(EXPANDABLE)) >= 5),
        ("cost of Weir / expandable at expandable's least capacity, geometric mean, worst trace",
         "at most 0.5", f"{shown(mean(same), 2)}, {worst}", same and max(same) <= 0.5),
        ("hot pair, the slowest size, ns", "at most 60 (goal 40)",
         shown(max(pairs) if pairs else None, 1), pairs and max(pairs) <= 60),
        ("least capacity / peak requested, geometric mean", "at most 1.015",
         shown(mean(least), 4), least and mean(least) <= 1.015),
        ("least capacity / peak requested, worst trace", "at most 1.03",
         shown(max(least) if least else None, 4), least and max(least) <= 1.03),
        ("allocator calls that waited for a running kernel", "none",
         "; ".join(waits) if waits else "none" if stalls else NONE, stalls and not waits)]


def targets(race):
    rows = [[what, wanted, got, "not measured" if NONE in got else "yes" if met else "**no**"]
            for what, wanted, got, met in target_rows(race)]
    return table(["what", "target", "measured", "met"], rows)


# ---------------------------------------------------------------------------------------- events --


def same_capacity(race):
    names = [name for name in race.contestants("replay")
             if any(race.at_peer(name, trace) for trace in race.traces())]
    if not names:
        return ""
    rows = []
    for trace in race.traces():
        ours, theirs = race.at_peer(WEIR, trace), race.at_peer(EXPANDABLE, trace)
        rows.append([trace, shown(race.least(EXPANDABLE, trace), 4)] +
                    [shown(race.at_peer(name, trace)) for name in names] +
                    [shown(ours / theirs if ours and theirs else None, 2)])
    ratio = ratios(race, lambda t: race.at_peer(WEIR, t), lambda t: race.at_peer(EXPANDABLE, t))
    rows.append(["**geometric mean**", shown(mean(race.least(EXPANDABLE, t)
                                                  for t in race.traces()), 4)] +
                [mean_cell([race.at_peer(name, t) for t in race.traces()], 0) for name in names] +
                [shown(mean(ratio), 2)])
    return table(["trace", "capacity / peak"] + head_of(names) + ["Weir / expandable"], rows)


def latencies(race):
    rows = []
    for name in race.contestants("latency"):
        records = [race.get("latency", name, trace) for trace in race.traces()]
        records = [record for record in records if record]
        middle = [shown(mean(r[key] for r in records), 0)
                  for key in ("p50_ns", "p99_ns", "p999_ns")]
        worst = max(records, key=lambda record: record["worst_ns"])
        rows.append([SHORT.get(name, name)] + middle +
                    [f"{worst['worst_ns'] / 1e3:,.0f} ({worst['trace']})", str(len(records))])
    return table(["", "p50, ns", "p99, ns", "p99.9, ns", "worst call, µs", "traces"], rows)


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else \
        f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def pairs_table(race):
    sizes = sorted(race.distinct("pairs", "bytes"))
    rows = [[SHORT.get(name, name)] +
            [shown(race.value("ns_per_pair", "pairs", name, size=size), 1) for size in sizes]
            for name in race.contestants("pairs")]
    return table(["ns per pair"] + [size_text(size) for size in sizes], rows)


def threads_table(race):
    counts = sorted(race.distinct("threads", "threads"))
    rows = []
    for name in race.contestants("threads"):
        rates = [race.value("pairs_per_s", "threads", name, threads=count) for count in counts]
        rows.append([SHORT.get(name, name)] +
                    [shown(rate / 1e6 if rate else None, 2) for rate in rates])
    return table(["million pairs a second, threads:"] + [str(count) for count in counts], rows)


def stall_cell(record):
    if record is None:
        return NONE
    text = f"{record['longest_us']:,.0f} / {record['gap_us']:,.0f}"
    if not record["met"]:
        text += ", refused"
    return f"**{text}, waited**" if record["waited"] else text


def stalls_table(race):
    names = race.contestants("stall")
    rows = [[case] + [stall_cell(race.get("stall", name, case=case)) for name in names]
            for case in race.distinct("stall", "case")]
    return table(["longest call, µs / longest gap, µs"] + head_of(names), rows)


# ----------------------------------------------------------------------------------- predictions --


def call_cells(predicted, measured):
    kinds = sorted(set(predicted) | set(measured))
    differ = [f"{kind} {predicted.get(kind, 0):,} → {measured.get(kind, 0):,}" for kind in kinds
              if predicted.get(kind, 0) != measured.get(kind, 0)]
    return [shown(sum(predicted.values())), shown(sum(measured.values())),
            ", ".join(differ) if differ else "equal"]


def prediction_rows(race, capacity):
    rows = []
    for trace in race.traces():
        said = race.get("prediction", None, trace, capacity)
        seen = race.get("calls", WEIR, trace, capacity)
        if not said or not seen:
            continue
        driver = [said["driver_ns_per_op"], seen["driver_ns_per_op"]]
        whole = [(said["host_ns_per_op"] or 0) + driver[0],
                 race.value("ns_per_op", "replay", WEIR, trace, capacity)]
        rows.append([trace] + call_cells(said["driver_calls"], seen["driver_calls"]) +
                    [shown(driver[0]), shown(driver[1]),
                     shown(driver[1] / driver[0] if driver[0] else None, 2),
                     shown(whole[0]), shown(whole[1])])
    return rows


def predictions(race, capacity):
    rows = prediction_rows(race, capacity)
    return table(["trace", "calls predicted", "counted", "which differ",
                  "driver ns per op predicted", "measured", "measured / predicted",
                  "all ns per op predicted", "measured"], rows)


def kinds_table(race):
    """What one call of a kind took against what the table of the simulator says, all traces."""
    sums = {}
    for capacity in ("roomy", "1.02"):
        for trace in race.traces():
            for side, record in (("said", race.get("prediction", None, trace, capacity)),
                                 ("seen", race.get("calls", WEIR, trace, capacity))):
                for kind, ns in ((record or {}).get("driver_call_ns") or {}).items():
                    row = sums.setdefault(kind, {"said": [0, 0], "seen": [0, 0]})[side]
                    row[0] += ns
                    row[1] += record["driver_calls"][kind]
    rows = []
    for kind, sides in sums.items():
        each = {side: ns / count / 1e3 for side, (ns, count) in sides.items() if count}
        if len(each) == 2:
            rows.append([kind, shown(sides["seen"][1]), shown(each["said"], 2),
                         shown(each["seen"], 2), shown(each["seen"] / each["said"], 2)
                         if each["said"] else NONE])
    return table(["call", "counted", "predicted, µs each", "measured, µs each", "ratio"],
                 rows)


# -------------------------------------------------------------------------------------- document --


def failures(race):
    rows = []
    for record in race.records:
        if record["kind"] in ("failure", "skipped"):
            rows.append([record.get("contestant", ""),
                         record.get("trace") or record.get("event") or "",
                         record.get("what") or "left out for want of time: " + record["part"]])
    return table(["contestant", "where", "what"], rows) if rows else "Nothing failed."


def versions(machine):
    parts = [f"{name} {machine[key]}" for name, key in (("PyTorch", "torch"), ("CuPy", "cupy"))
             if machine.get(key)]
    return "; " + ", ".join(parts) if parts else ""


SECTIONS = [
    ("What had to be shown", "", targets),
    ("Memory held, no limit", "Most memory held of the device / most requested at once.",
     lambda race: by_trace(race, race.contestants("replay"), race.reserved, 4)),
    ("Least capacity", "The least limit with which the trace completes / most requested at once, "
     "to 0.1 %. PyTorch's cudaMallocAsync backend is absent: its limit counts the bytes in use, "
     "not those held.",
     lambda race: by_trace(race, race.contestants("capacity"), race.least, 4)),
    ("Cost, no limit", "ns per operation, host and driver, the best of three runs from an empty "
     "allocator; what the loop itself takes is taken away.",
     lambda race: by_trace(race, race.contestants("replay"), race.roomy, 0)),
    ("Cost at 1.02 x the peak", "ns per operation; a dash where the trace does not complete.",
     lambda race: by_trace(race, race.contestants("replay"), lambda name, trace: race.value(
         "ns_per_op", "replay", name, trace, "1.02"), 0)),
    ("Cost at the same capacity", "ns per operation at the least capacity of PyTorch's expandable "
     "segments, trace by trace.", same_capacity),
    ("Cost at their own least capacity", "ns per operation.",
     lambda race: by_trace(race, race.contestants("capacity"), lambda name, trace: race.value(
         "ns_per_op", "replay", name, trace, "least"), 0)),
    ("Latency of one call", "Of all calls of a run without a limit: geometric means over the "
     "traces, and the worst call of all.", latencies),
    ("Hot pairs", "One block allocated and freed a million times, one thread on one processor.",
     pairs_table),
    ("Threads", "Pairs of 1 MiB, a stream a thread, one allocator.", threads_table),
    ("Stalls", "Calls beside a kernel of 100 ms on another stream: the longest call, and the "
     "longest gap between two kernels of a chain on that stream while the same calls were made. "
     "*Waited*: the kernel was over when the calls were. *Refused*: the allocator had no memory "
     "for the request. The first row has no call: it is what the device itself does.",
     stalls_table),
    ("The simulator's prediction, no limit", "Driver calls of Weir vmm as the simulated device "
     "foretold them and as they were counted on the GPU, and their time. Predicted times are those "
     "of the table in docs/backend.md; the host's part of the last but one column was measured "
     "where the prediction was made. Measured driver time has two looks at the clock in each call, "
     "some 50 ns.", lambda race: predictions(race, "roomy")),
    ("The simulator's prediction, at 1.02 x the peak", "", lambda race: predictions(race, "1.02")),
    ("The simulator's table beside the card", "All traces, without a limit and at 1.02 x.",
     kinds_table),
    ("What failed or was left out", "", failures)]


def section(race, title, text, make):
    body = make(race)
    return "\n\n".join(part for part in (f"### {title}", text, body) if part) if body else ""


def one_race(race):
    race = Race(race)
    m = race.machine
    head = (f"## {m['gpu']}, driver {m['driver']}, {m['date']}\n\n"
            f"Commit {m['commit']}; {m['cpu']}, {m['cores']} cores, Linux {m['kernel']}"
            f"{versions(m)}. Shards: {', '.join(race.shards)}.")
    parts = []
    for title, text, make in SECTIONS:
        try:
            parts.append(section(race, title, text, make))
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            parts.append(f"### {title}\n\nNo table: {type(error).__name__}: {error}")
    return "\n\n".join([head] + [part for part in parts if part])


INTRODUCTION = """# Results on GPUs

Recorded runs of real models, replayed with real memory through Weir and through other allocators,
on the same machine, by the same loop. `bench/gpu/README.md` says how, and what makes it fair;
`bench/race.sh` does it again. This file is written by `bench/race.sh --merge`.

An operation is a line of the trace: an allocation, a free, or the end of a use elsewhere. Means are
geometric; where a contestant did not complete all traces, the number of those that count is told.
"""


def document(races):
    return "\n".join([INTRODUCTION, "\n\n".join(one_race(race) for race in races), ""])
