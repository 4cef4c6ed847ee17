/* SPDX-License-Identifier: MIT */
/* order: lanes, points, waits between lanes and extra records, on the simulator's streams. */
#include "order.h"
#include "rig.h"

#include <string.h>

typedef struct order_rig {
    host_memory memory;
    weir_sim *sim;
    weir_device device;
    weir_order order;
    uint64_t native[RIG_STREAMS];
    uint32_t lane[RIG_STREAMS];
} order_rig;

static weir_stream_desc order_desc(order_rig *rig, uint64_t native)
{
    return (weir_stream_desc){.size = sizeof(weir_stream_desc),
                              .native = native,
                              .unique = weir_sim_stream_unique(rig->sim, native),
                              .outlives = true};
}

static void order_open(order_rig *rig)
{
    weir_host_memory_init(&rig->memory);
    rig->sim = weir_sim_create(NULL);
    ASSERT_OK(weir_device_init(&rig->device, weir_sim_ops(rig->sim), rig->sim));
    weir_order_init(&rig->order, &rig->memory.platform, &rig->device);
    for (uint32_t i = 0; i < RIG_STREAMS; i++) {
        rig->native[i] = weir_sim_stream_create(rig->sim);
        weir_stream_desc desc = order_desc(rig, rig->native[i]);
        ASSERT_OK(weir_order_attach(&rig->order, &desc, &rig->lane[i]));
    }
}

static void order_sound(const order_rig *rig)
{
    const char *why = weir_order_check(&rig->order);
    cr_assert_null(why, "%s", why);
}

static void order_close(order_rig *rig)
{
    order_sound(rig);
    weir_order_fini(&rig->order);
    cr_expect_eq(rig->memory.live_count, 0);
    const char *left = weir_sim_balance(rig->sim);
    cr_expect_null(left, "%s", left == NULL ? "" : left);
    weir_sim_destroy(rig->sim);
}

/* Queues work that stays unfinished until the stream goes on. */
static void order_stall(order_rig *rig, uint32_t stream)
{
    weir_sim_stall(rig->sim, rig->native[stream]);
    cr_assert(weir_sim_write(rig->sim, rig->native[stream], 0, 0, 0));
}

static void order_go(order_rig *rig, uint32_t stream)
{
    weir_sim_go(rig->sim, rig->native[stream]);
    weir_sim_sync(rig->sim, rig->native[stream]);
}

/* ----------------------------------------------------------------------------------- points -- */

Test(order, a_point_passes_once_its_event_has)
{
    order_rig rig;
    order_open(&rig);
    weir_lane *lane = &rig.order.lane[0];
    order_stall(&rig, 0);
    cr_expect_eq(lane->epoch, 1);
    ASSERT_OK(weir_order_record(&rig.order, 0));
    cr_expect_eq(lane->epoch, 2);
    cr_expect_eq(lane->recorded, 1);
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect_not(weir_order_passed(&rig.order, 0, 1));
    cr_expect_neq(weir_order_point(&rig.order, 0, 1), 0);
    order_go(&rig, 0);
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect(weir_order_passed(&rig.order, 0, 1));
    cr_expect_not(weir_order_passed(&rig.order, 0, 2));
    cr_expect_eq(weir_order_point(&rig.order, 0, 1), 0);
    cr_expect_eq(lane->first, 0);
    cr_expect_eq(lane->last, 0);
    order_close(&rig);
}

Test(order, cover_records_only_what_no_event_covers)
{
    order_rig rig;
    order_open(&rig);
    ASSERT_OK(weir_order_cover(&rig.order, 0, 1));
    ASSERT_OK(weir_order_cover(&rig.order, 0, 1));
    cr_expect_eq(rig.device.calls.event_records, 1);
    ASSERT_OK(weir_order_cover(&rig.order, 0, 2));
    cr_expect_eq(rig.device.calls.event_records, 2);
    order_close(&rig);
}

