/* SPDX-License-Identifier: MIT */
/* The least memory with which a trace completes. */
#ifndef WEIR_CAPACITY_H
#define WEIR_CAPACITY_H

#include "pass.h"

#define WEIR_CAPACITY_STEP_BYTES (UINT64_C(2) << 20)

/* Finds, in steps of 2 MiB, the least capacity at which no allocation fails, and none fails at any
 * step up to 5 % above it either. `roomy_bytes` is what the trace takes without a bound. Waiting is
 * allowed in these runs. The same answer whatever the number of processors. *breach holds the first
 * breach that a run showed; the search ends there. False: *fault says why there is no answer.
 *
 * Runs: the logarithm of the bracket and the steps of the 5 %. */
bool weir_capacity_find(const weir_pass_setup *setup, uint64_t roomy_bytes, uint64_t *least_bytes,
                        weir_fault *breach, weir_fault *fault);

#endif
