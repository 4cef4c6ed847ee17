/* SPDX-License-Identifier: MIT */
/* Time of the host, for measuring. */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <stdint.h>

/* Nanoseconds of a clock that never goes back. */
uint64_t weir_clock_ns(void);

/* What one look at the clock takes, in thousandths of a nanosecond, measured now. */
uint64_t weir_clock_cost_ps(void);

#endif
