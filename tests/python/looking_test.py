# SPDX-License-Identifier: MIT
"""Leaks, history, snapshots and the summary, as a program sees them."""
import os
import pickle
import pickletools
import subprocess
import sys
import unittest

from support import Case, environment

# What the viewer's own reader of pickles knows.
OPCODES = {"PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1",
           "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "EMPTY_DICT",
           "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "LIST", "DICT",
           "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "BINGET",
           "LONG_BINGET", "MEMOIZE"}

PROGRAM = """
import sys, weir, weir._runtime as runtime
weir.record()
def keep():
    return runtime.allocate(0, 5 << 20, 0)
def lose():
    return runtime.allocate(0, 300, 0)
kept = [keep() for _ in range(3)]
runtime.free(lose(), 0)
lose()
"""


class Leaks(Case):
    """Who holds what."""

    def test_the_line_that_allocated_is_named_and_blocks_are_grouped(self):
        said = self.program(PROGRAM + "print(weir.leaks())\n")
        self.assertIn("in 3 blocks", said)
        self.assertIn("15.00 MiB", said)
        self.assertIn(f"keep ({self.path('program.py')}:5)", said)
        self.assertIn(f"lose ({self.path('program.py')}:7)", said)
        self.assertLess(said.index("keep"), said.index("lose"))

    def test_no_frame_of_the_package_is_shown(self):
        self.assertNotIn("_runtime.py", self.program(PROGRAM + "print(weir.leaks())\n"))

    def test_top_bounds_the_groups(self):
        said = self.program(PROGRAM + "print(weir.leaks(top=1))\n")
        self.assertIn("keep", said)
        self.assertNotIn("lose", said)

    def test_without_record_there_are_sizes_only(self):
        said = self.program(PROGRAM.replace("weir.record()", "") + "print(weir.leaks())\n")
        self.assertIn("in 3 blocks", said)
        self.assertNotIn("keep", said)

    def test_native_stacks_name_libraries(self):
        said = self.program(PROGRAM.replace("weir.record()", "weir.record(stacks='native')")
                            + "print(weir.leaks())\n")
        self.assertIn("+0x", said)
        self.assertNotIn("keep", said)

    def test_stacks_of_threads_are_their_own(self):
        said = self.program("""
            import threading, weir, weir._runtime as runtime
            weir.record()
            def beside():
                runtime.allocate(0, 1 << 20, 0)
            thread = threading.Thread(target=beside)
            thread.start(); thread.join()
            print(weir.leaks())
        """)
        self.assertIn("beside", said)

    def test_leaks_at_exit_name_the_line_once(self):
        text = PROGRAM.replace("weir.record()", "")
        self.program(text, env=environment(WEIR_LEAKS="1"))
        self.assertIn("keep (", self.errors)
        self.assertEqual(self.errors.count("device 0:"), 1, self.errors)
        self.program(text, env=environment(WEIR_LEAKS="0"))
        self.assertEqual(self.errors, "")

    def test_a_stack_is_interned_once(self):
        self.program("""
            import weir, weir._stacks as stacks, weir._runtime as runtime
            interned, intern = [], stacks._intern
            stacks._intern = lambda frames: interned.append(frames) or intern(frames)
            weir.record()
            for _ in range(100):
                runtime.free(runtime.allocate(0, 512, 0), 0)
            assert len(interned) == 1, len(interned)
        """)


