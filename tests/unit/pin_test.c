/* SPDX-License-Identifier: MIT */
/* Pins: they count, they keep handles where they are, and a free takes them all away. */
#include "rig.h"

Test(pin, pins_count)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, 0);
    for (uint32_t i = 0; i < 3; i++) ASSERT_OK(weir_pin(rig->pool, addr));
    cr_expect_eq(weir_rig_find(rig, addr).pins, 3);
    cr_expect_geq(weir_rig_stats(rig).pinned_bytes, RIG_GRANULE);
    for (uint32_t i = 0; i < 3; i++) ASSERT_OK(weir_unpin(rig->pool, addr));
    cr_expect_eq(weir_rig_find(rig, addr).pins, 0);
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, 0);
    EXPECT_STATUS(weir_unpin(rig->pool, addr), WEIR_INVALID);
    EXPECT_STATUS(weir_pin(NULL, addr), WEIR_INVALID);
    EXPECT_STATUS(weir_unpin(NULL, addr), WEIR_INVALID);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(pin, blocks_in_one_handle_are_pinned_apart)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.initial_bytes = 2 * MIB}});
    weir_addr a = weir_rig_alloc(rig, 0, 512 * KIB);
    weir_addr b = weir_rig_alloc(rig, 0, 512 * KIB);
    ASSERT_OK(weir_pin(rig->pool, a));
    ASSERT_OK(weir_pin(rig->pool, b));
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, RIG_GRANULE);
    ASSERT_OK(weir_unpin(rig->pool, a));
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, RIG_GRANULE);
    weir_rig_free(rig, 0, b);
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, 0);
    weir_rig_free(rig, 0, a);
    weir_rig_close(rig);
}

Test(pin, a_block_over_many_handles_pins_them_all)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_request request = weir_rig_request(rig, 0, 20 * MIB);
    weir_addr addr = 0;
    request.flags = WEIR_PINNED;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, 20 * MIB);
    cr_expect_eq(weir_rig_find(rig, addr).pins, 1);
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(weir_rig_stats(rig).pinned_bytes, 0);
    weir_rig_close(rig);
}

/* A block of two live neighbours is free; a request longer than it moves its handles unless one of
 * the neighbours' pins holds them. */
static uint64_t pin_moves_with(bool pinned)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 40 * MIB,
                                                         .growth_bytes = 2 * MIB,
                                                         .no_rescue = true}});
    weir_addr addr[9];
    for (unsigned i = 0; i < 9; i++) addr[i] = weir_rig_alloc(rig, 0, 4 * MIB);
    for (unsigned i = 0; i < 9; i++)
        if (i % 2 == 0) weir_rig_write(rig, 0, addr[i], 4 * MIB, i);
    if (pinned)
        for (unsigned i = 0; i < 9; i += 2) ASSERT_OK(weir_pin(rig->pool, addr[i]));
    for (unsigned i = 1; i < 9; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_addr large = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_rig_write(rig, 0, large, 12 * MIB, 99);
    uint64_t moved = weir_rig_stats(rig).moved_handles;
    for (unsigned i = 0; i < 9; i += 2) {
        weir_rig_read(rig, 0, addr[i], 4 * MIB, i);
        weir_rig_free(rig, 0, addr[i]);
    }
    weir_rig_free(rig, 0, large);
    weir_rig_close(rig);
    return moved;
}

Test(pin, handles_of_live_neighbours_do_not_matter)
{
    cr_expect_gt(pin_moves_with(false), 0);
    cr_expect_gt(pin_moves_with(true), 0);
}

static bool pin_visit(void *self, const weir_segment *segment)
{
    uint64_t *pinned = (uint64_t *)self;
    if (segment->pinned) *pinned += segment->bytes;
    return true;
}

Test(pin, walks_and_reports_tell_pinned_memory)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 16 * MIB,
                                                         .growth_bytes = 16 * MIB}});
    weir_request request = weir_rig_request(rig, 0, MIB);
    weir_addr addr = 0;
    uint64_t pinned = 0;
    request.flags = WEIR_PINNED;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    weir_walk_segments(rig->pool, pin_visit, &pinned);
    cr_expect_eq(pinned, weir_rig_stats(rig).pinned_bytes);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_gt(weir_rig_oom(rig).pinned_bytes, 0);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}
