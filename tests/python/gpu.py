# SPDX-License-Identifier: MIT
"""The Python package on a real GPU with the real frameworks: a list of checks, each a program in a
process of its own with a time limit.

    gpu.py [--only NAME,NAME] [--jobs N] [--json FILE] [--keep DIR] [--list]

Started by gpu.sh, which builds the runtime first. Prints a line for each check, ok, not ok with the
reason, or skipped with the reason, and ends with "N passed, N failed, N skipped"; 1 if any failed.
"""
import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from gpu_checks import CHECKS, ROUTES

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = os.path.join(ROOT, "integrations", "python")
SKIP = 77


def environment(check, route, folder):
    """What a check's program is given."""
    found = {key: value for key, value in os.environ.items()
             if not key.startswith(("PYTORCH_", "WEIR_CONF", "LD_PRELOAD"))}
    found.update(PYTHONPATH=os.path.join(PYTHON, "src"), PYTHONDONTWRITEBYTECODE="1", FOLDER=folder,
                 TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"), ROUTE=route or "",
                 STARTUP=os.path.join(PYTHON, "startup"), HF_HUB_OFFLINE="1")
    found.update(check.get("env", {}))
    return found


def run(name, route, check, keep):
    """(name, verdict, reason, seconds)"""
    title = f"{name} [{route}]" if route else name
    folder = tempfile.mkdtemp(prefix=f"{name}-", dir=keep)
    path = os.path.join(folder, "check.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(check["text"])
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               stdin=subprocess.DEVNULL, cwd=folder,
                               env=environment(check, route, folder))
    try:
        said, _ = process.communicate(timeout=check.get("seconds", 60))
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        code = "no end within its time"
    lines = [line for line in said.strip().splitlines() if line.strip()]
    with open(os.path.join(folder, "output"), "w", encoding="utf-8") as file:
        file.write(said)
    verdict = {0: "ok", SKIP: "skipped"}.get(code, "not ok")
    reason = lines[-1][:400] if lines else ""
    if verdict == "not ok":
        reason = f"{code}: {reason}"
    elif verdict == "ok" and not reason.startswith("figures:"):
        reason = ""
    return title, verdict, reason, time.monotonic() - begun


def chosen(only):
    """(name, route, check) for all that was asked for."""
    for name, check in CHECKS.items():
        if only and name not in only:
            continue
        for route in check.get("routes", [None]):
            yield name, route, check


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--json", default="")
    parser.add_argument("--keep", default="", help="where the programs and their output stay")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    todo = list(chosen([name for name in args.only.split(",") if name]))
    if args.list:
        print("\n".join(f"{name} [{route}]" if route else name for name, route, _ in todo))
        return 0
    keep = args.keep or tempfile.mkdtemp(prefix="weir-gpu-")
    os.makedirs(keep, exist_ok=True)
    # What the others wait for first, what measures time alone at the end.
    early = [one for one in todo if one[2].get("first")]
    late = [one for one in todo if one[2].get("alone")]
    middle = [one for one in todo if one not in early and one not in late]
    results = []

    def note(result):
        results.append(result)
        title, verdict, reason, seconds = result
        print(f"{verdict} {title} ({seconds:.1f} s)" + (f": {reason}" if reason else ""),
              flush=True)

    for name, route, check in early:
        note(run(name, route, check, keep))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        waiting = [pool.submit(run, name, route, check, keep) for name, route, check in middle]
        for done in concurrent.futures.as_completed(waiting):
            note(done.result())
    for name, route, check in late:
        note(run(name, route, check, keep))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "weir.python.gpu/1", "routes": ROUTES, "checks": [
                {"name": t, "verdict": v, "reason": r, "seconds": s} for t, v, r, s in results]},
                file, indent=1)
    count = [sum(verdict == word for _, verdict, _, _ in results)
             for word in ("ok", "not ok", "skipped")]
    print(f"{count[0]} passed, {count[1]} failed, {count[2]} skipped")
    return 1 if count[1] or not count[0] else 0


if __name__ == "__main__":
    sys.exit(main())
