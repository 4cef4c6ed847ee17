# SPDX-License-Identifier: MIT
"""CuPy on Weir.

    import weir.cupy
    weir.cupy.enable()

An array is allocated on CuPy's current stream and freed in the order of that stream, whichever
stream is current when Python lets go of it. It may be called at any time: arrays that are there
already stay with the allocator that they came from.
"""
from . import _runtime

_state = {"enabled": False}


class _Block:
    """Owns one block: freed when CuPy lets go of it. It keeps the stream's object, so that the stream
    is not destroyed before its blocks are."""

    __slots__ = ("address", "stream")

    def __init__(self, address, stream):
        self.address, self.stream = address, stream

    def __del__(self):
        _runtime.free(self.address, self.stream.ptr)


def _out_of_memory(cupy):
    """CuPy's exception, with Weir's sentence as its text."""
    base = cupy.cuda.memory.OutOfMemoryError

    class OutOfMemoryError(base):
        """There is no memory for an array."""

        def __init__(self, size, total, limit, why):
            super().__init__(size, total, limit)
            self.why = why

        def __str__(self):
            return self.why

    return OutOfMemoryError


def allocator(cupy):
    """A function for cupy.cuda.set_allocator."""
    error_class = _out_of_memory(cupy)

    def failed(error, size, device):
        if error.status != _runtime.NO_MEMORY:
            return error
        _, total = _runtime.call("memory", device, out=2)
        return error_class(size, total, total, str(error))

    def allocate(size):
        device = cupy.cuda.device.get_device_id()
        if size == 0:
            return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, device), 0)
        stream = cupy.cuda.get_current_stream()
        try:
            address = _runtime.allocate(device, size, stream.ptr)
        except _runtime.WeirError as error:
            raise failed(error, size, device) from None
        owner = _Block(address, stream)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, size, owner, device), 0)

    return allocate


def enable():
    """Makes Weir the allocator of CuPy's arrays."""
    if _state["enabled"]:
        return
    import cupy

    _runtime.library()
    cupy.cuda.set_allocator(allocator(cupy))
    _state["enabled"] = True
