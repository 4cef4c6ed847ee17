# SPDX-License-Identifier: MIT
"""The checks of gpu.py. Each is a program: it ends with 0 if all is well, with 77 if it cannot run
here (its last line says why), else its last line is the reason. `routes`: run once on each way of
putting Weir under PyTorch. `seconds`: its limit. `first`: others need what it makes; `alone`: it
measures time.
"""

ROUTES = ["full", "pluggable"]

TORCH = """
import gc, os, sys, warnings
import torch, weir, weir.torch
weir.torch.enable(route=os.environ["ROUTE"])
FULL = os.environ["ROUTE"] == "full"
MIB = 1 << 20
cuda = torch.device("cuda")
def stat(name): return torch.cuda.memory_stats()[name]
def refused(act, kind=RuntimeError):
    try:
        act()
    except kind as error:
        return str(error)
    raise SystemExit(f"{act} was not refused")
"""

CHECKS = {}


def check(name, text, torch=True, **more):
    """Adds one; with `torch` on both routes."""
    if torch:
        more.setdefault("routes", ROUTES)
        text = TORCH + text
    CHECKS[name] = {"text": text, **more}


check("route", """
assert weir.torch.route() == os.environ["ROUTE"]
x = torch.ones(1000, device=cuda)
assert float(x.sum()) == 1000
assert torch.cuda.get_allocator_backend() == ("weir" if FULL else "pluggable")
""", first=True, seconds=300)

check("stats", """
a = torch.empty(1000, dtype=torch.uint8, device=cuda)
b = torch.empty(3 * MIB, dtype=torch.uint8, device=cuda)
c = torch.empty(MIB - 1, dtype=torch.uint8, device=cuda)
assert torch.cuda.memory_allocated() == 1024 + 4 * MIB, torch.cuda.memory_allocated()
assert stat("requested_bytes.all.current") == 1000 + 4 * MIB - 1
assert stat("allocation.large_pool.current") == 1 and stat("allocation.small_pool.current") == 2
del b
assert torch.cuda.memory_allocated() == 1024 + MIB
assert torch.cuda.max_memory_allocated() == 1024 + 4 * MIB
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == 1024 + MIB
torch.cuda.reset_accumulated_memory_stats()
assert stat("allocation.all.allocated") == 0
assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
assert torch.cuda.memory_reserved() % (2 * MIB) == 0
assert "| Allocated memory      |   1025 KiB |" in torch.cuda.memory_summary(), \\
    torch.cuda.memory_summary()
assert torch.accelerator.memory_allocated() == 1024 + MIB
""")

check("empty_cache", """
x = torch.empty(1 << 30, dtype=torch.uint8, device=cuda)
del x
held = torch.cuda.memory_reserved()
assert held >= 1 << 30
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < 64 * MIB, torch.cuda.memory_reserved()
""")

check("out_of_memory", """
x = torch.empty(256 * MIB, dtype=torch.uint8, device=cuda)
said = refused(lambda: torch.empty(2 << 30, dtype=torch.uint8, device=cuda),
               torch.OutOfMemoryError)
assert said.startswith("CUDA out of memory.") and "would have fitted" in said, said
assert stat("num_ooms") == 1
y = torch.ones(512 * MIB, dtype=torch.uint8, device=cuda)
assert int(y[-1]) == 1
print("figures:", said.replace("\\n", " "))
""", env={"WEIR_CONF": "limit_mb:1024"})

check("mem_get_info", """
x = torch.empty(1 << 30, dtype=torch.uint8, device=cuda)
assert torch.cuda.mem_get_info() == (3 << 30, 4 << 30), torch.cuda.mem_get_info()
del x
assert torch.cuda.mem_get_info() == (4 << 30, 4 << 30), torch.cuda.mem_get_info()
""", env={"WEIR_CONF": "limit_mb:4096"})

