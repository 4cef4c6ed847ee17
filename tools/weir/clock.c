/* SPDX-License-Identifier: MIT */
/* The monotonic clock, and what asking it costs. */
#define _POSIX_C_SOURCE 200809L

#include "clock.h"

#include <time.h>

enum { CLOCK_LOOKS = 2000 };

uint64_t weir_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t weir_clock_cost_ps(void)
{
    uint64_t start = weir_clock_ns(), last = start;

    for (int i = 0; i < CLOCK_LOOKS; i++) last = weir_clock_ns();
    return (last - start) * 1000 / CLOCK_LOOKS;
}
