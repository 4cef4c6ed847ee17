# SPDX-License-Identifier: MIT
"""What a race needs besides the racing: the machine's description, the simulator's predictions, the
division into shards, and the merging of results into tables.

    race_results.py machine --commit C --shard S          one line of JSON
    race_results.py predict WEIR TRACES...                what `weir replay` foretells, as results
    race_results.py plan N M TRACES...                    the units of shard N of M, one a line
    race_results.py merge [--json FILE] FILES...          the tables, as Markdown

Results are lines of JSON. Those of one commit, machine and driver are one race.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import race_tables  # noqa: E402

# Seconds that a unit takes with all contestants: measured or, for traces, by their size.
TRACE_SECONDS_PER_MB_GZ = 20.0
TRACE_SECONDS_LEAST = 8.0
EVENT_SECONDS = {"pairs": 25, "stalls": 30, "threads": 20}


def said(command, seconds=20):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


# --------------------------------------------------------------------------------------- machine --


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return os.uname().machine


def version_of(package):
    code = f"import importlib.metadata as m; print(m.version('{package}'))"
    return said(["python3", "-c", code])


def machine(args):
    row = said(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                "--format=csv,noheader", "--id=0"])
    gpu, driver, memory = (row.split(", ") + ["", "", ""])[:3] if row else ("no GPU", "none", "")
    print(json.dumps({
        "kind": "machine", "schema": "weir.race/1", "commit": args.commit, "shard": args.shard,
        "gpu": gpu, "driver": driver, "gpu_memory": memory, "cpu": cpu_name(),
        "cores": os.cpu_count(), "kernel": os.uname().release,
        "torch": version_of("torch"), "cupy": version_of("cupy-cuda13x"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}))


# ------------------------------------------------------------------------------------ prediction --

PREDICTED = ["trace", "ops", "peak_requested_bytes", "peak_reserved_bytes", "failed_allocs",
             "host_ns_per_op", "driver_ns_per_op", "moved_handles", "host_waits", "driver_calls",
             "driver_call_ns"]


def predicted(weir, trace, capacity, conf):
    """A limit of the pool, not a smaller device: the device's memory decides about addresses."""
    environment = {key: text for key, text in os.environ.items() if key != "WEIR_CONF"}
    done = subprocess.run([weir, "replay", "--json", "--no-verify", *conf, trace],
                          capture_output=True, text=True, env=environment, check=False)
    if not done.stdout:
        raise SystemExit(f"weir replay {trace}: {done.stderr.strip()}")
    result = json.loads(done.stdout.splitlines()[0])
    print(json.dumps({"kind": "prediction", "capacity": capacity,
                      **{key: result.get(key) for key in PREDICTED}}))
    return result["peak_requested_bytes"]


def predict(args):
    for trace in args.traces:
        peak = predicted(args.weir, trace, "roomy", [])
        granules = peak * 102 // 100 >> 21
        predicted(args.weir, trace, "1.02", ["--conf", f"limit_mb:{granules * 2}"])


# ------------------------------------------------------------------------------------------ plan --


def unit_seconds(paths):
    units = dict(EVENT_SECONDS)
    for path in paths:
        name = os.path.basename(path).split(".csv")[0]
        units[name] = max(TRACE_SECONDS_LEAST,
                          os.path.getsize(path) / 1e6 * TRACE_SECONDS_PER_MB_GZ)
    return units


def shards(units, count):
    """The longest unit first, each to the shard that has least."""
    bins = [[] for _ in range(count)]
    for name in sorted(units, key=lambda name: (-units[name], name)):
        min(bins, key=lambda members: sum(units[m] for m in members)).append(name)
    return bins


def plan(args):
    units = unit_seconds(args.traces)
    members = shards(units, args.count)[args.number - 1]
    for name in members:
        print(name)
    print(f"shard {args.number}/{args.count}: about "
          f"{sum(units[name] for name in members):.0f} s: " +
          ", ".join(f"{name} {units[name]:.0f}" for name in members), file=sys.stderr)


# ----------------------------------------------------------------------------------------- merge --


def read_lines(paths):
    """Whole lines only: a shard that was stopped may end in half of one."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    yield path, json.loads(line)
                except ValueError:
                    print(f"{path}: a line that is no JSON was passed over", file=sys.stderr)


def group(paths):
    """Races by commit, machine and driver; the order is that of the files."""
    races, race, last = {}, None, None
    for path, record in read_lines(paths):
        if path != last:
            race, last = None, path
        if record.get("kind") == "machine":
            key = tuple(record[field] for field in ("commit", "gpu", "cpu", "driver"))
            race = races.setdefault(key, {"machine": record, "shards": [], "records": []})
            race["shards"].append(record["shard"])
        elif race is None:
            raise SystemExit(f"{path}: does not begin with its machine; it is no result of a shard")
        else:
            race["records"].append(record)
    return list(races.values())


def merge(args):
    races = group(args.files)
    if not races:
        raise SystemExit("no results")
    races.sort(key=lambda race: (race["machine"]["date"], len(race["records"])), reverse=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "weir.race/1", "races": races}, file, indent=1)
            file.write("\n")
    print(race_tables.document(races))


def main():
    parser = argparse.ArgumentParser(description="see the head of this file")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("machine")
    one.add_argument("--commit", default="unknown")
    one.add_argument("--shard", default="all")
    one.set_defaults(run=machine)
    one = commands.add_parser("predict")
    one.add_argument("weir")
    one.add_argument("traces", nargs="+")
    one.set_defaults(run=predict)
    one = commands.add_parser("plan")
    one.add_argument("number", type=int)
    one.add_argument("count", type=int)
    one.add_argument("traces", nargs="*")
    one.set_defaults(run=plan)
    one = commands.add_parser("merge")
    one.add_argument("--json")
    one.add_argument("files", nargs="+")
    one.set_defaults(run=merge)
    args = parser.parse_args()
    args.run(args)


main()
