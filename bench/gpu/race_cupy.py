# SPDX-License-Identifier: MIT
"""CuPy's memory pool in the race, through Python: its figures hold the interpreter's own time too,
as far as an empty loop of the same kind does not take it away again.

    race_cupy.py replays [--times N] TRACE...
    race_cupy.py pairs [--count N]

Results are lines of JSON as racer writes them.
"""
import gc
import gzip
import json
import os
import sys
import time

NAME = "CuPy pool, through Python"
SIZES = [512, 64 << 10, 1 << 20, 16 << 20, 256 << 20]
now = time.perf_counter_ns


def put(kind, **fields):
    print(json.dumps({"kind": kind, "contestant": NAME, **fields}), flush=True)


def pin():
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[min(1, len(cpus) - 1)]})


# ---------------------------------------------------------------------------------------- traces --


class Trace:
    """steps: (slot, bytes to allocate or 0 to free)."""

    def __init__(self, path):
        self.name = os.path.basename(path).split(".csv")[0]
        self.lines = self.peak = live = slots = 0
        self.steps, owner, unused, streams = [], {}, [], set()
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rt") as file:
            for line in file:
                if line.startswith("#"):
                    continue
                op, block, size, stream, _ = line.split(",")
                streams.add(stream)
                self.lines += 1
                if op == "a":
                    if unused:
                        owner[block] = unused.pop()
                    else:
                        owner[block], slots = slots, slots + 1
                    live += int(size)
                    self.peak = max(self.peak, live)
                    self.steps.append((owner[block], int(size)))
                elif op == "f":
                    slot = owner.pop(block)
                    unused.append(slot)
                    live -= int(size)
                    self.steps.append((slot, 0))
        if len(streams) > 1:
            raise ValueError(f"{path}: CuPy's pool knows no use on a second stream")
        self.slots = slots


class Full(Exception):
    pass


def play(trace, malloc, full):
    """The time of the loop; the blocks end with it."""
    table = [None] * trace.slots
    try:
        start = now()
        for slot, size in trace.steps:
            table[slot] = malloc(size) if size else None
        return now() - start
    except full as error:
        raise Full() from error
    finally:
        table.clear()


def play_ticks(trace, malloc):
    table, ticks = [None] * trace.slots, []
    for slot, size in trace.steps:
        if size:
            start = now()
            block = malloc(size)
            ticks.append(now() - start)
            table[slot] = block
            block = None
        else:
            start = now()
            table[slot] = None
            ticks.append(now() - start)
    return ticks


class Nobody:
    """Makes an object and lets it go, as a pool's caller in Python must."""

    def __init__(self, size):
        self.size = size


class Entrant:
    def __init__(self):
        import cupy

        self.cupy = cupy
        self.full = cupy.cuda.memory.OutOfMemoryError
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.pool = None

    def reset(self, cap=0):
        if self.pool is not None:
            self.pool.free_all_blocks()
        self.pool = self.cupy.cuda.MemoryPool()
        if cap:
            self.pool.set_limit(size=cap)
        return self.pool.malloc

    def completes(self, trace, cap):
        try:
            play(trace, self.reset(cap), self.full)
            return True
        except Full:
            return False


def replay_record(trace, capacity, cap, runs, empty, pool):
    best = min(runs) if runs else None
    held = pool.total_bytes()
    put("replay", trace=trace.name, capacity=capacity, capacity_bytes=cap, ops=trace.lines,
        peak_requested_bytes=trace.peak, completed=bool(runs),
        ns_per_op=None if best is None else round(max(0, best - empty) / trace.lines, 1),
        runs_ns_per_op=[round((run - empty) / trace.lines, 1) for run in runs],
        empty_ns_per_op=round(empty / trace.lines, 2), peak_reserved_bytes=held,
        reserved_ratio=round(held / trace.peak, 4))
    return held


def timed(entrant, trace, capacity, cap, times, empty):
    runs = []
    try:
        for _ in range(times):
            runs.append(play(trace, entrant.reset(cap), entrant.full))
    except Full:
        runs = []
    return replay_record(trace, capacity, cap, runs, empty, entrant.pool)


def latency(entrant, trace):
    empty = sorted(play_ticks(trace, Nobody))[len(trace.steps) // 2]
    ticks = play_ticks(trace, entrant.reset())
    worst = max(range(len(ticks)), key=ticks.__getitem__) + 1
    ticks.sort()
    rank = {key: max(0, ticks[int((len(ticks) - 1) * part)] - empty)
            for key, part in (("p50_ns", .5), ("p99_ns", .99), ("p999_ns", .999), ("worst_ns", 1))}
    put("latency", trace=trace.name, calls=len(ticks), worst_op=worst, **rank)


def search(entrant, trace, roomy):
    below, least, runs = trace.peak - 1, None, 0
    cap = max(roomy, trace.peak)
    while least is None and runs < 6:
        runs += 1
        if entrant.completes(trace, cap):
            least = cap
        else:
            below, cap = cap, cap + cap // 50
    step = max(1, trace.peak // 1000)
    while least is not None and least - below > step:
        cap = below + (least - below) // 2
        runs += 1
        if entrant.completes(trace, cap):
            least = cap
        else:
            below = cap
    put("capacity", trace=trace.name, least_capacity_bytes=least or 0, runs=runs,
        least_capacity_ratio=round(least / trace.peak, 4) if least else None,
        below_ratio=round(below / trace.peak, 4), settled=least is not None)
    return least


def replays(entrant, paths, times):
    for path in paths:
        name = os.path.basename(path).split(".csv")[0]
        put("begin", trace=name)
        try:
            trace = Trace(path)
            gc.freeze()  # the trace's own objects are none that the pool should look through
            empty = min(play(trace, Nobody, Full) for _ in range(3))
            roomy = timed(entrant, trace, "roomy", 0, times, empty)
            latency(entrant, trace)
            least = search(entrant, trace, roomy)
            timed(entrant, trace, "1.02", trace.peak * 102 // 100, times, empty)
            if least:
                timed(entrant, trace, "least", least, times, empty)
            put("end", trace=name)
        except Exception as error:  # a failure is a result
            put("failure", trace=name, what=f"{type(error).__name__}: {error}")


# ----------------------------------------------------------------------------------------- pairs --


def pairs_ns(malloc, size, count):
    start = now()
    for _ in range(count):
        malloc(size)
    return (now() - start) / count


def pairs(entrant, count):
    for size in SIZES:
        malloc = entrant.reset()
        pairs_ns(malloc, size, 1000)
        empty = pairs_ns(Nobody, size, count)
        rounds = [pairs_ns(malloc, size, count // 10) for _ in range(10)]
        put("pairs", bytes=size, pairs=count // 10 * 10,
            ns_per_pair=round(sum(rounds) / 10 - empty, 1),
            best_ns_per_pair=round(min(rounds) - empty, 1), empty_ns_per_pair=round(empty, 1))


def main(argv):
    event, rest = argv[1], argv[2:]
    options = {"--times": 3, "--count": 100000}
    while rest and rest[0] in options:
        options[rest[0]], rest = int(rest[1]), rest[2:]
    try:
        entrant = Entrant()
        entrant.reset()(512)
    except Exception as error:
        put("failure", event=event, what=f"{type(error).__name__}: {error}".split("\n")[0])
        return
    pin()
    gc.disable()
    if event == "pairs":
        pairs(entrant, options["--count"])
    else:
        replays(entrant, rest, options["--times"])


main(sys.argv)
