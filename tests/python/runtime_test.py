# SPDX-License-Identifier: MIT
"""The ctypes layer: which library it takes, that it agrees with the header, and its refusals."""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest

from support import DRIVER, HEADER, PACKAGE, RUNTIME, Case, compiler, environment


class Library(Case):
    """Which runtime a process has."""

    def test_a_library_that_is_loaded_already_is_the_runtime(self):
        for mode in ("RTLD_GLOBAL", "RTLD_LOCAL"):
            with self.subTest(mode=mode):
                said = self.program(f"""
                    import ctypes
                    ctypes.CDLL({RUNTIME!r}, mode=ctypes.{mode})
                    import weir
                    print(weir.library_path())
                """, env=environment(WEIR_RUNTIME_LIBRARY="/nowhere/libweir_runtime.so"))
                self.assertTrue(said.startswith(RUNTIME.rsplit(".so", 1)[0]), said)

    def test_the_runtime_beside_the_preload_shim_is_found(self):
        shim = self.path("libweir_preload.so")
        compiled = subprocess.run([compiler("cc"), "-shared", "-xc", "/dev/null", "-o", shim],
                                  check=False)
        self.assertEqual(compiled.returncode, 0)
        os.symlink(RUNTIME, self.path("libweir_runtime.so.1"))
        said = self.program("import weir; weir.conf(); print(weir.library_path())",
                            env=environment(WEIR_RUNTIME_LIBRARY=None, LD_PRELOAD=shim))
        self.assertEqual(said.strip(), self.path("libweir_runtime.so.1"))

    def test_a_missing_library_is_named(self):
        said = self.refusal("weir.stats()", environment(WEIR_RUNTIME_LIBRARY="/nowhere/x.so"))
        self.assertIn("WEIR_RUNTIME_LIBRARY", said)
        self.assertIn("/nowhere/x.so", said)

    def test_another_library_is_no_runtime(self):
        said = self.refusal("weir.stats()", environment(WEIR_RUNTIME_LIBRARY=DRIVER))
        self.assertIn("is no runtime of Weir", said)

    def test_importing_the_package_loads_nothing(self):
        self.program("import weir\n", env=environment(WEIR_RUNTIME_LIBRARY="/nowhere/x.so"))


class Header(unittest.TestCase):
    """The declarations in Python are those of weir_runtime.h."""

    def setUp(self):
        with open(HEADER, encoding="utf-8") as file:
            self.text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)

    def test_each_call_is_declared_with_as_many_arguments(self):
        sys.path.insert(0, PACKAGE)
        from weir._runtime import CALLS

        for name, (_, takes) in CALLS.items():
            found = re.search(rf"\bweir_runtime_{name}\(([^;]*?)\);", self.text, re.S)
            self.assertTrue(found, name)
            arguments = found.group(1).strip()
            count = 0 if arguments == "void" else arguments.count(",") + 1
            self.assertEqual(count, len(takes), name)

    def test_the_struct_of_figures_has_the_layout_of_the_header(self):
        sys.path.insert(0, PACKAGE)
        from weir._runtime import Stats

        fields = [name for name, _ in Stats._fields_]
        lines = "".join(f'printf("%zu ", offsetof(weir_runtime_stats, {name}));' for name in fields)
        code = ('#include <stddef.h>\n#include <stdio.h>\n#include "weir_runtime.h"\n'
                f"int main(void) {{ {lines} printf(\"%zu\", sizeof(weir_runtime_stats)); }}\n")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "layout")
            subprocess.run([compiler("cc"), "-xc", "-", "-o", program, "-I",
                            os.path.dirname(HEADER)], input=code, text=True, check=True)
            said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        here = [getattr(Stats, name).offset for name in fields] + [ctypes.sizeof(Stats)]
        self.assertEqual([int(word) for word in said.split()], here)


class Refusals(Case):
    """One clear sentence for each."""

    def test_a_setting_that_is_not_known(self):
        said = self.refusal("runtime.allocate(0, 512, 0)", environment(WEIR_CONF="limit_mbb:64"))
        self.assertIn("limit_mbb", said)
        self.assertIn("limit_mb", said.replace("limit_mbb", ""))

    def test_no_gpu(self):
        said = self.refusal("runtime.allocate(0, 512, 0)",
                            environment(WEIR_CUDA_LIBRARY="/nowhere/libcuda.so"))
        self.assertIn("/nowhere/libcuda.so", said)

    def test_a_device_that_is_not_there(self):
        self.assertTrue(self.refusal("runtime.allocate(7, 512, 0)"))

    def test_settings_that_come_too_late(self):
        said = self.refusal("runtime.allocate(0, 512, 0); weir.configure('limit_mb:64')")
        self.assertIn("too late", said)

    def test_a_double_free(self):
        said = self.refusal("""
            a = runtime.allocate(0, 512, 0)
            runtime.free(a, 0)
            runtime.free(a, 0)
        """)
        self.assertIn("not the address of a live block", said)

    def test_out_of_memory_says_what_would_have_fitted(self):
        said = self.refusal("runtime.allocate(0, 128 << 20, 0)",
                            environment(WEIR_CONF="limit_mb:64"))
        self.assertIn("CUDA out of memory", said)
        self.assertIn("64.00 MiB", said)
        self.assertIn("would have fitted", said)

    def test_a_kind_of_stacks_that_is_not_known(self):
        self.assertIn("native", self.refusal("weir.record(stacks='all')"))

    def test_limit_wants_one_of_two(self):
        self.assertIn("either", self.refusal("weir.limit(0)"))


class Processes(Case):
    """Threads and forks."""

    def test_threads_share_the_pool(self):
        self.program("""
            import threading, weir, weir._runtime as runtime
            def work(size):
                for _ in range(300):
                    a, b = runtime.allocate(0, size, 0), runtime.allocate(0, 4 * size, 0)
                    runtime.free(a, 0)
                    runtime.free(b, 0)
            threads = [threading.Thread(target=work, args=(1000 * (i + 1),)) for i in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            stats = weir.stats()
            assert stats["allocation.all.allocated"] == 2400, stats
            assert stats["allocated_bytes.all.current"] == 0, stats
        """)

    def test_a_child_forked_before_the_first_pool_is_like_any_process(self):
        self.program("""
            import os, weir, weir._runtime as runtime
            weir.configure("limit_mb:64")
            child = os.fork()
            runtime.free(runtime.allocate(0, 512, 0), 0)
            if child == 0:
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """)

    def test_a_child_of_fork_is_told_and_its_frees_are_quiet(self):
        self.program("""
            import os, weir, weir._runtime as runtime
            a = runtime.allocate(0, 512, 0)
            child = os.fork()
            if child == 0:
                runtime.free(a, 0)
                try:
                    runtime.allocate(0, 512, 0)
                except weir.WeirError as error:
                    os._exit(0 if "fork" in str(error) and error.status == runtime.LOST else 2)
                os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            runtime.free(a, 0)
            assert weir.stats()["allocation.all.current"] == 0
        """)


if __name__ == "__main__":
    unittest.main()
