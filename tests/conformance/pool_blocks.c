/* SPDX-License-Identifier: MIT */
/* A pool on the device under test: blocks, their contents, streams and domains. */
#include "pool_rig.h"

#include <string.h>

CONFORMANCE(pool_blocks, a_pool_that_does_nothing_leaves_nothing)
{
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, live_blocks_keep_their_contents)
{
    enum { BLOCKS = 60 };
    weir_addr addrs[BLOCKS];
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t bytes = 1 + i * i * 173;
        addrs[i] = weir_conformance_alloc(&pool, 0, bytes);
        rig->device->write(rig->self, pool.native[0], addrs[i], bytes, i);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        rig->device->verify(rig->self, pool.native[0], addrs[i], 1 + i * i * 173, i);
        EXPECT_OK(weir_free(pool.pool, addrs[i], pool.stream[0]));
    }
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, blocks_are_aligned_as_asked)
{
    enum { POWERS = 17 };
    weir_addr addrs[POWERS];
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    unsigned count = 0;
    for (uint64_t align = 1; align <= rig->granule && count < POWERS; align *= 2) {
        weir_request request = {
            .size = sizeof(request), .bytes = 100, .align = align, .stream = pool.stream[0]};
        ASSERT_OK(weir_alloc(pool.pool, &request, &addrs[count]));
        cr_expect_eq(addrs[count] % align, 0);
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        EXPECT_OK(weir_free(pool.pool, addrs[i], 0));
    }
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, no_bytes_are_a_block_too)
{
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    weir_addr a = weir_conformance_alloc(&pool, 0, 0);
    weir_addr b = weir_conformance_alloc(&pool, 0, 0);
    cr_expect_neq(a, 0);
    cr_expect_neq(a, b);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    EXPECT_OK(weir_free(pool.pool, b, 0));
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, a_free_that_names_no_block_is_refused)
{
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    weir_addr a = weir_conformance_alloc(&pool, 0, 5000);
    cr_expect_eq(weir_free(pool.pool, a + 512, 0), WEIR_NOT_FOUND);
    cr_expect_eq(weir_free(pool.pool, 12345, 0), WEIR_NOT_FOUND);
    cr_expect_eq(weir_free(pool.pool, 0, 0), WEIR_NOT_FOUND);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    cr_expect_eq(weir_free(pool.pool, a, 0), WEIR_NOT_FOUND);
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, a_freed_block_fits_again_on_its_stream)
{
    uint64_t bytes = 3 * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = 4 * rig->granule});
    for (unsigned i = 0; i < 20; i++) {
        weir_addr a = weir_conformance_alloc(&pool, 0, bytes);
        rig->device->write(rig->self, pool.native[0], a, bytes, i);
        rig->device->verify(rig->self, pool.native[0], a, bytes, i);
        EXPECT_OK(weir_free(pool.pool, a, pool.stream[0]));
    }
    weir_conformance_pool_drop(&pool);
}

