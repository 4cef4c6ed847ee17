# SPDX-License-Identifier: MIT
"""Weir's figures under the names of torch.cuda.memory_stats.

What Weir has no like of is 0: it has no blocks that are split and cannot be released
(inactive_split), as any free granule can move, and no sizes too large to split (oversize). One
arena serves all sizes: reserved memory and segments stand under "all" and, the same, under
"large_pool". "active" is what is allocated and what is freed but still in use on another stream.
"""
import collections
import ctypes

from ._runtime import Amount, Stats, WeirError, library, why

KINDS = ("all", "large_pool", "small_pool")
NO_LIMIT = 2 ** 64 - 1


def read(device):
    """weir_runtime_stats of a device."""
    raw = Stats(size=ctypes.sizeof(Stats))
    status = library().stats_read(device, ctypes.byref(raw))
    if status != 0:
        raise WeirError(why(), status)
    return raw


def _figure(amount):
    return {"current": amount.current, "peak": amount.peak, "allocated": amount.added,
            "freed": amount.taken}


def _by_kind(amounts):
    return {kind: _figure(amount) for kind, amount in zip(KINDS, amounts)}


def _whole(amount):
    return _by_kind((amount, amount, Amount()))


def _active(raw):
    """What is allocated, and what waits for another stream."""
    amounts = [Amount(a.current, a.peak, a.added, a.taken) for a in raw.allocated]
    for amount in amounts[:2]:
        amount.current += raw.pending.current
        amount.peak = max(amount.peak, amount.current)
    return _by_kind(amounts)


def nested(raw):
    """As torch.cuda.memory_stats_as_nested_dict."""
    return {
        "allocation": _by_kind(raw.allocations),
        "segment": _whole(raw.segments),
        "active": _by_kind(raw.allocations),
        "inactive_split": _whole(Amount()),
        "allocated_bytes": _by_kind(raw.allocated),
        "reserved_bytes": _whole(raw.reserved),
        "active_bytes": _active(raw),
        "inactive_split_bytes": _whole(Amount()),
        "requested_bytes": _by_kind(raw.requested),
        "oversize_allocations": _figure(Amount()),
        "oversize_segments": _figure(Amount()),
        "num_alloc_retries": raw.retries,
        "num_ooms": raw.ooms,
        "num_sync_all_streams": raw.host_waits,
        "num_device_alloc": raw.device_allocs,
        "num_device_free": raw.device_frees,
        "max_split_size": -1,
    }


def _flatten(prefix, value, into):
    for key, part in value.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(part, dict):
            _flatten(name, part, into)
        else:
            into[name] = part
    return into


def flat(raw):
    """As torch.cuda.memory_stats, and Weir's own under "weir."."""
    found = _flatten("", nested(raw), {})
    found["weir.limit_bytes"] = None if raw.limit == NO_LIMIT else raw.limit
    found["weir.pending_bytes"] = raw.pending.current
    for name in ("host_waits", "stream_waits", "moves", "rescues"):
        found["weir." + name] = getattr(raw, name)
    return collections.OrderedDict(sorted(found.items()))
