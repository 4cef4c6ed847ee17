/* SPDX-License-Identifier: MIT */
/* Streams that come and go, with and without memory of their own, leave nothing behind; and when the
 * lanes of those that went are used again. */
#include "pool.h"
#include "rig.h"

#define WENT_STREAMS 500u

static void went_one(sim_rig *rig, uint64_t bytes, bool outlives)
{
    uint64_t native = weir_sim_stream_create(rig->sim);
    weir_stream_desc desc = {.size = sizeof(desc),
                             .native = native,
                             .outlives = outlives,
                             .unique = weir_sim_stream_unique(rig->sim, native)};
    weir_stream stream;
    ASSERT_OK(weir_stream_attach(rig->pool, &desc, &stream));
    if (bytes != 0) {
        weir_addr addr;
        ASSERT_OK(weir_alloc_on(rig->pool, stream, bytes, &addr));
        ASSERT_OK(weir_free(rig->pool, addr, stream));
    }
    ASSERT_OK(weir_stream_retire(rig->pool, stream));
    weir_sim_sync(rig->sim, 0);
    weir_sim_stream_destroy(rig->sim, native);
}

Test(came_and_went, streams_leave_neither_lanes_nor_events)
{
    static const uint64_t sizes[] = {0, 4 * KIB, 3 * MIB};
    for (unsigned i = 0; i < 6; i++) {
        sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 10}});
        for (unsigned k = 0; k < WENT_STREAMS; k++) went_one(rig, sizes[i / 2], i % 2 == 0);
        cr_expect_leq(rig->pool->order.lane_count, 64, "%u lanes of streams with %llu bytes",
                      rig->pool->order.lane_count, (unsigned long long)sizes[i / 2]);
        cr_expect_leq(weir_rig_stats(rig).event_creates, 64);
        weir_rig_close(rig);
    }
}

typedef struct went_call {
    sim_rig *rig;
    bool done;
    weir_stream stream;
} went_call;

static void went_attach(went_call *of)
{
    uint64_t native = weir_sim_stream_create(of->rig->sim);
    weir_stream_desc desc = {.size = sizeof(desc),
                             .native = native,
                             .outlives = true,
                             .unique = weir_sim_stream_unique(of->rig->sim, native)};
    ASSERT_OK(weir_stream_attach(of->rig->pool, &desc, &of->stream));
}

static void went_hear(void *self, const weir_record *record)
{
    went_call *of = (went_call *)self;
    if (of->done || record->what != WEIR_DID_MAP) return;
    of->done = true;
    went_attach(of);
}

/* A lane that nothing names may still be named by what the running call does next. */
Test(came_and_went, no_lane_is_used_again_under_a_running_call)
{
    went_call of = {.done = false};
    of.rig = weir_rig_open(&(rig_options){0});
    for (unsigned i = 0; i < 20; i++) {
        went_attach(&of);
        ASSERT_OK(weir_stream_retire(of.rig->pool, of.stream));
    }
    uint32_t lanes = of.rig->pool->order.lane_count;
    weir_observer_set(of.rig->pool, went_hear, &of);
    weir_addr addr = weir_rig_alloc(of.rig, 0, 2 * MIB);
    weir_observer_set(of.rig->pool, NULL, NULL);
    cr_expect(of.done);
    cr_expect_eq(of.rig->pool->order.lane_count, lanes + 1);
    went_attach(&of);
    cr_expect_eq(of.rig->pool->order.lane_count, lanes + 1, "it is used again now");
    weir_rig_free(of.rig, 0, addr);
    weir_rig_close(of.rig);
}

Test(came_and_went, lanes_are_used_again_once_half_of_them_have_ended)
{
    went_call of = {.done = false};
    of.rig = weir_rig_open(&(rig_options){0});
    static weir_stream stream[40];
    for (unsigned i = 0; i < 40; i++) {
        went_attach(&of);
        stream[i] = of.stream;
    }
    for (unsigned i = 0; i < 18; i++) ASSERT_OK(weir_stream_retire(of.rig->pool, stream[i]));
    went_attach(&of);
    cr_expect_eq(of.rig->pool->order.lane_count, 42, "18 of 41 do not pay the look");
    for (unsigned i = 18; i < 24; i++) ASSERT_OK(weir_stream_retire(of.rig->pool, stream[i]));
    went_attach(&of);
    cr_expect_eq(of.rig->pool->order.lane_count, 42);
    weir_rig_close(of.rig);
}
