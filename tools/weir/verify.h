/* SPDX-License-Identifier: MIT */
/* An extra pass in which a model of its own follows every operation. */
#ifndef WEIR_VERIFY_H
#define WEIR_VERIFY_H

#include "pass.h"

/* Plays `setup` (its hooks, pool, oracle and hashed are set here) and checks: live blocks do not
 * overlap, are aligned and long enough; the device sees no work on memory that is not there or not
 * in order, and finds each block's tag; the pool's counters match the model; weir_check holds now
 * and then and at the end; all is given back. The first breach is in result->breach. False: the
 * pass could not begin. O(ops * log live blocks) and the checks. */
bool weir_verify_run(const weir_pass_setup *setup, weir_pass_result *result, weir_fault *fault);

#endif
