/* SPDX-License-Identifier: MIT */
/* The ladder: which rung serves a request that no free block fits, and what a failed rung says. */
#include "rig.h"

/* A pool whose whole limit is one block, freed on stream 0 with unfinished work of that stream. */
static sim_rig *ladder_pending(rig_options options, uint64_t bytes)
{
    options.streams = 2;
    if (options.sim.lag_us == 0) options.sim.lag_us = 1000;
    options.pool.limit_bytes = 16 * MIB;
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, bytes);
    weir_rig_write(rig, 0, addr, bytes, 1);
    weir_rig_free(rig, 0, addr);
    return rig;
}

static void ladder_serve(sim_rig *rig, uint64_t bytes)
{
    weir_addr addr = weir_rig_alloc(rig, 1, bytes);
    weir_rig_write(rig, 1, addr, bytes, 2);
    weir_rig_check(rig);
    weir_rig_free(rig, 1, addr);
}

Test(ladder, what_has_passed_is_found_by_a_query)
{
    sim_rig *rig = ladder_pending((rig_options){0}, 14 * MIB);
    weir_sim_sync(rig->sim, 0);
    ladder_serve(rig, 14 * MIB);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 0);
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    weir_rig_close(rig);
}

Test(ladder, a_wait_between_streams_comes_before_one_of_the_host)
{
    sim_rig *rig = ladder_pending((rig_options){0}, 14 * MIB);
    ladder_serve(rig, 14 * MIB);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 1);
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    weir_rig_close(rig);
}

Test(ladder, the_host_waits_where_streams_may_not)
{
    sim_rig *rig = ladder_pending((rig_options){.pool = {.no_stream_reuse = true}}, 14 * MIB);
    ladder_serve(rig, 14 * MIB);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 0);
    cr_expect_gt(weir_rig_stats(rig).host_waits, 0);
    cr_expect_geq(weir_sim_time(rig->sim), 1000);
    weir_rig_close(rig);
}

static weir_status ladder_bounded(sim_rig *rig, uint64_t wait_us, uint32_t flags)
{
    weir_request request = weir_rig_request(rig, 1, 14 * MIB);
    request.wait_us = wait_us;
    request.flags = flags;
    weir_status status = weir_rig_try(rig, request);
    weir_rig_check(rig);
    return status;
}

Test(ladder, waits_end_at_their_bound)
{
    sim_rig *rig = ladder_pending((rig_options){.pool = {.no_stream_reuse = true}}, 14 * MIB);
    EXPECT_STATUS(ladder_bounded(rig, 0, WEIR_NOWAIT), WEIR_WOULD_WAIT);
    cr_expect_eq(weir_sim_time(rig->sim), 0);
    cr_expect_eq(weir_rig_oom(rig).status, WEIR_WOULD_WAIT);
    EXPECT_STATUS(ladder_bounded(rig, 100, 0), WEIR_WOULD_WAIT);
    cr_expect_leq(weir_sim_time(rig->sim), 200);
    EXPECT_STATUS(ladder_bounded(rig, 2000, 0), WEIR_OK);
    weir_rig_close(rig);
}

Test(ladder, the_pools_own_bound_holds_without_one_per_call)
{
    sim_rig *rig = ladder_pending((rig_options){.pool = {.no_stream_reuse = true, .wait_us = 50}},
                                  14 * MIB);
    EXPECT_STATUS(ladder_bounded(rig, 0, 0), WEIR_WOULD_WAIT);
    cr_expect_leq(weir_sim_time(rig->sim), 100);
    EXPECT_STATUS(ladder_bounded(rig, 5000, 0), WEIR_OK);
    weir_rig_close(rig);
}

static uint64_t ladder_clock(void *self)
{
    host_memory *memory = (host_memory *)self;
    return weir_sim_time(((sim_rig *)(void *)((char *)memory - offsetof(sim_rig, memory)))->sim);
}