Test(order, poll_takes_points_in_order_and_stops_at_the_first_that_has_not_passed)
{
    order_rig rig;
    order_open(&rig);
    for (uint32_t i = 0; i < 3; i++) ASSERT_OK(weir_order_record(&rig.order, 0));
    order_stall(&rig, 0);
    for (uint32_t i = 0; i < 3; i++) ASSERT_OK(weir_order_record(&rig.order, 0));
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect_eq(rig.order.lane[0].passed, 3);
    cr_expect_eq(rig.device.calls.event_queries, 4);
    cr_expect_eq(weir_order_point(&rig.order, 0, 3), 0, "a point that has passed has no event");
    cr_expect_eq(rig.order.point[weir_order_point(&rig.order, 0, 5)].epoch, 5);
    order_sound(&rig);
    order_go(&rig, 0);
    order_close(&rig);
}

Test(order, a_point_that_someone_waits_for_is_not_reused)
{
    order_rig rig;
    order_open(&rig);
    ASSERT_OK(weir_order_record(&rig.order, 0));
    uint32_t point = rig.order.lane[0].first;
    rig.order.point[point].waiters = 1;
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect_eq(rig.order.lane[0].first, point);
    rig.order.point[point].waiters = 0;
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect_eq(rig.order.lane[0].first, 0);
    order_close(&rig);
}

/* A stream that never gets on costs 16 events, the last of which is recorded again and again. */
Test(order, a_lane_keeps_few_points)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    for (uint32_t i = 0; i < 40; i++) ASSERT_OK(weir_order_record(&rig.order, 0));
    order_sound(&rig);
    cr_expect_eq(rig.order.lane[0].points, WEIR_POINTS_MAX);
    cr_expect_eq(rig.device.calls.event_creates, WEIR_POINTS_MAX);
    cr_expect_eq(rig.order.point[weir_order_point(&rig.order, 0, 17)].epoch, 40);
    uint32_t last = rig.order.lane[0].last;
    rig.order.point[last].waiters = 1; /* its event is in use: this one must not move on */
    ASSERT_OK(weir_order_record(&rig.order, 0));
    cr_expect_neq(rig.order.lane[0].last, last);
    cr_expect_eq(rig.order.point[last].epoch, 40);
    rig.order.point[last].waiters = 0;
    weir_sim_fail(rig.sim, WEIR_SIM_event_record, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_order_record(&rig.order, 0), WEIR_DEVICE);
    order_sound(&rig);
    order_go(&rig, 0);
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect_eq(rig.order.lane[0].passed, 41);
    cr_expect_eq(rig.order.lane[0].points, 0);
    order_close(&rig);
}

Test(order, events_are_used_again)
{
    order_rig rig;
    order_open(&rig);
    for (uint32_t i = 0; i < 100; i++) {
        ASSERT_OK(weir_order_record(&rig.order, i % 2));
        ASSERT_OK(weir_order_poll(&rig.order, i % 2));
    }
    cr_expect_eq(rig.device.calls.event_creates, 1);
    cr_expect_eq(rig.device.calls.event_records, 100);
    order_close(&rig);
}

Test(order, a_record_that_fails_changes_nothing)
{
    order_rig rig;
    order_open(&rig);
    weir_sim_fail(rig.sim, WEIR_SIM_event_create, 1, false, WEIR_NO_MEMORY);
    EXPECT_STATUS(weir_order_record(&rig.order, 0), WEIR_NO_MEMORY);
    weir_sim_fail(rig.sim, WEIR_SIM_event_record, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_order_record(&rig.order, 0), WEIR_DEVICE);
    cr_expect_eq(rig.order.lane[0].epoch, 1);
    cr_expect_eq(rig.order.lane[0].first, 0);
    order_sound(&rig);
    ASSERT_OK(weir_order_record(&rig.order, 0));
    cr_expect_eq(rig.device.calls.event_creates, 2, "the event of the failed record is lost");
    weir_sim_fail(rig.sim, WEIR_SIM_event_query, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_order_poll(&rig.order, 0), WEIR_DEVICE);
    cr_expect_eq(rig.order.lane[0].passed, 0);
    order_close(&rig);
}

