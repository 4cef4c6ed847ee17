/* SPDX-License-Identifier: MIT */
/*
 * limbo: frees whose uses lie on several lanes.
 *
 * Owns     the list of limbo nodes, oldest first. Each keeps its set, so its owner lane, its point
 *          on that lane, and one extra record for each further lane with the point on that one.
 * L1       pending.current is the sum of the bytes of limbo nodes.
 * L2       a node leaves when every further use has passed, or when its owner lane was made to wait
 *          for them; only then it is filed, under its owner lane alone.
 * Cost     enter: one event record for each further lane, and one for the owner lane if that does
 *          not outlive its frees. settle and join: O(limbo nodes).
 */
#include "pool.h"

/* What a lane's uses up to now are covered by. A record that fails is made up for by settle, and
 * until then the point lies in the lane's open epoch, which never counts as passed. */
static uint64_t lane_point_now(weir_pool *pool, uint32_t lane_index)
{
    const weir_lane *lane = &pool->order.lane[lane_index];
    if (lane->retired) return lane->recorded;
    uint64_t point = lane->epoch;
    (void)weir_order_record(&pool->order, lane_index);
    return point;
}

static void limbo_push(weir_pool *pool, uint32_t index)
{
    weir_list *limbo = &pool->limbo;
    weir_node *node = &pool->range.node[index];
    node->kind = WEIR_LIMBO;
    node->a = 0;
    if (limbo->last != 0) pool->range.node[limbo->last].a = index;
    else limbo->first = index;
    limbo->last = index;
    limbo->count++;
    weir_amount_add(&pool->pending, weir_node_bytes(&pool->range, index));
}

weir_status weir_limbo_enter(weir_pool *pool, uint32_t index)
{
    weir_node *node = &pool->range.node[index];
    uint32_t owner = weir_node_lane(pool, node);
    if (!pool->order.lane[owner].outlives) weir_node_point_set(node, lane_point_now(pool, owner));
    if (node->b == 0) {
        weir_range_free(&pool->range, index);
        return WEIR_OK;
    }
    for (uint32_t at = node->b; at != 0; at = pool->order.extra[at].next)
        pool->order.extra[at].value = lane_point_now(pool, pool->order.extra[at].lane);
    limbo_push(pool, index);
    return WEIR_OK;
}

static void limbo_leave(weir_pool *pool, uint32_t index)
{
    pool->pending.current -= weir_node_bytes(&pool->range, index);
    pool->limbo.count--;
    pool->range.node[index].kind = WEIR_CLAIMED;
    weir_range_free(&pool->range, index);
}

/* Drops the uses that have passed; true if none is left. */
static bool limbo_passed(weir_pool *pool, weir_node *node)
{
    weir_order *order = &pool->order;
    for (uint32_t at = node->b; at != 0;) {
        uint32_t next = order->extra[at].next;
        if (weir_order_passed(order, order->extra[at].lane, order->extra[at].value))
            weir_order_extra_drop(order, &node->b, at);
        at = next;
    }
    return node->b == 0;
}

/* Makes the owner lane wait for the node's uses; true if it is ordered after all of them. */
static bool limbo_joined(weir_pool *pool, weir_node *node, uint32_t lane)
{
    weir_order *order = &pool->order;
    if (weir_node_lane(pool, node) != lane) return false;
    for (uint32_t at = node->b; at != 0; at = order->extra[at].next) {
        const weir_extra *use = &order->extra[at];
        if (weir_order_join(order, use->lane, use->value, lane) != WEIR_OK) return false;
    }
    weir_order_extra_drop_all(order, &node->b);
    weir_node_point_set(node, weir_order_open(order, lane));
    return true;
}

/* Walks the list once and lets those leave that may; with `lane` WEIR_LANE_NONE without joins. */
static void limbo_walk(weir_pool *pool, uint32_t lane)
{
    weir_range *range = &pool->range;
    uint32_t index = pool->limbo.first;
    uint32_t kept = 0;
    pool->limbo.first = 0;
    while (index != 0) {
        weir_node *node = &range->node[index];
        uint32_t next = node->a;
        if (limbo_passed(pool, node) ||
            (lane != WEIR_LANE_NONE && limbo_joined(pool, node, lane))) {
            limbo_leave(pool, index);
        } else {
            node->a = 0;
            if (kept != 0) range->node[kept].a = index;
            else pool->limbo.first = index;
            kept = index;
        }
        index = next;
    }
    pool->limbo.last = kept;
}

weir_status weir_limbo_settle(weir_pool *pool)
{
    weir_order *order = &pool->order;
    weir_status status = WEIR_OK;
    if (pool->limbo.count == 0) return WEIR_OK;
    for (uint32_t at = pool->limbo.first; at != 0 && status == WEIR_OK; at = pool->range.node[at].a)
        for (uint32_t use = pool->range.node[at].b; use != 0; use = order->extra[use].next) {
            weir_status one =
                weir_order_cover(order, order->extra[use].lane, order->extra[use].value);
            if (one != WEIR_OK && one != WEIR_WOULD_WAIT) status = one;
        }
    for (uint32_t i = 0; i < order->lane_count && status == WEIR_OK; i++)
        status = weir_order_poll(order, i);
    limbo_walk(pool, WEIR_LANE_NONE);
    return status;
}

weir_status weir_limbo_join(weir_pool *pool, uint32_t lane)
{
    if (pool->limbo.count != 0) limbo_walk(pool, lane);
    return WEIR_OK;
}
