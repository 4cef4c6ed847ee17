# SPDX-License-Identifier: MIT
"""Runs one module of tests for ctest: 77 if every test of it was skipped, with the reasons."""
import sys
import unittest

if __name__ == "__main__":
    tests = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    if not result.wasSuccessful() or not result.testsRun + len(result.skipped):
        sys.exit(1)
    if len(result.skipped) >= result.testsRun:
        print("skipped:", "; ".join(sorted({reason for _, reason in result.skipped})))
        sys.exit(77)
