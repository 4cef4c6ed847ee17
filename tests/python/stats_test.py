# SPDX-License-Identifier: MIT
"""The figures under PyTorch's names, against a count by hand."""
import unittest

from support import Case, environment

MIB = 1 << 20
ARRAYS = ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
          "active_bytes", "inactive_split_bytes", "requested_bytes")
SINGLE = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
          "num_device_free", "max_split_size")


def pytorch_keys():
    """The keys of torch.cuda.memory_stats in PyTorch 2.11."""
    keys = {f"{name}.{kind}.{part}" for name in ARRAYS
            for kind in ("all", "large_pool", "small_pool")
            for part in ("current", "peak", "allocated", "freed")}
    keys |= {f"oversize_{name}.{part}" for name in ("allocations", "segments")
             for part in ("current", "peak", "allocated", "freed")}
    return keys | set(SINGLE)


class Figures(Case):
    """What a short program must find."""

    def figures(self, text, **env):
        """The stats after a program, as a dict."""
        import ast

        said = self.program("import weir, weir._runtime as runtime\n" + text
                            + "\nprint(dict(weir.stats()))\n", env=environment(**env))
        return ast.literal_eval(said.splitlines()[-1])

    def test_the_keys_are_those_of_pytorch(self):
        found = {key for key in self.figures("runtime.allocate(0, 512, 0)")
                 if not key.startswith("weir.")}
        self.assertEqual(found, pytorch_keys())

    def test_counts_by_hand(self):
        # 1000 bytes take 1024, one MiB is large, one byte less is small.
        found = self.figures("""
a = runtime.allocate(0, 1000, 0)
b = runtime.allocate(0, 1 << 20, 0)
c = runtime.allocate(0, (1 << 20) - 1, 0)
d = runtime.allocate(0, 3 << 20, 0)
runtime.free(b, 0)
runtime.free(a, 0)
""")
        self.assertEqual(found["allocation.all.current"], 2)
        self.assertEqual(found["allocation.all.peak"], 4)
        self.assertEqual(found["allocation.all.allocated"], 4)
        self.assertEqual(found["allocation.all.freed"], 2)
        self.assertEqual(found["allocation.large_pool.allocated"], 2)
        self.assertEqual(found["allocation.small_pool.current"], 1)
        self.assertEqual(found["requested_bytes.all.current"], 4 * MIB - 1)
        self.assertEqual(found["requested_bytes.all.peak"], 5 * MIB - 1 + 1000)
        self.assertEqual(found["allocated_bytes.all.current"], 4 * MIB)
        self.assertEqual(found["allocated_bytes.all.peak"], 5 * MIB + 1024)
        self.assertEqual(found["allocated_bytes.all.freed"], MIB + 1024)
        self.assertEqual(found["allocated_bytes.large_pool.current"], 3 * MIB)
        self.assertEqual(found["allocated_bytes.small_pool.current"], MIB)
        self.assertGreaterEqual(found["reserved_bytes.all.current"],
                                found["allocated_bytes.all.current"])
        self.assertEqual(found["num_ooms"], 0)
        self.assertIsNone(found["weir.limit_bytes"])

    def test_peaks_are_reset_to_what_is_there(self):
        found = self.figures("""
a, b = runtime.allocate(0, 3 << 20, 0), runtime.allocate(0, 1 << 20, 0)
runtime.free(a, 0)
weir.reset_peaks()
""")
        self.assertEqual(found["allocated_bytes.all.peak"], MIB)
        self.assertEqual(found["allocation.all.peak"], 1)
        self.assertEqual(found["allocated_bytes.all.allocated"], 4 * MIB)

    def test_failures_are_counted(self):
        found = self.figures("""
try:
    runtime.allocate(0, 128 << 20, 0)
except weir.WeirError:
    pass
""", WEIR_CONF="limit_mb:64")
        self.assertEqual(found["num_ooms"], 1)
        self.assertEqual(found["weir.limit_bytes"], 64 * MIB)

    def test_free_and_total_are_under_the_limit(self):
        self.program("""
            import weir, weir._runtime as runtime
            a = runtime.allocate(0, 16 << 20, 0)
            free, total = weir.mem_get_info()
            assert (free, total) == (48 << 20, 64 << 20), (free, total)
            runtime.free(a, 0)
            free, total = weir.mem_get_info()
            assert (free, total) == (64 << 20, 64 << 20), (free, total)
            weir.limit(0, bytes=32 << 20)
            assert weir.mem_get_info()[1] == 32 << 20
        """, env=environment(WEIR_CONF="limit_mb:64"))

    def test_trim_gives_back_what_is_free(self):
        found = self.figures("""
runtime.free(runtime.allocate(0, 16 << 20, 0), 0)
assert weir.trim() >= 16 << 20
""")
        self.assertEqual(found["reserved_bytes.all.current"], 0)
        self.assertGreaterEqual(found["num_device_free"], 1)


if __name__ == "__main__":
    unittest.main()
