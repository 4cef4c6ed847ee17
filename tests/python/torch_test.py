# SPDX-License-Identifier: MIT
"""PyTorch on Weir as far as it goes without a GPU: the real PyTorch with CUDA, if one is installed,
the stand-in for the driver, and a few calls of libcudart preloaded. Tensors and graphs are for
gpu.py.
"""
import importlib.util
import os
import shutil
import subprocess
import tempfile
import unittest

from support import HERE, Case, compiler, environment

HEAD = """
import sys, torch, weir, weir.torch
weir.torch.enable(route=ROUTE)
C = torch._C
take, give = C._cuda_cudaCachingAllocator_raw_alloc, C._cuda_cudaCachingAllocator_raw_delete
torch.cuda.is_initialized = torch.cuda.memory.is_initialized = lambda: True
torch.cuda.memory._get_device_index = lambda device, optional=False: 0
def stat(name): return torch.cuda.memory.memory_stats()[name]
"""


def torch_with_cuda():
    """Whether PyTorch is installed with its CUDA libraries; asked without importing it."""
    spec = importlib.util.find_spec("torch")
    return spec is not None and os.path.exists(
        os.path.join(os.path.dirname(spec.origin), "lib", "libc10_cuda.so"))


@unittest.skipUnless(torch_with_cuda(), "no PyTorch with CUDA is installed")
class TorchCase(Case):
    """Programs on a route."""

    @classmethod
    def setUpClass(cls):
        cls.built = tempfile.mkdtemp(prefix="weir-cudart-")
        cls.cudart = os.path.join(cls.built, "fake_cudart.so")
        subprocess.run([compiler("cc"), "-shared", "-fPIC", "-o", cls.cudart,
                        os.path.join(HERE, "fake_cudart.c")], check=True)
        compiler("g++")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.built, ignore_errors=True)

    def on(self, route, text, code=0, **env):
        """Runs a program on a route."""
        env.setdefault("WEIR_CACHE", os.environ.get("WEIR_CACHE") or os.path.join(
            tempfile.gettempdir(), f"weir-cache-{os.getuid()}"))
        return self.program(HEAD.replace("ROUTE", repr(route)) + text, code=code,
                            env=environment(LD_PRELOAD=self.cudart, **env))

    def both(self, text, **env):
        """Runs a program on both."""
        for route in ("full", "pluggable"):
            with self.subTest(route=route):
                self.on(route, text, **env)


