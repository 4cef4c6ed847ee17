/* SPDX-License-Identifier: MIT */
/*
 * back: carries out a plan, a transaction that maps pieces under claimed addresses.
 *
 * A plan holds claimed nodes (the window, in no bin) and busy pieces with their target in `to`. A
 * piece is new (its handle still to be made), idle (addr 0), or moves (addr is its old place,
 * covered by a claimed node of exactly its size). All device calls are made with the lock released:
 * nobody else touches claimed nodes and busy pieces.
 * B1       when a step fails, all steps before it are undone in reverse; what the device refuses to
 *          undo is quarantined: the range, the handle, or both.
 * B2       a moving piece stays mapped at its old place throughout, so a failed move changes
 *          nothing.
 * Cost     one create for a new piece, one map a piece, one set_access a contiguous stretch.
 */
#include "pool.h"

/* ---------------------------------------------------------------------------------- claims -- */

void weir_plan_piece(weir_pool *pool, weir_plan *plan, uint32_t index, uint64_t to)
{
    weir_piece *piece = weir_piece_get(&pool->pages, index);
    WEIR_ASSERT(piece->state == WEIR_PIECE_BUSY);
    piece->to = to;
    piece->next = 0;
    if (plan->piece_last != 0) weir_piece_get(&pool->pages, plan->piece_last)->next = index;
    else plan->piece_first = index;
    plan->piece_last = index;
    piece->fresh = !piece->made;
    piece->there = false;
    if (piece->fresh) {
        plan->fresh_bytes += weir_piece_bytes(&pool->pages, index);
        plan->fresh_count++;
    }
}

bool weir_piece_movable(const weir_pool *pool, uint32_t index, uint32_t which)
{
    const weir_piece *piece = weir_piece_get(&pool->pages, which);
    uint64_t end = piece->addr + weir_piece_bytes(&pool->pages, which);
    return piece->state == WEIR_PIECE_MAPPED && piece->pins == 0 &&
           piece->addr >= pool->range.node[index].addr && end <= weir_node_end(&pool->range, index);
}

void weir_plan_claim_piece(weir_pool *pool, uint32_t index, uint32_t which)
{
    weir_range *range = &pool->range;
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    uint64_t addr = piece->addr;
    uint64_t end = addr + weir_piece_bytes(&pool->pages, which);
    WEIR_ASSERT(weir_piece_movable(pool, index, which));
    weir_range_unfile(range, index);
    if (range->node[index].addr != addr) {
        uint32_t upper = weir_range_split(range, index, addr);
        weir_range_file(range, index);
        index = upper;
    }
    if (weir_node_end(range, index) != end)
        weir_range_file(range, weir_range_split(range, index, end));
    piece->node = index;
    weir_pages_displace(&pool->pages, which);
}

/* Undoes the claims of a piece: it goes back to where it was, or away. */
static void plan_return_piece(weir_pool *pool, uint32_t which)
{
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    if (piece->addr != 0) {
        weir_pages_place(&pool->pages, which, piece->addr);
        weir_range_free(&pool->range, piece->node);
    } else if (piece->made) {
        weir_pages_idle_push(&pool->pages, which);
    } else {
        weir_pages_piece_drop(&pool->pages, which);
    }
}

static void plan_return_nodes(weir_pool *pool, const weir_plan *plan)
{
    uint32_t index = plan->node_first;
    for (bool more = index != 0; more;) {
        uint32_t next = pool->range.node[index].next;
        more = index != plan->node_last;
        if (pool->range.node[index].kind == WEIR_CLAIMED) weir_range_free(&pool->range, index);
        index = next;
    }
}

void weir_plan_drop(weir_pool *pool, weir_plan *plan)
{
    for (uint32_t at = plan->piece_first; at != 0;) {
        uint32_t next = weir_piece_get(&pool->pages, at)->next;
        plan_return_piece(pool, at);
        at = next;
    }
    plan_return_nodes(pool, plan);
}

/* ------------------------------------------------------------------------------ device calls -- */

static weir_status piece_map(weir_pool *pool, uint32_t which, weir_calls *calls)
{
    weir_device *device = &pool->device;
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    uint64_t bytes = weir_piece_bytes(&pool->pages, which);
    if (!piece->made) {
        weir_status status = WEIR_DEVICE_CALL(device, calls, creates,
                                              handle_create(device->self, bytes, &piece->handle));
        if (status != WEIR_OK) return status;
        piece->made = true;
    }
    return WEIR_DEVICE_CALL(device, calls, maps,
                            map(device->self, piece->to, bytes, piece->handle));
}

/* Lets the device touch each contiguous stretch of the plan's new mappings. */
static weir_status plan_access(weir_pool *pool, const weir_plan *plan, weir_calls *calls)
{
    weir_device *device = &pool->device;
    weir_status status = WEIR_OK;
    for (uint32_t at = plan->piece_first; at != 0 && status == WEIR_OK;) {
        uint64_t start = weir_piece_get(&pool->pages, at)->to;
        uint64_t end = start;
        while (at != 0 && weir_piece_get(&pool->pages, at)->to == end) {
            end += weir_piece_bytes(&pool->pages, at);
            at = weir_piece_get(&pool->pages, at)->next;
        }
        status =
            WEIR_DEVICE_CALL(device, calls, accesses, set_access(device->self, start, end - start));
    }
    return status;
}

weir_status weir_piece_release(weir_pool *pool, uint32_t which, weir_calls *calls)
{
    weir_device *device = &pool->device;
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    uint64_t bytes = weir_piece_bytes(&pool->pages, which);
    return WEIR_DEVICE_CALL(device, calls, releases,
                            handle_release(device->self, piece->handle, bytes));
}

