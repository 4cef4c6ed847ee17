/* SPDX-License-Identifier: MIT */
/*
 * trim: gives physical memory back.
 *
 * Idle handles go first, then handles that lie wholly in free memory that has passed; domains keep
 * theirs. Device calls are made with the lock released, on claimed nodes and busy pieces.
 * T1       a handle whose unmap is refused stays in use; one whose release is refused is
 *          quarantined, and its addresses are holes again.
 * Cost     unmap and release for each handle; the search stops at WEIR_VICTIMS_MAX handles a round.
 */
#include "pool.h"

/* Claims free, passed handles of one node for release; returns their bytes. */
static uint64_t trim_claim_node(weir_pool *pool, uint32_t index, uint64_t wanted, weir_plan *plan)
{
    weir_range *range = &pool->range;
    uint64_t got = 0;
    uint64_t end = weir_node_end(range, index);
    uint64_t at = weir_round_up(range->node[index].addr, weir_pool_granule(pool));
    while (at < end && got < wanted && plan->fresh_count < WEIR_VICTIMS_MAX) {
        uint32_t which = weir_pages_at(&pool->pages, at);
        weir_piece *piece = weir_piece_get(&pool->pages, which);
        uint64_t bytes = weir_piece_bytes(&pool->pages, which);
        uint64_t next = weir_pages_end(&pool->pages, at);
        if (weir_piece_movable(pool, index, which) && piece->shadows == 0) {
            weir_plan_claim_piece(pool, index, which);
            piece->next = plan->piece_first;
            plan->piece_first = which;
            plan->fresh_count++;
            got += bytes;
            index = range->node[piece->node].next;
            if (range->node[index].kind != WEIR_FREE) break;
        }
        at = next;
    }
    return got;
}

static bool node_passed(const weir_pool *pool, const weir_node *node)
{
    uint32_t lane = weir_node_lane(pool, node);
    return lane == WEIR_LANE_NONE || weir_order_passed(&pool->order, lane, weir_node_point(node));
}

/* Claims handles of at least `wanted` bytes, as a chain. Nodes are listed first: claiming cuts
 * them. */
static void trim_claim(weir_pool *pool, uint64_t wanted, weir_plan *plan)
{
    for (uint32_t zone = 0; zone < WEIR_ZONE_DOMAINS; zone++) {
        for (uint32_t tag = 0; tag < pool->zone[zone].room; tag++) {
            uint16_t set = pool->zone[zone].set_of[tag];
            weir_cursor cursor = {.begun = false};
            uint32_t count = 0, index;
            while (set != 0 && count < WEIR_VICTIMS_MAX &&
                   (index = weir_range_each(&pool->range, set, weir_pool_granule(pool), &cursor)) !=
                       0)
                if (node_passed(pool, &pool->range.node[index])) pool->victim[count++] = index;
            for (uint32_t i = 0; i < count && wanted > 0; i++) {
                uint64_t got = trim_claim_node(pool, pool->victim[i], wanted, plan);
                wanted -= weir_min(wanted, got);
            }
        }
    }
}

void weir_pool_tell_unmap(weir_pool *pool, uint64_t addr, uint64_t bytes)
{
    weir_record record = {.what = WEIR_WILL_UNMAP, .addr = addr, .bytes = bytes};
    weir_pool_tell(pool, &record);
}

/* Unmaps and releases the chain; `there` and `made` say afterwards what the device refused. */
static weir_status trim_calls(weir_pool *pool, const weir_plan *plan, weir_calls *calls)
{
    weir_device *device = &pool->device;
    weir_status status = WEIR_OK;
    for (uint32_t at = plan->piece_first; at != 0; at = weir_piece_get(&pool->pages, at)->next) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint64_t bytes = weir_piece_bytes(&pool->pages, at);
        weir_status one = WEIR_OK;
        piece->there = piece->addr != 0;
        if (piece->there) {
            weir_pool_tell_unmap(pool, piece->addr, bytes);
            one = WEIR_DEVICE_CALL(device, calls, unmaps, unmap(device->self, piece->addr, bytes));
            piece->there = one != WEIR_OK;
        }
        if (one == WEIR_OK) {
            one = weir_piece_release(pool, at, calls);
            piece->made = one != WEIR_OK;
        }
        if (status == WEIR_OK) status = one;
    }
    return status;
}

static void trim_file(weir_pool *pool, const weir_plan *plan)
{
    weir_range *range = &pool->range;
    for (uint32_t at = plan->piece_first; at != 0;) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint32_t next = piece->next;
        if (piece->there) {
            piece->there = false;
            weir_pages_place(&pool->pages, at, piece->addr);
            weir_range_free(range, piece->node);
        } else {
            if (piece->addr != 0) {
                range->node[piece->node].set = WEIR_SET_HOLES;
                weir_node_point_set(&range->node[piece->node], 0);
                weir_range_free(range, piece->node);
            }
            if (piece->made) weir_pages_lose(&pool->pages, at);
            else weir_pages_piece_drop(&pool->pages, at);
        }
        at = next;
    }
}

