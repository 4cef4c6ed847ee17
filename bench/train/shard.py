# SPDX-License-Identifier: MIT
"""Trains real models under PyTorch's native allocator, its expandable segments, and Weir, and
writes one JSON of what came out.

    shard.py --out DIR [--shard N/M] [--only vit,moe] [--steps N] [--seconds S] [--cap 24]

Each workload has a process for each allocator; all three live at once and take turns of a few
steps, in an order that rotates. So each step of one allocator has its twin in the others, made a
moment before or after. Only one of them computes at a time. The next workload's processes load
their libraries meanwhile.

What fails, hangs or finds no time is a result and written down; the others go on.
"""
import argparse
import datetime
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "integrations", "python", "src")
STARTUP = os.path.join(HERE, "..", "..", "integrations", "python", "startup")
ORDER = ["vit", "bert", "gpt2", "lora", "generate", "maskrcnn", "moe", "streams", "unet"]
ALLOCATORS = ["native", "expandable", "weir"]
CHUNK = 3          # steps of a turn
WORTH = 20         # seconds that a workload needs at least, its start included
CAP_SECONDS = 75   # for the largest batch under a cap


class Died(Exception):
    """A worker did not answer, or is gone."""


def put_weir_under(command, environment, args):
    """By `weir run`; else by what that sets, the preload shim and Python's start-up hook; else by a
    call in the program."""
    if args.weir:
        return [args.weir, "run", "--", *command]
    if args.preload:
        environment["LD_PRELOAD"] = args.preload
        environment["PYTHONPATH"] = STARTUP + os.pathsep + environment["PYTHONPATH"]
        return command
    return [*command, "--enable"]


