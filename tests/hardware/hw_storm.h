/* SPDX-License-Identifier: MIT */
/*
 * A storm: threads that allocate, write a tag, use on other streams, verify the tag and free, at
 * random over common streams of one pool. Work lags behind, since kernels spin now and then. Each
 * block has a tag of its own, so memory that two blocks have at once, or that somebody gets before
 * the last user is done, shows as wrong words.
 */
#ifndef WEIR_HW_STORM_H
#define WEIR_HW_STORM_H

#include "hw.h"

#define STORM_STREAMS 8u
#define STORM_THREADS_MAX 16u

typedef struct storm_plan {
    weir_conf_source source;
    uint64_t limit_bytes;
    uint64_t growth_bytes; /* 0: the pool's default */
    uint64_t block_min, block_max;
    unsigned threads;
    uint32_t live;             /* blocks that a thread holds at most */
    uint32_t spin_us;          /* longest spin */
    uint64_t rounds;           /* of each thread, at most */
    uint64_t time_us;          /* at most */
    uint64_t moves, crossings; /* ends early once both were reached; 0: not asked for */
    uint32_t seed;
    bool planted; /* events pass at once and waits between streams are dropped */
} storm_plan;

typedef struct storm_result {
    uint64_t rounds;
    uint64_t reuses;    /* blocks whose first address had been freed before */
    uint64_t crossings; /* of those: freed last on another stream */
    uint64_t moves;
    uint64_t rescues;
    uint64_t stream_waits;
    uint64_t refused; /* allocations that found no memory */
    uint64_t wrong_words;
    const char *broken; /* an invariant of the pool, or what was not given back; else NULL */
} storm_result;

storm_result hw_storm(const storm_plan *plan);

#endif
