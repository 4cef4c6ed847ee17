/* SPDX-License-Identifier: MIT */
/*
 * Streams that can take no event now (the device answers WOULD_WAIT: they are being captured), and
 * streams that end unseen. Neither is named too late, and neither stands in the way of the others.
 */
#include "rig.h"

static weir_config refusal_pool(uint64_t limit_bytes)
{
    return (weir_config){.limit_bytes = limit_bytes, .growth_bytes = RIG_GRANULE};
}

/* Stream 1 takes no event. Stream 2, whose points are taken at its frees, comes after it. */
Test(refusal, memory_of_a_stream_that_takes_no_event_stays_and_the_rest_goes_on)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100},
                                                .pool = refusal_pool(4 * RIG_GRANULE),
                                                .streams = 3,
                                                .short_lived = 1u << 2});
    weir_addr refused = weir_rig_alloc(rig, 1, 2 * RIG_GRANULE);
    weir_addr covered = weir_rig_alloc(rig, 2, 2 * RIG_GRANULE);
    weir_rig_write(rig, 1, refused, 2 * RIG_GRANULE, 1);
    weir_rig_write(rig, 2, covered, 2 * RIG_GRANULE, 2);
    weir_rig_free(rig, 1, refused);
    weir_rig_free(rig, 2, covered);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, true, WEIR_WOULD_WAIT);
    weir_addr mine = weir_rig_alloc(rig, 0, 2 * RIG_GRANULE);
    weir_rig_write(rig, 0, mine, 2 * RIG_GRANULE, 3);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 2 * RIG_GRANULE)), WEIR_NO_MEMORY);
    cr_expect_not(weir_rig_oom(rig).wait_would_help);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 0, false, WEIR_OK);
    weir_addr more = weir_rig_alloc(rig, 0, 2 * RIG_GRANULE);
    weir_rig_write(rig, 0, more, 2 * RIG_GRANULE, 4);
    weir_rig_free(rig, 0, more);
    weir_rig_free(rig, 0, mine);
    weir_rig_close(rig);
}

Test(refusal, a_use_by_such_a_stream_keeps_the_block_pending_until_it_can_be_covered)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}, .streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, RIG_GRANULE);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, true, WEIR_WOULD_WAIT);
    ASSERT_OK(weir_free(rig->pool, addr, rig->stream[0]));
    EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_WOULD_WAIT);
    cr_expect_eq(weir_rig_stats(rig).pending.current, RIG_GRANULE);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 0, false, WEIR_OK);
    EXPECT_STATUS(weir_finish(rig->pool, WEIR_FOREVER), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    weir_rig_close(rig);
}

/* Both others are behind. The wait for stream 1 is refused, the one for stream 2 is not. */
Test(refusal, a_wait_that_is_refused_leaves_the_other_streams_memory)
{
    sim_rig *rig = weir_rig_open(&(rig_options){
        .sim = {.lag_us = 100}, .pool = refusal_pool(4 * RIG_GRANULE), .streams = 3});
    weir_addr first = weir_rig_alloc(rig, 1, 2 * RIG_GRANULE);
    weir_addr second = weir_rig_alloc(rig, 2, 2 * RIG_GRANULE);
    weir_rig_write(rig, 1, first, 2 * RIG_GRANULE, 1);
    weir_rig_write(rig, 2, second, 2 * RIG_GRANULE, 2);
    weir_rig_free(rig, 1, first);
    weir_rig_free(rig, 2, second);
    weir_sim_fail(rig->sim, WEIR_SIM_stream_wait, 1, false, WEIR_WOULD_WAIT);
    weir_request request = weir_rig_request(rig, 0, 2 * RIG_GRANULE);
    weir_addr mine = 0;
    request.flags = WEIR_NOWAIT;
    ASSERT_OK(weir_alloc(rig->pool, &request, &mine));
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    weir_rig_write(rig, 0, mine, 2 * RIG_GRANULE, 3);
    weir_rig_free(rig, 0, mine);
    weir_rig_close(rig);
}

Test(refusal, retiring_such_a_stream_is_refused_and_it_stays)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, false, WEIR_WOULD_WAIT);
    EXPECT_STATUS(weir_stream_retire(rig->pool, rig->stream[1]), WEIR_WOULD_WAIT);
    weir_addr addr = weir_rig_alloc(rig, 1, 512);
    weir_rig_free(rig, 1, addr);
    weir_rig_close(rig);
}

/* The handle of a stream that ended unseen is another stream's by now: an event on it would pass before
 * the work of the first has. */
Test(refusal, a_stream_that_ended_unseen_is_forgotten_without_a_call)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100},
                                                .pool = refusal_pool(RIG_GRANULE),
                                                .streams = 2,
                                                .short_lived = 1u << 0});
    weir_addr addr = weir_rig_alloc(rig, 0, RIG_GRANULE);
    weir_rig_write(rig, 0, addr, RIG_GRANULE, 1);
    weir_rig_free(rig, 0, addr);
    uint64_t records = weir_rig_calls(rig, WEIR_SIM_event_record);
    weir_sim_stream_destroy(rig->sim, rig->native[0]);
    ASSERT_OK(weir_stream_forget(rig->pool, rig->stream[0]));
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_event_record), records);
    EXPECT_STATUS(weir_stream_forget(rig->pool, rig->stream[0]), WEIR_STALE);
    EXPECT_STATUS(weir_stream_forget(NULL, rig->stream[0]), WEIR_INVALID);
    addr = weir_rig_alloc(rig, 1, RIG_GRANULE);
    weir_rig_write(rig, 1, addr, RIG_GRANULE, 2);
    weir_rig_free(rig, 1, addr);
    weir_rig_close(rig);
}

Test(refusal, a_stream_with_something_uncovered_is_asked_when_it_is_forgotten)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_rig_free(rig, 1, weir_rig_alloc(rig, 1, 512));
    uint64_t records = weir_rig_calls(rig, WEIR_SIM_event_record);
    ASSERT_OK(weir_stream_forget(rig->pool, rig->stream[1]));
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_event_record), records + 1);
    weir_rig_close(rig);
}

/* Stream 1 gets memory by a wait, gives it back, and is destroyed without a word. */
Test(refusal, a_stream_that_ended_unseen_is_never_named_again)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100},
                                                .pool = refusal_pool(4 * RIG_GRANULE),
                                                .streams = 3,
                                                .short_lived = 1u << 1});
    weir_addr first = weir_rig_alloc(rig, 0, 2 * RIG_GRANULE);
    weir_rig_write(rig, 0, first, 2 * RIG_GRANULE, 1);
    weir_rig_free(rig, 0, first);
    weir_addr all = weir_rig_alloc(rig, 1, 3 * RIG_GRANULE + RIG_GRANULE / 2);
    cr_assert_gt(weir_rig_stats(rig).stream_waits, 0, "the test wants memory that came by a wait");
    weir_rig_write(rig, 1, all, 3 * RIG_GRANULE + RIG_GRANULE / 2, 2);
    weir_rig_free(rig, 1, all);
    weir_sim_stream_destroy(rig->sim, rig->native[1]);
    weir_addr last = weir_rig_alloc(rig, 2, 4 * RIG_GRANULE);
    weir_rig_write(rig, 2, last, 4 * RIG_GRANULE, 3);
    weir_rig_free(rig, 2, last);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    weir_rig_close(rig);
}