class Process:
    """One worker."""

    def __init__(self, name, workload, args, log):
        self.name, self.rest = name, b""
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "WEIR_CONF")}
        environment.update(PYTHONDONTWRITEBYTECODE="1", CUBLAS_WORKSPACE_CONFIG=":4096:8",
                           HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        if name == "expandable":
            environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        environment["PYTHONPATH"] = os.pathsep.join(
            [PACKAGE, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, os.path.join(HERE, "worker.py"), workload]
        if name == "weir":
            command = put_weir_under(command, environment, args)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, env=environment, cwd=HERE)

    def say(self, **command):
        try:
            self.process.stdin.write((json.dumps(command) + "\n").encode())
            self.process.stdin.flush()
        except OSError as error:
            raise Died(f"the worker is gone: {error}") from error

    def hear(self, seconds):
        """The next event, or Died."""
        until = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Died(f"no answer within {seconds:.0f} s")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise Died(f"the worker ended with {self.process.wait(30)}")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        """Ends it, by force if it must be."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Team:
    """The processes of one workload, one for each allocator; started ahead of their turn."""

    def __init__(self, args, workload, log):
        self.workload, self.log, self.args = workload, log, args
        self.members = [Process(name, workload, args, log)
                        for name in args.allocators.split(",")]

    def close(self):
        for member in self.members:
            member.close()


def together(workers, act):
    """act(worker) for all at once; what each returned, by name."""
    results = {}

    def one(worker):
        results[worker.name] = act(worker)

    threads = [threading.Thread(target=one, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Race:
    """One workload, under all allocators."""

    def __init__(self, team, args, until):
        self.team, self.args, self.until = team, args, until
        self.runs = {member.name: {"seconds": [], "values": []} for member in team.members}
        self.alive = list(team.members)

    def left(self):
        return self.until - time.monotonic()

    def lose(self, member, what, **known):
        """The allocator has no part in this workload any more."""
        self.runs[member.name]["failed"] = {"what": what, **known}
        self.alive = [other for other in self.alive if other is not member]
        member.close()

    def ask(self, member, kind, seconds, **command):
        """The fields of the answer if it is of that kind, or None: then the member is out."""
        try:
            if command:
                member.say(**command)
            event = member.hear(max(1.0, seconds))
        except (Died, ValueError) as died:
            self.lose(member, str(died))
            return None
        found = event.pop("event")
        if found == kind:
            return event
        self.lose(member, event.pop("what", f"{found} where {kind} was expected"), **event)
        return None

    def begin(self, member):
        up = self.ask(member, "up", min(90, self.left()))
        if up is None:
            return
        ready = self.ask(member, "ready", min(90, self.left()), do="start",
                         workload=self.team.workload, device=self.args.device,
                         size=self.args.size)
        if ready is not None:
            self.runs[member.name].update(up, **ready)

    def turn(self, member, first, last):
        event = self.ask(member, "steps", min(60, self.left() + 20), do="steps",
                         **{"from": first, "to": last})
        if event is not None:
            self.runs[member.name]["seconds"] += event["seconds"]
            self.runs[member.name]["values"] += event["values"]

    def rounds(self):
        """Turns until the steps are made or the time is up. Rounds are made whole."""
        step, turn, longest = 0, 0, 0.0
        while step < self.args.steps and self.alive and self.left() > 1.3 * longest + 2:
            begun, last = time.monotonic(), min(step + CHUNK, self.args.steps)
            at = turn % len(self.alive)
            for member in self.alive[at:] + self.alive[:at]:
                self.turn(member, step, last)
            longest = max(longest, time.monotonic() - begun) if step else 0.0
            step, turn = last, turn + 1

    def end(self, member):
        event = self.ask(member, "ended", 30, do="end", digest=True)
        if event is not None:
            self.runs[member.name].update(event)

    def run(self):
        begun = time.monotonic()
        together(self.team.members, self.begin)
        started = time.monotonic()
        self.rounds()
        together(list(self.alive), self.end)
        return {"workload": self.team.workload, "runs": self.runs,
                "start_seconds": started - begun, "all_seconds": time.monotonic() - begun}


class Cap:
    """The largest ViT batch that trains under a cap of memory: bisection, each try from the
    beginning."""

    def __init__(self, team, args, until):
        self.team, self.args, self.until = team, args, until
        self.step, self.low, self.high = (16, 14, 30) if args.size == "full" else (1, 1, 5)

    def fits(self, member, batch):
        """Whether six steps can be made; Died where it is not memory that is missing."""
        event = member.hear(90)
        member.say(do="start", workload="vit", device=self.args.device, size=self.args.size,
                   cap_bytes=int(self.args.cap * 2**30), options={"batch": batch})
        event = member.hear(60)
        if event["event"] == "ready":
            member.say(do="steps", **{"from": 0, "to": 6})
            event = member.hear(60)
        if event["event"] == "failed" and not event["out_of_memory"]:
            raise Died(event["what"])
        return event["event"] == "steps"

    def search(self, first):
        low, high, tries, spare = self.low, self.high, [], first
        try:
            while high - low > 1 and time.monotonic() < self.until:
                middle, member = (low + high) // 2, spare
                spare = Process(first.name, "vit", self.args, self.team.log)
                try:
                    good = self.fits(member, middle * self.step)
                finally:
                    member.close()
                tries.append([middle * self.step, good])
                low, high = (middle, high) if good else (low, middle)
        except (Died, ValueError) as died:
            return {"failed": str(died), "tries": tries}
        finally:
            spare.close()
        return {"largest_batch": low * self.step, "step": self.step, "tries": tries,
                "finished": high - low == 1 and [low * self.step, True] in tries}

    def run(self):
        found = together(self.team.members, self.search)
        return {"workload": "vit_cap", "cap_bytes": int(self.args.cap * 2**30), "runs": found}


def said(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        return done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine(args):
    gpu = said("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
               "--format=csv,noheader", "--id=0")
    commit = args.commit or said("git", "-C", HERE, "describe", "--always", "--dirty",
                                 "--abbrev=12")
    return {"gpu": gpu or "none", "commit": commit or "unknown", "python": sys.version.split()[0],
            "date": datetime.date.today().isoformat()}


def chosen(args):
    """The workloads of this shard; the cap is one of them."""
    names = args.only.split(",") if args.only else ORDER + (["vit_cap"] if args.cap else [])
    wrong = [name for name in names if name not in ORDER + ["vit_cap"]]
    if wrong:
        sys.exit(f"shard.py: no workload {wrong[0]}; there are {', '.join(ORDER)}, vit_cap")
    part, parts = (int(number) for number in args.shard.split("/"))
    if not 1 <= part <= parts:
        sys.exit(f"shard.py: --shard {args.shard} is not N/M with 1 <= N <= M")
    return names[part - 1::parts]


def command_line():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--shard", default="1/1")
    parser.add_argument("--only", default="", help="workloads, with commas")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=450.0, help="for all of the shard")
    parser.add_argument("--cap", type=float, default=24.0, help="GiB for vit_cap; 0: leave it out")
    parser.add_argument("--allocators", default=",".join(ALLOCATORS))
    parser.add_argument("--weir", default=os.environ.get("WEIR_COMMAND", shutil.which("weir")),
                        help="the command for `weir run`")
    parser.add_argument("--preload", default=os.environ.get("WEIR_PRELOAD", ""),
                        help="without it: the preload shim, beside its runtime; without both "
                        "Weir is put in place by weir.torch.enable()")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", default="full", choices=["full", "tiny"])
    parser.add_argument("--commit", default="")
    return parser.parse_args()


def run_all(args, names, begun, log, write):
    """Each workload gets its share of the time that is left; the next one's team is started
    ahead."""
    least = WORTH / (1 if args.size == "full" else 10)
    team = Team(args, names[0], log) if names else None
    try:
        for number, name in enumerate(names):
            left = args.seconds - (time.monotonic() - begun)
            share = left / (len(names) - number)
            if left < least:
                write({"workload": name, "left_out": "no time was left"})
                continue
            print(f"{name}: at most {share:.0f} s of {left:.0f}", file=sys.stderr, flush=True)
            now, until = team, time.monotonic() + share
            team = Team(args, names[number + 1], log) if number + 1 < len(names) else None
            try:
                if name == "vit_cap":
                    until = time.monotonic() + min(left - 10, CAP_SECONDS)
                    write(Cap(now, args, until).run())
                else:
                    write(Race(now, args, until).run())
            finally:
                now.close()
    finally:
        if team:
            team.close()


def main():
    args = command_line()
    names = chosen(args)
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, "train-" + (args.only or args.shard).replace("/", "-of-")
                        .replace(",", "-"))
    results = {"schema": "weir.train/1", "machine": machine(args), "workloads": [],
               "how": "`weir run`" if args.weir else "the environment" if args.preload
               else "`enable()`", "size": args.size}
    begun = time.monotonic()

    def write(result=None):
        """The file is whole after each workload, whatever happens to the next."""
        if result:
            results["workloads"].append(result)
        with open(stem + ".json.part", "w", encoding="utf-8") as file:
            json.dump(results, file)
        os.replace(stem + ".json.part", stem + ".json")

    with open(stem + ".log", "w", encoding="utf-8") as log:
        try:
            run_all(args, names, begun, log, write)
        finally:
            results["seconds"] = time.monotonic() - begun
            write()
    print(stem + ".json")


if __name__ == "__main__":
    main()
