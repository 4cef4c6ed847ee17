/* SPDX-License-Identifier: MIT */
/*
 * gather: free memory of other lanes, once it has passed or a wait was put between.
 *
 * Owns nothing. Free memory that has passed is filed as clean; clean memory next to free memory of
 * the asking lane is filed under that lane, so that both join. Filing under a lane is always safe:
 * it only promises less to the others.
 * Cost     one query a lane, at most one record, and at most WEIR_VICTIMS_MAX nodes a set.
 */
#include "pool.h"

/* Files one free node under another set of its zone. */
static void node_tag(weir_pool *pool, uint32_t index, uint16_t set, uint64_t point)
{
    weir_range_unfile(&pool->range, index);
    pool->range.node[index].set = set;
    weir_node_point_set(&pool->range.node[index], point);
    weir_range_free(&pool->range, index);
}

/* Lists the nodes of a set in the scratch list; the set may change afterwards. */
static uint32_t set_list(weir_pool *pool, uint16_t set)
{
    weir_cursor cursor = {.begun = false};
    uint32_t count = 0, index;
    while (count < WEIR_VICTIMS_MAX &&
           (index = weir_range_each(&pool->range, set, 0, &cursor)) != 0)
        pool->victim[count++] = index;
    return count;
}

/* In rounds, as the scratch list may not hold all of a set. */
static void gather_passed(weir_pool *pool, uint32_t zone, uint32_t lane)
{
    uint16_t clean = pool->zone[zone].set_of[WEIR_TAG_CLEAN];
    uint16_t set = pool->zone[zone].set_of[lane + 1];
    for (bool again = true; again;) {
        uint32_t count = set_list(pool, set);
        again = false;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t point = weir_node_point(&pool->range.node[pool->victim[i]]);
            if (!weir_order_passed(&pool->order, lane, point)) continue;
            node_tag(pool, pool->victim[i], clean, 0);
            again = count == WEIR_VICTIMS_MAX;
        }
    }
}

/* Clean nodes that touch free memory of the lane, or a neighbour that does so after it. */
static void gather_clean(weir_pool *pool, uint32_t zone, uint32_t lane)
{
    const weir_range *range = &pool->range;
    uint16_t own = pool->zone[zone].set_of[lane + 1];
    uint32_t count = set_list(pool, pool->zone[zone].set_of[WEIR_TAG_CLEAN]);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = pool->victim[i];
        const weir_node *prev = &range->node[range->node[index].prev];
        const weir_node *next = &range->node[range->node[index].next];
        if ((prev->kind == WEIR_FREE && prev->set == own) ||
            (next->kind == WEIR_FREE && next->set == own))
            node_tag(pool, index, own, 0);
    }
}

/* Whether a lane has free memory in a zone whose last uses may not have passed. */
static bool lane_has_free(const weir_pool *pool, uint32_t zone, uint32_t lane)
{
    const weir_zone *in = &pool->zone[zone];
    return lane + 1 < in->room && in->set_of[lane + 1] != 0 &&
           pool->range.set[in->set_of[lane + 1]]->rows != 0;
}

/* Whether anything waits for what a lane has queued: else there is nothing to ask the device. */
static bool lane_matters(const weir_pool *pool, uint32_t lane)
{
    if (pool->limbo.count != 0 || pool->shadows.count != 0) return true;
    for (uint32_t zone = 0; zone < pool->zone_count; zone++)
        if (lane_has_free(pool, zone, lane)) return true;
    return false;
}

weir_status weir_gather(weir_pool *pool, const weir_ask *ask)
{
    weir_order *order = &pool->order;
    weir_status status = WEIR_OK;
    bool ask_device = (ask->flags & WEIR_NO_EVENTS) == 0;
    if (ask_device) status = weir_limbo_settle(pool, ask->lane);
    for (uint32_t lane = 0; lane < order->lane_count && status == WEIR_OK; lane++) {
        if (lane == ask->lane || !lane_has_free(pool, ask->zone, lane)) continue;
        if (ask_device) status = weir_order_refresh(order, lane);
        gather_passed(pool, ask->zone, lane);
    }
    gather_clean(pool, ask->zone, ask->lane);
    return status;
}

