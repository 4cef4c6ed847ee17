/* SPDX-License-Identifier: MIT */
/*
 * shadow: old places of handles that moved by aliasing.
 *
 * Owns     the list of shadow nodes, oldest first. A shadow covers exactly one old mapping; `b` is
 *          the piece, the set and the point say what still may use the memory through it.
 * S1       shadow_bytes is the sum of their bytes; a piece's `shadows` counts its own.
 * S2       a shadow is unmapped only when its point has passed, so no work is ever cut off (4).
 * Cost     drain unmaps all that have passed at once, with the lock released.
 */
#include "pool.h"

void weir_shadow_add(weir_pool *pool, uint32_t index, uint32_t piece)
{
    weir_list *shadows = &pool->shadows;
    weir_node *node = &pool->range.node[index];
    WEIR_ASSERT(node->kind == WEIR_CLAIMED);
    node->kind = WEIR_SHADOW;
    node->a = 0;
    node->b = piece;
    if (shadows->last != 0) pool->range.node[shadows->last].a = index;
    else shadows->first = index;
    shadows->last = index;
    shadows->count++;
    pool->shadow_bytes += weir_node_bytes(&pool->range, index);
    weir_piece_get(&pool->pages, piece)->shadows++;
}

/* Whether nothing can still run through a shadow's mapping. */
static bool shadow_passed(weir_pool *pool, const weir_node *node)
{
    uint32_t lane = weir_node_lane(pool, node);
    return lane == WEIR_LANE_NONE || weir_order_passed(&pool->order, lane, weir_node_point(node));
}

static void shadow_cover_and_poll(weir_pool *pool)
{
    weir_order *order = &pool->order;
    for (uint32_t at = pool->shadows.first; at != 0; at = pool->range.node[at].a) {
        const weir_node *node = &pool->range.node[at];
        uint32_t lane = weir_node_lane(pool, node);
        if (lane != WEIR_LANE_NONE) (void)weir_order_cover(order, lane, weir_node_point(node));
    }
    for (uint32_t i = 0; i < order->lane_count; i++) (void)weir_order_poll(order, i);
}

/* Takes the shadows that have passed off the list, as a chain by `a`. */
static uint32_t shadow_take_passed(weir_pool *pool)
{
    weir_range *range = &pool->range;
    uint32_t chain = 0, kept = 0;
    uint32_t index = pool->shadows.first;
    pool->shadows.first = 0;
    while (index != 0) {
        weir_node *node = &range->node[index];
        uint32_t next = node->a;
        if (shadow_passed(pool, node)) {
            node->kind = WEIR_CLAIMED;
            node->a = chain;
            chain = index;
            pool->shadows.count--;
        } else {
            node->a = 0;
            if (kept != 0) range->node[kept].a = index;
            else pool->shadows.first = index;
            kept = index;
        }
        index = next;
    }
    pool->shadows.last = kept;
    return chain;
}

static weir_status shadow_unmap(weir_pool *pool, uint32_t index)
{
    weir_range *range = &pool->range;
    weir_device *device = &pool->device;
    uint64_t addr = range->node[index].addr;
    uint64_t bytes = weir_node_bytes(range, index);
    uint32_t piece = range->node[index].b;
    weir_calls calls = weir_pool_release(pool);
    weir_pool_tell_unmap(pool, addr, bytes);
    weir_status status = WEIR_DEVICE_CALL(device, &calls, unmaps, unmap(device->self, addr, bytes));
    weir_pool_acquire(pool, &calls);
    pool->shadow_bytes -= bytes;
    if (status != WEIR_OK) {
        range->node[index].kind = WEIR_LOST_RANGE;
        return status;
    }
    weir_piece_get(&pool->pages, piece)->shadows--;
    range->node[index].set = WEIR_SET_HOLES;
    weir_range_free(range, index);
    return WEIR_OK;
}

weir_status weir_shadow_drain(weir_pool *pool, uint32_t least)
{
    weir_status status = WEIR_OK;
    if (pool->shadows.count < least || pool->shadows.count == 0) return WEIR_OK;
    shadow_cover_and_poll(pool);
    uint32_t chain = shadow_take_passed(pool);
    while (chain != 0) {
        uint32_t next = pool->range.node[chain].a;
        weir_status one = shadow_unmap(pool, chain);
        if (status == WEIR_OK) status = one;
        chain = next;
    }
    return status;
}
