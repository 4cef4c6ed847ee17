/* SPDX-License-Identifier: MIT */
/* window: where a block could lie if holes were backed. See window.c. */
#ifndef WEIR_WINDOW_H
#define WEIR_WINDOW_H

#include "pool.h"

typedef struct weir_window {
    uint64_t start, end; /* of the block */
    uint64_t missing;    /* granules to back */
    uint64_t cost;       /* bytes; see window.c */
    uint64_t slot;       /* bytes of the slots that `missing` is counted in */
    uint32_t node;       /* one at or before the first that it touches */
} weir_window;

/* The best window for `ask`, false if there is none. `missing` is counted in whole slots. */
bool weir_window_best(const weir_pool *pool, const weir_ask *ask, uint64_t slot, weir_window *best);

/* A window against the low end of the longest hole, or at its high end for small blocks, so that
 * the two kinds grow towards each other. */
bool weir_window_fresh(const weir_pool *pool, const weir_ask *ask, weir_window *found);

/* The window at exactly [start, start + ask->bytes), which follows a block; false if that is
 * taken. */
bool weir_window_at(const weir_pool *pool, const weir_ask *ask, uint64_t start, weir_window *found);

#endif
