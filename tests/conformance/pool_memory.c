/* SPDX-License-Identifier: MIT */
/* A pool on the device under test: limits, trims, moves, and several threads. */
#include "pool_rig.h"

#include <pthread.h>

CONFORMANCE(pool_memory, a_trim_gives_everything_back)
{
    uint64_t released = 0;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    weir_addr a = weir_conformance_alloc(&pool, 0, 5 * rig->granule);
    rig->device->busy(rig->self, pool.native[0], 5000);
    rig->device->write(rig->self, pool.native[0], a, 5 * rig->granule, 1);
    uint64_t reserved = weir_conformance_stats(&pool).reserved.current;
    cr_expect_geq(reserved, 5 * rig->granule);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    EXPECT_OK(weir_trim(pool.pool, 0, WEIR_FOREVER, &released));
    cr_expect_eq(released, reserved);
    cr_expect_eq(weir_conformance_stats(&pool).reserved.current, 0);
    a = weir_conformance_alloc(&pool, 0, 5 * rig->granule);
    rig->device->write(rig->self, pool.native[0], a, 5 * rig->granule, 2);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_memory, the_limit_is_never_passed)
{
    enum { BLOCKS = 8 };
    weir_addr addrs[BLOCKS];
    weir_addr more = 0;
    uint64_t limit = BLOCKS * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = limit});
    for (unsigned i = 0; i < BLOCKS; i++) {
        addrs[i] = weir_conformance_alloc(&pool, i % POOL_STREAMS, rig->granule);
    }
    cr_expect_eq(weir_alloc_on(pool.pool, pool.stream[0], rig->granule, &more), WEIR_NO_MEMORY);
    cr_expect_eq(more, 0);
    weir_oom oom = {.size = sizeof(oom)};
    EXPECT_OK(weir_oom_read(pool.pool, &oom));
    cr_expect_eq(oom.asked_bytes, rig->granule);
    cr_expect_leq(weir_conformance_stats(&pool).reserved.peak, limit);
    EXPECT_OK(weir_free(pool.pool, addrs[3], 0));
    addrs[3] = weir_conformance_alloc(&pool, 0, rig->granule);
    for (unsigned i = 0; i < BLOCKS; i++) {
        EXPECT_OK(weir_free(pool.pool, addrs[i], 0));
    }
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_memory, a_lowered_limit_trims_and_then_holds)
{
    uint64_t granule = rig->granule;
    weir_addr more = 0;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.growth_bytes = granule});
    weir_addr kept = weir_conformance_alloc(&pool, 0, 2 * granule);
    weir_addr freed = weir_conformance_alloc(&pool, 0, 6 * granule);
    rig->device->write(rig->self, pool.native[0], kept, 2 * granule, 1);
    EXPECT_OK(weir_free(pool.pool, freed, 0));
    rig->device->sync(rig->self);
    EXPECT_OK(weir_limit_set(pool.pool, 2 * granule));
    cr_expect_leq(weir_conformance_stats(&pool).reserved.current, 2 * granule);
    cr_expect_eq(weir_alloc_on(pool.pool, pool.stream[0], granule, &more), WEIR_NO_MEMORY);
    rig->device->verify(rig->self, pool.native[0], kept, 2 * granule, 1);
    EXPECT_OK(weir_free(pool.pool, kept, 0));
    weir_stats_reset_peaks(pool.pool);
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_memory, a_pool_that_may_not_grow_has_what_it_began_with)
{
    weir_addr more = 0;
    uint64_t bytes = 6 * rig->granule;
    weir_config config = {.initial_bytes = bytes, .no_growth = true};
    pool_rig pool = weir_conformance_pool(rig, config);
    cr_expect_eq(weir_conformance_stats(&pool).reserved.current, bytes);
    weir_addr a = weir_conformance_alloc(&pool, 0, bytes);
    rig->device->write(rig->self, pool.native[0], a, bytes, 1);
    cr_expect_eq(weir_alloc_on(pool.pool, pool.stream[0], 512, &more), WEIR_NO_MEMORY);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    weir_conformance_pool_drop(&pool);
}

