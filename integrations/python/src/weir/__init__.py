# SPDX-License-Identifier: MIT
"""Weir for Python: what the pools of this process hold, and adapters that put PyTorch, CuPy, Numba,
cuda.core and RMM on them.

    import weir.torch
    weir.torch.enable()          # before the first use of CUDA
    ...
    print(weir.summary())        # PyTorch's table, Weir's numbers
    weir.record()                # from here on: the history, with Python's stacks
    print(weir.leaks(top=10))    # what is live, by the lines that allocated it
    weir.snapshot("x.pickle")    # for pytorch.org/memory_viz

Under `weir run -- python train.py` the adapters are put in place by themselves. All of them share
one pool for each GPU. Importing this package touches no GPU; every error is a weir.WeirError.
"""
import atexit
import os
import sys

from . import _stacks, _stats
from ._runtime import WeirError, after_load, call, library, text

__version__ = "0.1.0"
__all__ = ["WeirError", "conf", "configure", "leaks", "limit", "mem_get_info", "record",
           "reset_peaks", "snapshot", "stats", "stop_trace", "summary", "trace", "trim"]

HISTORY = 1_000_000  # entries that record() keeps if it is not told otherwise


def configure(settings):
    """Settings in place of the environment's WEIR_CONF, before the first allocation."""
    call("configure", None if settings is None else settings.encode())


def conf():
    """The settings in force."""
    return text("conf")


def stats(device=0):
    """A dict with the keys of torch.cuda.memory_stats and, under "weir.", what only Weir has."""
    return _stats.flat(_stats.read(device))


def reset_peaks(device=0):
    """Every peak is its current value again."""
    call("stats_reset_peaks", device)


def summary(device=0):
    """A table for people."""
    return text("summary", device)


def leaks(top=10, device=0):
    """The live blocks, the largest sum first: by the stack that allocated them where record() was
    on, else by size. `top` 0 means all."""
    return text("leaks", device, top)


def snapshot(path):
    """Writes what the pools hold, and the history, to a file: a pickle for pytorch.org/memory_viz,
    or JSON where the name ends in .json."""
    call("snapshot", os.fsencode(path))


def record(on=True, stacks="python", entries=HISTORY):
    """Keeps the last `entries` allocations and frees, with a stack for each allocation: "python",
    "native" (the machine's frames, for addr2line), or None. An allocation costs some microseconds
    more meanwhile."""
    sources = {"python": _stacks.start, "native": _stacks.start_native, None: _stacks.stop}
    if stacks not in sources:
        raise WeirError(f"record() knows no stacks of kind {stacks!r}: \"python\", \"native\" "
                        "or None")
    (sources[stacks] if on else _stacks.stop)()
    call("history", entries if on else 0)


def trace(path):
    """Records every operation from here on to a file that `weir replay` reads."""
    call("trace", os.fsencode(path))


def stop_trace():
    """Ends what trace() began."""
    call("trace", None)


def trim(device=-1, keep=0):
    """Gives free memory back until `keep` bytes are held; says how many were given back."""
    return call("trim", device, keep, out=True)


def limit(device=0, bytes=None, fraction=None):  # pylint: disable=redefined-builtin
    """The most that the pool may hold, in bytes or as a part of the device."""
    if (bytes is None) == (fraction is None):
        raise WeirError("limit() takes either bytes or a fraction")
    if bytes is not None:
        call("limit", device, bytes)
    else:
        call("limit_part", device, fraction)


def mem_get_info(device=0):
    """(free, total): what this process may still allocate, and all it may have under its limit."""
    return call("memory", device, out=2)


def library_path():
    """The file of the runtime that this process uses."""
    return library().path


def _print_leaks():
    """What is live when the interpreter begins to end: later, it has let go of all it knows. The
    runtime's own report, which comes then, would repeat what is left."""
    os.environ.pop("WEIR_LEAKS", None)
    _stacks.stop()
    for device in range(64):
        if library().started(device):
            sys.stderr.write(leaks(20, device))


def _watch_leaks():
    """WEIR_LEAKS=1: stacks from the beginning, and a report at the end."""
    if os.environ.get("WEIR_LEAKS", "0") not in ("", "0"):
        record(entries=1 << 16)
        atexit.register(_print_leaks)


after_load.append(_watch_leaks)