class Snapshots(Case):
    """Files that pytorch.org/memory_viz opens."""

    def snapshot(self, more=""):
        path = self.path("x.pickle")
        self.program(PROGRAM + more + f"\nweir.snapshot({path!r})\n")
        with open(path, "rb") as file:
            raw = file.read()
        return raw, pickle.loads(raw)

    def test_only_opcodes_that_the_viewer_knows(self):
        raw, _ = self.snapshot()
        self.assertEqual({op.name for op, _, _ in pickletools.genops(raw)} - OPCODES, set())

    def test_blocks_fill_their_segments_and_states_are_pytorchs(self):
        _, found = self.snapshot()
        self.assertTrue(found["segments"])
        for segment in found["segments"]:
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at)
                self.assertIn(block["state"],
                              ("active_allocated", "active_pending_free", "inactive"))
                at += block["size"]
            self.assertEqual(at, segment["address"] + segment["total_size"])
        active = [block for segment in found["segments"] for block in segment["blocks"]
                  if block["state"] == "active_allocated"]
        self.assertEqual(sorted(block["requested_size"] for block in active),
                         [300, 5 << 20, 5 << 20, 5 << 20])

    def test_frames_name_the_line(self):
        _, found = self.snapshot()
        frames = [block["frames"][0] for segment in found["segments"]
                  for block in segment["blocks"] if block["state"] == "active_allocated"]
        self.assertEqual({(frame["name"], frame["line"]) for frame in frames},
                         {("keep", 5), ("lose", 7)})

    def test_the_trace_has_what_happened_in_order(self):
        _, found = self.snapshot()
        acts = [entry["action"] for entry in found["device_traces"][0]
                if entry["action"] in ("alloc", "free_requested", "free_completed")]
        self.assertEqual(acts, ["alloc"] * 4 + ["free_requested", "free_completed", "alloc"])

    def test_the_viewer_of_an_installed_pytorch_reads_it(self):
        import importlib.util

        spec = importlib.util.find_spec("torch")
        if spec is None:
            self.skipTest("PyTorch is not installed, so its viewer cannot be asked")
        self.snapshot()
        viewer = os.path.join(os.path.dirname(spec.origin), "cuda", "_memory_viz.py")
        for command in (["trace_plot", "-o", self.path("a.html")],
                        ["segment_plot", "-o", self.path("b.html")], ["segments"], ["memory"],
                        ["trace"]):
            out = command[1:] or (["-o", self.path("c.svg")] if command[0] != "trace" else [])
            done = subprocess.run([sys.executable, viewer, command[0], self.path("x.pickle"), *out],
                                  capture_output=True, text=True, timeout=120, check=False,
                                  cwd=self.folder)
            if "flamegraph" in done.stderr:
                continue  # these two fetch a script, which is not this test's affair
            self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")

    def test_json_is_the_same(self):
        import json

        path = self.path("x.json")
        self.program(PROGRAM + f"\nweir.snapshot({path!r})\n")
        with open(path, encoding="utf-8") as file:
            self.assertTrue(json.load(file)["segments"])

    def test_a_folder_that_is_not_there_is_named(self):
        self.assertIn("/nowhere", self.refusal(
            "runtime.allocate(0, 512, 0); weir.snapshot('/nowhere/x.pickle')"))


class Summary(Case):
    """The table."""

    def test_it_is_a_box_of_75_columns(self):
        said = self.program(PROGRAM + "print(weir.summary())\n")
        box = [line for line in said.splitlines() if line.startswith("|")]
        self.assertGreater(len(box), 10)
        self.assertEqual({len(line) for line in box}, {77})
        self.assertIn("        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed ",
                      said)
        self.assertRegex(said, r"Allocations +\| +4 +\| +4 +\| +5 +\| +1 ")


class Traces(Case):
    """A recording that `weir replay` reads."""

    def test_a_trace_has_a_line_for_each_operation(self):
        path = self.path("t.csv")
        self.program(f"""
            import weir, weir._runtime as runtime
            weir.trace({path!r})
            a = runtime.allocate(0, 4096, 0)
            runtime.free(a, 0)
            weir.stop_trace()
            runtime.allocate(0, 512, 0)
        """)
        with open(path, encoding="utf-8") as file:
            lines = [line.split(",") for line in file.read().splitlines()
                     if line[:2] in ("a,", "f,")]
        self.assertEqual([(line[0], line[2]) for line in lines], [("a", "4096"), ("f", "4096")])


if __name__ == "__main__":
    unittest.main()