/* Undoes what was done to the plan's pieces. What the device refuses to undo keeps its mark:
 * `there` for a mapping, `made` for a handle that was to go. */
static void plan_undo(weir_pool *pool, const weir_plan *plan, weir_calls *calls)
{
    weir_device *device = &pool->device;
    for (uint32_t at = plan->piece_first; at != 0; at = weir_piece_get(&pool->pages, at)->next) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint64_t bytes = weir_piece_bytes(&pool->pages, at);
        if (piece->there)
            piece->there = WEIR_DEVICE_CALL(device, calls, unmaps,
                                            unmap(device->self, piece->to, bytes)) != WEIR_OK;
        if (piece->fresh && piece->made && !piece->there)
            piece->made = weir_piece_release(pool, at, calls) != WEIR_OK;
    }
}

static weir_status plan_map(weir_pool *pool, const weir_plan *plan, weir_calls *calls)
{
    weir_status status = WEIR_OK;
    for (uint32_t at = plan->piece_first; at != 0 && status == WEIR_OK;
         at = weir_piece_get(&pool->pages, at)->next) {
        status = piece_map(pool, at, calls);
        weir_piece_get(&pool->pages, at)->there = status == WEIR_OK;
    }
    if (status == WEIR_OK) status = plan_access(pool, plan, calls);
    if (status != WEIR_OK) plan_undo(pool, plan, calls);
    return status;
}

/* --------------------------------------------------------------------------- after the calls -- */

/* A mapping that can't be undone: its addresses are lost, and with them a handle that has no other
 * place; one that was to move stays where it was and can never be given back. */
static void plan_quarantine(weir_pool *pool, const weir_plan *plan, uint32_t which)
{
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    if (piece->there) {
        uint32_t index = weir_range_at(&pool->range, piece->to, plan->node_first);
        pool->range.node[index].kind = WEIR_LOST_RANGE;
        piece->shadows++;
        piece->there = false;
    }
    if (piece->addr == 0) weir_pages_lose(&pool->pages, which);
    else plan_return_piece(pool, which);
}

static void plan_revert(weir_pool *pool, weir_plan *plan)
{
    for (uint32_t at = plan->piece_first; at != 0;) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint32_t next = piece->next;
        if (piece->there || (piece->fresh && piece->made)) plan_quarantine(pool, plan, at);
        else plan_return_piece(pool, at);
        at = next;
    }
    plan_return_nodes(pool, plan);
}

/* The pieces take their new places; the old places of moved ones become shadows. Returns the point
 * that memory which came from elsewhere carries. */
static uint64_t plan_settle_pieces(weir_pool *pool, const weir_plan *plan, const weir_ask *ask)
{
    uint64_t point = 0;
    for (uint32_t at = plan->piece_first; at != 0;) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint32_t next = piece->next;
        if (piece->addr != 0) {
            uint32_t old = piece->node;
            point = weir_max(point, weir_node_point_for(pool, &pool->range.node[old], ask));
            weir_shadow_add(pool, old, at);
            pool->moved_handles++;
        }
        piece->there = false;
        piece->fresh = false;
        weir_pages_place(&pool->pages, at, piece->to);
        at = next;
    }
    return point;
}

/* Joins the plan's nodes into one claimed node under the lane and zone of `ask`. */
static uint32_t plan_join_nodes(weir_pool *pool, const weir_plan *plan, const weir_ask *ask,
                                uint64_t point)
{
    weir_range *range = &pool->range;
    uint32_t index = plan->node_first;
    for (;;) {
        weir_node *node = &range->node[index];
        if (node->set != WEIR_SET_HOLES)
            point = weir_max(point, weir_node_point_for(pool, node, ask));
        if (index == plan->node_last) break;
        index = node->next;
    }
    while (plan->node_first != index) {
        bool last = range->node[plan->node_first].next == index;
        weir_range_absorb(range, plan->node_first);
        if (last) break;
    }
    range->node[plan->node_first].set = weir_ask_set(pool, ask);
    weir_node_point_set(&range->node[plan->node_first], point);
    return plan->node_first;
}

static void plan_tell(weir_pool *pool, const weir_plan *plan)
{
    if (WEIR_LIKELY(pool->config.observer == NULL)) return;
    for (uint32_t at = plan->piece_first; at != 0; at = weir_piece_get(&pool->pages, at)->next) {
        const weir_piece *piece = weir_piece_get(&pool->pages, at);
        weir_record record = {.what = piece->addr != 0 ? WEIR_DID_MOVE : WEIR_DID_MAP,
                              .addr = piece->to,
                              .bytes = weir_piece_bytes(&pool->pages, at)};
        weir_pool_tell(pool, &record);
    }
}

weir_status weir_plan_run(weir_pool *pool, weir_plan *plan, const weir_ask *ask, uint32_t *index)
{
    weir_status status = WEIR_OK;
    if (plan->piece_first != 0) {
        weir_calls calls = weir_pool_release(pool);
        status = plan_map(pool, plan, &calls);
        if (status == WEIR_OK) plan_tell(pool, plan);
        weir_pool_acquire(pool, &calls);
    }
    if (status != WEIR_OK) {
        plan_revert(pool, plan);
        return status;
    }
    weir_pool_note_held(pool, plan->fresh_bytes, plan->fresh_count);
    uint64_t point = plan_settle_pieces(pool, plan, ask);
    *index = plan_join_nodes(pool, plan, ask, point);
    return WEIR_OK;
}
