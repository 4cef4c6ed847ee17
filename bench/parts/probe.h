/* SPDX-License-Identifier: MIT */
/*
 * What a profiler is told: where the measured part of a workload begins and ends. Under callgrind
 * the counters are set to zero at the beginning and written to a file of their own, which carries
 * the workload's name, at the end; nothing happens otherwise, or where callgrind's header is not
 * there at compile time.
 */
#ifndef WEIR_BENCH_PROBE_H
#define WEIR_BENCH_PROBE_H

#ifdef WEIR_BENCH_CALLGRIND
#include <valgrind/callgrind.h>
#define WEIR_BENCH_PROBE_RUNS() (RUNNING_ON_VALGRIND != 0)
#define WEIR_BENCH_PROBE_BEGIN() \
    do { \
        CALLGRIND_START_INSTRUMENTATION; \
        CALLGRIND_ZERO_STATS; \
    } while (0)
#define WEIR_BENCH_PROBE_END(name) \
    do { \
        CALLGRIND_DUMP_STATS_AT(name); \
        CALLGRIND_STOP_INSTRUMENTATION; \
    } while (0)
#else
#define WEIR_BENCH_PROBE_RUNS() false
#define WEIR_BENCH_PROBE_BEGIN() ((void)0)
#define WEIR_BENCH_PROBE_END(name) ((void)(name))
#endif

#endif
