#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Replays the recorded runs of real models through Weir on the simulated device, and prints what
# they need beside what other allocators needed for the same runs.
source "$(dirname "$0")/lib.sh"
ci/build.sh
say "replay of recorded training runs, simulated device, default settings"
build/bin/weir replay --peers tests/data/peers.jsonl tests/data/traces/*.csv.gz
