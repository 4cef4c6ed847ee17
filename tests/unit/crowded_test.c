/* SPDX-License-Identifier: MIT */
/* Pools so crowded that the bounds on looking count, and rescues at the edge of what they need. */
#include "pool.h"
#include "rig.h"

#define CROWDED 800u
#define CROWDED_GRANULE (64 * KIB)

static weir_addr crowded_addr[CROWDED];

static rig_options crowded_options(uint64_t limit_bytes)
{
    return (rig_options){.sim = {.granule_bytes = CROWDED_GRANULE, .memory_bytes = GIB},
                         .pool = {.limit_bytes = limit_bytes, .growth_bytes = CROWDED_GRANULE}};
}

/* Every second granule is free. */
static void crowded_fill(sim_rig *rig)
{
    for (unsigned i = 0; i < CROWDED; i++) {
        crowded_addr[i] = weir_rig_alloc(rig, 0, CROWDED_GRANULE);
        weir_rig_write(rig, 0, crowded_addr[i], CROWDED_GRANULE, i);
    }
    for (unsigned i = 1; i < CROWDED; i += 2) weir_rig_free(rig, 0, crowded_addr[i]);
}

static void crowded_close(sim_rig *rig)
{
    for (unsigned i = 0; i < CROWDED; i += 2) {
        weir_rig_read(rig, 0, crowded_addr[i], CROWDED_GRANULE, i);
        weir_rig_free(rig, 0, crowded_addr[i]);
    }
    weir_rig_close(rig);
}

/* More handles move than the list of one round holds. */
Test(crowded, more_handles_move_than_one_list_holds)
{
    rig_options options = crowded_options(CROWDED * CROWDED_GRANULE + CROWDED_GRANULE);
    sim_rig *rig = weir_rig_open(&options);
    crowded_fill(rig);
    weir_addr large = weir_rig_alloc(rig, 0, 390 * CROWDED_GRANULE);
    weir_rig_write(rig, 0, large, 390 * CROWDED_GRANULE, 9);
    cr_expect_geq(weir_rig_stats(rig).moved_handles, 380);
    weir_rig_check(rig);
    weir_rig_read(rig, 0, large, 390 * CROWDED_GRANULE, 9);
    weir_rig_free(rig, 0, large);
    crowded_close(rig);
}

/* A long run, but of handles too small: none of the free nodes holds the block in one handle. */
Test(crowded, one_handle_is_not_sought_for_ever)
{
    rig_options options = crowded_options(0);
    sim_rig *rig = weir_rig_open(&options);
    for (unsigned i = 0; i < CROWDED; i++)
        crowded_addr[i] = weir_rig_alloc(rig, 0, (i % 2 + 1) * CROWDED_GRANULE);
    for (unsigned i = 1; i < CROWDED; i += 2) weir_rig_free(rig, 0, crowded_addr[i]);
    weir_request request = weir_rig_request(rig, 0, 2 * CROWDED_GRANULE);
    request.flags = WEIR_ONE_HANDLE;
    uint64_t creates = weir_rig_stats(rig).creates;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).creates, creates + 1);
    for (unsigned i = 0; i < CROWDED; i += 2) weir_rig_free(rig, 0, crowded_addr[i]);
    weir_rig_close(rig);
}

/* Free memory of two streams side by side, in pieces that one window does not reach over. */
Test(crowded, a_window_reaches_over_a_bounded_number_of_nodes)
{
    rig_options options = crowded_options(0);
    options.streams = 2;
    options.sim.lag_us = 1;
    sim_rig *rig = weir_rig_open(&options);
    for (unsigned i = 0; i < 100; i++)
        crowded_addr[i] = weir_rig_alloc(rig, i % 2, 4 * KIB + 64 * KIB);
    for (unsigned i = 0; i < 100; i++) weir_rig_free(rig, i % 2, crowded_addr[i]);
    weir_sim_sync(rig->sim, 0);
    weir_pool_lock(rig->pool);
    weir_pool_press(rig->pool, true);
    weir_pool_unlock(rig->pool);
    weir_addr large = weir_rig_alloc(rig, 0, 90 * 68 * KIB);
    weir_rig_write(rig, 0, large, 90 * 68 * KIB, 3);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, large);
    weir_rig_close(rig);
}

