# SPDX-License-Identifier: MIT
"""The C runtime through ctypes: libweir_runtime.so, weir_runtime.h.

There must be one runtime in a process. So a library that is loaded already (by the preload shim, or
by another framework) is used before any file is looked for.
"""
import ctypes
import os
import threading

ABI = 1
NO_MEMORY = 2
LOST = 10

_int, _u64, _text = ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p
_u64p, _intp = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_int)


class WeirError(RuntimeError):
    """What Weir could not do, in a sentence. `status` is the number of the runtime's answer, 0
    where the runtime was not asked."""

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status


class Amount(ctypes.Structure):
    """weir_runtime_amount"""

    _fields_ = [(name, _u64) for name in ("current", "peak", "added", "taken")]


class Stats(ctypes.Structure):
    """weir_runtime_stats"""

    _fields_ = ([("size", _u64)]
                + [(name, Amount * 3) for name in ("allocations", "allocated", "requested")]
                + [(name, Amount) for name in ("reserved", "segments", "pending")]
                + [(name, _u64) for name in ("limit", "ooms", "retries", "device_allocs",
                                             "device_frees", "host_waits", "stream_waits", "moves",
                                             "rescues")])


StackSource = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)

# name: (what it returns, what it takes), without the prefix weir_runtime_
CALLS = {
    "abi": (_int, []),
    "status_name": (_text, [_int]),
    "why": (_text, []),
    "configure": (_int, [_text]),
    "start": (_int, [_int]),
    "started": (_int, [_int]),
    "stop": (_int, [_int]),
    "promise": (None, [ctypes.c_uint]),
    "alloc": (_int, [_int, _u64, _u64, _u64p]),
    "free": (_int, [_u64, _u64]),
    "use": (_int, [_u64, _u64]),
    "find": (_int, [_u64, _intp, _u64p, _u64p]),
    "owns": (_int, [_u64]),
    "pin": (_int, [_u64]),
    "stream_end": (_int, [_u64]),
    "trim": (_int, [_int, _u64, _u64p]),
    "limit": (_int, [_int, _u64]),
    "limit_part": (_int, [_int, ctypes.c_double]),
    "memory": (_int, [_int, _u64p, _u64p]),
    "stats_read": (_int, [_int, ctypes.POINTER(Stats)]),
    "stats_reset_peaks": (_int, [_int]),
    "stats_reset_totals": (_int, [_int]),
    "summary": (ctypes.c_size_t, [_int, _text, ctypes.c_size_t]),
    "oom": (ctypes.c_size_t, [_int, _text, ctypes.c_size_t]),
    "conf": (ctypes.c_size_t, [_text, ctypes.c_size_t]),
    "leaks": (ctypes.c_size_t, [_int, ctypes.c_uint, _text, ctypes.c_size_t]),
    "snapshot": (_int, [_text]),
    "history": (_int, [_u64]),
    "metadata": (_int, [_text]),
    "stack": (ctypes.c_uint32, [ctypes.POINTER(_text), _intp, ctypes.POINTER(_text),
                                ctypes.c_size_t]),
    "stack_from": (None, [StackSource, ctypes.c_void_p]),
    "stack_native": (ctypes.c_uint32, [ctypes.c_void_p]),
    "trace": (_int, [_text]),
}
SONAME = "libweir_runtime.so.1"


class Library:
    """The runtime's calls as attributes, and the file that they come from."""

    def __init__(self, loaded, path):
        self.path = path
        self.loaded = loaded
        for name, (returns, takes) in CALLS.items():
            try:
                function = getattr(loaded, "weir_runtime_" + name)
            except AttributeError:
                raise WeirError(f"{path} is no runtime of Weir: it lacks weir_runtime_{name}") \
                    from None
            function.restype, function.argtypes = returns, takes
            setattr(self, name, function)
        if self.abi() != ABI:
            raise WeirError(f"{path} speaks version {self.abi()} of the runtime's interface and "
                            f"this package version {ABI}: install the two of one version")


class _Where(ctypes.Structure):
    """Dl_info"""

    _fields_ = [("file", _text), ("base", ctypes.c_void_p), ("name", _text),
                ("address", ctypes.c_void_p)]


def _file_of(function):
    """The path of the library that a function is in."""
    where = _Where()
    address = ctypes.cast(function, ctypes.c_void_p)
    if ctypes.CDLL(None).dladdr(address, ctypes.byref(where)) and where.file:
        return os.fsdecode(where.file)
    return ""


def _present():
    """The runtime that this process has already, whoever loaded it and however; None if there is
    none."""
    whole = ctypes.CDLL(None)
    if hasattr(whole, "weir_runtime_abi"):
        return whole
    try:
        return ctypes.CDLL(SONAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def _candidates():
    """Files to try, in order; a name without a slash is looked for by the loader. The preload shim
    has its runtime beside it."""
    named = os.environ.get("WEIR_RUNTIME_LIBRARY")
    if named:
        return [named]
    shims = [path for path in os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
             if os.path.basename(path).startswith("libweir_preload.so")]
    folders = [os.path.dirname(path) for path in shims if "/" in path]
    folders.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
    beside = [os.path.join(folder, SONAME) for folder in folders]
    return [path for path in beside if os.path.exists(path)] + [SONAME]


def _load():
    present = _present()
    if present is not None:
        return Library(present, _file_of(present.weir_runtime_abi))
    for path in _candidates():
        try:
            loaded = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reason = error
            continue
        if not hasattr(loaded, "weir_runtime_abi"):
            raise WeirError(f"{path} is no runtime of Weir: it lacks weir_runtime_abi")
        return Library(loaded, _file_of(loaded.weir_runtime_abi) or path)
    raise WeirError("the library libweir_runtime.so was not found: install weir-gpu, or name the "
                    f"file in WEIR_RUNTIME_LIBRARY ({reason})")


_lock = threading.Lock()
_library = None
after_load = []  # called once, when the runtime is there


def library():
    """The runtime, loaded once."""
    global _library  # pylint: disable=global-statement
    if _library is None:
        with _lock:
            loaded = _library is None
            if loaded:
                _library = _load()
        if loaded:
            for act in after_load:
                act()
    return _library


def why():
    """The sentence of this thread's last call that failed."""
    return os.fsdecode(library().why() or b"") or "no reason was given"


def call(name, *args, out=0):
    """Makes a call that answers with a status; raises where it is not 0. With `out` that many
    results are returned: one as an int, several as a tuple."""
    function = getattr(library(), name)
    results = [ctypes.c_uint64() for _ in range(int(out))]
    status = function(*args, *[ctypes.byref(result) for result in results])
    if status != 0:
        raise WeirError(why(), status)
    if not results:
        return None
    return results[0].value if len(results) == 1 else tuple(r.value for r in results)


def text(name, *args):
    """The text of a call that writes into a buffer, however long it is."""
    function = getattr(library(), name)
    room = function(*args, None, 0) + 1
    while True:
        buffer = ctypes.create_string_buffer(room)
        needs = function(*args, buffer, room)
        if needs < room:
            return buffer.value.decode(errors="replace")
        room = needs + 256


def allocate(device, size, stream):
    """An address; raises WeirError, whose status is NO_MEMORY where that was the reason."""
    return call("alloc", device, size, stream, out=1)


def free(address, stream):
    """Frees in the order of the stream. Called from finalizers: where the process is ending, or is
    the child of a fork, there is nothing to do."""
    status = library().free(address, stream)
    if status not in (0, LOST):
        raise WeirError(why(), status)
