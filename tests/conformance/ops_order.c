/* SPDX-License-Identifier: MIT */
/* The order and rescue calls of a device, without a pool: docs/backend.md, "Order", "Rescue". */
#include "conformance.h"

#define BUSY_US 300000u
#define MOMENT_US 1000u

static uint64_t ops_order_stream(const conformance_rig *rig)
{
    uint64_t stream = rig->device->stream_create(rig->self);
    cr_assert_neq(rig->device->stream_unique(rig->self, stream), 0);
    return stream;
}

static void ops_order_drop(const conformance_rig *rig, weir_event event)
{
    rig->ops->event_destroy(rig->self, event);
}

CONFORMANCE(ops_order, an_event_passes_with_the_work_before_it)
{
    uint64_t stream = ops_order_stream(rig);
    weir_event idle = weir_conformance_record(rig, stream);
    rig->device->busy(rig->self, stream, BUSY_US);
    weir_event busy = weir_conformance_record(rig, stream);
    cr_expect_not(weir_conformance_passed(rig, busy));
    rig->device->sync(rig->self);
    cr_expect(weir_conformance_passed(rig, idle));
    cr_expect(weir_conformance_passed(rig, busy));
    ops_order_drop(rig, idle);
    ops_order_drop(rig, busy);
}

CONFORMANCE(ops_order, an_event_recorded_again_forgets_its_old_place)
{
    uint64_t stream = ops_order_stream(rig);
    weir_event event = weir_conformance_record(rig, stream);
    rig->device->sync(rig->self);
    cr_expect(weir_conformance_passed(rig, event));
    rig->device->busy(rig->self, stream, BUSY_US);
    cr_expect(weir_conformance_passed(rig, event), "later work moved the event");
    ASSERT_OK(rig->ops->event_record(rig->self, event, stream));
    cr_expect_not(weir_conformance_passed(rig, event));
    rig->device->sync(rig->self);
    cr_expect(weir_conformance_passed(rig, event));
    ops_order_drop(rig, event);
}

CONFORMANCE(ops_order, the_host_waits_as_long_as_it_may)
{
    bool passed = true;
    if (!rig->ops->event_wait) {
        return;
    }
    uint64_t stream = ops_order_stream(rig);
    rig->device->busy(rig->self, stream, BUSY_US);
    weir_event event = weir_conformance_record(rig, stream);
    ASSERT_OK(rig->ops->event_wait(rig->self, event, 0, &passed));
    cr_expect_not(passed);
    ASSERT_OK(rig->ops->event_wait(rig->self, event, MOMENT_US, &passed));
    cr_expect_not(passed);
    ASSERT_OK(rig->ops->event_wait(rig->self, event, WEIR_FOREVER, &passed));
    cr_expect(passed);
    cr_expect(weir_conformance_passed(rig, event));
    ASSERT_OK(rig->ops->event_wait(rig->self, event, 0, &passed));
    cr_expect(passed);
    ops_order_drop(rig, event);
}

CONFORMANCE(ops_order, a_stream_waits_for_another)
{
    uint64_t a = ops_order_stream(rig);
    uint64_t b = ops_order_stream(rig);
    conformance_memory memory = weir_conformance_take(rig, rig->granule);
    rig->device->busy(rig->self, a, BUSY_US);
    rig->device->write(rig->self, a, memory.addr, memory.bytes, 1);
    weir_conformance_order(rig, a, b);
    weir_event after = weir_conformance_record(rig, b);
    rig->device->verify(rig->self, b, memory.addr, memory.bytes, 1);
    rig->device->write(rig->self, b, memory.addr, memory.bytes, 2);
    cr_expect_not(weir_conformance_passed(rig, after), "b did not wait for a");
    weir_conformance_order(rig, b, a);
    rig->device->verify(rig->self, a, memory.addr, memory.bytes, 2);
    rig->device->sync(rig->self);
    weir_conformance_drop(rig, memory);
    ops_order_drop(rig, after);
}

CONFORMANCE(ops_order, waits_reach_through_a_third_stream)
{
    uint64_t a = ops_order_stream(rig);
    uint64_t b = ops_order_stream(rig);
    uint64_t c = ops_order_stream(rig);
    conformance_memory memory = weir_conformance_take(rig, rig->granule);
    rig->device->busy(rig->self, a, BUSY_US);
    rig->device->write(rig->self, a, memory.addr, memory.bytes, 1);
    weir_conformance_order(rig, a, b);
    weir_conformance_order(rig, b, c);
    rig->device->verify(rig->self, c, memory.addr, memory.bytes, 1);
    rig->device->sync(rig->self);
    weir_conformance_drop(rig, memory);
}

/* A wait takes the event's place at the time of the call, whatever becomes of the event later. */
CONFORMANCE(ops_order, a_wait_keeps_the_place_that_it_took)
{
    uint64_t a = ops_order_stream(rig);
    uint64_t b = ops_order_stream(rig);
    weir_event event = weir_conformance_record(rig, a);
    ASSERT_OK(rig->ops->stream_wait(rig->self, b, event));
    rig->device->busy(rig->self, a, BUSY_US);
    ASSERT_OK(rig->ops->event_record(rig->self, event, a));
    weir_event free_way = weir_conformance_record(rig, b);
    bool passed = weir_conformance_passed(rig, free_way);
    if (rig->ops->event_wait) {
        ASSERT_OK(rig->ops->event_wait(rig->self, free_way, BUSY_US / 3, &passed));
    }
    cr_expect(passed, "b waits for what was recorded after its wait");
    cr_expect_not(weir_conformance_passed(rig, event));
    rig->device->sync(rig->self);
    ops_order_drop(rig, event);
    ops_order_drop(rig, free_way);
}

