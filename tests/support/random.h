/* SPDX-License-Identifier: MIT */
/*
 * Numbers that look random and can be had again: splitmix64, and what the environment asks for.
 *
 * WEIR_TEST_SEED   the seed of every property test, in place of the test's own
 * WEIR_TEST_STEPS  how many steps each of them takes
 */
#ifndef WEIR_TEST_RANDOM_H
#define WEIR_TEST_RANDOM_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t word = *state += UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

/* From 0 to `bound` - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
    return random_next(state) % bound;
}

/* A size whose logarithm is spread evenly, from 1 to about 2^bits. */
static inline uint64_t random_size(uint64_t *state, uint32_t bits)
{
    uint32_t high = (uint32_t)random_below(state, bits);
    return (UINT64_C(1) << high) + random_below(state, UINT64_C(1) << high);
}

static inline uint64_t random_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 0);
}

#endif
