/* SPDX-License-Identifier: MIT */
/* Streams: attach, retire, recycled handles and lanes, and reuse in the order between streams. */
#include "pool.h"
#include "rig.h"

static weir_stream_desc stream_desc(sim_rig *rig, uint64_t native, bool outlives)
{
    return (weir_stream_desc){.size = sizeof(weir_stream_desc),
                              .native = native,
                              .unique = weir_sim_stream_unique(rig->sim, native),
                              .outlives = outlives};
}

Test(stream, a_stream_is_known_by_its_unique_number)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_stream_desc desc = stream_desc(rig, rig->native[0], true);
    weir_stream again = 0;
    ASSERT_OK(weir_stream_attach(rig->pool, &desc, &again));
    cr_expect_eq(again, rig->stream[0]);
    desc.unique += 1000;
    ASSERT_OK(weir_stream_attach(rig->pool, &desc, &again));
    cr_expect_neq(again, rig->stream[0], "the native handle is no identity");
    weir_rig_close(rig);
}

Test(stream, bad_arguments)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_stream_desc desc = stream_desc(rig, rig->native[0], true);
    weir_stream stream;
    EXPECT_STATUS(weir_stream_attach(NULL, &desc, &stream), WEIR_INVALID);
    EXPECT_STATUS(weir_stream_attach(rig->pool, NULL, &stream), WEIR_INVALID);
    EXPECT_STATUS(weir_stream_attach(rig->pool, &desc, NULL), WEIR_INVALID);
    desc.size = offsetof(weir_stream_desc, unique);
    EXPECT_STATUS(weir_stream_attach(rig->pool, &desc, &stream), WEIR_INVALID);
    EXPECT_STATUS(weir_stream_retire(NULL, rig->stream[0]), WEIR_INVALID);
    EXPECT_STATUS(weir_stream_retire(rig->pool, 0), WEIR_STALE);
    EXPECT_STATUS(weir_stream_retire(rig->pool, 4711), WEIR_STALE);
    weir_rig_close(rig);
}

Test(stream, an_older_desc_reads_as_a_stream_that_may_end)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    uint64_t native = weir_sim_stream_create(rig->sim);
    weir_stream_desc desc = stream_desc(rig, native, true);
    weir_stream stream = 0;
    desc.size = offsetof(weir_stream_desc, outlives);
    ASSERT_OK(weir_stream_attach(rig->pool, &desc, &stream));
    weir_addr addr = 0;
    ASSERT_OK(weir_alloc_on(rig->pool, stream, 512, &addr));
    ASSERT_OK(weir_free(rig->pool, addr, stream));
    cr_expect_eq(weir_rig_stats(rig).event_records, 1);
    weir_rig_close(rig);
}

Test(stream, blocks_of_a_retired_stream_stay_live_and_are_freed_elsewhere)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.sim = {.lag_us = 100}, .streams = 2, .short_lived = 2});
    weir_addr a = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_addr b = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_rig_write(rig, 1, a, 4 * MIB, 7);
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    weir_sim_sync(rig->sim, rig->native[1]);
    weir_sim_stream_destroy(rig->sim, rig->native[1]);
    EXPECT_STATUS(weir_stream_retire(rig->pool, rig->stream[1]), WEIR_STALE);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 1, 512)), WEIR_STALE);
    EXPECT_STATUS(weir_free(rig->pool, a, rig->stream[1]), WEIR_STALE);
    EXPECT_STATUS(weir_use(rig->pool, a, rig->stream[1]), WEIR_STALE);
    weir_rig_read(rig, 0, a, 4 * MIB, 7);
    cr_expect(weir_rig_find(rig, a).live);
    weir_rig_free(rig, 0, a);
    ASSERT_OK(weir_free(rig->pool, b, 0));
    weir_rig_check(rig);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    weir_rig_close(rig);
}

Test(stream, retired_memory_is_reused_only_after_its_work)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.lag_us = 100}, .streams = 2, .pool = {.limit_bytes = 16 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 1, 12 * MIB);
    weir_rig_write(rig, 1, addr, 12 * MIB, 7);
    weir_rig_free(rig, 1, addr);
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    weir_addr again = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_rig_write(rig, 0, again, 12 * MIB, 8);
    weir_rig_free(rig, 0, again);
    weir_rig_close(rig);
}

