/* SPDX-License-Identifier: MIT */
/* Shape of the target for settings: the keys, and values worth trying. */
#include "shapes.h"

static const char conf_words[] =
    "backend:\nsource:\nlimit_mb:\nlimit:\nper_process_memory_fraction:\ninitial_pool_size_mb:\n"
    "max_split_size_mb:\ngrowth_mb:\nsmall_kb:\nrelease_threshold_mb:\n"
    "garbage_collection_threshold:\nmove_above:\nroundup_power2_divisions:\n"
    "expandable_segments:\nmoves:\nrescue:\nstream_reuse:\nwait_us:\nunit_bytes:\nmax_blocks:\n"
    "release_lock_on_cudamalloc:\nmax_non_split_rounding_mb:\nauto\nsim\nhost\ncuda\nnative\n"
    "cudaMallocAsync\nvmm\nasync\nmalloc\ntrue\nfalse\nTrue\nFalse\nforever\n[256:1,512:2,>:4]\n"
    "[\n]\n>:\n,\n:\n%\nM\nGiB\nKB\n0.5\n1.02\n512\n64\n4096\n18446744073709551615\n"
    "18446744073709551616\n1048576\n21\n128\n0\n1\n.\n.000\n";

const fuzz_shape weir_fuzz_shape = {.head = CONF_HEAD, .end = ',', .words = conf_words};
