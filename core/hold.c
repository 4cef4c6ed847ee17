/* SPDX-License-Identifier: MIT */
/*
 * hold: the calls on a live block that neither make nor end it: pins, uses, its size.
 *
 * Owns     nothing; pins and uses are extra records of the block (order.h), and a pinned block
 *          counts in every piece under it.
 * Cost     O(pieces under the block) for the first pin and the last unpin; a use O(uses of the
 *          block); a resize like an allocation without a wait.
 */
#include "pool.h"

/* ------------------------------------------------------------------------------------- pins -- */

static void pin_pieces(weir_pool *pool, uint32_t index, bool pin)
{
    weir_pages *pages = &pool->pages;
    uint64_t end = weir_node_end(&pool->range, index);
    for (uint64_t at = pool->range.node[index].addr; at < end;) {
        uint32_t which = weir_pages_at(pages, at);
        weir_piece *piece = weir_piece_get(pages, which);
        uint64_t bytes = weir_piece_bytes(pages, which);
        if (pin && piece->pins++ == 0) pages->pinned_bytes += bytes;
        if (!pin && --piece->pins == 0) pages->pinned_bytes -= bytes;
        at = weir_pages_end(pages, at);
    }
}

weir_status weir_block_pin(weir_pool *pool, uint32_t index)
{
    weir_node *node = &pool->range.node[index];
    uint32_t extra = weir_order_extra_find(&pool->order, node->b, WEIR_LANE_PINS);
    if (extra != 0) {
        pool->order.extra[extra].value++;
        return WEIR_OK;
    }
    weir_status status = weir_order_extra_add(&pool->order, &node->b, WEIR_LANE_PINS, 1);
    if (status != WEIR_OK) return status;
    node->high |= WEIR_NODE_PINNED;
    pin_pieces(pool, index, true);
    return WEIR_OK;
}

void weir_block_unpin(weir_pool *pool, uint32_t index)
{
    weir_node *node = &pool->range.node[index];
    uint32_t extra = weir_order_extra_find(&pool->order, node->b, WEIR_LANE_PINS);
    weir_order_extra_drop(&pool->order, &node->b, extra);
    node->high &= (uint8_t)~WEIR_NODE_PINNED;
    pin_pieces(pool, index, false);
}

weir_status weir_pin(weir_pool *pool, weir_addr addr)
{
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    uint32_t index = weir_range_lookup(&pool->range, addr);
    weir_status status = index == 0 ? WEIR_NOT_FOUND : weir_block_pin(pool, index);
    weir_pool_unlock(pool);
    return status;
}

weir_status weir_unpin(weir_pool *pool, weir_addr addr)
{
    weir_status status = WEIR_OK;
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    uint32_t index = weir_range_lookup(&pool->range, addr);
    uint32_t first = index == 0 ? 0 : pool->range.node[index].b;
    uint32_t extra = weir_order_extra_find(&pool->order, first, WEIR_LANE_PINS);
    if (index == 0) status = WEIR_NOT_FOUND;
    else if (extra == 0) status = WEIR_INVALID;
    else if (--pool->order.extra[extra].value == 0) weir_block_unpin(pool, index);
    weir_pool_unlock(pool);
    return status;
}

/* ------------------------------------------------------------------------------------- uses -- */

static weir_status use_locked(weir_pool *pool, weir_addr addr, weir_stream stream)
{
    uint32_t index = weir_range_lookup(&pool->range, addr);
    uint32_t lane = weir_order_lane(&pool->order, stream);
    if (index == 0) return WEIR_NOT_FOUND;
    if (lane == WEIR_LANE_NONE) return WEIR_STALE;
    weir_node *node = &pool->range.node[index];
    if (lane == weir_node_lane(pool, node)) return WEIR_OK;
    if (weir_order_extra_find(&pool->order, node->b, (uint16_t)lane) != 0) return WEIR_OK;
    return weir_order_extra_add(&pool->order, &node->b, (uint16_t)lane, 0);
}

weir_status weir_use(weir_pool *pool, weir_addr addr, weir_stream stream)
{
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    weir_status status = use_locked(pool, addr, stream);
    weir_pool_unlock(pool);
    return status;
}

/* ----------------------------------------------------------------------------------- resize -- */

static void resize_shrink(weir_pool *pool, uint32_t index, uint64_t bytes)
{
    weir_range *range = &pool->range;
    uint32_t upper = weir_range_split(range, index, range->node[index].addr + bytes);
    uint32_t lane = weir_node_lane(pool, &range->node[index]);
    range->node[upper].kind = WEIR_CLAIMED;
    range->node[upper].b = 0;
    weir_node_point_set(&range->node[upper], weir_order_open(&pool->order, lane));
    if (pool->order.lane[lane].outlives) weir_range_free(range, upper);
    else (void)weir_limbo_enter(pool, upper);
}

static weir_status resize_grow(weir_pool *pool, uint32_t index, weir_ask *ask)
{
    weir_range *range = &pool->range;
    uint64_t addr = range->node[index].addr;
    uint64_t end = weir_node_end(range, index);
    uint32_t tail;
    ask->bytes -= end - addr;
    weir_status status =
        weir_place_at(pool, ask, end, WEIR_PLACE_IDLE | WEIR_PLACE_GROW | WEIR_PLACE_MOVE, &tail);
    if (status != WEIR_OK) return status;
    index = weir_range_lookup(range, addr);
    if (weir_node_end(range, tail) != end + ask->bytes)
        weir_range_free(range, weir_range_split(range, tail, end + ask->bytes));
    WEIR_ASSERT(range->node[index].next == tail);
    weir_range_absorb(range, index);
    return WEIR_OK;
}

static weir_status resize_locked(weir_pool *pool, weir_addr addr, uint64_t requested)
{
    weir_range *range = &pool->range;
    uint32_t index = weir_range_lookup(range, addr);
    uint64_t bytes = weir_block_round(pool, requested);
    if (index == 0) return WEIR_NOT_FOUND;
    weir_status status = weir_range_need(range, WEIR_PLAN_NODES);
    if (bytes == 0) return WEIR_NO_MEMORY;
    if (status != WEIR_OK) return status;
    weir_node *node = &range->node[index];
    uint64_t old_bytes = weir_node_bytes(range, index);
    uint64_t old_requested = old_bytes - node->low;
    if ((node->high & WEIR_NODE_PINNED) != 0 && bytes != old_bytes) return WEIR_BUSY;
    if (node->b != 0 && bytes < old_bytes) return WEIR_BUSY;
    weir_ask ask = {.bytes = bytes, .requested = requested, .align = pool->config.unit_bytes};
    ask.lane = weir_node_lane(pool, node);
    ask.zone = pool->range.set[node->set]->zone;
    if (pool->order.lane[ask.lane].retired) return WEIR_STALE;
    if (bytes > old_bytes) status = resize_grow(pool, index, &ask);
    if (status != WEIR_OK) return status;
    index = weir_range_lookup(range, addr);
    if (bytes < old_bytes) resize_shrink(pool, index, bytes);
    weir_block_account(pool, index, old_bytes, old_requested, requested);
    return WEIR_OK;
}

weir_status weir_resize(weir_pool *pool, weir_addr addr, uint64_t bytes)
{
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    weir_status status = resize_locked(pool, addr, bytes);
    weir_pool_unlock(pool);
    return status;
}