/* Two streams end at 1000 and 2000 us and hold what a third needs; both waits have one bound. */
static weir_status ladder_two_waits(bool clock, uint64_t wait_us)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){.no_rescue = true});
    if (clock) rig->memory.platform.now_us = ladder_clock;
    ASSERT_OK(weir_rig_pool(rig, (weir_config){.limit_bytes = 16 * MIB, .no_stream_reuse = true}));
    rig->streams = 3;
    for (unsigned i = 0; i < 3; i++) weir_rig_attach(rig, i, true);
    for (unsigned i = 0; i < 2; i++) {
        weir_addr addr = weir_rig_alloc(rig, i, 6 * MIB);
        weir_sim_busy_until(rig->sim, rig->native[i], (i + 1) * 1000);
        weir_rig_write(rig, i, addr, 6 * MIB, i);
        weir_rig_free(rig, i, addr);
    }
    weir_request request = weir_rig_request(rig, 2, 14 * MIB);
    request.wait_us = wait_us;
    weir_status status = weir_rig_try(rig, request);
    if (clock) cr_expect_leq(weir_sim_time(rig->sim), wait_us);
    weir_rig_close(rig);
    return status;
}

Test(ladder, with_a_clock_a_bound_holds_for_the_sum_of_waits)
{
    EXPECT_STATUS(ladder_two_waits(true, 1500), WEIR_WOULD_WAIT);
    EXPECT_STATUS(ladder_two_waits(true, 2500), WEIR_OK);
    EXPECT_STATUS(ladder_two_waits(false, 1500), WEIR_OK);
}

/* Free runs that are too short, below the threshold or above it. */
static uint64_t ladder_collected(uint32_t gc_permille)
{
    weir_addr wall[4], part[4];
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 100 * MIB, .no_moves = true,
                                                         .growth_bytes = 2 * MIB,
                                                         .gc_permille = gc_permille}});
    for (unsigned i = 0; i < 4; i++) {
        part[i] = weir_rig_alloc(rig, 0, 8 * MIB);
        wall[i] = weir_rig_alloc(rig, 0, 2 * MIB);
    }
    for (unsigned i = 0; i < 4; i++) weir_rig_free(rig, 0, part[i]);
    weir_addr large = weir_rig_alloc(rig, 0, 24 * MIB);
    uint64_t releases = weir_rig_stats(rig).releases;
    weir_rig_free(rig, 0, large);
    for (unsigned i = 0; i < 4; i++) weir_rig_free(rig, 0, wall[i]);
    weir_rig_close(rig);
    return releases;
}

Test(ladder, growth_beyond_the_threshold_gives_back_what_is_free_first)
{
    cr_expect_eq(ladder_collected(0), 0);
    cr_expect_eq(ladder_collected(900), 0);
    cr_expect_gt(ladder_collected(400), 0);
}

Test(ladder, a_wait_that_would_not_help_is_not_blamed)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2, .pool = {.limit_bytes = 16 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 12 * MIB);
    EXPECT_STATUS(ladder_bounded(rig, 0, WEIR_NOWAIT), WEIR_NO_MEMORY);
    cr_expect_not(weir_rig_oom(rig).wait_would_help);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(ladder, a_device_that_cannot_wait_would_wait)
{
    sim_rig *rig = ladder_pending(
        (rig_options){.sim = {.no_event_wait = true}, .pool = {.no_stream_reuse = true}}, 14 * MIB);
    EXPECT_STATUS(ladder_bounded(rig, 0, 0), WEIR_WOULD_WAIT);
    weir_sim_sync(rig->sim, 0);
    EXPECT_STATUS(ladder_bounded(rig, 0, 0), WEIR_OK);
    weir_rig_close(rig);
}

Test(ladder, free_memory_that_does_not_fit_goes_back_for_memory_that_does)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.no_virtual = true},
                                                .pool = {.limit_bytes = 32 * MIB}});
    weir_addr addr[4];
    for (unsigned i = 0; i < 4; i++) addr[i] = weir_rig_alloc(rig, 0, 8 * MIB);
    for (unsigned i = 0; i < 4; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 24 * MIB));
    cr_expect_eq(weir_rig_stats(rig).retries, 1);
    cr_expect_leq(weir_rig_stats(rig).reserved.peak, 32 * MIB);
    weir_rig_close(rig);
}

