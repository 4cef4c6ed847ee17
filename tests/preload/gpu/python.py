# SPDX-License-Identifier: MIT
"""A framework under the preload library alone, without its adapter: python.py torch|cupy|numba. Ends
with 77 where it is not installed, and with 1 where Weir did not serve it or a result is wrong."""
import ctypes
import os
import sys


def owned(address):
    """Whether an address is the first of a block of Weir's."""
    try:
        runtime = ctypes.CDLL("libweir_runtime.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return False
    runtime.weir_runtime_find.argtypes = [ctypes.c_uint64] + 3 * [ctypes.c_void_p]
    return runtime.weir_runtime_find(address, None, None, None) == 0


def with_torch():
    import torch

    layer = torch.nn.Linear(1024, 1024).cuda()
    data = torch.ones(512, 1024, device="cuda")
    layer(data).sum().backward()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return owned(data.data_ptr()) and bool(torch.isfinite(layer.weight.grad).all())


def with_cupy():
    import cupy

    data = cupy.arange(1 << 20)
    total = int(data.sum())
    return owned(data.data.ptr) and total == (1 << 19) * ((1 << 20) - 1)


def with_numba():
    from numba import cuda

    data = cuda.to_device(list(range(1000)))
    return owned(data.device_ctypes_pointer.value) and data.copy_to_host()[999] == 999


if __name__ == "__main__":
    try:
        good = {"torch": with_torch, "cupy": with_cupy, "numba": with_numba}[sys.argv[1]]()
    except ImportError as error:
        print(error)
        sys.exit(77)
    sys.exit(0 if good else 1)
