# SPDX-License-Identifier: MIT
"""What the tests of the Python package share: programs in processes of their own, on the stand-in
for the driver, since a process has one runtime and its settings cannot change once a pool exists.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(ROOT, "integrations", "python", "src")
STARTUP = os.path.join(ROOT, "integrations", "python", "startup")
HEADER = os.path.join(ROOT, "integrations", "runtime", "weir_runtime.h")
RUNTIME = os.environ.get("WEIR_RUNTIME_LIBRARY", "")
DRIVER = os.environ.get("WEIR_CUDA_LIBRARY", "")
SECONDS = 120


def environment(**changes):
    """The environment of a program; a value of None takes a variable away."""
    found = {key: value for key, value in os.environ.items()
             if not key.startswith(("WEIR_", "PYTORCH_", "LD_PRELOAD", "NUMBA_"))}
    found.update(WEIR_RUNTIME_LIBRARY=RUNTIME, WEIR_CUDA_LIBRARY=DRIVER, PYTHONPATH=PACKAGE,
                 PYTHONDONTWRITEBYTECODE="1")
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


class Case(unittest.TestCase):
    """A test with a folder of its own and programs to run."""

    def setUp(self):
        if not RUNTIME or not DRIVER:
            self.skipTest("WEIR_RUNTIME_LIBRARY and WEIR_CUDA_LIBRARY name no files")
        self.folder = tempfile.mkdtemp(prefix="weir-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name, text=None):
        """A file of this test; written if there is a text."""
        path = os.path.join(self.folder, name)
        if text is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(text))
        return path

    def program(self, text, *flags, env=None, code=0):
        """Runs a program, with flags for Python; what it printed. It must end with `code`."""
        path = self.path("program.py", text)
        done = subprocess.run([sys.executable, *flags, path], capture_output=True, text=True,
                              env=env or environment(), timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.errors = done.stderr
        return done.stdout

    def refusal(self, text, env=None):
        """The sentence of the WeirError that ends a program; there must be one, on one line."""
        body = textwrap.indent(textwrap.dedent(text), "    ")
        said = self.program(f"import weir, weir._runtime as runtime\ntry:\n{body}\n"
                            "except weir.WeirError as error:\n    print(error)\n"
                            "else:\n    raise SystemExit('nothing was refused')\n", env=env)
        self.assertEqual(said.count("\n"), 1, said)
        return said.strip()


def compiler(name):
    """A compiler's path; the test is skipped without one."""
    path = shutil.which(os.environ.get("CC", name) if name == "cc" else name)
    if not path:
        raise unittest.SkipTest(f"there is no {name}")
    return path
