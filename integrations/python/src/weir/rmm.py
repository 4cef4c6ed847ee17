# SPDX-License-Identifier: MIT
"""RMM, and with it cuDF and its relatives, on Weir.

    import weir.rmm
    weir.rmm.enable()
"""
from . import _runtime


def _number(stream):
    """RMM's Stream, in whichever way this version tells its number; None is the default stream."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    return int(getattr(stream, "ptr", stream))


def resource(device=0):
    """An rmm.mr.CallbackMemoryResource whose memory is Weir's. RMM wants an exception where there
    is none, and addresses at multiples of 256, which all of Weir's are."""
    import rmm

    def allocate(nbytes, stream):
        if nbytes == 0:
            return 0
        try:
            return _runtime.allocate(device, nbytes, _number(stream))
        except _runtime.WeirError as error:
            if error.status != _runtime.NO_MEMORY:
                raise
            raise MemoryError(str(error)) from None

    def deallocate(pointer, nbytes, stream):
        if nbytes:
            _runtime.free(int(pointer), _number(stream))

    _runtime.library()
    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def enable(device=0):
    """Makes it RMM's resource of a device."""
    import rmm

    rmm.mr.set_per_device_resource(device, resource(device))
