/* SPDX-License-Identifier: MIT */
/*
 * A script: the allocations and frees of one workload, made before anything is measured, so that
 * what a pool does is all that is left in the measured loop. The same seed gives the same script on
 * every machine.
 *
 * The first `warm` steps bring the pool to its steady state; the rest is WEIR_BENCH_ROUNDS rounds
 * of as many steps each. In a round every allocation has its free or takes the place of a freed
 * block.
 */
#ifndef WEIR_BENCH_SCRIPT_H
#define WEIR_BENCH_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_BENCH_ROUNDS 5u
#define WEIR_BENCH_FREE UINT64_MAX /* in `bytes`: the step frees its slot */

typedef struct weir_bench_step {
    uint64_t bytes; /* to allocate, or WEIR_BENCH_FREE */
    uint32_t slot;
} weir_bench_step;

typedef struct weir_bench_script {
    weir_bench_step *steps;
    uint64_t count;
    uint64_t warm;
    uint32_t slots;
    uint64_t peak_bytes; /* most bytes live at once */
} weir_bench_script;

/* `live` blocks of 512 bytes to 64 MiB, each doubling as likely; a pair frees one of them and
 * allocates one of another size. `pairs` in a round. False where memory is short. */
bool weir_bench_script_random(weir_bench_script *script, uint32_t live, uint32_t pairs,
                              uint64_t seed);

/* 600 blocks stay; each iteration goes forward and back through 48 layers, whose blocks are freed
 * last in, first out, with sizes of its own. `iterations` in a round. False where memory is
 * short. */
bool weir_bench_script_training(weir_bench_script *script, uint32_t iterations, uint64_t seed);

void weir_bench_script_free(weir_bench_script *script);

#endif