Test(order, short_host_memory_is_told)
{
    order_rig rig;
    order_open(&rig);
    weir_host_memory_fail(&rig.memory, 1, false);
    EXPECT_STATUS(weir_order_record(&rig.order, 0), WEIR_NO_METADATA);
    uint32_t first = 0;
    weir_host_memory_fail(&rig.memory, 1, false);
    EXPECT_STATUS(weir_order_extra_add(&rig.order, &first, 1, 1), WEIR_NO_METADATA);
    cr_expect_eq(first, 0);
    weir_host_memory_fail(&rig.memory, 1, false);
    EXPECT_STATUS(weir_order_join(&rig.order, 0, 1, 1), WEIR_NO_METADATA);
    weir_stream_desc desc = order_desc(&rig, rig.native[0]);
    uint32_t lane = 0;
    while (rig.order.lane_count < rig.order.lane_room)
        ASSERT_OK(weir_order_attach(&rig.order, &desc, &lane));
    weir_host_memory_fail(&rig.memory, 1, false);
    EXPECT_STATUS(weir_order_attach(&rig.order, &desc, &lane), WEIR_NO_METADATA);
    order_close(&rig);
}

/* ------------------------------------------------------------------------------------ joins -- */

Test(order, a_lane_is_before_itself_and_before_others_once_joined)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    cr_expect(weir_order_before(&rig.order, 0, 1, 0));
    cr_expect_not(weir_order_before(&rig.order, 0, 1, 1));
    ASSERT_OK(weir_order_join(&rig.order, 0, 1, 1));
    cr_expect(weir_order_before(&rig.order, 0, 1, 1));
    cr_expect_not(weir_order_before(&rig.order, 0, 2, 1));
    cr_expect_not(weir_order_before(&rig.order, 0, 1, 2));
    cr_expect_eq(rig.device.calls.stream_waits, 1);
    ASSERT_OK(weir_order_join(&rig.order, 0, 1, 1));
    cr_expect_eq(rig.device.calls.stream_waits, 1, "a wait that was there was put again");
    order_sound(&rig);
    order_go(&rig, 0);
    order_close(&rig);
}

Test(order, a_join_waits_for_the_first_event_that_covers_the_point)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    for (uint32_t i = 0; i < 4; i++) ASSERT_OK(weir_order_record(&rig.order, 0));
    ASSERT_OK(weir_order_join(&rig.order, 0, 2, 1));
    cr_expect_eq(rig.order.lane[1].seen[0], 2);
    cr_expect_eq(rig.device.calls.event_records, 4);
    order_go(&rig, 0);
    order_close(&rig);
}

Test(order, what_has_passed_needs_no_wait)
{
    order_rig rig;
    order_open(&rig);
    ASSERT_OK(weir_order_record(&rig.order, 0));
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    cr_expect(weir_order_before(&rig.order, 0, 1, 3));
    ASSERT_OK(weir_order_join(&rig.order, 0, 1, 3));
    cr_expect_eq(rig.device.calls.stream_waits, 0);
    order_close(&rig);
}

Test(order, a_wait_that_fails_orders_nothing)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    weir_sim_fail(rig.sim, WEIR_SIM_stream_wait, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_order_join(&rig.order, 0, 1, 1), WEIR_DEVICE);
    cr_expect_not(weir_order_before(&rig.order, 0, 1, 1));
    ASSERT_OK(weir_order_record(&rig.order, 0));
    weir_sim_fail(rig.sim, WEIR_SIM_event_record, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_order_join(&rig.order, 0, 3, 1), WEIR_DEVICE);
    cr_expect_not(weir_order_before(&rig.order, 0, 3, 1));
    order_go(&rig, 0);
    order_close(&rig);
}

Test(order, what_a_lane_has_seen_grows_with_the_lanes)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    ASSERT_OK(weir_order_join(&rig.order, 0, 1, 1));
    weir_stream_desc desc = order_desc(&rig, rig.native[3]);
    uint32_t lane = 0;
    for (uint32_t i = 0; i < 40; i++) ASSERT_OK(weir_order_attach(&rig.order, &desc, &lane));
    weir_sim_stall(rig.sim, rig.native[3]);
    ASSERT_OK(weir_order_join(&rig.order, lane, 1, 1));
    cr_expect(weir_order_before(&rig.order, 0, 1, 1), "what was seen was forgotten");
    cr_expect(weir_order_before(&rig.order, lane, 1, 1));
    order_go(&rig, 0);
    weir_sim_sync(rig.sim, 0);
    order_close(&rig);
}

