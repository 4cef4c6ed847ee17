#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures how much of the core the tests reach, and fails below coverage/thresholds.
source "$(dirname "$0")/lib.sh"
need_test
exec coverage/run.sh
