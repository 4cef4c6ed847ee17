/* SPDX-License-Identifier: MIT */
/* order: see order.h. */
#include "order.h"

/* ---------------------------------------------------------------------------------- records -- */

/* The array itself while it has room for one more, else a copy of twice its room; NULL, and the old
 * one stays, where host memory is short. */
static void *array_room(const weir_platform *platform, void *array, uint32_t count, uint32_t *room,
                        size_t element)
{
    if (count < *room) return array;
    if (*room > UINT32_MAX / 2) return NULL;
    uint32_t more = *room == 0 ? 16 : *room * 2;
    void *bigger = platform->mem_alloc(platform->self, more * element);
    if (bigger == NULL) return NULL;
    weir_memset(bigger, 0, more * element);
    if (array != NULL) {
        weir_memcpy(bigger, array, count * element);
        platform->mem_free(platform->self, array, *room * element);
    }
    *room = more;
    return bigger;
}

static void array_free(const weir_platform *platform, void *array, uint32_t room, size_t element)
{
    if (array != NULL) platform->mem_free(platform->self, array, room * element);
}

void weir_order_init(weir_order *order, const weir_platform *platform, weir_device *device)
{
    weir_memset(order, 0, sizeof(*order));
    order->platform = platform;
    order->device = device;
    order->point_count = 1;
    order->extra_count = 1;
}

void weir_order_fini(weir_order *order)
{
    const weir_platform *platform = order->platform;
    for (uint32_t i = 1; i < order->point_count && !order->device->calls.lost; i++) {
        order->device->ops.event_destroy(order->device->self, order->point[i].event);
        order->device->calls.event_destroys++;
    }
    for (uint32_t i = 0; i < order->lane_count; i++)
        array_free(platform, order->lane[i].seen, order->lane[i].seen_room, sizeof(uint64_t));
    array_free(platform, order->lane, order->lane_room, sizeof(weir_lane));
    array_free(platform, order->point, order->point_room, sizeof(weir_point));
    array_free(platform, order->extra, order->extra_room, sizeof(weir_extra));
    weir_memset(order, 0, sizeof(*order));
}

/* ------------------------------------------------------------------------------------ lanes -- */

weir_stream weir_order_stream(const weir_order *order, uint32_t lane)
{
    return (weir_stream)order->lane[lane].generation << 16 | (lane + 1);
}

bool weir_order_known(const weir_order *order, uint64_t unique, uint32_t *lane)
{
    for (uint32_t i = 0; i < order->lane_count; i++) {
        if (order->lane[i].unique != unique || order->lane[i].retired) continue;
        *lane = i;
        return true;
    }
    return false;
}

weir_status weir_order_attach(weir_order *order, const weir_stream_desc *desc, uint32_t *lane)
{
    if (order->lane_count == WEIR_LANES_MAX) return WEIR_NO_METADATA;
    weir_lane *lanes = (weir_lane *)array_room(order->platform, order->lane, order->lane_count,
                                               &order->lane_room, sizeof(weir_lane));
    if (lanes == NULL) return WEIR_NO_METADATA;
    order->lane = lanes;
    *lane = order->lane_count++;
    order->lane[*lane] = (weir_lane){.epoch = 1};
    weir_order_reuse(order, *lane, desc);
    return WEIR_OK;
}

void weir_order_reuse(weir_order *order, uint32_t index, const weir_stream_desc *desc)
{
    weir_lane *lane = &order->lane[index];
    WEIR_ASSERT(lane->first == 0);
    if (lane->retired) order->retired_count--;
    lane->native = desc->native;
    lane->unique = desc->unique;
    lane->outlives = desc->outlives;
    lane->generation = (uint16_t)(lane->generation + 1);
    if (lane->generation == 0) lane->generation = 1;
    lane->retired = false;
    lane->name = weir_order_stream(order, index);
    if (lane->seen != NULL) weir_memset(lane->seen, 0, lane->seen_room * sizeof(uint64_t));
}

static void lane_end(weir_order *order, uint32_t index)
{
    weir_lane *lane = &order->lane[index];
    lane->retired = true;
    lane->outlives = false;
    lane->name = 0;
    lane->used = lane->recorded; /* more, after LOST, can't be */
    order->retired_count++;
}

weir_status weir_order_retire(weir_order *order, uint32_t index)
{
    weir_status status = weir_order_record(order, index);
    if (status != WEIR_OK && status != WEIR_LOST) return status;
    lane_end(order, index);
    return WEIR_OK;
}