/* Every second granule is free, the limit is reached, and one block as long as all of them is
 * wanted: with virtual memory there is no false out of memory. */
CONFORMANCE(pool_memory, holes_are_moved_together)
{
    enum { HALVES = 8 };
    weir_addr addrs[2 * HALVES];
    uint64_t granule = rig->granule;
    if (!rig->ops->va_reserve) {
        return;
    }
    weir_config config = {.limit_bytes = 2 * HALVES * granule, .growth_bytes = granule};
    pool_rig pool = weir_conformance_pool(rig, config);
    for (unsigned i = 0; i < 2 * HALVES; i++) {
        addrs[i] = weir_conformance_alloc(&pool, 0, granule);
        rig->device->write(rig->self, pool.native[0], addrs[i], granule, i);
    }
    for (unsigned i = 0; i < 2 * HALVES; i += 2) {
        EXPECT_OK(weir_free(pool.pool, addrs[i], 0));
    }
    weir_addr big = weir_conformance_alloc(&pool, 0, HALVES * granule);
    rig->device->write(rig->self, pool.native[0], big, HALVES * granule, 99);
    for (unsigned i = 1; i < 2 * HALVES; i += 2) {
        rig->device->verify(rig->self, pool.native[0], addrs[i], granule, i);
        EXPECT_OK(weir_free(pool.pool, addrs[i], 0));
    }
    rig->device->verify(rig->self, pool.native[0], big, HALVES * granule, 99);
    cr_expect_gt(weir_conformance_stats(&pool).moved_handles, 0);
    EXPECT_OK(weir_free(pool.pool, big, 0));
    weir_conformance_pool_drop(&pool);
}

/* The same, where the holes were left by work of two other streams that still runs. */
CONFORMANCE(pool_memory, holes_of_other_streams_are_moved_after_their_work)
{
    enum { HALVES = 8 };
    weir_addr addrs[2 * HALVES];
    uint64_t granule = rig->granule;
    if (!rig->ops->va_reserve || !rig->ops->event_wait) {
        return;
    }
    weir_config config = {.limit_bytes = 2 * HALVES * granule, .growth_bytes = granule};
    pool_rig pool = weir_conformance_pool(rig, config);
    for (unsigned i = 0; i < 2 * HALVES; i++) {
        addrs[i] = weir_conformance_alloc(&pool, 1 + i / 2 % 2, granule);
        rig->device->write(rig->self, pool.native[1 + i / 2 % 2], addrs[i], granule, i);
    }
    rig->device->busy(rig->self, pool.native[1], 20000);
    rig->device->busy(rig->self, pool.native[2], 10000);
    for (unsigned i = 0; i < 2 * HALVES; i += 2) {
        rig->device->verify(rig->self, pool.native[1 + i / 2 % 2], addrs[i], granule, i);
        EXPECT_OK(weir_free(pool.pool, addrs[i], 0));
    }
    weir_addr big = weir_conformance_alloc(&pool, 0, HALVES * granule);
    rig->device->write(rig->self, pool.native[0], big, HALVES * granule, 99);
    for (unsigned i = 1; i < 2 * HALVES; i += 2) {
        rig->device->verify(rig->self, pool.native[1 + i / 2 % 2], addrs[i], granule, i);
        EXPECT_OK(weir_free(pool.pool, addrs[i], 0));
    }
    EXPECT_OK(weir_free(pool.pool, big, 0));
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_memory, a_pinned_block_and_its_contents_stay)
{
    uint64_t bytes = 2 * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    weir_addr a = weir_conformance_alloc(&pool, 0, bytes);
    rig->device->write(rig->self, pool.native[0], a, bytes, 1);
    EXPECT_OK(weir_pin(pool.pool, a));
    cr_expect_geq(weir_conformance_stats(&pool).pinned_bytes, bytes);
    EXPECT_OK(weir_trim(pool.pool, 0, WEIR_FOREVER, NULL));
    rig->device->verify(rig->self, pool.native[0], a, bytes, 1);
    EXPECT_OK(weir_unpin(pool.pool, a));
    cr_expect_eq(weir_conformance_stats(&pool).pinned_bytes, 0);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_memory, two_pools_share_a_device)
{
    uint64_t bytes = 3 * rig->granule;
    pool_rig first = weir_conformance_pool(rig, (weir_config){0});
    pool_rig second = weir_conformance_pool(rig, (weir_config){0});
    weir_addr a = weir_conformance_alloc(&first, 0, bytes);
    weir_addr b = weir_conformance_alloc(&second, 0, bytes);
    rig->device->write(rig->self, first.native[0], a, bytes, 1);
    rig->device->write(rig->self, second.native[0], b, bytes, 2);
    rig->device->verify(rig->self, first.native[0], a, bytes, 1);
    cr_expect_eq(weir_free(first.pool, b, 0), WEIR_NOT_FOUND);
    EXPECT_OK(weir_free(first.pool, a, 0));
    weir_conformance_pool_drop(&first);
    rig->device->verify(rig->self, second.native[0], b, bytes, 2);
    EXPECT_OK(weir_free(second.pool, b, 0));
    weir_conformance_pool_drop(&second);
}