check("memory_fraction", """
total = torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(0.01)
assert torch.cuda.get_per_process_memory_fraction() == 0.01
assert abs(weir.stats()["weir.limit_bytes"] - total * 0.01) < 2 * MIB
refused(lambda: torch.empty(int(total * 0.02), dtype=torch.uint8, device=cuda),
        torch.OutOfMemoryError)
""")

check("record_stream", """
side = torch.cuda.Stream()
def use(record):
    x = torch.ones(64 * MIB, dtype=torch.uint8, device=cuda)
    torch.cuda.synchronize()
    address = x.data_ptr()
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        y = x.clone()
    if record:
        x.record_stream(side)
    del x
    z = torch.full((64 * MIB,), 2, dtype=torch.uint8, device=cuda)
    again = z.data_ptr() == address
    torch.cuda.synchronize()
    return again, int(y.min()), int(y.max())
# Without record_stream the block is used again too early, so the check below can fail. With it the
# address may come back as well, but what uses it then waits for the other stream.
again, low, high = use(False)
assert again and (low, high) != (1, 1), (again, low, high)
torch.cuda.synchronize()
again, low, high = use(True)
assert (low, high) == (1, 1), (again, low, high)
""")

check("graphs", """
n = 1024
x = torch.randn(n, n, device=cuda)
def work(x):
    y = x @ x
    z = (y.relu() + 1).sqrt()
    del y
    return (z @ x).sum(0)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3): work(x)
torch.cuda.current_stream().wait_stream(side)
pool = torch.cuda.graph_pool_handle()
first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(first, pool=pool): one = work(x)
with torch.cuda.graph(second, pool=pool): two = work(one[None] * x)
want = work(x).clone()
# Memory that the graphs freed while they were captured must be nobody else's.
filled = [torch.full((n, n), float("nan"), device=cuda) for _ in range(64)]
first.replay()
torch.cuda.synchronize()
def same(a, b): return torch.allclose(a, b, rtol=1e-3)
assert same(one, want), (one - want).abs().max()
x.copy_(torch.randn(n, n, device=cuda))
for _ in range(3):
    first.replay()
    second.replay()
torch.cuda.synchronize()
assert same(one, work(x))
assert same(two, work(one[None] * x))
del filled, first, second, one, two
gc.collect()
torch._C._cuda_clearCublasWorkspaces()
torch.cuda.synchronize()
torch.cuda.empty_cache()
assert torch.cuda.memory_allocated() < 64 * MIB, torch.cuda.memory_summary()
""")

check("mempool", """
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x = torch.ones(5 * MIB, dtype=torch.uint8, device=cuda)
outside = torch.ones(5 * MIB, dtype=torch.uint8, device=cuda)
assert pool.use_count() == 1
before = x.data_ptr()
del x
y = torch.ones(5 * MIB, dtype=torch.uint8, device=cuda)
assert y.data_ptr() != before, "the pool's memory is nobody else's"
with torch.cuda.use_mem_pool(pool):
    x = torch.ones(5 * MIB, dtype=torch.uint8, device=cuda)
assert x.data_ptr() == before and int(x.sum()) == 5 * MIB
del x, pool
gc.collect()
""", routes=["full"])

COMPILE = """
import torch._dynamo
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512),
                            torch.nn.Linear(512, 256)).to(cuda)
x = torch.randn(64, 256, device=cuda)
def train(fn, steps=6):
    torch.manual_seed(0)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    sgd, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for i in range(steps):
        loss = (fn(x * (i + 1)) - x).square().mean()
        loss.backward()
        sgd.step()
        sgd.zero_grad(set_to_none=True)
        losses.append(float(loss))
        if i == 2:  # paths of a graph tree: an evaluation in between
            with torch.no_grad(): losses.append(float(fn(x).sum()))
    model.load_state_dict(state)
    return losses
eager = train(model)
compiled = train(torch.compile(model, mode=MODE))
again = train(torch.compile(model, mode=MODE))
assert all(abs(a - b) <= 1e-3 * max(1, abs(a)) for a, b in zip(eager, compiled)), (eager, compiled)
assert compiled == again, (compiled, again)
"""

check("compile", COMPILE.replace("MODE", '"default"'), seconds=240)