static weir_status trim_run(weir_pool *pool, const weir_plan *plan)
{
    weir_calls calls = weir_pool_release(pool);
    weir_status status = trim_calls(pool, plan, &calls);
    weir_pool_acquire(pool, &calls);
    trim_file(pool, plan);
    return status;
}

/* Chains idle handles without shadows for release. */
static void trim_claim_idle(weir_pool *pool, uint64_t wanted, weir_plan *plan)
{
    weir_pages *pages = &pool->pages;
    for (uint32_t order = WEIR_SIZE_ORDERS; order-- > 0 && wanted > 0;) {
        for (uint32_t at = pages->idle[order]; at != 0 && wanted > 0;) {
            uint32_t next = weir_piece_get(pages, at)->next;
            if (weir_piece_get(pages, at)->shadows == 0) {
                weir_pages_idle_take(pages, at);
                weir_piece_get(pages, at)->next = plan->piece_first;
                plan->piece_first = at;
                wanted -= weir_min(wanted, weir_piece_bytes(pages, at));
            }
            at = next;
        }
    }
}

weir_status weir_trim_to(weir_pool *pool, uint64_t keep_bytes, uint64_t *released)
{
    weir_pages *pages = &pool->pages;
    uint64_t before = pages->held_bytes;
    weir_status status = WEIR_OK;
    *released = 0;
    if (before <= keep_bytes) return WEIR_OK;
    (void)weir_gather_all(pool);
    status = weir_shadow_drain(pool, 0);
    if (!weir_device_virtual(&pool->device)) status = weir_segment_trim(pool, keep_bytes);
    weir_plan idle = {0};
    if (status == WEIR_OK) /* else they would be taken off their lists for nothing */
        trim_claim_idle(pool, pages->held_bytes - weir_min(pages->held_bytes, keep_bytes), &idle);
    if (idle.piece_first != 0) status = trim_run(pool, &idle);
    while (pages->held_bytes > keep_bytes && status == WEIR_OK &&
           weir_device_virtual(&pool->device)) {
        weir_plan plan = {0};
        status = weir_range_need(&pool->range, WEIR_PLAN_NODES);
        if (status == WEIR_OK) trim_claim(pool, pages->held_bytes - keep_bytes, &plan);
        if (plan.piece_first == 0) break;
        if (status == WEIR_OK) status = trim_run(pool, &plan);
    }
    *released = before - weir_min(before, pages->held_bytes);
    return status;
}

/* ------------------------------------------------------------------------------ public calls -- */

weir_status weir_trim(weir_pool *pool, uint64_t keep_bytes, uint64_t wait_us, uint64_t *released)
{
    uint64_t went = 0;
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    weir_status status = pool->device.calls.lost ? WEIR_LOST : WEIR_OK;
    weir_pool_press(pool, false);
    if (status == WEIR_OK && pool->pages.held_bytes > keep_bytes && wait_us > 0)
        status = weir_gather_wait(pool, &wait_us);
    if (status == WEIR_OK || status == WEIR_WOULD_WAIT || status == WEIR_BUSY)
        status = weir_trim_to(pool, keep_bytes, &went);
    weir_pool_unlock(pool);
    if (status == WEIR_OK && released != NULL) *released = went;
    return status;
}

weir_status weir_finish(weir_pool *pool, uint64_t wait_us)
{
    uint64_t went;
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    weir_status waited = pool->device.calls.lost ? WEIR_LOST : weir_gather_wait(pool, &wait_us);
    weir_status status = waited == WEIR_BUSY ? WEIR_OK : waited;
    if (status == WEIR_OK) status = weir_shadow_drain(pool, 0);
    bool bounded = pool->config.keep_bounded || pool->config.keep_bytes != 0;
    if (status == WEIR_OK && bounded) status = weir_trim_to(pool, pool->config.keep_bytes, &went);
    weir_pool_unlock(pool);
    return status == WEIR_OK && waited == WEIR_BUSY ? WEIR_WOULD_WAIT : status;
}

weir_status weir_limit_set(weir_pool *pool, uint64_t limit_bytes)
{
    uint64_t went;
    if (pool == NULL || limit_bytes == 0) return WEIR_INVALID;
    weir_pool_lock(pool);
    pool->config.limit_bytes = limit_bytes;
    weir_pool_press(pool, false);
    weir_status status = WEIR_OK;
    if (pool->pages.held_bytes > limit_bytes && !pool->device.calls.lost)
        status = weir_trim_to(pool, limit_bytes, &went);
    weir_pool_unlock(pool);
    return status;
}