class Routes(TorchCase):
    """Both routes."""

    def test_the_routes_are_what_they_say(self):
        self.on("full", """
assert weir.torch.route() == "full" and torch.cuda.get_allocator_backend() == "weir"
""")
        self.on("pluggable", """
assert weir.torch.route() == "pluggable" and torch.cuda.get_allocator_backend() == "pluggable"
""")

    def test_the_full_route_is_taken_if_it_can_be_and_said_why_not(self):
        self.on("auto", 'assert weir.torch.route() == "full" and weir.torch.why_not_full() is None')
        self.on("auto", """
assert weir.torch.route() == "pluggable"
assert "did not compile" in weir.torch.why_not_full(), weir.torch.why_not_full()
""", WEIR_CACHE=self.path("cache"), CXX=self.wrong_compiler())

    def wrong_compiler(self):
        """A compiler that cannot see PyTorch's headers."""
        path = self.path("wrong-g++", f"""\
            #!/bin/sh
            case "$*" in *weir_torch.cpp*) echo "error: no such header" >&2; exit 1;; esac
            exec {shutil.which("g++")} "$@"
            """)
        os.chmod(path, 0o755)
        return path

    def test_figures_are_weirs(self):
        self.both("""
a, b = take(5 << 20, 0), take(1000, 0)
assert stat("allocated_bytes.all.current") == (5 << 20) + 1024
assert stat("requested_bytes.all.current") == (5 << 20) + 1000
give(a)
assert torch.cuda.memory.memory_allocated() == 1024
assert torch.cuda.memory.max_memory_allocated() == (5 << 20) + 1024
torch.cuda.memory.reset_peak_memory_stats()
assert torch.cuda.memory.max_memory_allocated() == 1024
torch.cuda.memory.reset_accumulated_memory_stats()
assert stat("allocated_bytes.all.allocated") == 0
assert stat("reserved_bytes.all.current") == weir.stats()["reserved_bytes.all.current"] > 0
from weir import _stats
assert C._cuda_memoryStats(0) == _stats.nested(_stats.read(0))
assert "| Allocated memory      |   1024 B   |" in torch.cuda.memory.memory_summary(0)
""")

    def test_nothing_is_asked_for_no_bytes(self):
        self.both("""
assert take(0, 0) == 0
assert weir.stats()["allocation.all.allocated"] == 0
""")

    def test_out_of_memory_is_pytorchs_exception_with_weirs_words(self):
        self.both("""
try:
    take(128 << 20, 0)
except torch.OutOfMemoryError as error:
    assert str(error).startswith("CUDA out of memory."), error
    assert "would have fitted" in str(error), error
else:
    raise SystemExit("no exception")
assert stat("num_ooms") == 1
give(take(1 << 20, 0))
""", WEIR_CONF="limit_mb:64")

    def test_a_wrong_setting_is_said_at_the_first_allocation(self):
        self.both("""
try:
    take(512, 0)
except torch.OutOfMemoryError:
    raise SystemExit("that is no lack of memory")
except RuntimeError as error:
    assert "limit_mbb" in str(error).split("\\n")[0], error
""", WEIR_CONF="limit_mbb:64")

    def test_a_fraction_is_a_limit(self):
        self.both("""
C._cuda_setMemoryFraction(0.125, 0)
assert C._cuda_getMemoryFraction(0) == 0.125
assert weir.stats()["weir.limit_bytes"] == 64 << 20
try:
    C._cuda_setMemoryFraction(0.0, 0)
except RuntimeError:
    pass
else:
    raise SystemExit("a fraction of nothing was taken")
""")

    def test_history_and_snapshots(self):
        path = self.path("x.pickle")
        self.both(f"""
torch.cuda.memory._record_memory_history(max_entries=100)
assert C._cuda_isHistoryEnabled()
torch.cuda.memory._set_memory_metadata("step 1")
assert torch.cuda.memory._get_memory_metadata() == "step 1"
def here(): return take(5 << 20, 0)
a = here()
assert torch.cuda.memory._snapshot()["device_traces"][0][-1]["user_metadata"] == "step 1"
block = torch.cuda.memory.memory_snapshot()[0]["blocks"][0]
assert block["frames"][0]["name"] == "here", block
torch.cuda.memory._dump_snapshot({path!r})
import pickle
assert pickle.load(open({path!r}, "rb"))["device_traces"][0]
assert torch.cuda.memory.memory_snapshot(include_traces=False)
torch.cuda.memory._record_memory_history(enabled=None)
assert not C._cuda_isHistoryEnabled()
""")

    def test_a_foreign_address_is_refused(self):
        self.both("""
try:
    give(1 << 30)
except RuntimeError:
    pass
else:
    raise SystemExit("a foreign address was freed")
""")

    def test_cudnn_benchmark_stays_off_on_the_pluggable_route_alone(self):
        self.on("full", """
torch.backends.cudnn.benchmark = True
assert torch.backends.cudnn.benchmark
""")
        self.on("pluggable", """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark = True
assert not torch.backends.cudnn.benchmark
assert len(said) == 1 and "cudnn.benchmark stays off" in str(said[0].message), said
""")

    def test_graphs_are_left_out_of_compile_on_the_pluggable_route_alone(self):
        text = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    made = torch._TorchCompileInductorWrapper("reduce-overhead", None, None)
graphs = made.config["triton.cudagraphs"]
"""
        self.on("full", text + 'assert graphs is True')
        self.on("pluggable", text + """
assert graphs is False and "CUDA graphs" in str(said[0].message)
""")

    def test_tensors_are_not_sent_to_other_processes(self):
        self.both("""
try:
    torch.UntypedStorage(8)._share_cuda_()
except weir.WeirError as error:
    assert "from the CPU" in str(error)
else:
    raise SystemExit("it was sent")
""")

    def test_enabling_again_does_nothing(self):
        self.both("""
