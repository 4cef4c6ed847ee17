# SPDX-License-Identifier: MIT
"""CuPy, Numba, cuda.core and RMM: that the adapters speak to their interfaces as these are
declared.

The frameworks here are stand-ins of a few lines that check the shape of each call and hold blocks
as the real ones do; the memory is the runtime's. The real frameworks run in gpu.py.
"""
import unittest

from support import PACKAGE, Case, environment

CUPY = """
import types

class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        super().__init__(f"{size} of {total}, {limit}")

class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        assert isinstance(ptr, int) and isinstance(size, int) and device_id == 0
        self.ptr, self.size, self._owner = ptr, size, owner

class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset

allocator = None
def set_allocator(function):
    global allocator
    allocator = function

stream = 0
cuda = types.SimpleNamespace(
    UnownedMemory=UnownedMemory, MemoryPointer=MemoryPointer, set_allocator=set_allocator,
    memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    device=types.SimpleNamespace(get_device_id=lambda: 0),
    get_current_stream=lambda: types.SimpleNamespace(ptr=stream))
"""

NUMBA = """
import types, weakref

class HostOnlyCUDAMemoryManager:
    def __init__(self, context):
        self.context, self.deallocations = context, Pending()

class Pending:
    def __init__(self):
        self.items, self.memory_capacity = [], 0
    def __len__(self):
        return len(self.items)
    def add_item(self, act, handle, size):
        assert act.__name__ and size > 0
        self.items.append((act, handle))
    def clear(self):
        while self.items:
            act, handle = self.items.pop(0)
            act(handle)

class MemoryPointer:
    def __init__(self, context, pointer, size, finalizer):
        self.pointer, self.size = pointer, size
        weakref.finalize(self, finalizer)

class MemoryInfo:
    def __init__(self, free, total):
        self.free, self.total = free, total

def set_memory_manager(manager):
    driver._memory_manager = manager
"""

CORE = """
class MemoryResource:
    pass

class Buffer:
    @staticmethod
    def from_handle(ptr, size, mr=None, owner=None, *, stream=None):
        made = Buffer()
        made.ptr, made.size, made.mr, made.stream = ptr, size, mr, stream
        return made
    def close(self):
        self.mr.deallocate(self.ptr, self.size, stream=self.stream)
"""

RMM = """
import types
current = {}

class CallbackMemoryResource:
    def __init__(self, allocate, deallocate):
        self.allocate, self.deallocate = allocate, deallocate

mr = types.SimpleNamespace(
    CallbackMemoryResource=CallbackMemoryResource,
    set_per_device_resource=lambda device, resource: current.update({device: resource}))
"""


