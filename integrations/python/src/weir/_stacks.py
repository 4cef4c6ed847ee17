# SPDX-License-Identifier: MIT
"""Python's stacks for the history: the runtime asks for one at each allocation.

A stack is known by its code objects and places in them, so each is turned into names and lines
once, and then costs a walk over the frames and a look into a dict.
"""
import atexit
import ctypes
import os
import sys

from ._runtime import StackSource, library

DEPTH = 64       # innermost frames that are kept
STACKS = 65_536  # different ones; the runtime keeps no more
_HERE = os.path.dirname(os.path.abspath(__file__))
_known = {}
_running = False


def _intern(frames):
    """Gives the runtime a stack, innermost frame first."""
    count = len(frames)
    files = (ctypes.c_char_p * count)(*[os.fsencode(f.f_code.co_filename) for f in frames])
    lines = (ctypes.c_int * count)(*[f.f_lineno or 0 for f in frames])
    names = (ctypes.c_char_p * count)(*[f.f_code.co_name.encode() for f in frames])
    return library().stack(files, lines, names, count)


def current():
    """The number of the calling thread's stack, without this package's frames; 0 if there is
    none."""
    frames, key = [], []
    frame = sys._getframe(1)  # pylint: disable=protected-access
    while frame is not None and len(frames) < DEPTH:
        code = frame.f_code
        if not code.co_filename.startswith(_HERE):
            frames.append(frame)
            key.append(id(code))
            key.append(frame.f_lasti)
        frame = frame.f_back
    if not frames:
        return 0
    key = tuple(key)
    known = _known.get(key)
    if known is not None:
        return known[0]
    number = _intern(frames)
    if len(_known) < STACKS:
        _known[key] = number, [frame.f_code for frame in frames]  # so that no id is used again
    return number


@StackSource
def _source(_self):
    try:
        return current()
    except Exception:  # pylint: disable=broad-except # an allocation does not fail for its stack
        return 0


def _from(source):
    global _running  # pylint: disable=global-statement
    library().stack_from(source, None)
    if not _running:
        atexit.register(stop)
        _running = True


def start():
    """The runtime asks for Python's stacks from now on."""
    _from(_source)


def start_native():
    """It takes the machine's own stacks from now on."""
    _from(ctypes.cast(library().stack_native, StackSource))


def stop():
    """It asks no more: before the interpreter ends, too."""
    global _running  # pylint: disable=global-statement
    if _running:
        library().stack_from(StackSource(), None)
        atexit.unregister(stop)
        _running = False