torch.cuda.is_initialized = lambda: True
weir.torch.enable()
""")

    def test_too_late(self):
        self.program("""
            import torch, weir, weir.torch
            torch.cuda.is_initialized = lambda: True
            try:
                weir.torch.enable()
            except weir.WeirError as error:
                assert "too late" in str(error) and "\\n" not in str(error)
            else:
                raise SystemExit("it was not refused")
        """)

    def test_a_route_that_is_not_known(self):
        self.program("""
            import weir, weir.torch
            try:
                weir.torch.enable(route="fool")
            except weir.WeirError as error:
                assert "auto, full, pluggable" in str(error)
            else:
                raise SystemExit("it was not refused")
        """)

    def test_no_gpu(self):
        self.program("""
            import weir, weir.torch
            try:
                weir.torch.enable()
            except weir.WeirError as error:
                assert str(error).startswith("there is no GPU"), error
            else:
                raise SystemExit("it was not refused")
        """, env=environment(WEIR_CUDA_LIBRARY=None, CUDA_VISIBLE_DEVICES=""))


POOL = """
P = (0, 7)
def begin(): C._cuda_beginAllocateCurrentThreadToPool(0, P)
def end(): C._cuda_endAllocateToPool(0, P)
def release(): C._cuda_releasePool(0, P)
def live(*addresses): return C._cuda_checkPoolLiveAllocations(0, P, set(addresses))
"""


class PrivatePools(TorchCase):
    """Graph trees' checkpoints, on the full route."""

    def test_a_pool_has_what_is_allocated_between_begin_and_end(self):
        self.on("full", POOL + """
before = take(1 << 20, 0)
begin(); a = take(3 << 20, 0); b = take(700, 0); end()
after = take(1 << 20, 0)
assert live(a, b) and not live(a) and not live(a, b, before)
assert stat("allocated_bytes.all.current") == (5 << 20) + 1024
give(a); give(b)
assert live() and stat("allocated_bytes.all.current") == 2 << 20
release()
assert weir.stats()["allocation.all.current"] == 2
""")

    def test_a_checkpoint_comes_back_block_by_block(self):
        self.on("full", POOL + """
begin()
a, b, c = take(1 << 20, 0), take(3 << 20, 0), take(700, 0)
state = C._cuda_getCheckpointState(0, P)
give(b)
d, e = take(2 << 20, 0), take(30 << 20, 0)
assert d == b, "the hole is used again"
give(d); give(e)
C._cuda_setCheckpointPoolState(0, state, [], [])
assert live(a, b, c)
end(); release()
for address in (a, b, c): give(address)
assert stat("allocated_bytes.all.current") == 0
assert weir.stats()["allocation.all.current"] == 0, "its segments went back"
""")

    def test_random_pools_against_a_model(self):
        self.on("full", POOL + """
import random
for seed in range(4):
    draw, model, saved = random.Random(seed), {}, []
    begin()
    for step in range(1500):
        dice = draw.random()
        if dice < 0.55 and sum(model.values()) < 200 << 20:
            size = int(2 ** draw.uniform(3, 23))
            address = take(size, draw.choice((0, 0, 1)))
            assert all(address + size <= other or other + has <= address
                       for other, has in model.items()), (seed, step)
            model[address] = size
        elif model and dice < 0.97:
            address = draw.choice(list(model))
            give(address)
            del model[address]
        elif dice < 0.985:
            saved.append((C._cuda_getCheckpointState(0, P), dict(model)))
        elif saved:
            state, wanted = draw.choice(saved)
            for address in [a for a in model if a not in wanted]:
                give(address)
            C._cuda_setCheckpointPoolState(0, state, [], [])
            model = dict(wanted)
        if step % 25 == 0:
            assert live(*model), (seed, step)
    assert stat("allocated_bytes.all.current") == sum(-(-n // 512) * 512 for n in model.values())
    end()
    for address in model: give(address)
    release()
    assert weir.stats()["allocation.all.current"] == 0
""")

    def test_misuse_is_refused(self):
        self.on("full", POOL + """
def refused(act):
    try:
        act()
    except RuntimeError as error:
        return "Weir" in str(error)
    return False
assert refused(release) and refused(end)
begin()
assert refused(begin)
""")


if __name__ == "__main__":
    unittest.main()