weir_status weir_order_forget(weir_order *order, uint32_t index)
{
    if (order->lane[index].used > order->lane[index].recorded)
        return weir_order_retire(order, index);
    lane_end(order, index);
    return WEIR_OK;
}

/* ----------------------------------------------------------------------------------- points -- */

static weir_status point_take(weir_order *order, uint32_t *index)
{
    weir_device *device = order->device;
    if (order->point_unused != 0) {
        *index = order->point_unused;
        order->point_unused = order->point[*index].next;
        return WEIR_OK;
    }
    weir_point *points = (weir_point *)array_room(order->platform, order->point, order->point_count,
                                                  &order->point_room, sizeof(weir_point));
    if (points == NULL) return WEIR_NO_METADATA;
    order->point = points;
    weir_event event;
    weir_status status =
        WEIR_DEVICE_CALL(device, &device->calls, event_creates, event_create(device->self, &event));
    if (status != WEIR_OK) return status;
    *index = order->point_count++;
    order->point[*index] = (weir_point){.event = event};
    return WEIR_OK;
}

static void point_drop(weir_order *order, uint32_t index)
{
    order->point[index].next = order->point_unused;
    order->point_unused = index;
}

/* The point to record next: the lane's last if it has many, else a new one at its end. */
static weir_status point_next(weir_order *order, weir_lane *lane, uint32_t *index)
{
    if (lane->points >= WEIR_POINTS_MAX && order->point[lane->last].waiters == 0) {
        *index = lane->last;
        return WEIR_OK;
    }
    return point_take(order, index);
}

weir_status weir_order_record(weir_order *order, uint32_t lane_index)
{
    weir_device *device = order->device;
    weir_lane *lane = &order->lane[lane_index];
    uint32_t index;
    WEIR_ASSERT(!lane->retired);
    weir_status status = point_next(order, lane, &index);
    if (status != WEIR_OK) return status;
    weir_point *point = &order->point[index];
    status = WEIR_DEVICE_CALL(device, &device->calls, event_records,
                              event_record(device->self, point->event, lane->native));
    if (status != WEIR_OK) {
        if (index != lane->last) point_drop(order, index);
        return status;
    }
    point->epoch = lane->epoch;
    point->next = 0;
    if (index != lane->last) {
        if (lane->last != 0) order->point[lane->last].next = index;
        else lane->first = index;
        lane->last = index;
        lane->points++;
    }
    lane->recorded = lane->epoch++;
    return WEIR_OK;
}

weir_status weir_order_cover(weir_order *order, uint32_t lane, uint64_t point)
{
    if (point <= order->lane[lane].recorded) return WEIR_OK;
    return weir_order_record(order, lane);
}

void weir_order_pay(weir_order *order, uint32_t index)
{
    const weir_lane *lane = &order->lane[index];
    if (!lane->outlives && !lane->retired) (void)weir_order_cover(order, index, lane->used);
}

weir_status weir_order_refresh(weir_order *order, uint32_t lane)
{
    weir_status status = weir_order_cover(order, lane, weir_order_last(order, lane));
    if (status != WEIR_OK && status != WEIR_WOULD_WAIT) return status;
    return weir_order_poll(order, lane);
}

weir_status weir_order_poll(weir_order *order, uint32_t lane_index)
{
    weir_device *device = order->device;
    weir_lane *lane = &order->lane[lane_index];
    while (lane->first != 0) {
        uint32_t index = lane->first;
        weir_point *point = &order->point[index];
        bool passed = false;
        if (point->waiters != 0) return WEIR_OK;
        weir_status status = WEIR_DEVICE_CALL(device, &device->calls, event_queries,
                                              event_query(device->self, point->event, &passed));
        if (status != WEIR_OK) return status;
        if (!passed) return WEIR_OK;
        lane->passed = point->epoch;
        lane->first = point->next;
        if (lane->first == 0) lane->last = 0;
        lane->points--;
        point_drop(order, index);
    }
    return WEIR_OK;
}

uint32_t weir_order_point(const weir_order *order, uint32_t lane_index, uint64_t epoch)
{
    const weir_lane *lane = &order->lane[lane_index];
    uint32_t index = lane->first;
    if (epoch <= lane->passed) return 0;
    while (index != 0 && order->point[index].epoch < epoch) index = order->point[index].next;
    return index;
}

/* ------------------------------------------------------------------------------------ order -- */

bool weir_order_before(const weir_order *order, uint32_t lane, uint64_t point, uint32_t after)
{
    const weir_lane *waiter = &order->lane[after];
    if (lane == after || weir_order_passed(order, lane, point)) return true;
    return lane < waiter->seen_room && point <= waiter->seen[lane];
}