CONFORMANCE(pool_memory, a_pool_with_live_blocks_is_busy)
{
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    weir_addr a = weir_conformance_alloc(&pool, 0, 1000);
    cr_expect_eq(weir_pool_destroy(pool.pool), WEIR_BUSY);
    rig->device->write(rig->self, pool.native[0], a, 1000, 1);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    weir_conformance_pool_drop(&pool);
}

/* ----------------------------------------------------------------------------------- threads -- */

#define POOL_MEMORY_STEPS 400u

/* One thread, one stream, one seed; the pool is shared. */
typedef struct pool_memory_worker {
    const pool_rig *pool;
    unsigned stream;
    unsigned failures;
} pool_memory_worker;

/* Takes, fills, checks and frees, with a few blocks alive at any time. */
static void *pool_memory_work(void *self)
{
    enum { SLOTS = 8 };
    pool_memory_worker *worker = (pool_memory_worker *)self;
    const pool_rig *pool = worker->pool;
    const conformance_rig *rig = pool->rig;
    uint64_t native = pool->native[worker->stream];
    weir_stream stream = pool->stream[worker->stream];
    weir_addr addrs[SLOTS] = {0};
    uint64_t sizes[SLOTS] = {0};
    uint32_t state = 1 + worker->stream;
    for (unsigned step = 0; step < POOL_MEMORY_STEPS + SLOTS; step++) {
        unsigned i = step % SLOTS;
        if (addrs[i]) {
            rig->device->verify(rig->self, native, addrs[i], sizes[i], step - SLOTS);
            worker->failures += weir_free(pool->pool, addrs[i], stream) != WEIR_OK;
            addrs[i] = 0;
        }
        if (step < POOL_MEMORY_STEPS) {
            sizes[i] = 1 + weir_conformance_random(&state) % rig->granule;
            worker->failures += weir_alloc_on(pool->pool, stream, sizes[i], &addrs[i]) != WEIR_OK;
            rig->device->write(rig->self, native, addrs[i], addrs[i] ? sizes[i] : 0, step);
        }
    }
    return NULL;
}

CONFORMANCE(pool_memory, threads_share_a_pool)
{
    pthread_t threads[POOL_STREAMS];
    pool_memory_worker workers[POOL_STREAMS];
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = 64 * rig->granule});
    for (unsigned i = 0; i < POOL_STREAMS; i++) {
        workers[i] = (pool_memory_worker){&pool, i, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, pool_memory_work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < POOL_STREAMS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(workers[i].failures, 0);
    }
    weir_conformance_pool_drop(&pool);
}