/* The limit leaves room for one block only, so each stream gets what another one still uses. */
CONFORMANCE(pool_blocks, memory_goes_from_stream_to_stream_in_order)
{
    uint64_t bytes = 2 * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = bytes});
    for (unsigned i = 0; i < 12; i++) {
        unsigned s = i % POOL_STREAMS;
        weir_addr a = weir_conformance_alloc(&pool, s, bytes);
        rig->device->busy(rig->self, pool.native[s], 2000);
        rig->device->write(rig->self, pool.native[s], a, bytes, i);
        rig->device->verify(rig->self, pool.native[s], a, bytes, i);
        EXPECT_OK(weir_free(pool.pool, a, pool.stream[s]));
    }
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, a_free_waits_for_every_stream_that_used_the_block)
{
    uint64_t bytes = 2 * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = bytes});
    for (unsigned i = 0; i < 6; i++) {
        weir_addr a = weir_conformance_alloc(&pool, 0, bytes);
        rig->device->write(rig->self, pool.native[0], a, bytes, i);
        weir_conformance_order(rig, pool.native[0], pool.native[1]);
        EXPECT_OK(weir_use(pool.pool, a, pool.stream[1]));
        rig->device->busy(rig->self, pool.native[1], 5000);
        rig->device->verify(rig->self, pool.native[1], a, bytes, i);
        EXPECT_OK(weir_free(pool.pool, a, pool.stream[0]));
        weir_addr b = weir_conformance_alloc(&pool, i % POOL_STREAMS, bytes);
        rig->device->write(rig->self, pool.native[i % POOL_STREAMS], b, bytes, 100 + i);
        EXPECT_OK(weir_free(pool.pool, b, 0));
    }
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, a_retired_stream_is_stale_and_its_memory_is_not_lost)
{
    uint64_t bytes = 2 * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = 2 * bytes});
    weir_addr freed = weir_conformance_alloc(&pool, 1, bytes);
    weir_addr live = weir_conformance_alloc(&pool, 1, bytes);
    rig->device->busy(rig->self, pool.native[1], 5000);
    rig->device->write(rig->self, pool.native[1], freed, bytes, 1);
    rig->device->write(rig->self, pool.native[1], live, bytes, 2);
    EXPECT_OK(weir_free(pool.pool, freed, pool.stream[1]));
    EXPECT_OK(weir_stream_retire(pool.pool, pool.stream[1]));
    weir_conformance_order(rig, pool.native[1], pool.native[0]);
    rig->device->stream_destroy(rig->self, pool.native[1]);
    weir_addr none = 0;
    cr_expect_eq(weir_alloc_on(pool.pool, pool.stream[1], 100, &none), WEIR_STALE);
    weir_addr again = weir_conformance_alloc(&pool, 2, bytes);
    rig->device->write(rig->self, pool.native[2], again, bytes, 3);
    rig->device->verify(rig->self, pool.native[0], live, bytes, 2);
    EXPECT_OK(weir_free(pool.pool, live, pool.stream[0]));
    EXPECT_OK(weir_free(pool.pool, again, pool.stream[2]));
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, a_domain_lends_nothing_until_it_is_released)
{
    uint64_t bytes = 2 * rig->granule;
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = bytes});
    weir_domain domain = 0;
    weir_addr a = 0;
    weir_addr b = 0;
    ASSERT_OK(weir_domain_create(pool.pool, &domain));
    weir_request request = {
        .size = sizeof(request), .bytes = bytes, .stream = pool.stream[0], .domain = domain};
    ASSERT_OK(weir_alloc(pool.pool, &request, &a));
    cr_expect_eq(weir_domain_release(pool.pool, domain), WEIR_BUSY);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    cr_expect_eq(weir_alloc_on(pool.pool, pool.stream[0], bytes, &b), WEIR_NO_MEMORY);
    ASSERT_OK(weir_domain_release(pool.pool, domain));
    b = weir_conformance_alloc(&pool, 0, bytes);
    EXPECT_OK(weir_free(pool.pool, b, 0));
    weir_conformance_pool_drop(&pool);
}

CONFORMANCE(pool_blocks, a_block_grows_and_shrinks_in_place)
{
    pool_rig pool = weir_conformance_pool(rig, (weir_config){0});
    uint64_t bytes = 4 * rig->granule;
    weir_addr a = weir_conformance_alloc(&pool, 0, bytes);
    rig->device->write(rig->self, pool.native[0], a, bytes / 2, 1);
    EXPECT_OK(weir_resize(pool.pool, a, bytes / 2));
    EXPECT_OK(weir_resize(pool.pool, a, bytes));
    rig->device->verify(rig->self, pool.native[0], a, bytes / 2, 1);
    rig->device->write(rig->self, pool.native[0], a, bytes, 2);
    weir_block block;
    memset(&block, 0, sizeof(block));
    EXPECT_OK(weir_block_find(pool.pool, a + bytes - 1, &block));
    cr_expect_eq(block.addr, a);
    cr_expect_eq(block.requested_bytes, bytes);
    EXPECT_OK(weir_free(pool.pool, a, 0));
    weir_conformance_pool_drop(&pool);
}

/* Any mixture of sizes and streams: what was written is there at the end of each block's life. */
CONFORMANCE(pool_blocks, a_random_life_corrupts_nothing)
{
    enum { SLOTS = 48, STEPS = 1500 };
    struct {
        weir_addr addr;
        uint64_t bytes;
        uint64_t tag;
        unsigned stream;
    } slots[SLOTS];
    memset(slots, 0, sizeof(slots));
    pool_rig pool = weir_conformance_pool(rig, (weir_config){.limit_bytes = 64 * rig->granule});
    uint32_t state = 20;
    for (unsigned step = 1; step <= STEPS; step++) {
        unsigned i = weir_conformance_random(&state) % SLOTS;
        if (slots[i].addr) {
            uint64_t native = pool.native[slots[i].stream];
            rig->device->verify(rig->self, native, slots[i].addr, slots[i].bytes, slots[i].tag);
            EXPECT_OK(weir_free(pool.pool, slots[i].addr, pool.stream[slots[i].stream]));
            slots[i].addr = 0;
            continue;
        }
        slots[i].stream = weir_conformance_random(&state) % POOL_STREAMS;
        slots[i].tag = step;
        slots[i].bytes = 1 + weir_conformance_random(&state) % (step % 2 ? 3000 : rig->granule);
        slots[i].addr = weir_conformance_alloc(&pool, slots[i].stream, slots[i].bytes);
        rig->device->write(rig->self, pool.native[slots[i].stream], slots[i].addr, slots[i].bytes,
                           step);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].addr) {
            uint64_t native = pool.native[slots[i].stream];
            rig->device->verify(rig->self, native, slots[i].addr, slots[i].bytes, slots[i].tag);
            EXPECT_OK(weir_free(pool.pool, slots[i].addr, 0));
        }
    }
    weir_conformance_pool_drop(&pool);
}