/* ------------------------------------------------------------------------------------ lanes -- */

Test(order, a_retired_lane_is_stale_and_may_serve_another_stream)
{
    order_rig rig;
    order_open(&rig);
    weir_stream old = weir_order_stream(&rig.order, 1);
    uint32_t lane;
    cr_expect_eq(weir_order_lane(&rig.order, old), 1);
    cr_expect(weir_order_known(&rig.order, order_desc(&rig, rig.native[1]).unique, &lane));
    cr_expect_eq(lane, 1);
    ASSERT_OK(weir_order_retire(&rig.order, 1));
    cr_expect_eq(weir_order_lane(&rig.order, old), WEIR_LANE_NONE);
    cr_expect_not(weir_order_known(&rig.order, order_desc(&rig, rig.native[1]).unique, &lane));
    cr_expect_eq(rig.order.retired_count, 1);
    cr_expect_eq(rig.order.lane[1].recorded, 1, "no last point was taken");
    weir_sim_stream_destroy(rig.sim, rig.native[1]);
    ASSERT_OK(weir_order_poll(&rig.order, 1));
    rig.native[1] = weir_sim_stream_create(rig.sim);
    weir_stream_desc desc = order_desc(&rig, rig.native[1]);
    weir_order_reuse(&rig.order, 1, &desc);
    cr_expect_eq(rig.order.retired_count, 0);
    cr_expect_neq(weir_order_stream(&rig.order, 1), old);
    cr_expect_eq(weir_order_lane(&rig.order, old), WEIR_LANE_NONE);
    cr_expect_eq(weir_order_lane(&rig.order, weir_order_stream(&rig.order, 1)), 1);
    cr_expect_eq(rig.order.lane[1].epoch, 2, "epochs go on");
    order_close(&rig);
}

Test(order, a_new_stream_on_a_used_lane_has_seen_nothing)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    ASSERT_OK(weir_order_join(&rig.order, 0, 1, 1));
    ASSERT_OK(weir_order_retire(&rig.order, 1));
    order_go(&rig, 0);
    ASSERT_OK(weir_order_poll(&rig.order, 1));
    order_stall(&rig, 0);
    weir_stream_desc desc = order_desc(&rig, rig.native[2]);
    weir_order_reuse(&rig.order, 1, &desc);
    cr_expect_not(weir_order_before(&rig.order, 0, 1, 1));
    order_go(&rig, 0);
    order_close(&rig);
}

Test(order, numbers_that_are_no_streams_name_no_lane)
{
    order_rig rig;
    order_open(&rig);
    cr_expect_eq(weir_order_lane(&rig.order, 0), WEIR_LANE_NONE);
    cr_expect_eq(weir_order_lane(&rig.order, UINT32_MAX), WEIR_LANE_NONE);
    cr_expect_eq(weir_order_lane(&rig.order, 1), WEIR_LANE_NONE, "a number without generation");
    cr_expect_eq(weir_order_lane(&rig.order, 1u << 16 | (RIG_STREAMS + 1)), WEIR_LANE_NONE);
    order_close(&rig);
}

Test(order, a_generation_that_wraps_is_never_0)
{
    order_rig rig;
    order_open(&rig);
    rig.order.lane[0].generation = UINT16_MAX;
    ASSERT_OK(weir_order_retire(&rig.order, 0));
    ASSERT_OK(weir_order_poll(&rig.order, 0));
    weir_stream_desc desc = order_desc(&rig, rig.native[0]);
    weir_order_reuse(&rig.order, 0, &desc);
    cr_expect_eq(rig.order.lane[0].generation, 1);
    order_close(&rig);
}

Test(order, a_lane_whose_last_point_fails_stays)
{
    order_rig rig;
    order_open(&rig);
    weir_stream stream = weir_order_stream(&rig.order, 2);
    weir_sim_fail(rig.sim, WEIR_SIM_event_record, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_order_retire(&rig.order, 2), WEIR_DEVICE);
    cr_expect_eq(weir_order_lane(&rig.order, stream), 2);
    weir_sim_lose(rig.sim);
    EXPECT_STATUS(weir_order_retire(&rig.order, 2), WEIR_OK);
    cr_expect_eq(weir_order_lane(&rig.order, stream), WEIR_LANE_NONE);
    order_sound(&rig);
    order_close(&rig);
}