static bool crowded_lost(void *self, const weir_block *block)
{
    *(uint64_t *)self += !block->live && !block->mapped && block->bytes == 2 * MIB;
    return true;
}

/* An old place that can't be unmapped is walked as addresses without memory. */
Test(crowded, lost_addresses_are_walked_as_holes)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.pool = {.limit_bytes = 24 * MIB, .growth_bytes = 2 * MIB}});
    weir_addr addr[12];
    uint64_t before = 0, after = 0;
    for (unsigned i = 0; i < 12; i++) addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
    for (unsigned i = 1; i < 12; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_addr large = weir_rig_alloc(rig, 0, 10 * MIB);
    weir_walk_blocks(rig->pool, crowded_lost, &before);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_DEVICE);
    weir_walk_blocks(rig->pool, crowded_lost, &after);
    cr_expect_gt(after, before);
    weir_rig_check(rig);
    for (unsigned i = 0; i < 12; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_rig_free(rig, 0, large);
    weir_rig_close_loose(rig);
}

/* ------------------------------------------------------------------------------------ rescues -- */

/* Slivers of one granule that live, with three behind each that do not. */
static unsigned crowded_slivers(sim_rig *rig, uint64_t bytes)
{
    unsigned count = 0;
    while (weir_rig_stats(rig).allocated.current < bytes && count + 1 < CROWDED) {
        crowded_addr[count++] = weir_rig_alloc(rig, 0, CROWDED_GRANULE);
        crowded_addr[count++] = weir_rig_alloc(rig, 0, 3 * CROWDED_GRANULE);
        weir_rig_write(rig, 0, crowded_addr[count - 2], CROWDED_GRANULE, count);
    }
    for (unsigned i = 1; i < count; i += 2) weir_rig_free(rig, 0, crowded_addr[i]);
    return count;
}

static void crowded_slivers_close(sim_rig *rig, unsigned count)
{
    for (unsigned i = 0; i < count; i += 2) {
        weir_rig_read(rig, 0, crowded_addr[i], CROWDED_GRANULE, i + 2);
        weir_rig_free(rig, 0, crowded_addr[i]);
    }
    weir_rig_close(rig);
}

/* There is no hole of the size of a tile to copy through. */
Test(crowded, a_rescue_without_addresses_gives_up)
{
    sim_rig *rig = weir_rig_open(&(rig_options){
        .sim = {.granule_bytes = CROWDED_GRANULE, .memory_bytes = GIB, .va_bytes = 64 * MIB},
        .pool = {.limit_bytes = 64 * MIB, .va_bytes = 64 * MIB}});
    unsigned count = crowded_slivers(rig, 63 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 44 * MIB)), WEIR_NO_MEMORY);
    weir_rig_check(rig);
    crowded_slivers_close(rig, count);
}

/* An old place that is stuck ends the rescue before it begins. */
Test(crowded, a_rescue_that_cannot_clear_old_places_is_told)
{
    rig_options options = {.sim = {.granule_bytes = CROWDED_GRANULE, .memory_bytes = GIB},
                           .pool = {.limit_bytes = 64 * MIB}};
    sim_rig *rig = weir_rig_open(&options);
    unsigned count = crowded_slivers(rig, 58 * MIB);
    weir_addr some[2];
    for (unsigned i = 0; i < 2; i++) some[i] = weir_rig_alloc(rig, 0, MIB);
    weir_pool_lock(rig->pool);
    weir_pool_press(rig->pool, true);
    weir_pool_unlock(rig->pool);
    weir_rig_free(rig, 0, some[0]);
    weir_addr large = weir_rig_alloc(rig, 0, 5 * MIB);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 1, true, WEIR_DEVICE);
    weir_status status = weir_rig_try(rig, weir_rig_request(rig, 0, 38 * MIB));
    cr_expect(status == WEIR_DEVICE || status == WEIR_LOST, "%s", weir_status_name(status));
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 0, false, WEIR_OK);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, some[1]);
    weir_rig_free(rig, 0, large);
    for (unsigned i = 0; i < count; i += 2) weir_rig_free(rig, 0, crowded_addr[i]);
    weir_rig_close_loose(rig);
}
