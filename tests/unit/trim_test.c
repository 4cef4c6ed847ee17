/* SPDX-License-Identifier: MIT */
/* trim, finish and the limit: what goes back to the device, what may not, what is waited for. */
#include "rig.h"

static uint64_t trim_to(sim_rig *rig, uint64_t keep_bytes, uint64_t wait_us)
{
    uint64_t released = UINT64_MAX;
    ASSERT_OK(weir_trim(rig->pool, keep_bytes, wait_us, &released));
    weir_rig_check(rig);
    return released;
}

/* ------------------------------------------------------------------------------------- trim -- */

Test(trim, all_that_is_free_goes_back)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr[10];
    for (unsigned i = 0; i < 10; i++) addr[i] = weir_rig_alloc(rig, 0, (i + 1) * MIB);
    for (unsigned i = 0; i < 10; i++) weir_rig_free(rig, 0, addr[i]);
    uint64_t held = weir_rig_stats(rig).reserved.current;
    cr_expect_eq(trim_to(rig, 0, WEIR_FOREVER), held);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    cr_expect_eq(weir_rig_stats(rig).segments.current, 0);
    cr_expect_eq(trim_to(rig, 0, 0), 0);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    weir_rig_close(rig);
}

Test(trim, what_is_to_be_kept_is_kept)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 64 * MIB));
    uint64_t held = weir_rig_stats(rig).reserved.current;
    cr_expect_eq(trim_to(rig, held, 0), 0);
    cr_expect_eq(trim_to(rig, UINT64_MAX, 0), 0);
    cr_expect_eq(trim_to(rig, 32 * MIB, WEIR_FOREVER), held - 32 * MIB);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 32 * MIB);
    weir_rig_close(rig);
}

Test(trim, live_memory_stays)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_addr addr[8];
    for (unsigned i = 0; i < 8; i++) {
        addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
        weir_rig_write(rig, 0, addr[i], 2 * MIB, i);
    }
    for (unsigned i = 0; i < 8; i += 2) weir_rig_free(rig, 0, addr[i]);
    cr_expect_eq(trim_to(rig, 0, WEIR_FOREVER), 8 * MIB);
    for (unsigned i = 1; i < 8; i += 2) {
        weir_rig_read(rig, 0, addr[i], 2 * MIB, i);
        weir_rig_free(rig, 0, addr[i]);
    }
    weir_rig_close(rig);
}

Test(trim, pending_memory_goes_only_after_a_wait)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(trim_to(rig, 0, 0), 0);
    cr_expect_eq(trim_to(rig, 0, 10), 0);
    cr_expect_geq(trim_to(rig, 0, 1000), 8 * MIB);
    cr_expect_gt(weir_rig_stats(rig).host_waits, 0);
    weir_rig_close(rig);
}

Test(trim, arguments_and_a_result_nobody_wants)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    uint64_t released = 5;
    EXPECT_STATUS(weir_trim(NULL, 0, 0, &released), WEIR_INVALID);
    EXPECT_STATUS(weir_finish(NULL, 0), WEIR_INVALID);
    EXPECT_STATUS(weir_limit_set(NULL, 1), WEIR_INVALID);
    cr_expect_eq(released, 5);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, MIB));
    EXPECT_STATUS(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_rig_close(rig);
}

Test(trim, more_handles_than_one_round_takes)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 2000 * MIB));
    cr_expect_geq(trim_to(rig, 0, WEIR_FOREVER), 2000 * MIB);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_rig_close(rig);
}

Test(trim, a_refused_unmap_keeps_the_handle_in_use)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    uint64_t held = weir_rig_stats(rig).reserved.current;
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 1, true, WEIR_DEVICE);
    EXPECT_STATUS(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL), WEIR_DEVICE);
    weir_rig_check(rig);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, held);
    cr_expect_eq(weir_rig_stats(rig).quarantined_bytes, 0);
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 0, false, WEIR_OK);
    cr_expect_eq(trim_to(rig, 0, WEIR_FOREVER), held);
    weir_rig_close(rig);
}

static bool trim_count_lost(void *self, const weir_segment *segment)
{
    uint64_t *lost = (uint64_t *)self;
    if (segment->quarantined) *lost += segment->bytes;
    return true;
}

Test(trim, a_refused_release_quarantines_the_handle)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    uint64_t lost = 0;
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    weir_sim_fail(rig->sim, WEIR_SIM_handle_release, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL), WEIR_DEVICE);
    cr_expect_eq(weir_rig_stats(rig).quarantined_bytes, 2 * MIB);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 2 * MIB, "what is quarantined is held");
    weir_walk_segments(rig->pool, trim_count_lost, &lost);
    cr_expect_eq(lost, 2 * MIB);
    weir_rig_check(rig);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_OK);
    weir_rig_close_loose(rig);
}

