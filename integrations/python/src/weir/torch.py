# SPDX-License-Identifier: MIT
"""PyTorch on Weir.

    import weir.torch
    weir.torch.enable()          # before the first use of CUDA in this process

There are two ways to put an allocator under PyTorch, and enable() takes the first that works here:

full       an allocator of PyTorch's own C++ kind, built on this machine in a few seconds when it is
           first wanted, for the PyTorch that is here (`python -m weir.torch build` does it ahead).
           Everything works, torch.compile with mode "reduce-overhead" and cudnn.benchmark too.
pluggable  PyTorch's documented interface, with all hooks set. What it refuses is done in Python
           where that is possible: statistics, snapshots, history. Two things are not: with a
           warning, cudnn.benchmark stays off, and torch.compile leaves CUDA graphs out.

WEIR_TORCH_ROUTE=full or =pluggable takes one of them and says why if that fails.
"""
import ctypes
import os
import sys

from . import _build, _torch_patches
from ._runtime import WeirError, call, library

ROUTES = ("auto", "full", "pluggable")
_state = {"route": None, "why_not_full": None}
_kept = []  # what PyTorch calls has to stay


def route():
    """"full", "pluggable", or None where enable() has not been called."""
    return _state["route"]


def why_not_full():
    """Why enable() took the pluggable route by itself; None if it did not."""
    return _state["why_not_full"]


def _gpu_is_there(torch):
    """Whether there is a driver and a device, found without touching either."""
    if os.environ.get("WEIR_CUDA_LIBRARY"):
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = torch.cuda._device_count_nvml()  # pylint: disable=protected-access
    if count < 0:  # there is no NVML to ask
        return os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
    return count > 0


def _check(torch):
    """One sentence for each reason why it cannot work."""
    if torch.version.cuda is None:
        raise WeirError(f"this PyTorch ({torch.__version__}) was built without CUDA, so there is "
                        "no CUDA memory for Weir to manage")
    if torch.cuda.is_initialized():
        raise WeirError("weir.torch.enable() came too late: CUDA is initialised in this process "
                        "already; call it before the first use of CUDA, or start the program with "
                        "`weir run`")
    if not _gpu_is_there(torch):
        raise WeirError("there is no GPU: no NVIDIA driver with a visible device was found")


def _install_full():
    path = _build.full()
    loaded = ctypes.CDLL(path)
    loaded.weir_torch_why.restype = ctypes.c_char_p
    loaded.weir_torch_install.argtypes = [ctypes.c_char_p]
    if loaded.weir_torch_install(os.fsencode(library().path)) != 0:
        said = loaded.weir_torch_why().decode(errors="replace").split("\n")[0]
        raise WeirError(f"PyTorch did not take the allocator: {said}")
    _kept.append(loaded)


def _address(loaded, name):
    return ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value


# The setter of PyTorch's object, and the hook of weir_torch.h that it gets.
HOOKS = (("set_init_fn", "weir_torch_init"),
         ("set_reset_fn", "weir_torch_empty_cache"),
         ("set_memory_fraction_fn", "weir_torch_memory_fraction"),
         ("set_base_alloc_fn", "weir_torch_base"),
         ("set_record_stream_fn", "weir_torch_record_stream"),
         ("set_begin_allocate_to_pool", "weir_torch_begin_to_pool"),
         ("set_end_allocate_to_pool_fn", "weir_torch_end_to_pool"),
         ("set_release_pool", "weir_torch_release_pool"))


def _throwing(torch):
    """The library whose allocation throws where there is no memory."""
    loaded = ctypes.CDLL(_build.throwing())
    root = os.path.join(os.path.dirname(torch.__file__), "lib")
    paths = [library().path, os.path.join(root, "libc10.so"), os.path.join(root, "libc10_cuda.so")]
    if loaded.weir_torch_throw_setup(*[os.fsencode(path) for path in paths]) < 0:
        raise WeirError(f"{library().path} has no hooks for PyTorch")
    _kept.append(loaded)
    return loaded


def _install_pluggable(torch):
    from torch.cuda.memory import CUDAPluggableAllocator, change_current_allocator

    throwing, runtime = _throwing(torch), library().loaded
    made = CUDAPluggableAllocator.__new__(CUDAPluggableAllocator)
    # pylint: disable=protected-access # the constructor takes both functions from one file
    made._allocator = torch._C._cuda_customAllocator(
        _address(throwing, "weir_torch_alloc_or_throw"), _address(runtime, "weir_torch_free"))
    for setter, hook in HOOKS:
        if not hasattr(made._allocator, setter):
            raise WeirError(f"this PyTorch ({torch.__version__}) has no {setter}: Weir needs "
                            "version 2.3 or later")
        getattr(made._allocator, setter)(_address(runtime, hook))
    try:
        change_current_allocator(made)
    except RuntimeError as error:
        said = str(error).split("\n", maxsplit=1)[0]
        raise WeirError(f"PyTorch did not take the allocator: {said}") from error
    _kept.append(made)


def _install(torch, wanted):
    """The route that was taken."""
    if wanted in ("auto", "full"):
        try:
            _install_full()
            return "full"
        except WeirError as error:
            if wanted == "full":
                raise
            _state["why_not_full"] = str(error)
    _install_pluggable(torch)
    return "pluggable"


def enable(route=None, conf=None):  # pylint: disable=redefined-outer-name
    """Makes Weir the allocator of CUDA memory in PyTorch. Once it has, further calls do nothing.

    route   "auto", "full" or "pluggable"; None: what WEIR_TORCH_ROUTE says, else "auto"
    conf    settings in place of WEIR_CONF
    """
    wanted = route or os.environ.get("WEIR_TORCH_ROUTE") or "auto"
    if wanted not in ROUTES:
        raise WeirError(f"'{wanted}' is no route: there are {', '.join(ROUTES)}")
    if _state["route"]:
        return
    import torch

    library()
    _check(torch)
    if conf is not None:
        call("configure", conf.encode())
    _state["route"] = _install(torch, wanted)
    _torch_patches.apply(torch, _state["route"])


def main():
    """python -m weir.torch build"""
    if sys.argv[1:] != ["build"]:
        sys.exit("python -m weir.torch build: builds PyTorch's allocator on Weir for the PyTorch "
                 "that is here")
    try:
        print(_build.full())
    except WeirError as error:
        sys.exit(f"weir.torch: {error}")


if __name__ == "__main__":
    main()