check("compile_reduce_overhead", COMPILE.replace("MODE", '"reduce-overhead"') + """
from torch._dynamo.utils import counters
from torch._inductor import cudagraph_trees
if FULL:
    trees = cudagraph_trees.get_container(0).tree_manager
    assert trees is not None, "no graph was made"
    assert counters["inductor"]["cudagraph_skips"] == 0, counters["inductor"]
    torch._inductor.config.triton.slow_path_cudagraph_asserts = True
    train(torch.compile(model, mode="reduce-overhead"))
""", seconds=300)

check("cudnn_benchmark", """
net = torch.nn.Conv2d(16, 32, 3, padding=1).to(cuda)
x = torch.randn(8, 16, 64, 64, device=cuda)
want = net(x)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    torch.backends.cudnn.benchmark = True
got = net(x)
got.sum().backward()
assert torch.allclose(want, got, rtol=1e-2, atol=1e-3)
assert torch.backends.cudnn.benchmark is FULL
assert bool(said) is not FULL
""")

check("dataloader", """
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(1000, device=cuda)
data = TensorDataset(torch.arange(64.).reshape(64, 1))
for _ in range(2):
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True,
                        multiprocessing_context="fork")
    total = sum(float((batch[0].to(cuda, non_blocking=True) * x[0]).sum()) for batch in loader)
    assert total == 64 * 63 / 2
x.add_(1)
assert float(x.sum()) == 2000
""", seconds=90)

check("fork_before_cuda", """
child = os.fork()
if child == 0:
    x = torch.ones(1000, device=cuda)
    os._exit(0 if float(x.sum()) == 1000 else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child could not use CUDA"
assert float(torch.ones(1000, device=cuda).sum()) == 1000
""")

check("threads", """
import threading
failed = []
def work(seed):
    try:
        stream = torch.cuda.Stream()
        generator = torch.Generator(device=cuda).manual_seed(seed)
        with torch.cuda.stream(stream):
            w = torch.full((512, 512), 0.01, device=cuda, requires_grad=True)
            for i in range(60):
                x = torch.randn(64 + 8 * (i % 9), 512, device=cuda, generator=generator)
                torch.utils.checkpoint.checkpoint(
                    lambda a: (a @ w).relu() @ w, x, use_reentrant=False).square().mean().backward()
                with torch.no_grad():
                    w -= 1e-3 * w.grad
                w.grad = None
        stream.synchronize()
        assert torch.isfinite(w).all()
    except BaseException as error:
        failed.append(repr(error))
import torch.utils.checkpoint
threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
gc.collect()
torch._C._cuda_clearCublasWorkspaces()
torch.cuda.synchronize()
torch.cuda.empty_cache()
assert torch.cuda.memory_allocated() < 128 * MIB, torch.cuda.memory_allocated()
""", seconds=120)

check("profiler", """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
    x = torch.ones(4 * MIB, dtype=torch.uint8, device=cuda)
used = [event.device_memory_usage for event in found.key_averages()]
assert max(used) >= 4 * MIB, used
""", routes=["full"])

check("snapshot", """
import subprocess
torch.cuda.memory._record_memory_history(max_entries=10000)
def made_here(): return torch.ones(5 * MIB, dtype=torch.uint8, device=cuda)
kept = [made_here() for _ in range(3)]
made_here()
torch.cuda.memory._dump_snapshot("x.pickle")
weir.snapshot("y.pickle")
import pickle
found = pickle.load(open("x.pickle", "rb"))
names = {frame["name"] for segment in found["segments"] for block in segment["blocks"]
         for frame in block["frames"]}
assert "made_here" in names, names
viewer = os.path.join(os.path.dirname(torch.__file__), "cuda", "_memory_viz.py")
for name in ("x", "y"):
    for view in ("trace_plot", "segment_plot"):
        subprocess.run([sys.executable, viewer, view, name + ".pickle", "-o", name + ".html"],
                       check=True)
assert torch.cuda.memory_snapshot() and torch.cuda.memory._snapshot()["device_traces"]
torch.cuda.memory._record_memory_history(None)
""")

