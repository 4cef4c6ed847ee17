# SPDX-License-Identifier: MIT
"""A memory resource for cuda.core.

    from cuda.core import Device
    from weir.cuda_core import WeirMemoryResource

    device = Device(); device.set_current()
    device.memory_resource = WeirMemoryResource(device.device_id)
    buffer = device.allocate(1 << 20, stream=device.create_stream())
"""
try:
    from cuda.core import Buffer, MemoryResource
except ImportError:  # before it was stable
    from cuda.core.experimental import Buffer, MemoryResource

from . import _runtime


def _number(stream):
    """A stream of cuda.core, a graph builder, or anything with __cuda_stream__, as an integer."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    if hasattr(stream, "handle"):
        return int(stream.handle)
    return _number(stream.stream)


class WeirMemoryResource(MemoryResource):
    """Device memory from Weir, in the order of streams."""

    def __init__(self, device_id=0):
        self._device = int(device_id)

    def allocate(self, size, stream=None, **_more):
        """A buffer that is usable in the order of `stream`; without one, of the default stream."""
        address = 0
        if size:
            try:
                address = _runtime.allocate(self._device, size, _number(stream))
            except _runtime.WeirError as error:
                if error.status != _runtime.NO_MEMORY:
                    raise
                raise MemoryError(str(error)) from None
        if stream is not None:
            try:
                return Buffer.from_handle(address, size, mr=self, stream=stream)
            except TypeError:  # an older one keeps no stream for the deallocation
                pass
        return Buffer.from_handle(address, size, mr=self)

    def deallocate(self, ptr, size, stream=None, **_more):
        """Frees in the order of `stream`."""
        if size and int(ptr):
            _runtime.free(int(ptr), _number(stream))

    @property
    def device_id(self):
        """The device's ordinal."""
        return self._device

    @property
    def is_device_accessible(self):
        """Yes."""
        return True

    @property
    def is_host_accessible(self):
        """No."""
        return False

    @property
    def is_managed(self):
        """No."""
        return False