CONFORMANCE(ops_order, a_stream_may_wait_for_itself)
{
    uint64_t stream = ops_order_stream(rig);
    rig->device->busy(rig->self, stream, MOMENT_US);
    weir_conformance_order(rig, stream, stream);
    rig->device->busy(rig->self, stream, MOMENT_US);
    weir_event event = weir_conformance_record(rig, stream);
    rig->device->sync(rig->self);
    cr_expect(weir_conformance_passed(rig, event));
    ops_order_drop(rig, event);
}

CONFORMANCE(ops_order, an_event_outlives_its_stream)
{
    uint64_t a = ops_order_stream(rig);
    uint64_t b = ops_order_stream(rig);
    uint64_t unique = rig->device->stream_unique(rig->self, a);
    rig->device->busy(rig->self, a, MOMENT_US);
    weir_event event = weir_conformance_record(rig, a);
    rig->device->stream_destroy(rig->self, a);
    ASSERT_OK(rig->ops->stream_wait(rig->self, b, event));
    rig->device->sync(rig->self);
    cr_expect(weir_conformance_passed(rig, event));
    uint64_t next = ops_order_stream(rig);
    cr_expect_neq(rig->device->stream_unique(rig->self, next), unique);
    ops_order_drop(rig, event);
}

CONFORMANCE(ops_order, events_are_many_and_reusable)
{
    enum { EVENTS = 500 };
    static weir_event events[EVENTS];
    uint64_t stream = ops_order_stream(rig);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < EVENTS; i++) {
            events[i] = weir_conformance_record(rig, stream);
            cr_assert(i == 0 || events[i] != events[i - 1]);
        }
        rig->device->sync(rig->self);
        for (unsigned i = 0; i < EVENTS; i++) {
            cr_expect(weir_conformance_passed(rig, events[i]));
            ops_order_drop(rig, events[i]);
        }
    }
}

/* ------------------------------------------------------------------------------------ rescue -- */

CONFORMANCE(ops_order, quiesce_waits_for_all_streams)
{
    if (!rig->ops->quiesce) {
        return;
    }
    uint64_t a = ops_order_stream(rig);
    uint64_t b = ops_order_stream(rig);
    rig->device->busy(rig->self, a, BUSY_US / 4);
    rig->device->busy(rig->self, b, BUSY_US / 2);
    weir_event on_a = weir_conformance_record(rig, a);
    weir_event on_b = weir_conformance_record(rig, b);
    ASSERT_OK(rig->ops->quiesce(rig->self, WEIR_FOREVER));
    cr_expect(weir_conformance_passed(rig, on_a));
    cr_expect(weir_conformance_passed(rig, on_b));
    ASSERT_OK(rig->ops->resume(rig->self));
    ops_order_drop(rig, on_a);
    ops_order_drop(rig, on_b);
}

CONFORMANCE(ops_order, a_quiesce_that_may_not_wait_long_enough_leaves_all_running)
{
    if (!rig->ops->quiesce) {
        return;
    }
    uint64_t stream = ops_order_stream(rig);
    conformance_memory memory = weir_conformance_take(rig, rig->granule);
    rig->device->busy(rig->self, stream, BUSY_US);
    cr_expect_eq(rig->ops->quiesce(rig->self, 0), WEIR_WOULD_WAIT);
    cr_expect_eq(rig->ops->quiesce(rig->self, MOMENT_US), WEIR_WOULD_WAIT);
    rig->device->write(rig->self, stream, memory.addr, memory.bytes, 1);
    ASSERT_OK(rig->ops->quiesce(rig->self, WEIR_FOREVER));
    ASSERT_OK(rig->ops->resume(rig->self));
    rig->device->verify(rig->self, stream, memory.addr, memory.bytes, 1);
    rig->device->sync(rig->self);
    weir_conformance_drop(rig, memory);
}

CONFORMANCE(ops_order, a_copy_is_done_at_resume)
{
    if (!rig->ops->quiesce) {
        return;
    }
    uint64_t a = ops_order_stream(rig);
    uint64_t b = ops_order_stream(rig);
    conformance_memory from = weir_conformance_take(rig, 3 * rig->granule);
    conformance_memory to = weir_conformance_take(rig, 4 * rig->granule);
    rig->device->write(rig->self, a, from.addr, from.bytes, 1);
    ASSERT_OK(rig->ops->quiesce(rig->self, WEIR_FOREVER));
    ASSERT_OK(rig->ops->copy(rig->self, to.addr + rig->granule, from.addr, from.bytes));
    ASSERT_OK(rig->ops->resume(rig->self));
    rig->device->write(rig->self, a, from.addr, from.bytes, 2);
    rig->device->verify(rig->self, b, to.addr + rig->granule, from.bytes, 1);
    rig->device->sync(rig->self);
    weir_conformance_drop(rig, from);
    weir_conformance_drop(rig, to);
}
