/* SPDX-License-Identifier: MIT */
/* What lies in a pool's memory, by a walk over its blocks and handles. */
#ifndef WEIR_OCCUPANCY_H
#define WEIR_OCCUPANCY_H

#include "weir.h"

typedef struct weir_occupancy {
    uint64_t live_blocks;
    uint64_t pending_blocks; /* free, but some use may not have passed */
    uint64_t stranded_bytes; /* free, in handles that also hold live blocks */
    uint64_t stranded_runs;  /* free blocks that lie in such handles, wholly or in part */
} weir_occupancy;

/* False where memory is short. O(blocks * log handles). */
bool weir_occupancy_read(weir_pool *pool, weir_occupancy *occupancy);

#endif
