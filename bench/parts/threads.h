/* SPDX-License-Identifier: MIT */
/* Several threads on one pool, each with a stream and a script of its own. */
#ifndef WEIR_BENCH_THREADS_H
#define WEIR_BENCH_THREADS_H

#include "loop.h"

/* Each thread plays what weir_bench_script_random makes of `live` blocks and `pairs`, another for
 * each. ns_per_op is of one thread: how long it waits for an operation, lock and device included.
 * False: *fault says what failed. */
bool weir_bench_threads(const char *name, uint32_t threads, uint32_t live, uint32_t pairs,
                        weir_bench_result *result, weir_fault *fault);

#endif
