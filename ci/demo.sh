#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Replays the recorded runs of real models through Weir on the simulated device, and prints what
# they need beside what other allocators needed for the same runs.
source "$(dirname "$0")/lib.sh"
ci/build.sh
say "recorded training runs on the simulated device, default settings, beside recorded peers"
build/bin/weir replay --find-capacity --peers tests/data/peers.jsonl tests/data/traces/*.csv.gz
say "the same runs under a plain caching policy: pools per stream and size, nothing moves"
build/bin/weir replay --policy plain tests/data/traces/*.csv.gz