/* ----------------------------------------------------------------------------------- extras -- */

Test(order, extra_records_are_lists_that_use_their_records_again)
{
    order_rig rig;
    uint32_t first = 0, other = 0;
    order_open(&rig);
    for (uint16_t lane = 0; lane < 40; lane++)
        ASSERT_OK(weir_order_extra_add(&rig.order, &first, lane, lane + 100u));
    for (uint16_t lane = 0; lane < 40; lane++) {
        uint32_t at = weir_order_extra_find(&rig.order, first, lane);
        cr_assert_neq(at, 0);
        cr_assert_eq(rig.order.extra[at].value, lane + 100u);
    }
    cr_expect_eq(weir_order_extra_find(&rig.order, first, 40), 0);
    weir_order_extra_drop(&rig.order, &first, weir_order_extra_find(&rig.order, first, 17));
    weir_order_extra_drop(&rig.order, &first, weir_order_extra_find(&rig.order, first, 39));
    weir_order_extra_drop(&rig.order, &first, weir_order_extra_find(&rig.order, first, 0));
    cr_expect_eq(weir_order_extra_find(&rig.order, first, 17), 0);
    cr_expect_neq(weir_order_extra_find(&rig.order, first, 18), 0);
    uint32_t count = rig.order.extra_count;
    for (uint32_t i = 0; i < 3; i++) ASSERT_OK(weir_order_extra_add(&rig.order, &other, 7, i));
    cr_expect_eq(rig.order.extra_count, count);
    weir_order_extra_drop_all(&rig.order, &first);
    weir_order_extra_drop_all(&rig.order, &other);
    cr_expect_eq(first, 0);
    cr_expect_eq(other, 0);
    order_close(&rig);
}

/* ------------------------------------------------------------------------------------ check -- */

static void order_expect_broken(const order_rig *rig, const char *words)
{
    const char *why = weir_order_check(&rig->order);
    cr_expect(why != NULL && strncmp(why, words, 2) == 0, "%s: %s", words,
              why == NULL ? "not seen" : why);
}

Test(order, check_finds_what_is_broken)
{
    order_rig rig;
    order_open(&rig);
    order_stall(&rig, 0);
    ASSERT_OK(weir_order_record(&rig.order, 0));
    ASSERT_OK(weir_order_record(&rig.order, 0));
    ASSERT_OK(weir_order_join(&rig.order, 0, 1, 1));
    weir_lane *lane = &rig.order.lane[0];
    weir_lane kept = *lane;
    lane->passed = 3;
    order_expect_broken(&rig, "O1");
    *lane = kept;
    lane->epoch++;
    order_expect_broken(&rig, "O1");
    *lane = kept;
    rig.order.point[lane->last].epoch = 1;
    order_expect_broken(&rig, "O1");
    rig.order.point[lane->last].epoch = 2;
    lane->last = lane->first;
    order_expect_broken(&rig, "O1");
    *lane = kept;
    rig.order.lane[1].seen[0] = 9;
    order_expect_broken(&rig, "O2");
    rig.order.lane[1].seen[0] = 1;
    lane->points++;
    order_expect_broken(&rig, "O5");
    lane->points--;
    rig.order.retired_count++;
    order_expect_broken(&rig, "O4");
    rig.order.retired_count--;
    order_go(&rig, 0);
    order_close(&rig);
}

/* A retired lane's stream may be gone: no device call names it, not as the one that waits either. */
Test(order, a_retired_lane_does_not_wait)
{
    order_rig rig;
    order_open(&rig);
    ASSERT_OK(weir_order_retire(&rig.order, 1));
    uint64_t waits = rig.device.calls.stream_waits;
    EXPECT_STATUS(weir_order_join(&rig.order, 0, rig.order.lane[0].epoch, 1), WEIR_STALE);
    cr_expect_eq(rig.device.calls.stream_waits, waits);
    order_close(&rig);
}
