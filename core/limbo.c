/* SPDX-License-Identifier: MIT */
/*
 * limbo: frees whose uses lie on several lanes.
 *
 * Owns     the list of limbo nodes, oldest first. Each keeps its set, so its owner lane, its point
 *          on that lane, and one extra record for each further lane with the point on that one.
 * L1       pending.current is the sum of the bytes of limbo nodes.
 * L2       a node leaves when every further use has passed, filed under its owner lane, or when a
 *          lane that asks for memory is behind all its uses, filed under that one.
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
    uint64_t point = weir_order_open(&pool->order, lane_index);
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

/* Makes a lane wait for all of a node's uses that it is not behind, as far as that can be had. */
static void limbo_join(weir_pool *pool, const weir_node *node, uint32_t lane)
{
    weir_order *order = &pool->order;
    (void)weir_order_join(order, weir_node_lane(pool, node), weir_node_point(node), lane);
    for (uint32_t at = node->b; at != 0; at = order->extra[at].next)
        (void)weir_order_join(order, order->extra[at].lane, order->extra[at].value, lane);
}

static bool limbo_ordered(const weir_pool *pool, const weir_node *node, uint32_t lane)
{
    const weir_order *order = &pool->order;
    if (!weir_order_before(order, weir_node_lane(pool, node), weir_node_point(node), lane))
        return false;
    for (uint32_t at = node->b; at != 0; at = order->extra[at].next)
        if (!weir_order_before(order, order->extra[at].lane, order->extra[at].value, lane))
            return false;
    return true;
}

/* Makes a lane that is behind all uses of a node its owner; false where host memory is short. */
static bool limbo_hand(weir_pool *pool, uint32_t index, uint32_t lane)
{
    uint16_t set;
    uint32_t zone = pool->range.set[pool->range.node[index].set]->zone;
    if (weir_pool_set(pool, zone, lane + 1, &set) != WEIR_OK) return false;
    weir_node *node = &pool->range.node[index];
    weir_order_extra_drop_all(&pool->order, &node->b);
    node->set = set;
    weir_node_point_set(node, weir_order_open(&pool->order, lane));
    return true;
}

/* For `lane` to take from: WEIR_LANE_NONE leaves it at what has passed. */
static bool limbo_may_leave(weir_pool *pool, uint32_t index, uint32_t lane, bool join)
{
    weir_node *node = &pool->range.node[index];
    if (limbo_passed(pool, node)) return true;
    if (lane == WEIR_LANE_NONE) return false;
    if (join) limbo_join(pool, node, lane);
    return limbo_ordered(pool, node, lane) && limbo_hand(pool, index, lane);
}

/* Walks the list once and lets those leave that may. */
static void limbo_walk(weir_pool *pool, uint32_t lane, bool join)
{
    weir_range *range = &pool->range;
    uint32_t index = pool->limbo.first;
    uint32_t kept = 0;
    pool->limbo.first = 0;
    while (index != 0) {
        uint32_t next = range->node[index].a;
        if (limbo_may_leave(pool, index, lane, join)) {
            limbo_leave(pool, index);
        } else {
            range->node[index].a = 0;
            if (kept != 0) range->node[kept].a = index;
            else pool->limbo.first = index;
            kept = index;
        }
        index = next;
    }
    pool->limbo.last = kept;
}

/* A stream that can take no event now is left for another time. */
static weir_status limbo_cover(weir_pool *pool, uint32_t lane, uint64_t point)
{
    weir_status status = weir_order_cover(&pool->order, lane, point);
    return status == WEIR_WOULD_WAIT ? WEIR_OK : status;
}

/* All points of all nodes. A retired owner's are covered already. */
static weir_status limbo_cover_all(weir_pool *pool)
{
    const weir_order *order = &pool->order;
    weir_status status = WEIR_OK;
    for (uint32_t at = pool->limbo.first; at != 0 && status == WEIR_OK;
         at = pool->range.node[at].a) {
        const weir_node *node = &pool->range.node[at];
        status = limbo_cover(pool, weir_node_lane(pool, node), weir_node_point(node));
        for (uint32_t use = node->b; use != 0 && status == WEIR_OK; use = order->extra[use].next)
            status = limbo_cover(pool, order->extra[use].lane, order->extra[use].value);
    }
    return status;
}

weir_status weir_limbo_settle(weir_pool *pool, uint32_t lane)
{
    if (pool->limbo.count == 0) return WEIR_OK;
    weir_status status = limbo_cover_all(pool);
    for (uint32_t i = 0; i < pool->order.lane_count && status == WEIR_OK; i++)
        status = weir_order_poll(&pool->order, i);
    limbo_walk(pool, lane, false);
    return status;
}

void weir_limbo_join(weir_pool *pool, uint32_t lane)
{
    if (pool->limbo.count != 0) limbo_walk(pool, lane, true);
}