weir_status weir_gather_all(weir_pool *pool)
{
    weir_order *order = &pool->order;
    weir_status status = weir_limbo_settle(pool, WEIR_LANE_NONE);
    for (uint32_t lane = 0; lane < order->lane_count && status == WEIR_OK; lane++) {
        if (!lane_matters(pool, lane)) continue;
        status = weir_order_refresh(order, lane);
        for (uint32_t zone = 0; zone < pool->zone_count; zone++)
            if (lane_has_free(pool, zone, lane)) gather_passed(pool, zone, lane);
    }
    return status;
}

uint32_t weir_gather_fit(weir_pool *pool, const weir_ask *ask, bool strand)
{
    const weir_zone *zone = &pool->zone[ask->zone];
    uint32_t index = weir_block_fit(pool, ask, zone->set_of[ask->lane + 1], strand);
    for (uint32_t tag = 0; tag < zone->room && index == 0; tag++)
        if (zone->set_of[tag] != 0 && pool->range.set[zone->set_of[tag]]->rows != 0)
            index = weir_block_fit(pool, ask, zone->set_of[tag], strand);
    return index;
}

weir_status weir_gather_join(weir_pool *pool, const weir_ask *ask)
{
    weir_order *order = &pool->order;
    weir_status status = WEIR_OK;
    if ((ask->flags & WEIR_NO_EVENTS) != 0) return WEIR_OK;
    for (uint32_t lane = 0; lane < order->lane_count && status == WEIR_OK; lane++) {
        if (lane == ask->lane || !lane_has_free(pool, ask->zone, lane)) continue;
        status = weir_order_join(order, lane, weir_order_last(order, lane), ask->lane);
        if (status == WEIR_WOULD_WAIT) status = WEIR_OK; /* that lane's memory has to stay */
    }
    if (status == WEIR_OK) weir_limbo_join(pool, ask->lane);
    return status;
}

/* Waits for one lane with the lock released; its event is not reused meanwhile. WOULD_WAIT: the time
 * was too short. BUSY: the stream can take no event now, which no wait changes. */
static weir_status lane_wait(weir_pool *pool, uint32_t lane, uint64_t *wait_us)
{
    weir_device *device = &pool->device;
    weir_order *order = &pool->order;
    bool passed = false;
    weir_status covered = weir_order_cover(order, lane, weir_order_last(order, lane));
    if (covered == WEIR_WOULD_WAIT) covered = WEIR_BUSY;
    weir_status status = covered == WEIR_BUSY ? WEIR_OK : covered;
    if (status == WEIR_OK) status = weir_order_poll(order, lane);
    uint32_t index = order->lane[lane].last;
    if (status != WEIR_OK) return status;
    if (index == 0) return covered;
    if (*wait_us == 0 || device->ops.event_wait == NULL) return WEIR_WOULD_WAIT;
    weir_event event = order->point[index].event;
    uint64_t begun = weir_pool_now(pool);
    order->point[index].waiters++;
    weir_calls calls = weir_pool_release(pool);
    status = WEIR_DEVICE_CALL(device, &calls, host_waits,
                              event_wait(device->self, event, *wait_us, &passed));
    weir_pool_acquire(pool, &calls);
    order->point[index].waiters--;
    weir_pool_spend(pool, begun, wait_us);
    if (status == WEIR_OK) status = weir_order_poll(order, lane);
    if (status == WEIR_OK && !passed) {
        *wait_us = 0;
        return WEIR_WOULD_WAIT;
    }
    return status == WEIR_OK ? covered : status;
}

weir_status weir_gather_wait(weir_pool *pool, uint64_t *wait_us)
{
    weir_status status = WEIR_OK;
    for (uint32_t lane = 0; lane < pool->order.lane_count; lane++) {
        if (!lane_matters(pool, lane)) continue;
        weir_status one = lane_wait(pool, lane, wait_us);
        if (status == WEIR_OK || status == WEIR_BUSY) status = one == WEIR_OK ? status : one;
        if (one != WEIR_OK && one != WEIR_WOULD_WAIT && one != WEIR_BUSY) break;
    }
    weir_status settled = weir_limbo_settle(pool, WEIR_LANE_NONE);
    return status == WEIR_OK ? settled : status;
}