class Adapters(Case):
    """Each framework."""

    def framework(self, name, text, program, **env):
        """Runs a program beside a stand-in for a framework, with no installed package in sight."""
        self.path(f"lib/{name}", text)
        return self.program("import weir, gc\n" + program, "-S", env=environment(
            PYTHONPATH=f"{self.path('lib')}:{PACKAGE}", **env))

    def test_cupy_allocates_on_its_stream_and_frees_with_the_owner(self):
        self.framework("cupy.py", CUPY, """
import cupy, weir.cupy
weir.cupy.enable()
a = cupy.allocator(5000)
assert weir.stats()["requested_bytes.all.current"] == 5000 and a.mem.size == 5000
assert cupy.allocator(0).mem.ptr == 0
del a
gc.collect()
assert weir.stats()["allocation.all.current"] == 0
first = cupy.allocator
weir.cupy.enable()
assert cupy.allocator is first, "enabled twice"
""")

    def test_cupys_exception_has_weirs_sentence(self):
        self.framework("cupy.py", CUPY, """
import cupy, weir.cupy
weir.cupy.enable()
try:
    cupy.allocator(128 << 20)
except cupy.OutOfMemoryError as error:
    assert "would have fitted" in str(error), error
else:
    raise SystemExit("no exception")
""", WEIR_CONF="limit_mb:64")

    NUMBA_PROGRAM = """
import types, sys
sys.modules["cuda"] = None
from numba import cuda
import weir.numba
assert weir.numba._numba_memory_manager is weir.numba.WeirNumbaManager
log = []
context = types.SimpleNamespace(device=types.SimpleNamespace(id=0),
                                push=lambda: log.append("push"), pop=lambda: log.append("pop"),
                                synchronize=lambda: log.append("sync"))
manager = weir.numba.WeirNumbaManager(context=context)
manager.initialize()
assert manager.interface_version == 1
assert manager.deallocations.memory_capacity == manager.get_memory_info().total > 0
"""

    def numba(self, program, **env):
        """Runs a program beside the stand-in for Numba."""
        self.path("lib/numba/__init__.py", "")
        self.path("lib/numba/cuda/cudadrv/__init__.py", "")
        self.path("lib/numba/cuda/cudadrv/driver.py", "_memory_manager = None\n")
        text = NUMBA + "\nfrom .cudadrv import driver\n"
        self.framework("numba/cuda/__init__.py", text, self.NUMBA_PROGRAM + program, **env)

    def test_numba_frees_after_a_wait_for_the_context(self):
        self.numba("""
a = manager.memalloc(5000)
assert weir.stats()["requested_bytes.all.current"] == 5000
del a
gc.collect()
assert weir.stats()["allocation.all.current"] == 1 and log == [], "put aside"
manager.deallocations.clear()
assert log == ["push", "sync", "pop"], log
assert weir.stats()["allocation.all.current"] == 0
""")

    def test_numba_gives_back_what_died_before_it_fails(self):
        self.numba("""
a = manager.memalloc(40 << 20)
del a
gc.collect()
b = manager.memalloc(40 << 20)
try:
    manager.memalloc(40 << 20)
except MemoryError as error:
    assert "would have fitted" in str(error)
else:
    raise SystemExit("no exception")
""", WEIR_CONF="limit_mb:64")

    def test_numba_too_late(self):
        self.numba("""
from numba.cuda.cudadrv import driver
weir.numba.enable()
weir.numba.enable()
driver._memory_manager = object
try:
    weir.numba.enable()
except weir.WeirError as error:
    assert "too late" in str(error)
else:
    raise SystemExit("not refused")
""")

    def test_cuda_core_takes_the_stream_by_keyword(self):
        self.path("lib/cuda/__init__.py", "")
        self.framework("cuda/core/__init__.py", CORE, """
import types
from weir.cuda_core import WeirMemoryResource
resource = WeirMemoryResource(0)
assert resource.device_id == 0 and resource.is_device_accessible
assert not resource.is_host_accessible
stream = types.SimpleNamespace(handle=0)
buffer = resource.allocate(5000, stream=stream)
assert buffer.mr is resource and buffer.stream is stream
assert weir.stats()["requested_bytes.all.current"] == 5000
buffer.close()
assert weir.stats()["allocation.all.current"] == 0
resource.allocate(0, stream=stream).close()
other = types.SimpleNamespace(__cuda_stream__=lambda: (0, 0))
resource.allocate(64, stream=other).close()
resource.allocate(64).close()
assert weir.stats()["allocation.all.current"] == 0
""")

    def test_rmm_gets_callbacks_and_an_exception(self):
        self.framework("rmm.py", RMM, """
import rmm, types, weir.rmm
weir.rmm.enable()
resource = rmm.current[0]
stream = types.SimpleNamespace(__cuda_stream__=lambda: (0, 0))
a = resource.allocate(5000, stream)
assert a % 256 == 0
resource.deallocate(a, 5000, stream)
assert resource.allocate(0, None) == 0
assert weir.stats()["allocation.all.current"] == 0
try:
    resource.allocate(128 << 20, stream)
except MemoryError as error:
    assert "would have fitted" in str(error)
else:
    raise SystemExit("no exception")
""", WEIR_CONF="limit_mb:64")

    def test_two_frameworks_share_one_pool(self):
        self.path("lib/rmm.py", RMM)
        self.framework("cupy.py", CUPY, """
import cupy, rmm, weir.cupy, weir.rmm
weir.cupy.enable()
weir.rmm.enable()
a = cupy.allocator(5000)
b = rmm.current[0].allocate(3000, None)
assert weir.stats()["requested_bytes.all.current"] == 8000
""")


if __name__ == "__main__":
    unittest.main()
