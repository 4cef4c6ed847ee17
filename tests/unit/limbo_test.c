/* SPDX-License-Identifier: MIT */
/* Frees with uses on several streams: when they are free again, and for whom. */
#include "rig.h"

/* A block of stream 0, used by the streams of `users` with unfinished work, freed on `by`. */
static weir_addr limbo_free(sim_rig *rig, uint32_t users, unsigned by)
{
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    for (unsigned s = 0; s < rig->streams; s++) {
        if ((users >> s & 1) == 0) continue;
        ASSERT_OK(weir_use(rig->pool, addr, rig->stream[s]));
        ASSERT_OK(weir_use(rig->pool, addr, rig->stream[s])); /* once is enough */
        weir_rig_write(rig, s, 0, 0, 0);
    }
    weir_rig_free(rig, by, addr);
    return addr;
}

static rig_options limbo_options(void)
{
    return (rig_options){.sim = {.lag_us = 100}, .streams = 4, .pool = {.limit_bytes = 10 * MIB}};
}

Test(limbo, a_use_on_the_own_stream_is_none)
{
    rig_options options = limbo_options();
    sim_rig *rig = weir_rig_open(&options);
    limbo_free(rig, 1, 0);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    cr_expect_eq(weir_rig_stats(rig).event_records, 0);
    weir_rig_close(rig);
}

Test(limbo, each_further_stream_costs_one_record)
{
    for (uint32_t users = 0; users < 16; users += 2) {
        rig_options options = limbo_options();
        sim_rig *rig = weir_rig_open(&options);
        limbo_free(rig, users, 0);
        unsigned further = (unsigned)__builtin_popcount(users);
        cr_expect_eq(weir_rig_stats(rig).event_records, further);
        cr_expect_eq(weir_rig_stats(rig).pending.current, users == 0 ? 0 : 8 * MIB);
        weir_rig_check(rig);
        weir_rig_close(rig);
    }
}

Test(limbo, a_free_on_another_stream_waits_for_both)
{
    rig_options options = limbo_options();
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_sim_stall(rig->sim, rig->native[1]);
    weir_rig_write(rig, 1, 0, 0, 0);
    weir_rig_free(rig, 1, addr);
    EXPECT_STATUS(weir_finish(rig->pool, 500), WEIR_WOULD_WAIT);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 8 * MIB);
    weir_sim_go(rig->sim, rig->native[1]);
    EXPECT_STATUS(weir_finish(rig->pool, 500), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    weir_rig_close(rig);
}

Test(limbo, the_owner_can_be_made_to_wait_for_the_users)
{
    rig_options options = limbo_options();
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = limbo_free(rig, 14, 0);
    weir_addr again = weir_rig_alloc(rig, 0, 8 * MIB);
    cr_expect_eq(again, addr);
    weir_rig_write(rig, 0, again, 8 * MIB, 2);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 3);
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    weir_rig_free(rig, 0, again);
    weir_rig_close(rig);
}

Test(limbo, another_stream_gets_it_once_the_uses_have_passed)
{
    rig_options options = limbo_options();
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = limbo_free(rig, 2, 0);
    weir_sim_sync(rig->sim, 0);
    weir_addr again = weir_rig_alloc(rig, 3, 8 * MIB);
    cr_expect_eq(again, addr);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 0);
    weir_rig_free(rig, 3, again);
    weir_rig_close(rig);
}

Test(limbo, frees_leave_in_any_order)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 10}, .streams = 4});
    weir_addr addr[3];
    for (unsigned i = 0; i < 3; i++) {
        weir_sim_stall(rig->sim, rig->native[i + 1]);
        weir_rig_write(rig, i + 1, 0, 0, 0);
        addr[i] = weir_rig_alloc(rig, 0, 4 * MIB);
        ASSERT_OK(weir_use(rig->pool, addr[i], rig->stream[i + 1]));
    }
    for (unsigned i = 0; i < 3; i++) weir_rig_free(rig, 0, addr[i]);
    static const unsigned order[] = {1, 2, 0};
    for (unsigned i = 0; i < 3; i++) {
        weir_sim_go(rig->sim, rig->native[order[i] + 1]);
        (void)weir_finish(rig->pool, 100);
        cr_expect_eq(weir_rig_stats(rig).pending.current, (2 - i) * 4 * MIB);
        weir_rig_check(rig);
    }
    weir_rig_close(rig);
}

Test(limbo, a_record_that_failed_at_the_free_is_made_up_for)
{
    rig_options options = limbo_options();
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_sim_stall(rig->sim, rig->native[1]);
    weir_rig_write(rig, 1, 0, 0, 0);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, true, WEIR_DEVICE);
    weir_rig_free(rig, 0, addr);
    weir_rig_check(rig);
    EXPECT_STATUS(weir_finish(rig->pool, 500), WEIR_DEVICE);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 0, false, WEIR_OK);
    EXPECT_STATUS(weir_finish(rig->pool, 500), WEIR_WOULD_WAIT);
    weir_sim_go(rig->sim, rig->native[1]);
    EXPECT_STATUS(weir_finish(rig->pool, 500), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    weir_rig_close(rig);
}

Test(limbo, a_stream_that_may_end_is_covered_at_each_free)
{
    rig_options options = limbo_options();
    options.short_lived = 15;
    sim_rig *rig = weir_rig_open(&options);
    for (uint32_t users = 0; users < 16; users += 3) {
        uint64_t records = weir_rig_stats(rig).event_records;
        limbo_free(rig, users, 0);
        unsigned streams = (unsigned)__builtin_popcount(users | 1);
        cr_expect_geq(weir_rig_stats(rig).event_records - records, streams);
        weir_sim_sync(rig->sim, 0);
        ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
        weir_rig_check(rig);
    }
    weir_rig_close(rig);
}

Test(limbo, a_retired_users_last_point_covers_its_use)
{
    rig_options options = limbo_options();
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_rig_write(rig, 1, addr, 8 * MIB, 3);
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 8 * MIB);
    weir_addr again = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, again, 8 * MIB, 4);
    weir_rig_free(rig, 0, again);
    weir_rig_close(rig);
}

/* Stream 1 freed what stream 0, idle since, allocated: it is behind all uses without any wait. */
Test(limbo, the_stream_that_freed_a_block_takes_it_again_without_a_wait)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.lag_us = 100}, .pool = {.limit_bytes = 4 * MIB}, .streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_write(rig, 0, addr, 4 * MIB, 1);
    weir_sim_sync(rig->sim, 0);
    weir_rig_write(rig, 1, addr, 4 * MIB, 2);
    weir_rig_free(rig, 1, addr);
    addr = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_rig_write(rig, 1, addr, 4 * MIB, 3);
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 0);
    weir_rig_free(rig, 1, addr);
    weir_rig_close(rig);
}

/* Both streams are behind with their work; a third needs a wait for each, and the host none. */
Test(limbo, any_stream_can_be_made_to_wait_for_all_uses)
{
    sim_rig *rig = weir_rig_open(&(rig_options){
        .sim = {.lag_us = 100}, .pool = {.limit_bytes = 8 * MIB}, .streams = 3});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_addr other = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_rig_write(rig, 0, addr, 4 * MIB, 1);
    weir_rig_write(rig, 1, other, 4 * MIB, 1);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_rig_free(rig, 0, addr);
    addr = weir_rig_alloc(rig, 2, 4 * MIB);
    weir_rig_write(rig, 2, addr, 4 * MIB, 2);
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 2);
    weir_rig_free(rig, 2, addr);
    weir_rig_free(rig, 1, other);
    weir_rig_close(rig);
}
