/* SPDX-License-Identifier: MIT */
/*
 * Time: nanoseconds for whole loops, ticks for single calls. A tick is the processor's time stamp
 * where there is one, read so that neither the call before nor the call after is part of it; else
 * a nanosecond. How long a tick is, is measured over the pass that uses them.
 */
#ifndef RACER_CLOCK_H
#define RACER_CLOCK_H

#include <stdint.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

static inline uint64_t racer_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t racer_clock_ticks(void)
{
#ifdef __x86_64__
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
#else
    return racer_clock_ns();
#endif
}

#endif