/* The lanes stay few however many streams come and go. */
static void stream_cycles(bool outlives, bool use)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 10}});
    for (uint32_t i = 0; i < 600; i++) {
        uint64_t native = weir_sim_stream_create(rig->sim);
        weir_stream_desc desc = stream_desc(rig, native, outlives);
        weir_stream stream = 0;
        weir_addr addr = 0;
        ASSERT_OK(weir_stream_attach(rig->pool, &desc, &stream));
        ASSERT_OK(weir_alloc_on(rig->pool, stream, 700 * KIB, &addr));
        cr_assert(weir_sim_write(rig->sim, native, addr, 700 * KIB, i));
        if (use) ASSERT_OK(weir_use(rig->pool, addr, rig->stream[0]));
        ASSERT_OK(weir_free(rig->pool, addr, i % 3 == 0 ? rig->stream[0] : stream));
        ASSERT_OK(weir_stream_retire(rig->pool, stream));
        weir_sim_sync(rig->sim, 0);
        weir_sim_stream_destroy(rig->sim, native);
    }
    weir_rig_check(rig);
    cr_expect_leq(rig->pool->order.lane_count, 64, "%u lanes", rig->pool->order.lane_count);
    cr_expect_leq(weir_rig_stats(rig).reserved.peak, 128 * MIB);
    weir_rig_close(rig);
}

Test(stream, hundreds_of_streams_come_and_go)
{
    stream_cycles(true, false);
    stream_cycles(false, false);
    stream_cycles(true, true);
    stream_cycles(false, true);
}

Test(stream, a_lane_with_live_blocks_is_not_given_to_another)
{
    weir_addr addr[40];
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    for (uint32_t i = 0; i < 40; i++) {
        uint64_t native = weir_sim_stream_create(rig->sim);
        weir_stream_desc desc = stream_desc(rig, native, false);
        weir_stream stream = 0;
        ASSERT_OK(weir_stream_attach(rig->pool, &desc, &stream));
        ASSERT_OK(weir_alloc_on(rig->pool, stream, 512, &addr[i]));
        ASSERT_OK(weir_use(rig->pool, addr[i], rig->stream[0]));
        ASSERT_OK(weir_stream_retire(rig->pool, stream));
        weir_sim_stream_destroy(rig->sim, native);
    }
    cr_expect_eq(rig->pool->order.lane_count, 41);
    for (uint32_t i = 0; i < 40; i++) ASSERT_OK(weir_free(rig->pool, addr[i], rig->stream[0]));
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    weir_rig_attach(rig, 1, true);
    cr_expect_eq(rig->pool->order.lane_count, 41);
    weir_rig_check(rig);
    weir_rig_close(rig);
}

/* ------------------------------------------------------------------------------------ reuse -- */

Test(stream, memory_of_another_stream_is_reused_behind_a_wait)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.lag_us = 100}, .streams = 2, .pool = {.limit_bytes = 16 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_rig_write(rig, 0, addr, 12 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_addr other = weir_rig_alloc(rig, 1, 12 * MIB);
    weir_rig_write(rig, 1, other, 12 * MIB, 2);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 1);
    cr_expect_eq(weir_rig_stats(rig).host_waits, 0);
    weir_rig_free(rig, 1, other);
    weir_rig_close(rig);
}

Test(stream, without_stream_reuse_only_what_has_passed_is_lent)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.sim = {.lag_us = 100},
                                     .streams = 2,
                                     .pool = {.limit_bytes = 16 * MIB, .no_stream_reuse = true}});
    weir_request request = weir_rig_request(rig, 1, 12 * MIB);
    weir_addr addr = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_rig_write(rig, 0, addr, 12 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    request.flags = WEIR_NOWAIT;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_WOULD_WAIT);
    cr_expect_eq(weir_rig_stats(rig).stream_waits, 0);
    cr_expect(weir_rig_oom(rig).wait_would_help);
    cr_expect_gt(weir_rig_oom(rig).other_stream_bytes, 0);
    weir_sim_sync(rig->sim, 0);
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    weir_rig_close(rig);
}

