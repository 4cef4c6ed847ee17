# SPDX-License-Identifier: MIT
"""What PyTorch asks its allocator in Python, answered by Weir.

PyTorch's functions stay as they are; replaced are the calls into C++ below them
(torch._C._cuda_...), so that memory_stats, memory_summary, memory_snapshot and the others give
Weir's numbers. On the full route the statistics come from C++ and only snapshots, history and
mem_get_info are done here.
"""
import functools
import os
import pickle
import tempfile
import threading
import warnings

from . import _stacks, _stats
from ._runtime import WeirError, call

ENTRIES_MOST = 1 << 22  # some 400 MB; PyTorch's default is sys.maxsize

_history = {"on": False}
_metadata = threading.local()
_fractions = {}


# ---------------------------------------------------------------------------- snapshots, history --


def _load_snapshot():
    """The runtime's snapshot as PyTorch's dict."""
    handle, path = tempfile.mkstemp(suffix=".pickle")
    os.close(handle)
    try:
        call("snapshot", os.fsencode(path))
        with open(path, "rb") as file:
            return pickle.load(file)
    finally:
        os.unlink(path)


def memory_snapshot(pool=None):
    """torch._C._cuda_memorySnapshot: of everything, or (hi, lo, with_traces) of one pool; (0, 0)
    means all."""
    found = _load_snapshot()
    if pool is None:
        return found
    wanted, traces = tuple(pool[:2]), pool[2] if len(pool) > 2 else True
    if wanted != (0, 0):
        found["segments"] = [segment for segment in found["segments"]
                             if tuple(segment["segment_pool_id"]) == wanted]
    if not traces:
        found["device_traces"] = [[] for _ in found["device_traces"]]
    return found


def record_memory_history(enabled, context="all", _stack_kinds="all", max_entries=ENTRIES_MOST,
                          *_more):
    """torch._C._cuda_record_memory_history: "state" and "all" are one here, and stacks are
    Python's."""
    if not enabled:
        _stacks.stop()
        call("history", 0)
    else:
        if context:
            _stacks.start()
        else:
            _stacks.stop()
        call("history", max(1, min(int(max_entries), ENTRIES_MOST)))
    _history["on"] = bool(enabled)


def record_memory_history_legacy(enabled, record_context=True, trace_alloc_max_entries=1,
                                 trace_alloc_record_context=False, *_more):
    """torch._C._cuda_record_memory_history_legacy"""
    stacks = record_context or trace_alloc_record_context
    record_memory_history(enabled, "all" if stacks else None, "all",
                          max(int(trace_alloc_max_entries), 1))


def is_history_enabled():
    """torch._C._cuda_isHistoryEnabled"""
    return _history["on"]


def set_memory_metadata(text):
    """torch._C._cuda_setMemoryMetadata"""
    call("metadata", text.encode())
    _metadata.text = text


def get_memory_metadata():
    """torch._C._cuda_getMemoryMetadata"""
    return getattr(_metadata, "text", "")


# ------------------------------------------------------------------------------------ statistics --


def memory_stats(device):
    """torch._C._cuda_memoryStats"""
    return _stats.nested(_stats.read(device))


def set_memory_fraction(fraction, device):
    """torch._C._cuda_setMemoryFraction, whose hook cannot say that it failed."""
    call("limit_part", device, float(fraction))
    _fractions[device] = fraction


def get_memory_fraction(device):
    """torch._C._cuda_getMemoryFraction"""
    return _fractions.get(device, 1.0)


def mem_get_info(torch, device=None):
    """torch.cuda.mem_get_info: under a limit, what is left of the limit and the limit itself."""
    torch.cuda.init()
    # pylint: disable=protected-access
    return call("memory", torch.cuda._utils._get_device_index(device, optional=True), out=2)


# -------------------------------------------------------------- what the pluggable route has not --


def _once(text):
    """A warning, the first time that it is called for."""
    @functools.lru_cache(maxsize=None)
    def warn():
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    return warn


no_benchmark = _once("Weir: cudnn.benchmark stays off, as PyTorch's pluggable allocators cannot "
                     "answer what it asks; weir.torch's full route can (see weir.torch)")
no_graphs = _once("Weir: torch.compile leaves CUDA graphs out, as PyTorch's pluggable allocators "
                  "have no checkpoints; weir.torch's full route has (see weir.torch)")


def _answer_for_the_accelerator(torch):
    """torch.accelerator.memory asks the allocator that is registered for the type of device, which
    stays PyTorch's own."""
    c = torch._C
    c._accelerator_isAllocatorInitialized = torch.cuda.is_initialized
    c._accelerator_getDeviceStats = memory_stats
    c._accelerator_resetPeakStats = functools.partial(call, "stats_reset_peaks")
    c._accelerator_resetAccumulatedStats = functools.partial(call, "stats_reset_totals")
    c._accelerator_getMemoryInfo = functools.partial(call, "memory", out=2)
    c._accelerator_emptyCache = c._cuda_emptyCache


def _keep_benchmark_off(torch):
    set_it = torch._C._set_cudnn_benchmark

    def set_benchmark(value):
        if value:
            no_benchmark()
        set_it(False)

    torch._C._set_cudnn_benchmark = set_benchmark
    module = type(torch.backends.cudnn)
    prop = module.__dict__.get("benchmark")
    if prop is not None:
        module.benchmark = type(prop)(torch._C._get_cudnn_benchmark, set_benchmark)
    if torch._C._get_cudnn_benchmark():
        set_benchmark(True)


def _leave_graphs_out(torch):
    wrapper = getattr(torch, "_TorchCompileInductorWrapper", None)
    if wrapper is None or not hasattr(wrapper, "apply_options"):
        return
    apply = wrapper.apply_options

    def apply_options(self, options):
        if options and options.get("triton.cudagraphs"):
            no_graphs()
            options = {**options, "triton.cudagraphs": False}
        return apply(self, options)

    wrapper.apply_options = apply_options


def _no_sharing(*_args, **_more):
    raise WeirError("memory of Weir cannot be sent to another process as a CUDA tensor: send the "
                    "tensor from the CPU, or run this program on PyTorch's own allocator")


# ------------------------------------------------------------------------------------------- all --


def apply(torch, route):
    """Puts them in place."""
    c = torch._C
    c._cuda_memorySnapshot = memory_snapshot
    c._cuda_record_memory_history = record_memory_history
    c._cuda_record_memory_history_legacy = record_memory_history_legacy
    c._cuda_isHistoryEnabled = is_history_enabled
    c._cuda_setMemoryMetadata = set_memory_metadata
    c._cuda_getMemoryMetadata = get_memory_metadata
    info = functools.wraps(torch.cuda.mem_get_info)(functools.partial(mem_get_info, torch))
    torch.cuda.mem_get_info = torch.cuda.memory.mem_get_info = info
    torch.UntypedStorage._share_cuda_ = _no_sharing
    if route == "full":
        return
    c._cuda_memoryStats = memory_stats
    c._cuda_resetPeakMemoryStats = functools.partial(call, "stats_reset_peaks")
    c._cuda_resetAccumulatedMemoryStats = functools.partial(call, "stats_reset_totals")
    c._cuda_setMemoryFraction = set_memory_fraction
    c._cuda_getMemoryFraction = get_memory_fraction
    _answer_for_the_accelerator(torch)
    _keep_benchmark_off(torch)
    _leave_graphs_out(torch)
