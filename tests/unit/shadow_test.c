/* SPDX-License-Identifier: MIT */
/* Moves: free handles go where they are needed, their old places are unmapped only once all work
 * through them has ended. */
#include "pool.h"
#include "rig.h"

#define SHADOW_BLOCKS 20u

/* A pool at its limit whose free memory is `SHADOW_BLOCKS`/2 runs of one handle. */
static sim_rig *shadow_open(weir_addr *addr, uint64_t lag_us, bool no_moves)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = lag_us}, .streams = 2,
                                                .pool = {.limit_bytes = SHADOW_BLOCKS * 2 * MIB,
                                                         .growth_bytes = 2 * MIB,
                                                         .no_rescue = true,
                                                         .no_moves = no_moves}});
    for (unsigned i = 0; i < SHADOW_BLOCKS; i++) {
        addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
        weir_rig_write(rig, 0, addr[i], 2 * MIB, i);
    }
    for (unsigned i = 1; i < SHADOW_BLOCKS; i += 2) weir_rig_free(rig, 0, addr[i]);
    return rig;
}

static void shadow_close(sim_rig *rig, const weir_addr *addr)
{
    for (unsigned i = 0; i < SHADOW_BLOCKS; i += 2) {
        weir_rig_read(rig, 0, addr[i], 2 * MIB, i);
        weir_rig_free(rig, 0, addr[i]);
    }
    weir_rig_close(rig);
}

Test(shadow, scattered_handles_serve_one_large_block)
{
    weir_addr addr[SHADOW_BLOCKS];
    sim_rig *rig = shadow_open(addr, 0, false);
    uint64_t creates = weir_rig_stats(rig).creates;
    weir_addr large = weir_rig_alloc(rig, 0, SHADOW_BLOCKS * MIB);
    weir_rig_write(rig, 0, large, SHADOW_BLOCKS * MIB, 77);
    weir_stats s = weir_rig_stats(rig);
    cr_expect_eq(s.creates, creates);
    cr_expect_geq(s.moved_handles, SHADOW_BLOCKS / 2 - 1);
    cr_expect_eq(s.copies, 0);
    cr_expect_geq(s.shadowed_bytes, (SHADOW_BLOCKS / 2 - 1) * RIG_GRANULE);
    cr_expect_leq(s.reserved.peak, SHADOW_BLOCKS * 2 * MIB);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, large);
    shadow_close(rig, addr);
}

Test(shadow, without_moves_the_request_fails)
{
    weir_addr addr[SHADOW_BLOCKS];
    sim_rig *rig = shadow_open(addr, 0, true);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).moved_handles, 0, "and gave memory back instead");
    cr_expect_gt(weir_rig_stats(rig).releases, 0);
    shadow_close(rig, addr);
}

Test(shadow, old_places_stay_mapped_under_unfinished_work)
{
    weir_addr addr[SHADOW_BLOCKS];
    sim_rig *rig = shadow_open(addr, 1000, false);
    weir_addr large = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_rig_write(rig, 0, large, 12 * MIB, 77);
    cr_expect_gt(weir_rig_stats(rig).shadowed_bytes, 0);
    EXPECT_STATUS(weir_finish(rig->pool, 0), WEIR_WOULD_WAIT);
    cr_expect_gt(weir_rig_stats(rig).shadowed_bytes, 0);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).shadowed_bytes, 0);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, large);
    shadow_close(rig, addr);
}

Test(shadow, memory_moves_between_streams_in_their_order)
{
    weir_addr addr[SHADOW_BLOCKS];
    sim_rig *rig = shadow_open(addr, 1000, false);
    for (unsigned round = 0; round < 20; round++) {
        weir_addr large = weir_rig_alloc(rig, round % 2, (4 + round % 5 * 2) * MIB);
        weir_rig_write(rig, round % 2, large, (4 + round % 5 * 2) * MIB, round);
        weir_rig_free(rig, round % 2, large);
        weir_rig_check(rig);
    }
    shadow_close(rig, addr);
}

/* Alternates requests that want all free handles together with ones that want them apart. */
Test(shadow, shadows_do_not_pile_up)
{
    weir_addr addr[SHADOW_BLOCKS];
    uint64_t most = 0;
    sim_rig *rig = shadow_open(addr, 0, false);
    for (unsigned round = 0; round < 60; round++) {
        weir_addr large = weir_rig_alloc(rig, 0, (8 + round % 6 * 2) * MIB);
        weir_addr rest[SHADOW_BLOCKS];
        unsigned count = 0;
        weir_rig_free(rig, 0, large);
        while (count < SHADOW_BLOCKS &&
               weir_alloc_on(rig->pool, rig->stream[0], 2 * MIB, &rest[count]) == WEIR_OK)
            count++;
        for (unsigned i = 0; i < count; i++) weir_rig_free(rig, 0, rest[i]);
        if (weir_rig_stats(rig).shadowed_bytes > most) most = weir_rig_stats(rig).shadowed_bytes;
        weir_rig_check(rig);
    }
    cr_expect_leq(most, 2 * WEIR_SHADOWS_KEPT * RIG_GRANULE);
    shadow_close(rig, addr);
}

Test(shadow, a_refused_unmap_of_an_old_place_loses_its_addresses_only)
{
    weir_addr addr[SHADOW_BLOCKS];
    sim_rig *rig = shadow_open(addr, 0, false);
    weir_addr large = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_rig_write(rig, 0, large, 12 * MIB, 77);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 2, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_DEVICE);
    weir_rig_check(rig);
    cr_expect_eq(weir_rig_stats(rig).shadowed_bytes, 0);
    EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_OK);
    weir_rig_read(rig, 0, large, 12 * MIB, 77);
    weir_rig_free(rig, 0, large);
    for (unsigned i = 0; i < SHADOW_BLOCKS; i += 2) {
        weir_rig_read(rig, 0, addr[i], 2 * MIB, i);
        weir_rig_free(rig, 0, addr[i]);
    }
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    weir_rig_check(rig);
    cr_expect_leq(weir_rig_stats(rig).reserved.current, 2 * MIB, "one handle cannot go back");
    weir_rig_close_loose(rig);
}
