# SPDX-License-Identifier: MIT
"""Puts Weir under PyTorch, CuPy and Numba in a Python program that was not changed.

`weir run` puts this folder first in PYTHONPATH; by hand that does the same. Nothing is loaded until
the program imports a framework itself. What cannot be done is said in one line on standard error,
and the program runs on as if this were not here; with WEIR_STRICT=1 it ends instead.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _find_package():
    """Makes `import weir` work: installed, in the tree beside this folder, or installed with the
    command."""
    if importlib.util.find_spec("weir") is not None:
        return True
    for folder in (os.path.join(_HERE, "..", "src"), os.path.join(_HERE, "..")):
        if os.path.exists(os.path.join(folder, "weir", "__init__.py")):
            sys.path.append(os.path.abspath(folder))
            return True
    return False


def _on_torch():
    import weir.torch

    weir.torch.enable()


def _on_cupy():
    import weir.cupy

    weir.cupy.enable()


def _quiet(error):
    """Whether a program is no worse off: without a GPU, or with a PyTorch for processors only,
    there is nothing to put Weir under."""
    text = str(error)
    return text.startswith("there is no GPU") or "built without CUDA" in text


def _run(act, name):
    try:
        act()
    except Exception as error:  # pylint: disable=broad-except # the program comes first
        if os.environ.get("WEIR_STRICT") == "1":
            sys.stderr.write(f"weir: {name}: {error}\n")
            sys.stderr.flush()
            os._exit(1)
        if not _quiet(error):
            sys.stderr.write(f"weir: {name} keeps its own allocator: {error}\n")


class _After(importlib.abc.Loader):
    """Loads a module as its own loader does, and then acts."""

    def __init__(self, loader, name, act):
        self.loader, self.name, self.act = loader, name, act

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _run(self.act, self.name)

    def __getattr__(self, name):
        return getattr(self.loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Sees the first import of each framework."""

    def __init__(self, acts):
        self.acts = acts

    def find_spec(self, fullname, path=None, target=None):
        act = self.acts.pop(fullname, None)
        if act is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader, fullname, act)
        return spec


def _next_sitecustomize():
    """Runs the program's own sitecustomize, which this one hides."""
    rest = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start():
    if os.environ.get("WEIR_STARTUP") == "0":
        return
    if not _find_package():
        sys.stderr.write("weir: the Python package weir was not found, so Python's frameworks keep "
                         "their own allocators\n")
        return
    sys.meta_path.insert(0, _Finder({"torch": _on_torch, "cupy": _on_cupy}))
    os.environ.setdefault("NUMBA_CUDA_MEMORY_MANAGER", "weir.numba")


_start()
_next_sitecustomize()
