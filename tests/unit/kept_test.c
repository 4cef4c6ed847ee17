/* SPDX-License-Identifier: MIT */
/*
 * The block that was freed last is kept apart for the same stream and size, and is ordinary free
 * memory to everything else.
 */
#include "rig.h"

Test(kept, the_same_size_on_the_same_stream_gets_the_same_block)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr first = weir_rig_alloc(rig, 0, 3 * MIB);
    weir_addr other = weir_rig_alloc(rig, 0, 3 * MIB);
    weir_rig_free(rig, 0, first);
    cr_expect_eq(weir_rig_alloc(rig, 0, 3 * MIB), first);
    weir_rig_free(rig, 0, first);
    weir_rig_free(rig, 0, other);
    cr_expect_eq(weir_rig_alloc(rig, 0, 3 * MIB), other, "the last freed, not the first");
    weir_rig_free(rig, 0, other);
    weir_rig_close(rig);
}

Test(kept, a_smaller_request_that_rounds_to_the_same_is_the_same_block)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 3 * MIB);
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(weir_rig_alloc(rig, 0, 3 * MIB - 511), addr);
    cr_expect_eq(weir_rig_find(rig, addr).requested_bytes, 3 * MIB - 511);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(kept, another_size_finds_it_joined_with_its_neighbours)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 8 * MIB}});
    weir_addr low = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_addr high = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_free(rig, 0, low);
    weir_rig_free(rig, 0, high);
    uint64_t waits = weir_rig_stats(rig).host_waits;
    weir_addr both = weir_rig_alloc(rig, 0, 8 * MIB);
    cr_expect_eq(weir_rig_stats(rig).host_waits, waits);
    cr_expect_eq(weir_rig_stats(rig).moved_handles, 0);
    weir_rig_free(rig, 0, both);
    weir_rig_close(rig);
}

/* The simulated device sees to it that stream 1 does not touch it before stream 0 is done. */
Test(kept, another_stream_gets_it_only_in_order)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.lag_us = 100}, .pool = {.limit_bytes = 4 * MIB}, .streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_write(rig, 0, addr, 4 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    addr = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_rig_write(rig, 1, addr, 4 * MIB, 2);
    weir_rig_free(rig, 1, addr);
    weir_rig_close(rig);
}

Test(kept, it_is_free_to_everyone_who_looks)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(weir_rig_stats(rig).blocks.current, 0);
    cr_expect_geq(weir_rig_stats(rig).largest_free_bytes, 4 * MIB);
    addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_free(rig->pool, addr, rig->stream[0]), WEIR_NOT_FOUND);
    weir_block block;
    EXPECT_STATUS(weir_block_find(rig->pool, addr, &block), WEIR_NOT_FOUND);
    uint64_t released = 0;
    addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_free(rig, 0, addr);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, &released));
    cr_expect_geq(released, 4 * MIB);
    weir_rig_check(rig);
    weir_rig_close(rig);
}

Test(kept, a_pool_that_rounds_sizes_keeps_none)
{
    rig_options options = {.pool = {.roundup_divisions = {1, 1, 1}}};
    for (unsigned i = 0; i < 16; i++) options.pool.roundup_divisions[i] = 2;
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, 5 * MIB);
    cr_expect_eq(weir_rig_find(rig, addr).bytes, 6 * MIB);
    weir_rig_free(rig, 0, addr);
    addr = weir_rig_alloc(rig, 0, 5 * MIB);
    cr_expect_eq(weir_rig_find(rig, addr).bytes, 6 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(kept, what_a_domain_freed_stays_in_the_domain)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_request request = weir_rig_request(rig, 0, 4 * MIB);
    weir_addr inside = 0;
    ASSERT_OK(weir_domain_create(rig->pool, &request.domain));
    ASSERT_OK(weir_alloc(rig->pool, &request, &inside));
    weir_rig_free(rig, 0, inside);
    weir_addr outside = weir_rig_alloc(rig, 0, 4 * MIB);
    cr_expect_neq(outside, inside);
    weir_rig_free(rig, 0, outside);
    ASSERT_OK(weir_domain_release(rig->pool, request.domain));
    weir_rig_close(rig);
}