/* ----------------------------------------------------------------------------------- finish -- */

Test(trim, finish_makes_pending_frees_free)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}, .streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_rig_write(rig, 1, addr, 0, 1);
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 8 * MIB);
    EXPECT_STATUS(weir_finish(rig->pool, 0), WEIR_WOULD_WAIT);
    EXPECT_STATUS(weir_finish(rig->pool, 10), WEIR_WOULD_WAIT);
    EXPECT_STATUS(weir_finish(rig->pool, 1000), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    EXPECT_STATUS(weir_finish(rig->pool, 0), WEIR_OK);
    cr_expect_geq(weir_rig_stats(rig).reserved.current, 8 * MIB, "finish gave back unasked");
    weir_rig_close(rig);
}

Test(trim, finish_gives_back_what_is_above_the_bytes_to_keep)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.pool = {.growth_bytes = 2 * MIB, .keep_bytes = 16 * MIB}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 64 * MIB));
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 16 * MIB);
    weir_rig_close(rig);
    rig = weir_rig_open(&(rig_options){.pool = {.keep_bounded = true}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 64 * MIB));
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_rig_close(rig);
}

Test(trim, finish_without_a_wait_call_says_what_remains)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100, .no_event_wait = true}});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_WOULD_WAIT);
    weir_sim_sync(rig->sim, 0);
    EXPECT_STATUS(weir_finish(rig->pool, 0), WEIR_OK);
    weir_rig_close(rig);
}

Test(trim, finish_tells_what_the_device_answers)
{
    static const weir_sim_call calls[] = {WEIR_SIM_event_record, WEIR_SIM_event_query,
                                          WEIR_SIM_event_wait};
    for (size_t i = 0; i < 3; i++) {
        sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}, .streams = 2});
        weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
        weir_rig_write(rig, 0, addr, 8 * MIB, 1);
        weir_rig_free(rig, 0, addr);
        weir_sim_fail(rig->sim, calls[i], 1, false, WEIR_DEVICE);
        EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_DEVICE);
        weir_rig_check(rig);
        weir_rig_close(rig);
    }
}

/* ------------------------------------------------------------------------------------ limit -- */

Test(trim, a_lower_limit_trims_what_it_can_and_holds)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 16 * MIB);
    weir_addr rest = weir_rig_alloc(rig, 0, 48 * MIB);
    weir_rig_free(rig, 0, rest);
    EXPECT_STATUS(weir_limit_set(rig->pool, 0), WEIR_INVALID);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    ASSERT_OK(weir_limit_set(rig->pool, 32 * MIB));
    cr_expect_eq(weir_rig_stats(rig).limit_bytes, 32 * MIB);
    cr_expect_leq(weir_rig_stats(rig).reserved.current, 32 * MIB);
    ASSERT_OK(weir_limit_set(rig->pool, 8 * MIB));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 16 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, MIB)), WEIR_NO_MEMORY);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 4 * MIB)), WEIR_OK);
    ASSERT_OK(weir_limit_set(rig->pool, WEIR_NO_LIMIT));
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 256 * MIB)), WEIR_OK);
    weir_rig_close(rig);
}

Test(trim, the_limit_is_never_passed_and_used_to_the_last_granule)
{
    for (uint64_t limit = 2 * MIB; limit <= 40 * MIB; limit += 2 * MIB) {
        sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = limit + MIB}});
        weir_addr addr = weir_rig_alloc(rig, 0, limit);
        EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, MIB)), WEIR_NO_MEMORY);
        cr_expect_eq(weir_rig_stats(rig).reserved.peak, limit);
        weir_rig_free(rig, 0, addr);
        weir_rig_close(rig);
    }
}

Test(trim, the_devices_own_end_is_a_limit)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = 64 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 64 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, MIB)), WEIR_NO_MEMORY);
    cr_expect_geq(weir_rig_oom(rig).short_bytes, MIB);
    weir_rig_free(rig, 0, addr);
    weir_sim_tenant(rig->sim, 0);
    weir_rig_close(rig);
}

Test(trim, another_tenant_takes_room_and_gives_it_back)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = 64 * MIB}});
    weir_sim_tenant(rig->sim, 40 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 32 * MIB)), WEIR_NO_MEMORY);
    cr_expect_leq(weir_rig_oom(rig).device_free_bytes, 24 * MIB);
    weir_rig_check(rig);
    weir_sim_tenant(rig->sim, 0);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 32 * MIB)), WEIR_OK);
    weir_rig_close(rig);
}
