/* SPDX-License-Identifier: MIT */
/* A pool with a few streams on the device under test. */
#ifndef WEIR_POOL_RIG_H
#define WEIR_POOL_RIG_H

#include "conformance.h"
#include "platform.h"

#define POOL_STREAMS 3u

typedef struct pool_rig {
    const conformance_rig *rig;
    weir_platform *platform;
    weir_pool *pool;
    uint64_t native[POOL_STREAMS];
    weir_stream stream[POOL_STREAMS];
} pool_rig;

/* A pool with this config, whose device, platform and size are filled in; all its streams but the
 * first may end before it. */
pool_rig weir_conformance_pool(const conformance_rig *rig, weir_config config);

/* Checks the pool's invariants and counters, and expects that it can be destroyed. */
void weir_conformance_pool_drop(pool_rig *pool);

/* A block on one of the rig's streams; the test ends if there is none. */
weir_addr weir_conformance_alloc(const pool_rig *pool, unsigned stream, uint64_t bytes);

weir_stats weir_conformance_stats(const pool_rig *pool);
uint32_t weir_conformance_random(uint32_t *state);

#endif