check("leaks", """
import subprocess
weir.record()
lost = []
def leak():
    lost.append(torch.empty(7 * MIB, dtype=torch.uint8, device=cuda))
for _ in range(3): leak()
said = weir.leaks()
line = leak.__code__.co_firstlineno + 1
assert f"leak ({__file__}:{line})" in said and "3 blocks" in said, said
""")

check("leaks_at_exit", """
import subprocess
program = '''
import weir, weir.torch, torch
weir.torch.enable(route="ROUTE")
weir.record()
kept = []
def leak(): kept.append(torch.empty(7 << 20, dtype=torch.uint8, device="cuda"))
leak()
import os
'''.replace("ROUTE", os.environ["ROUTE"])
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                      env={**os.environ, "WEIR_LEAKS": "1"})
assert done.returncode == 0 and "leak (" in done.stderr, done
""")

check("trace", """
import csv
for i in range(10): x = torch.empty((i + 1) * MIB, dtype=torch.uint8, device=cuda)
weir.stop_trace()
with open("t.csv") as file:
    rows = [row for row in csv.reader(file) if row and row[0] in ("a", "f")]
sizes = [int(row[2]) for row in rows if row[0] == "a"]
assert sizes[:10] == [(i + 1) * MIB for i in range(10)], rows
""", env={"WEIR_TRACE": "t.csv"})

check("overhead", """
import time
def pairs(count=100000):
    for _ in range(1000): torch.empty(MIB, dtype=torch.uint8, device=cuda)
    begun = time.perf_counter()
    for _ in range(count): torch.empty(MIB, dtype=torch.uint8, device=cuda)
    return (time.perf_counter() - begun) / count * 1e9
found = {"plain": pairs()}
weir.record(stacks=None); found["history"] = pairs()
weir.record(); found["history and stacks"] = pairs(); weir.record(False)
weir.trace("t.csv"); found["trace"] = pairs(); weir.stop_trace()
print("figures:", ", ".join(f"{name} {value:.0f} ns" for name, value in found.items()),
      "for torch.empty of 1 MiB and its end")
""", alone=True, seconds=120)

check("overhead_of_pytorch", """
import time, torch
def pairs(count=100000):
    for _ in range(1000): torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    begun = time.perf_counter()
    for _ in range(count): torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    return (time.perf_counter() - begun) / count * 1e9
print(f"figures: PyTorch's own {pairs():.0f} ns for torch.empty of 1 MiB and its end")
""", torch=False, alone=True)

check("sharing_is_refused", """
x = torch.ones(10, device=cuda)
import torch.multiprocessing.reductions as reductions
said = refused(lambda: reductions.reduce_tensor(x))
assert "from the CPU" in said, said
""")

check("too_late", """
import torch, weir, weir.torch
torch.ones(1, device="cuda")
try:
    weir.torch.enable()
except weir.WeirError as error:
    assert "too late" in str(error) and "\\n" not in str(error), error
else:
    raise SystemExit("it was not refused")
""", torch=False)

check("wrong_conf", """
said = refused(lambda: torch.ones(1, device=cuda))
assert "limit_mbb" in said.split("\\n")[0], said
""", env={"WEIR_CONF": "limit_mbb:1024"})

check("no_gpu", """
import weir, weir.torch
try:
    weir.torch.enable()
except weir.WeirError as error:
    assert "no GPU" in str(error) and "\\n" not in str(error), error
else:
    raise SystemExit("it was not refused")
""", torch=False, env={"CUDA_VISIBLE_DEVICES": ""})

NEEDS = """
import importlib.util, os, sys
def needs(name):
    try:
        found = importlib.util.find_spec(name)
    except ImportError:
        found = None
    if found is None:
        print(name, "is not installed")
        sys.exit(77)
"""

