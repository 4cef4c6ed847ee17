# SPDX-License-Identifier: MIT
"""The start-up hook of `weir run`, on small stand-ins for the frameworks: what it does when a
program imports one, and that it leaves alone what is not its own.
"""
import unittest

from support import STARTUP, Case, environment

TORCH = """
import types
__version__ = "9.9"
version = types.SimpleNamespace(cuda={cuda!r})
cuda = types.SimpleNamespace(is_initialized=lambda: {started})
"""


class Startup(Case):
    """Programs that were not changed."""

    def start(self, text, torch=None, code=0, **env):
        """Runs a program with the hook and this test's folder before the packages."""
        if torch is not None:
            self.path("lib/torch/__init__.py", torch)
        return self.program(text, code=code, env=environment(
            PYTHONPATH=f"{STARTUP}:{self.path('lib')}", **env))

    def test_a_program_without_frameworks_loads_nothing(self):
        self.start("""
            import sys
            assert "weir" not in sys.modules and "torch" not in sys.modules
        """)
        self.assertEqual(self.errors, "")

    def test_the_package_is_found_in_the_tree(self):
        self.start("import weir; weir.conf()")

    def test_a_framework_is_enabled_when_it_is_imported(self):
        self.path("lib/cupy/__init__.py", """
            import types
            taken = []
            cuda = types.SimpleNamespace(set_allocator=taken.append, memory=types.SimpleNamespace(
                OutOfMemoryError=MemoryError))
        """)
        self.start("""
            import cupy
            assert len(cupy.taken) == 1
            assert type(cupy.__loader__).__name__ == "SourceFileLoader", cupy.__loader__
            import importlib
            importlib.reload(cupy)
        """)

    def test_what_cannot_be_is_said_in_one_line_and_the_program_runs(self):
        said = self.start("import torch; print('ran')", TORCH.format(cuda="13.0", started=True))
        self.assertEqual(said, "ran\n")
        self.assertEqual(self.errors.count("\n"), 1, self.errors)
        self.assertIn("torch keeps its own allocator", self.errors)
        self.assertIn("too late", self.errors)

    def test_strict_ends_the_program(self):
        self.start("import torch; print('ran')", TORCH.format(cuda="13.0", started=True), code=1,
                   WEIR_STRICT="1")
        self.assertIn("too late", self.errors)

    def test_a_framework_for_processors_is_left_in_silence(self):
        self.start("import torch", TORCH.format(cuda=None, started=False))
        self.assertEqual(self.errors, "")

    def test_numba_is_told_by_its_own_variable(self):
        self.assertEqual(self.start("""
            import os
            print(os.environ["NUMBA_CUDA_MEMORY_MANAGER"])
        """), "weir.numba\n")

    def test_the_programs_own_sitecustomize_runs(self):
        self.path("lib/sitecustomize.py", "import builtins\nbuiltins.mine = 'ran'\n")
        self.assertEqual(self.start("print(mine)"), "ran\n")

    def test_it_can_be_switched_off(self):
        self.path("lib/sitecustomize.py", "import builtins\nbuiltins.mine = 'ran'\n")
        self.assertEqual(self.start("""
            import os, torch
            assert "NUMBA_CUDA_MEMORY_MANAGER" not in os.environ
            print(mine)
        """, TORCH.format(cuda="13.0", started=True), WEIR_STARTUP="0"), "ran\n")
        self.assertEqual(self.errors, "")

    def test_a_missing_runtime_is_said_in_one_line(self):
        self.start("import torch", TORCH.format(cuda="13.0", started=False),
                   WEIR_RUNTIME_LIBRARY="/nowhere/x.so")
        self.assertEqual(self.errors.count("\n"), 1, self.errors)
        self.assertIn("/nowhere/x.so", self.errors)


if __name__ == "__main__":
    unittest.main()