Test(stream, without_events_only_what_is_known_is_reused)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2, .pool = {.limit_bytes = 16 * MIB}});
    weir_request request = weir_rig_request(rig, 1, 12 * MIB);
    weir_addr addr = weir_rig_alloc(rig, 0, 12 * MIB);
    request.flags = WEIR_NO_EVENTS;
    weir_rig_free(rig, 0, addr);
    weir_stats before = weir_rig_stats(rig);
    weir_status status = weir_rig_try(rig, request);
    cr_expect(status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT, "%s",
              weir_status_name(status));
    weir_stats after = weir_rig_stats(rig);
    cr_expect_eq(after.event_records, before.event_records);
    cr_expect_eq(after.event_queries, before.event_queries);
    cr_expect_eq(after.stream_waits, before.stream_waits);
    cr_expect_eq(after.host_waits, before.host_waits);
    request.stream = rig->stream[0];
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    request.stream = rig->stream[1];
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    weir_rig_close(rig);
}

/* Memory that B was made to wait for is no safer for C than before: the point under which it is
 * filed for B lies behind that wait. */
Test(stream, what_was_waited_for_once_is_not_passed_for_a_third)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.sim = {.lag_us = 100},
                                     .streams = 3,
                                     .pool = {.limit_bytes = 64 * MIB, .growth_bytes = 2 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_sim_stall(rig->sim, rig->native[0]);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_check(rig); /* so that the block is filed */
    weir_order *order = &rig->pool->order;
    uint32_t index = weir_range_at(&rig->pool->range, addr, 0);
    const weir_node *node = &rig->pool->range.node[index];
    weir_ask own = {.lane = 0}, second = {.lane = 1};
    uint64_t point = weir_node_point(node);
    cr_expect_eq(weir_node_point_for(rig->pool, node, &own), point);
    cr_expect_not(weir_node_usable(rig->pool, node, &second));
    ASSERT_OK(weir_order_join(order, 0, point, 1));
    cr_expect(weir_node_usable(rig->pool, node, &second));
    cr_expect_eq(weir_node_point_for(rig->pool, node, &second), order->lane[1].epoch);
    weir_addr b = weir_rig_alloc(rig, 1, 16 * MIB);
    weir_rig_write(rig, 1, b, 16 * MIB, 2);
    weir_addr c = weir_rig_alloc(rig, 2, 16 * MIB);
    weir_rig_write(rig, 2, c, 16 * MIB, 3);
    weir_rig_free(rig, 1, b);
    weir_rig_free(rig, 2, c);
    weir_sim_go(rig->sim, rig->native[0]);
    weir_sim_sync(rig->sim, 0);
    ASSERT_OK(weir_order_poll(order, 0));
    index = weir_range_at(&rig->pool->range, addr, 0);
    if (weir_node_lane(rig->pool, &rig->pool->range.node[index]) == 0)
        cr_expect_eq(weir_node_point_for(rig->pool, &rig->pool->range.node[index], &second), 0);
    weir_rig_close(rig);
}

/* Its frees record at once; the work on what is still live does not, until the stream is retired. */
Test(stream, the_end_of_a_stream_covers_what_is_live_of_it)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100},
                                                .streams = 3,
                                                .pool = {.limit_bytes = 4 * MIB},
                                                .short_lived = 1u << 1});
    weir_rig_free(rig, 1, weir_rig_alloc(rig, 1, MIB));
    weir_addr addr = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_rig_write(rig, 1, addr, 4 * MIB, 1);
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    weir_sim_stream_destroy(rig->sim, rig->native[1]);
    weir_rig_free(rig, 0, addr);
    addr = weir_rig_alloc(rig, 2, 4 * MIB);
    weir_rig_write(rig, 2, addr, 4 * MIB, 2);
    weir_rig_free(rig, 2, addr);
    weir_rig_close(rig);
}

Test(stream, streams_without_pending_memory_cost_no_device_call)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 4, .pool = {.limit_bytes = 8 * MIB}});
    weir_addr a = weir_rig_alloc(rig, 2, 4 * MIB);
    weir_rig_free(rig, 2, a);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).event_records, 1);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).event_records, 1, "what has passed is asked for no more");
    weir_request request = weir_rig_request(rig, 0, 9 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_stats(rig).event_records, 1);
    weir_rig_close(rig);
}

Test(stream, retire_that_fails_leaves_the_stream)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_stream_retire(rig->pool, rig->stream[1]), WEIR_DEVICE);
    cr_expect_neq(weir_native_error(rig->pool), 0);
    weir_rig_free(rig, 1, weir_rig_alloc(rig, 1, 512));
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    weir_rig_close(rig);
}
