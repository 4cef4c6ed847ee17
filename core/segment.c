/* SPDX-License-Identifier: MIT */
/*
 * segment: memory of devices that can't map, taken and given back whole.
 *
 * A segment is a span of one piece that never moves. Its first and last bytes are bounds that no
 * block crosses (R1: each span ends in a fence).
 * Cost     one device call for a segment; trim looks at every span.
 */
#include "pool.h"

static uint64_t segment_bytes(const weir_pool *pool, const weir_ask *ask)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t limit = pool->config.limit_bytes;
    uint64_t held = pool->pages.held_bytes;
    uint64_t room = limit > held ? weir_round_down(limit - held, granule) : 0;
    uint64_t need = weir_round_up(ask->bytes, granule);
    uint64_t most = pool->device.info.handle_bytes_max;
    uint64_t size = weir_max(need, weir_min(pool->config.growth_bytes, held / 8));
    size = weir_round_up(size, granule);
    if (size > room) size = need;
    if (most != 0 && size > most) size = need;
    return size > room || (most != 0 && size > most) ? 0 : size;
}

static weir_status segment_take(weir_pool *pool, uint64_t bytes, uint64_t *addr)
{
    weir_device *device = &pool->device;
    weir_calls calls = weir_pool_release(pool);
    weir_status status =
        WEIR_DEVICE_CALL(device, &calls, creates, segment_alloc(device->self, bytes, addr));
    if (status == WEIR_OK) {
        weir_record record = {.what = WEIR_DID_MAP, .addr = *addr, .bytes = bytes};
        weir_pool_tell(pool, &record);
    }
    weir_pool_acquire(pool, &calls);
    return status;
}

/* Files a segment that the device gave; on error it is given back. */
static weir_status segment_file(weir_pool *pool, const weir_ask *ask, uint32_t which, uint64_t addr,
                                uint64_t bytes, uint32_t *index)
{
    uint16_t set = weir_ask_set(pool, ask);
    weir_status status = weir_range_need(&pool->range, WEIR_RUNNING_NODES);
    if (status == WEIR_OK) status = weir_pages_span_add(&pool->pages, addr, bytes);
    if (status != WEIR_OK) return status;
    status = weir_pages_room(&pool->pages, addr, bytes);
    if (status != WEIR_OK) {
        weir_pages_span_drop(&pool->pages, addr);
        return status;
    }
    weir_piece_get(&pool->pages, which)->made = true;
    weir_piece_get(&pool->pages, which)->handle = addr;
    weir_pages_place(&pool->pages, which, addr);
    *index = weir_range_span_add(&pool->range, addr, bytes, set);
    weir_pool_note_held(pool, bytes, 1);
    return WEIR_OK;
}

weir_status weir_segment_add(weir_pool *pool, const weir_ask *ask, uint32_t *index)
{
    weir_device *device = &pool->device;
    uint64_t addr = 0;
    uint64_t bytes = segment_bytes(pool, ask);
    if (bytes == 0) return WEIR_NO_MEMORY;
    uint32_t which = weir_pages_piece_add(&pool->pages, (uint32_t)(bytes >> device->granule_shift));
    if (which == 0) return WEIR_NO_METADATA;
    weir_status status = segment_take(pool, bytes, &addr);
    if (status == WEIR_OK) {
        status = segment_file(pool, ask, which, addr, bytes, index);
        if (status == WEIR_OK) return WEIR_OK;
        if (WEIR_DEVICE_CALL(device, &device->calls, releases,
                             segment_free(device->self, addr, bytes)) != WEIR_OK) {
            weir_piece_get(&pool->pages, which)->made = true; /* so that walks show it */
            weir_piece_get(&pool->pages, which)->handle = addr;
            weir_pages_lose(&pool->pages, which);
            return status;
        }
    }
    weir_pages_piece_drop(&pool->pages, which);
    return status;
}

/* A span that is one free node whose uses have passed; 0: none. */
static uint32_t segment_find_free(weir_pool *pool)
{
    const weir_range *range = &pool->range;
    for (uint32_t i = 0; i < pool->pages.span_count; i++) {
        const weir_span *span = &pool->pages.span[i];
        uint32_t which = weir_pages_at(&pool->pages, span->base);
        uint32_t index = weir_range_at(range, span->base, 0);
        const weir_node *node = &range->node[index];
        if (which == 0 || node->kind != WEIR_FREE || weir_node_bytes(range, index) != span->bytes)
            continue;
        if (pool->range.set[node->set]->zone >= WEIR_ZONE_DOMAINS) continue;
        uint32_t lane = weir_node_lane(pool, node);
        if (lane == WEIR_LANE_NONE || weir_order_passed(&pool->order, lane, weir_node_point(node)))
            return index;
    }
    return 0;
}

/* Its addresses leave the books before the device has them back: it may give them to another call
 * at once. */
static weir_status segment_give(weir_pool *pool, uint32_t index)
{
    weir_device *device = &pool->device;
    uint64_t addr = pool->range.node[index].addr;
    uint64_t bytes = weir_node_bytes(&pool->range, index);
    uint32_t which = weir_pages_at(&pool->pages, addr);
    weir_range_unfile(&pool->range, index);
    weir_range_span_drop(&pool->range, index);
    weir_pages_displace(&pool->pages, which);
    weir_pages_span_drop(&pool->pages, addr);
    weir_calls calls = weir_pool_release(pool);
    weir_pool_tell_unmap(pool, addr, bytes);
    weir_status status =
        WEIR_DEVICE_CALL(device, &calls, releases, segment_free(device->self, addr, bytes));
    weir_pool_acquire(pool, &calls);
    if (status == WEIR_OK) weir_pages_piece_drop(&pool->pages, which);
    else weir_pages_lose(&pool->pages, which);
    return status;
}

weir_status weir_segment_trim(weir_pool *pool, uint64_t keep_bytes)
{
    weir_status status = WEIR_OK;
    while (pool->pages.held_bytes > keep_bytes && status == WEIR_OK) {
        uint32_t index = segment_find_free(pool);
        if (index == 0) break;
        status = segment_give(pool, index);
    }
    return status;
}
