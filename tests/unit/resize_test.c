/* SPDX-License-Identifier: MIT */
/* resize: in place over free memory and over holes, shorter, and what forbids it. */
#include "rig.h"

static void resize_expect(sim_rig *rig, weir_addr addr, uint64_t requested)
{
    weir_block block = weir_rig_find(rig, addr);
    cr_expect_eq(block.requested_bytes, requested);
    cr_expect_eq(block.bytes, requested == 0 ? 512 : (requested + 511) / 512 * 512);
    cr_expect_eq(weir_rig_stats(rig).requested.current, requested);
    weir_rig_check(rig);
}

Test(resize, longer_over_free_memory_and_shorter_again)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.initial_bytes = 16 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    uint64_t creates = weir_rig_calls(rig, WEIR_SIM_handle_create);
    weir_rig_write(rig, 0, addr, MIB, 1);
    ASSERT_OK(weir_resize(rig->pool, addr, 16 * MIB));
    resize_expect(rig, addr, 16 * MIB);
    weir_rig_read(rig, 0, addr, MIB, 1);
    weir_rig_write(rig, 0, addr + MIB, 15 * MIB, 2);
    ASSERT_OK(weir_resize(rig->pool, addr, 700));
    resize_expect(rig, addr, 700);
    ASSERT_OK(weir_resize(rig->pool, addr, 0));
    resize_expect(rig, addr, 0);
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_handle_create), creates);
    cr_expect_eq(weir_rig_stats(rig).allocs, 1);
    cr_expect_eq(weir_rig_stats(rig).frees, 0);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, longer_over_holes_takes_new_memory)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 2 * MIB);
    weir_rig_write(rig, 0, addr, 2 * MIB, 1);
    for (uint64_t bytes = 4 * MIB; bytes <= 64 * MIB; bytes += 3 * MIB + 512) {
        ASSERT_OK(weir_resize(rig->pool, addr, bytes));
        resize_expect(rig, addr, bytes);
        weir_rig_read(rig, 0, addr, 2 * MIB, 1);
        weir_rig_write(rig, 0, addr + 2 * MIB, bytes - 2 * MIB, 2);
    }
    cr_expect_geq(weir_rig_stats(rig).reserved.current, 61 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, to_the_same_size_changes_what_was_asked_only)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 1000);
    ASSERT_OK(weir_resize(rig->pool, addr, 900));
    resize_expect(rig, addr, 900);
    ASSERT_OK(weir_resize(rig->pool, addr, 1024));
    resize_expect(rig, addr, 1024);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, a_neighbour_is_in_the_way)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.initial_bytes = 16 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_addr wall = weir_rig_alloc(rig, 0, 4 * MIB);
    cr_assert_eq(wall, addr + 4 * MIB);
    EXPECT_STATUS(weir_resize(rig->pool, addr, 4 * MIB + 1), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_find(rig, addr).bytes, 4 * MIB);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, wall);
    ASSERT_OK(weir_resize(rig->pool, addr, 8 * MIB));
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, sizes_that_no_memory_holds)
{
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 46,
                                     (UINT64_C(1) << 46) - 1, UINT64_C(1) << 44};
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = GIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    for (size_t i = 0; i < 5; i++)
        EXPECT_STATUS(weir_resize(rig->pool, addr, sizes[i]), WEIR_NO_MEMORY);
    resize_expect(rig, addr, MIB);
    EXPECT_STATUS(weir_resize(NULL, addr, 1), WEIR_INVALID);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, the_limit_holds)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 64 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 32 * MIB);
    EXPECT_STATUS(weir_resize(rig->pool, addr, 65 * MIB), WEIR_NO_MEMORY);
    cr_expect_leq(weir_rig_stats(rig).reserved.peak, 64 * MIB);
    resize_expect(rig, addr, 32 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, the_freed_end_is_reused_in_the_order_of_its_stream)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 50}, .streams = 2,
                                                .short_lived = 2,
                                                .pool = {.initial_bytes = 16 * MIB}});
    for (unsigned s = 0; s < 2; s++) {
        weir_addr addr = weir_rig_alloc(rig, s, 16 * MIB);
        weir_rig_write(rig, s, addr, 16 * MIB, 1);
        ASSERT_OK(weir_resize(rig->pool, addr, MIB));
        weir_addr other = weir_rig_alloc(rig, 1 - s, 8 * MIB);
        weir_rig_write(rig, 1 - s, other, 8 * MIB, 2);
        weir_rig_check(rig);
        weir_rig_free(rig, s, addr);
        weir_rig_free(rig, 1 - s, other);
        weir_sim_sync(rig->sim, 0);
        ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    }
    weir_rig_close(rig);
}

Test(resize, pins_and_other_uses_forbid_what_they_must)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2, .pool = {.initial_bytes = 16 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    ASSERT_OK(weir_pin(rig->pool, addr));
    EXPECT_STATUS(weir_resize(rig->pool, addr, 8 * MIB), WEIR_BUSY);
    EXPECT_STATUS(weir_resize(rig->pool, addr, 4 * MIB - 5), WEIR_OK);
    ASSERT_OK(weir_unpin(rig->pool, addr));
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    EXPECT_STATUS(weir_resize(rig->pool, addr, MIB), WEIR_BUSY);
    EXPECT_STATUS(weir_resize(rig->pool, addr, 8 * MIB), WEIR_OK);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, a_block_of_a_retired_stream_stays_as_long_as_it_is)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 1, MIB);
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    EXPECT_STATUS(weir_resize(rig->pool, addr, 2 * MIB), WEIR_STALE);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, a_small_block_grows_within_its_region)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 512);
    ASSERT_OK(weir_resize(rig->pool, addr, 4096));
    resize_expect(rig, addr, 4096);
    weir_rig_write(rig, 0, addr, 4096, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(resize, a_segment_is_not_left)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.no_virtual = true},
                                                .pool = {.initial_bytes = 8 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    ASSERT_OK(weir_resize(rig->pool, addr, 8 * MIB));
    resize_expect(rig, addr, 8 * MIB);
    EXPECT_STATUS(weir_resize(rig->pool, addr, 8 * MIB + 1), WEIR_NO_MEMORY);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}
