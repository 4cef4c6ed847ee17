# SPDX-License-Identifier: MIT
"""Numba's memory manager on Weir.

    NUMBA_CUDA_MEMORY_MANAGER=weir.numba python program.py

or, before the first use of CUDA in Numba, weir.numba.enable().

Numba names no stream when it allocates or frees, and a kernel on any stream may still use an array
whose last reference is gone. Numba's own manager relies on cuMemFree waiting for the device; so
does this: arrays that died are put aside as Numba does it, some at a time, and given back after a
wait for the context. Pinned and managed memory stay Numba's own.
"""
from numba import cuda

from . import _runtime

DEFAULT_STREAM = 0


class WeirNumbaManager(cuda.HostOnlyCUDAMemoryManager):
    """Device memory from Weir."""

    def memalloc(self, size):
        """A block of `size` bytes, given back some time after Numba's pointer dies."""
        try:
            address = self._take(size)
        except _runtime.WeirError as error:
            if error.status != _runtime.NO_MEMORY:
                raise
            raise MemoryError(str(error)) from None
        return cuda.MemoryPointer(self.context, _pointer(address), size,
                                  finalizer=self._finalizer(address, size))

    def _take(self, size):
        """An address; what died is given back first where there is no memory otherwise."""
        device = self.context.device.id
        try:
            return _runtime.allocate(device, size, DEFAULT_STREAM)
        except _runtime.WeirError as error:
            if error.status != _runtime.NO_MEMORY or not len(self.deallocations):
                raise
        self.deallocations.clear()
        return _runtime.allocate(device, size, DEFAULT_STREAM)

    def _finalizer(self, address, size):
        """Must not hold the pointer that it is the finalizer of."""
        deallocations, context = self.deallocations, self.context

        def give(handle):
            context.push()
            try:
                context.synchronize()
            finally:
                context.pop()
            _runtime.free(handle, DEFAULT_STREAM)

        return lambda: deallocations.add_item(give, address, size)

    def initialize(self):
        """Numba puts dead arrays aside up to a part of this."""
        if not self.deallocations.memory_capacity:
            self.deallocations.memory_capacity = self.get_memory_info().total

    def get_memory_info(self):
        """What this process may still allocate, and all it may have."""
        free, total = _runtime.call("memory", self.context.device.id, out=2)
        return cuda.MemoryInfo(free=free, total=total)

    def get_ipc_handle(self, memory):
        """Not there: mapped memory has no handle of this kind."""
        raise _runtime.WeirError("memory of Weir cannot be sent to another process by Numba's IPC: "
                                 "copy the array to the host")

    @property
    def interface_version(self):
        """Of Numba's interface for memory managers."""
        return 1


def _pointer(address):
    """The address as this version of Numba wants it."""
    try:
        from cuda.bindings.driver import CUdeviceptr
    except ImportError:
        import ctypes

        return ctypes.c_uint64(address)
    return CUdeviceptr(address)


_numba_memory_manager = WeirNumbaManager


def enable():
    """As NUMBA_CUDA_MEMORY_MANAGER=weir.numba: before Numba's first use of CUDA."""
    from numba.cuda.cudadrv import driver

    current = getattr(driver, "_memory_manager", None)
    if current is WeirNumbaManager:
        return
    if current is not None:
        raise _runtime.WeirError("weir.numba.enable() came too late: Numba has used CUDA already; "
                                 "call it before, or set NUMBA_CUDA_MEMORY_MANAGER=weir.numba")
    cuda.set_memory_manager(WeirNumbaManager)
