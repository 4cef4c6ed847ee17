/* SPDX-License-Identifier: MIT */
/* Measures the pool on a recorded trace, whole: from the empty pool through all growth. */
#ifndef WEIR_BENCH_RECORDED_H
#define WEIR_BENCH_RECORDED_H

#include "loop.h"

/* `path` is a trace as the command weir reads it. An op is a line of it. With `probed` no time is
 * taken, a profiler sees the trace as one part, and the frees of what the trace leaves live are ops
 * too. False: *fault says what failed. */
bool weir_bench_recorded(const char *path, bool probed, weir_bench_result *result,
                         weir_fault *fault);

#endif
