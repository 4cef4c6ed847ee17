# SPDX-License-Identifier: MIT
"""Builds the two small C++ libraries for PyTorch on the user's machine, once for each PyTorch.

weir_torch.cpp   PyTorch's allocator on the runtime; needs PyTorch's headers and CUDA's
weir_throw.cpp   for the pluggable interface; needs a C++ compiler only. A wheel brings it along.

They lie in $WEIR_CACHE, else in ~/.cache/weir, in a folder named by what they depend on; another
process that builds at the same time does no harm, as a finished file is put there in one step.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from ._runtime import ABI, WeirError

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, "native")
SECONDS = 300


def cache():
    """The folder for what is built."""
    named = os.environ.get("WEIR_CACHE")
    if named:
        return named
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "weir")


def _compiler():
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise WeirError("there is no C++ compiler: install g++, or name one in CXX")


def _runtime_header():
    """The folder of weir_runtime.h: in a wheel beside the sources, in the tree a folder of its
    own."""
    tree = os.path.join(HERE, "..", "..", "..", "runtime")
    for folder in (NATIVE, tree):
        if os.path.exists(os.path.join(folder, "weir_runtime.h")):
            return os.path.abspath(folder)
    raise WeirError("weir_runtime.h was not found beside the package")


def _cuda_folders():
    """Folders that may hold CUDA's include and lib folders: of pip's packages, then the
    toolkit's."""
    site = sysconfig.get_paths()["purelib"]
    import torch

    major = (torch.version.cuda or "").split(".", maxsplit=1)[0]
    beside = os.path.dirname(os.path.dirname(torch.__file__))
    folders = [os.path.join(root, "nvidia", f"cu{major}") for root in (beside, site)]
    folders += [os.path.join(root, "nvidia", "cuda_runtime") for root in (beside, site)]
    nvcc = shutil.which("nvcc")
    folders += [os.environ.get("CUDA_HOME") or "", os.environ.get("CUDA_PATH") or "",
                os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else "",
                "/usr/local/cuda"]
    return [folder for folder in folders if folder]


def _cuda():
    """The include folder with all of CUDA's runtime headers; pip's packages can lack a part."""
    for folder in _cuda_folders():
        for include in ("include", os.path.join("targets", "x86_64-linux", "include")):
            path = os.path.join(folder, include)
            if all(os.path.exists(os.path.join(path, name))
                   for name in ("cuda_runtime_api.h", os.path.join("crt", "host_config.h"))):
                return path
    raise WeirError("CUDA's headers were not found: install nvidia-cuda-runtime and nvidia-cuda-crt, or set CUDA_HOME")


def _cudart():
    """The libcudart that PyTorch has loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").rpartition(" ")[2]
            if os.path.basename(path).startswith("libcudart.so"):
                return path
    raise WeirError("this PyTorch has no libcudart loaded")


def _key(sources, *more):
    """What a built library depends on, as a name."""
    found = hashlib.sha256()
    for path in sources:
        with open(path, "rb") as file:
            found.update(file.read())
    for part in more:
        found.update(str(part).encode())
    return found.hexdigest()[:16]


def _compile(target, sources, flags):
    """Makes `target`, whole or not at all."""
    command = [_compiler(), "-O2", "-fPIC", "-shared", "-o", None, *sources, *flags]
    os.makedirs(os.path.dirname(target), exist_ok=True)
    handle, part = tempfile.mkstemp(suffix=".so", dir=os.path.dirname(target))
    os.close(handle)
    command[command.index(None)] = part
    # The compiler is no program to preload a shim into.
    clean = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=SECONDS,
                              check=False)
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line),
                         done.stderr.strip().split("\n")[0])
            raise WeirError(f"{os.path.basename(sources[0])} did not compile: {first.strip()}")
        os.chmod(part, 0o755)
        os.replace(part, target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WeirError(f"{os.path.basename(sources[0])} did not compile: {error}") from error
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return target


def full():
    """The path of PyTorch's allocator on Weir, built for the PyTorch that is here if need be."""
    import torch

    sources = [os.path.join(NATIVE, name) for name in (
        "weir_torch.cpp", "live_map.h", "marks.h", "private_pool.h", "runtime_calls.h")]
    header = os.path.join(_runtime_header(), "weir_runtime.h")
    key = _key([*sources, header], torch.__version__, torch.version.git_version, ABI,
               sys.platform, _cudart())
    target = os.path.join(cache(), f"torch-{torch.__version__}-{key}", "libweir_torch_full.so")
    if os.path.exists(target):
        return target
    root = os.path.dirname(torch.__file__)
    libraries = os.path.join(root, "lib")
    flags = ["-std=c++17", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
             "-isystem", os.path.join(root, "include"), "-isystem", _cuda(),
             "-I", os.path.dirname(header), f"-L{libraries}", f"-Wl,-rpath,{libraries}",
             "-lc10", "-lc10_cuda", "-ltorch_cuda", _cudart()]
    return _compile(target, sources[:1], flags)


def throwing():
    """The path of the library that throws for the pluggable interface."""
    ready = os.path.join(HERE, "lib", "libweir_torch_throw.so")
    if os.path.exists(ready):
        return ready
    source = os.path.join(NATIVE, "weir_throw.cpp")
    target = os.path.join(cache(), f"throw-{_key([source], sys.platform)}",
                          "libweir_torch_throw.so")
    return target if os.path.exists(target) else _compile(target, [source], ["-std=c++17", "-ldl"])