static weir_status lane_seen_room(weir_order *order, weir_lane *lane)
{
    uint32_t room = order->lane_room;
    if (lane->seen_room >= room) return WEIR_OK;
    uint64_t *seen =
        (uint64_t *)order->platform->mem_alloc(order->platform->self, room * sizeof(*seen));
    if (seen == NULL) return WEIR_NO_METADATA;
    weir_memset(seen, 0, room * sizeof(*seen));
    if (lane->seen != NULL) weir_memcpy(seen, lane->seen, lane->seen_room * sizeof(*seen));
    array_free(order->platform, lane->seen, lane->seen_room, sizeof(uint64_t));
    lane->seen = seen;
    lane->seen_room = room;
    return WEIR_OK;
}

weir_status weir_order_join(weir_order *order, uint32_t lane, uint64_t point, uint32_t after)
{
    weir_device *device = order->device;
    weir_lane *waiter = &order->lane[after];
    if (weir_order_before(order, lane, point, after)) return WEIR_OK;
    if (waiter->retired) return WEIR_STALE; /* O4: ended while its own call was at the device */
    weir_status status = lane_seen_room(order, waiter);
    if (status == WEIR_OK) status = weir_order_cover(order, lane, point);
    if (status != WEIR_OK) return status;
    uint32_t index = weir_order_point(order, lane, point);
    WEIR_ASSERT(index != 0);
    status = WEIR_DEVICE_CALL(device, &device->calls, stream_waits,
                              stream_wait(device->self, waiter->native, order->point[index].event));
    if (status == WEIR_OK) waiter->seen[lane] = order->point[index].epoch;
    return status;
}

/* ----------------------------------------------------------------------------------- extras -- */

weir_status weir_order_extra_add(weir_order *order, uint32_t *first, uint16_t lane, uint64_t value)
{
    uint32_t index = order->extra_unused;
    if (index != 0) {
        order->extra_unused = order->extra[index].next;
    } else {
        weir_extra *extras =
            (weir_extra *)array_room(order->platform, order->extra, order->extra_count,
                                     &order->extra_room, sizeof(weir_extra));
        if (extras == NULL) return WEIR_NO_METADATA;
        order->extra = extras;
        index = order->extra_count++;
    }
    order->extra[index] = (weir_extra){.value = value, .next = *first, .lane = lane};
    *first = index;
    return WEIR_OK;
}

uint32_t weir_order_extra_find(const weir_order *order, uint32_t first, uint16_t lane)
{
    uint32_t index = first;
    while (index != 0 && order->extra[index].lane != lane) index = order->extra[index].next;
    return index;
}

void weir_order_extra_drop(weir_order *order, uint32_t *first, uint32_t index)
{
    uint32_t *link = first;
    while (*link != index) link = &order->extra[*link].next;
    *link = order->extra[index].next;
    order->extra[index].next = order->extra_unused;
    order->extra_unused = index;
}

void weir_order_extra_drop_all(weir_order *order, uint32_t *first)
{
    while (*first != 0) weir_order_extra_drop(order, first, *first);
}

/* ------------------------------------------------------------------------------------ check -- */

static const char *check_lane(const weir_order *order, const weir_lane *lane)
{
    if (lane->passed > lane->recorded || lane->recorded + 1 != lane->epoch)
        return "O1: a lane's epochs are out of order";
    if (lane->used > lane->epoch) return "O3: a lane is used in an epoch to come";
    uint64_t epoch = lane->passed;
    uint32_t last = 0, points = 0;
    for (uint32_t at = lane->first; at != 0; at = order->point[at].next) {
        if (order->point[at].epoch <= epoch) return "O1: a lane's points are out of order";
        epoch = order->point[at].epoch;
        last = at;
        points++;
    }
    if (points != lane->points) return "O5: a lane's count of points";
    if (last != lane->last || epoch != lane->recorded) return "O1: a lane's last point";
    for (uint32_t i = 0; i < lane->seen_room && i < order->lane_count; i++)
        if (lane->seen[i] > order->lane[i].recorded) return "O2: seen is ahead of its lane";
    return NULL;
}

const char *weir_order_check(const weir_order *order)
{
    uint32_t retired = 0;
    for (uint32_t i = 0; i < order->lane_count; i++) {
        const char *why = check_lane(order, &order->lane[i]);
        if (why != NULL) return why;
        retired += order->lane[i].retired;
    }
    return retired == order->retired_count ? NULL : "O4: the count of retired lanes";
}