/* Each call that a rung makes fails: the request fails with what the device said or is served by
 * another rung, and the pool is sound. */
static void ladder_fault(weir_sim_call call, weir_status answer, bool no_reuse)
{
    sim_rig *rig = ladder_pending((rig_options){.pool = {.no_stream_reuse = no_reuse}}, 14 * MIB);
    weir_sim_fail(rig->sim, call, 1, true, answer);
    weir_status status = ladder_bounded(rig, 5000, 0);
    cr_expect(status == answer || status == WEIR_OK || status == WEIR_NO_MEMORY ||
                  status == WEIR_WOULD_WAIT,
              "%s: %s", weir_sim_call_name(call), weir_status_name(status));
    if (status == WEIR_DEVICE) cr_expect_neq(weir_native_error(rig->pool), 0);
    weir_sim_fail(rig->sim, call, 0, false, WEIR_OK);
    EXPECT_STATUS(ladder_bounded(rig, 5000, 0), WEIR_OK);
    weir_rig_close(rig);
}

Test(ladder, a_failing_call_is_told_and_survived)
{
    static const weir_sim_call calls[] = {WEIR_SIM_event_create, WEIR_SIM_event_record,
                                          WEIR_SIM_event_query,  WEIR_SIM_stream_wait,
                                          WEIR_SIM_event_wait,   WEIR_SIM_quiesce};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        ladder_fault(calls[i], WEIR_DEVICE, false);
        ladder_fault(calls[i], WEIR_DEVICE, true);
        ladder_fault(calls[i], WEIR_NO_MEMORY, false);
    }
}

Test(ladder, a_device_that_is_lost_on_the_way_is_told)
{
    static const weir_sim_call calls[] = {WEIR_SIM_event_record, WEIR_SIM_event_query,
                                          WEIR_SIM_stream_wait};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        sim_rig *rig = ladder_pending((rig_options){0}, 14 * MIB);
        weir_sim_fail(rig->sim, calls[i], 1, true, WEIR_LOST);
        EXPECT_STATUS(ladder_bounded(rig, 5000, 0), WEIR_LOST);
        weir_rig_close_loose(rig);
    }
}

Test(ladder, small_blocks_lie_among_the_others_where_there_is_no_more)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 4 * MIB}});
    weir_addr large = weir_rig_alloc(rig, 0, 4 * MIB - 64 * KIB);
    weir_addr small = weir_rig_alloc(rig, 0, 512);
    cr_expect_not(weir_rig_find(rig, small).small);
    weir_rig_free(rig, 0, large);
    weir_rig_free(rig, 0, small);
    weir_rig_close(rig);
}

/* The handle that a block of 4 MiB makes the pool grow by. */
static uint64_t ladder_grown_by(sim_rig *rig, weir_addr *addr)
{
    weir_stats before = weir_rig_stats(rig);
    *addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_stats after = weir_rig_stats(rig);
    cr_assert_eq(after.creates - before.creates, 1);
    return after.reserved.current - before.reserved.current;
}

Test(ladder, a_pool_far_above_its_largest_request_grows_by_half_handles)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.pool = {.growth_bytes = 8 * MIB, .no_moves = true}});
    weir_addr part[40], live[80];
    unsigned count = 40;
    for (unsigned i = 0; i < 40; i++) {
        part[i] = weir_rig_alloc(rig, 0, 3 * MIB);
        live[i] = weir_rig_alloc(rig, 0, MIB);
    }
    cr_expect_eq(ladder_grown_by(rig, &live[count++]), 8 * MIB);
    for (unsigned i = 0; i < 40; i++) weir_rig_free(rig, 0, part[i]);
    while (weir_rig_stats(rig).reserved.current <= 180 * MIB)
        live[count++] = weir_rig_alloc(rig, 0, 4 * MIB);
    cr_expect_eq(ladder_grown_by(rig, &live[count++]), 4 * MIB);
    weir_rig_check(rig);
    while (count-- != 0) weir_rig_free(rig, 0, live[count]);
    weir_rig_close(rig);
}
