/* SPDX-License-Identifier: MIT */
/* What the pool tests share; see pool_rig.h. */
#include "pool_rig.h"

#include <string.h>

pool_rig weir_conformance_pool(const conformance_rig *rig, weir_config config)
{
    pool_rig pool;
    memset(&pool, 0, sizeof(pool));
    pool.rig = rig;
    pool.platform = weir_platform_create(true);
    cr_assert_not_null(pool.platform);
    config.size = sizeof(config);
    config.ops = rig->ops;
    config.device_self = rig->self;
    config.platform = pool.platform;
    ASSERT_OK(weir_pool_create(&config, &pool.pool));
    for (unsigned i = 0; i < POOL_STREAMS; i++) {
        pool.native[i] = rig->device->stream_create(rig->self);
        weir_stream_desc desc = {.size = sizeof(desc),
                                 .native = pool.native[i],
                                 .unique = rig->device->stream_unique(rig->self, pool.native[i]),
                                 .outlives = i == 0};
        ASSERT_OK(weir_stream_attach(pool.pool, &desc, &pool.stream[i]));
    }
    return pool;
}

void weir_conformance_pool_drop(pool_rig *pool)
{
    const char *why = NULL;
    cr_expect_eq(weir_check(pool->pool, &why), WEIR_OK, "%s", why ? why : "");
    weir_stats stats = weir_conformance_stats(pool);
    cr_expect_eq(stats.blocks.current, 0);
    cr_expect_eq(stats.requested.current, 0);
    cr_expect_leq(stats.reserved.peak, stats.limit_bytes);
    cr_expect_eq(weir_pool_destroy(pool->pool), WEIR_OK);
    weir_platform_destroy(pool->platform);
}

weir_addr weir_conformance_alloc(const pool_rig *pool, unsigned stream, uint64_t bytes)
{
    weir_addr addr = 0;
    weir_status status = weir_alloc_on(pool->pool, pool->stream[stream], bytes, &addr);
    cr_assert_eq(status, WEIR_OK, "%llu bytes on stream %u: %s", (unsigned long long)bytes, stream,
                 weir_status_name(status));
    return addr;
}

weir_stats weir_conformance_stats(const pool_rig *pool)
{
    weir_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.size = sizeof(stats);
    weir_stats_read(pool->pool, &stats);
    return stats;
}

uint32_t weir_conformance_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