check("cupy", NEEDS + """
needs("cupy")
import gc, cupy, weir, weir.cupy
weir.cupy.enable()
x = cupy.arange(1 << 20, dtype=cupy.float32)
assert weir.stats()["requested_bytes.all.current"] >= 4 << 20
assert float((x + 1).sum()) == (1 << 20) * ((1 << 20) + 1) / 2
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    y = cupy.ones(1 << 20)
    del y
    z = cupy.ones(1 << 20)
    assert float(z.sum()) == 1 << 20
weir.limit(0, bytes=64 << 20)
try:
    cupy.zeros(1 << 28)
except cupy.cuda.memory.OutOfMemoryError as error:
    assert "would have fitted" in str(error), error
else:
    raise SystemExit("no exception")
del x, z
gc.collect()
assert weir.stats()["requested_bytes.all.current"] < 1 << 20
""", torch=False)

check("numba", NEEDS + """
needs("numba.cuda")
import gc
from numba import cuda
import numpy, weir
x, y = cuda.to_device(numpy.ones(1 << 20)), cuda.to_device(numpy.arange(1 << 20, dtype=float))
assert weir.stats()["requested_bytes.all.current"] >= 16 << 20
x.copy_to_device(y) # no kernel: Numba's compiler is not at home with every NumPy
assert (x.copy_to_host() == numpy.arange(1 << 20)).all()
assert cuda.current_context().get_memory_info().total > 0
for _ in range(50): cuda.device_array(1 << 20)
gc.collect()
assert weir.stats()["allocation.all.current"] < 30
""", torch=False, env={"NUMBA_CUDA_MEMORY_MANAGER": "weir.numba"}, seconds=120)

check("cuda_core", NEEDS + """
needs("cuda.core")
import weir
try:
    from cuda.core import Device
except ImportError:
    from cuda.core.experimental import Device
from weir.cuda_core import WeirMemoryResource
device = Device()
device.set_current()
resource = WeirMemoryResource(device.device_id)
stream = device.create_stream()
buffer = resource.allocate(1 << 20, stream=stream)
assert weir.stats()["requested_bytes.all.current"] == 1 << 20
assert buffer.size == 1 << 20 and buffer.is_device_accessible
buffer.close(stream)
stream.sync()
assert weir.stats()["allocation.all.current"] == 0
""", torch=False)

check("rmm", NEEDS + """
needs("rmm")
import rmm, weir, weir.rmm
weir.rmm.enable()
buffer = rmm.DeviceBuffer(size=1 << 20)
assert weir.stats()["requested_bytes.all.current"] == 1 << 20
del buffer
assert weir.stats()["allocation.all.current"] == 0
""", torch=False)

check("two_frameworks", NEEDS + """
needs("cupy")
""" + TORCH + """
import cupy, weir.cupy
weir.cupy.enable()
x = torch.ones(MIB, device=cuda)
y = cupy.ones(MIB, dtype=cupy.float32)
assert torch.cuda.memory_allocated() >= 8 * MIB, "one pool"
z = torch.from_dlpack(y) + x
back = cupy.from_dlpack(z)
assert float(back.sum()) == 2 * MIB
""", torch=False, env={"ROUTE": "full"})

check("by_environment", """
import os, subprocess, sys
program = "import torch; torch.ones(9, device='cuda'); print(torch.cuda.get_allocator_backend())"
done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                      env={**os.environ, "PYTHONPATH": os.environ["STARTUP"],
                           "LD_PRELOAD": os.environ.get("WEIR_PRELOAD", "")})
assert done.stdout.strip() == "weir", done
""", torch=False)

check("weir_run", NEEDS + """
import shutil, subprocess
command = os.environ.get("WEIR_COMMAND") or shutil.which("weir")
if not command:
    print("there is no command weir: name it in WEIR_COMMAND")
    sys.exit(77)
program = '''
import torch
x = torch.ones(9, device="cuda")
print(torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated())
'''
plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
done = subprocess.run([command, "run", "--", sys.executable, "-c", program], capture_output=True,
                      text=True, env=plain)
assert done.stdout.split() == ["weir", "512"], done
""", torch=False)
