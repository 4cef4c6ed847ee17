/* SPDX-License-Identifier: MIT */
/*
 * order: who may reuse what, when. docs/ordering.md has the argument.
 *
 * Owns     a lane for each attached stream, the points taken on them (each with its event) and the
 *          extra records of blocks: uses on further streams, and pins.
 * Point    a lane's frees are numbered by epochs. A free in epoch e has passed once an event that
 *          was recorded at the end of e, or later, has. `recorded` is the last epoch that an event
 *          covers, `passed` the last known to have passed; epoch = recorded + 1.
 * O1       passed <= recorded < epoch, and a lane's points are in the order of their epochs.
 * O2       seen[l] of a lane is an epoch of lane l that all its later work is ordered after.
 * O3       every point in use is at most `used`. A lane whose stream does not outlive its frees has
 *          used <= recorded, but where a record failed, or a call that goes on uses memory by a wait.
 * O4       a retired lane makes no device call with its stream.
 * O5       a lane has at most WEIR_POINTS_MAX points, but for those with waiters.
 * Cost     O(1); poll and join query as many events as have passed, plus one.
 */
#ifndef WEIR_ORDER_H
#define WEIR_ORDER_H

#include "device.h"

#define WEIR_LANE_NONE UINT16_MAX
#define WEIR_LANE_PINS (UINT16_MAX - 1) /* an extra record that counts pins */
#define WEIR_LANES_MAX (UINT16_MAX - 2)
#define WEIR_POINTS_MAX 16 /* points of a lane not known to have passed; then the last moves on */

typedef struct weir_lane {
    uint64_t native, unique;
    weir_stream name; /* what the caller calls it; 0 once retired */
    uint64_t epoch, recorded, passed;
    uint64_t used; /* the last epoch that anything lies in */
    uint64_t *seen;
    uint32_t seen_room;
    uint32_t first, last; /* points not known to have passed; 0: none */
    uint32_t points;      /* how many */
    uint16_t generation;
    bool outlives;
    bool retired;
    bool named; /* scratch of the search for lanes that nothing names any more */
} weir_lane;

typedef struct weir_point {
    uint64_t epoch;
    weir_event event;
    uint32_t next;
    uint32_t waiters; /* host waits that use the event with the lock released */
} weir_point;

typedef struct weir_extra {
    uint64_t value; /* the point of a use, or the number of pins */
    uint32_t next;
    uint16_t lane;
} weir_extra;

typedef struct weir_order {
    const weir_platform *platform;
    weir_device *device;
    weir_lane *lane;
    uint32_t lane_count, lane_room;
    uint32_t retired_count;
    weir_point *point; /* point[0] stands for none */
    uint32_t point_count, point_room;
    uint32_t point_unused;
    weir_extra *extra; /* extra[0] stands for none */
    uint32_t extra_count, extra_room;
    uint32_t extra_unused;
} weir_order;

void weir_order_init(weir_order *order, const weir_platform *platform, weir_device *device);
/* Destroys the events too, unless the device is lost. */
void weir_order_fini(weir_order *order);

/* The lane of a stream; WEIR_LANE_NONE if it is not one of this pool or was retired. */
static WEIR_HOT uint32_t weir_order_lane(const weir_order *order, weir_stream stream)
{
    uint32_t index = (stream & 0xFFFF) - 1;
    if (WEIR_UNLIKELY(index >= order->lane_count)) return WEIR_LANE_NONE;
    return WEIR_LIKELY(order->lane[index].name == stream) ? index : WEIR_LANE_NONE;
}
weir_stream weir_order_stream(const weir_order *order, uint32_t lane);

/* Whether a stream is attached, and its lane. O(lanes). */
bool weir_order_known(const weir_order *order, uint64_t unique, uint32_t *lane);
/* Makes a lane. NO_METADATA. */
weir_status weir_order_attach(weir_order *order, const weir_stream_desc *desc, uint32_t *lane);
/* Takes the last point of a lane, for the uses of its live blocks too, and retires it. If the point
 * can't be taken the lane stays. */
weir_status weir_order_retire(weir_order *order, uint32_t lane);
/* The same where the stream has ended already: its points are all there is, unless one is missing. */
weir_status weir_order_forget(weir_order *order, uint32_t lane);
/* Makes a retired lane that nothing names ready for another stream. */
void weir_order_reuse(weir_order *order, uint32_t lane, const weir_stream_desc *desc);

/* Records an event at the end of the lane's current epoch: a new point, or the last one again where
 * there are many, which then covers its old epochs a little later. */
weir_status weir_order_record(weir_order *order, uint32_t lane);
/* Sees to it that a point of the lane is covered by an event. */
weir_status weir_order_cover(weir_order *order, uint32_t lane, uint64_t point);
/* The last epoch that anything lies in: a stream is asked for no more than that. */
static inline uint64_t weir_order_last(const weir_order *order, uint32_t lane)
{
    return order->lane[lane].used;
}
/* The point of something that comes to lie in the lane now: its open epoch, or what a retired one
 * ended with. */
static inline uint64_t weir_order_open(weir_order *order, uint32_t lane)
{
    weir_lane *of = &order->lane[lane];
    if (!of->retired) of->used = of->epoch;
    return of->used;
}
/* Records where the lane's stream may end unseen and something lies in the open epoch; where that
 * fails it is made up for by the next cover. */
void weir_order_pay(weir_order *order, uint32_t lane);
/* Notes which of the lane's points have passed. */
weir_status weir_order_poll(weir_order *order, uint32_t lane);
/* Covers all of the lane that can be covered now, and polls. A stream that can take no event now
 * (WOULD_WAIT) is left for another time. */
weir_status weir_order_refresh(weir_order *order, uint32_t lane);

static inline bool weir_order_passed(const weir_order *order, uint32_t lane, uint64_t point)
{
    return point <= order->lane[lane].passed;
}

/* Whether all later work of lane `after` runs after `point` of `lane`, as far as is known. */
bool weir_order_before(const weir_order *order, uint32_t lane, uint64_t point, uint32_t after);

/* Makes lane `after` wait for `point` of `lane`. STALE: `after` was retired. */
weir_status weir_order_join(weir_order *order, uint32_t lane, uint64_t point, uint32_t after);

/* The first point not known to have passed that covers `epoch`; 0: none, it has passed. */
uint32_t weir_order_point(const weir_order *order, uint32_t lane, uint64_t epoch);

/* Extra records. add puts one in front of `*first`. */
weir_status weir_order_extra_add(weir_order *order, uint32_t *first, uint16_t lane, uint64_t value);
/* The record of this lane in a list; 0: none. */
uint32_t weir_order_extra_find(const weir_order *order, uint32_t first, uint16_t lane);
void weir_order_extra_drop(weir_order *order, uint32_t *first, uint32_t index);
void weir_order_extra_drop_all(weir_order *order, uint32_t *first);

/* NULL, or which of O1 to O4 is broken. */
const char *weir_order_check(const weir_order *order);

#endif
