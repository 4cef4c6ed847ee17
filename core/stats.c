/* SPDX-License-Identifier: MIT */
/*
 * stats: what a pool tells about itself.
 *
 * Owns nothing; reads the sums that block, pages and device keep, and walks the rest.
 * Cost     stats O(1) but for the longest free run, the first bins of each set; a report of a
 *          failed allocation and the walks O(nodes).
 */
#include "pool.h"

/* --------------------------------------------------------------------------------- searches -- */

/* The longest node of a set, by a look at its highest bin. */
static uint64_t set_longest(const weir_pool *pool, uint16_t set)
{
    weir_cursor cursor = {.begun = false};
    uint64_t longest = 0;
    uint32_t index = weir_range_each(&pool->range, set, 0, &cursor);
    uint32_t bin = cursor.bin;
    while (index != 0 && cursor.bin == bin) {
        longest = weir_max(longest, weir_node_bytes(&pool->range, index));
        index = weir_range_each(&pool->range, set, 0, &cursor);
    }
    return longest;
}

static uint64_t zone_longest(const weir_pool *pool, uint32_t zone)
{
    uint64_t longest = 0;
    for (uint32_t tag = 0; tag < pool->zone[zone].room; tag++)
        if (pool->zone[zone].set_of[tag] != 0)
            longest = weir_max(longest, set_longest(pool, pool->zone[zone].set_of[tag]));
    return longest;
}

/* ------------------------------------------------------------------------------------ stats -- */

static void stats_device(const weir_calls *calls, weir_stats *stats)
{
    stats->va_reserves = calls->va_reserves;
    stats->va_frees = calls->va_frees;
    stats->creates = calls->creates;
    stats->releases = calls->releases;
    stats->maps = calls->maps;
    stats->accesses = calls->accesses;
    stats->unmaps = calls->unmaps;
    stats->event_creates = calls->event_creates;
    stats->event_destroys = calls->event_destroys;
    stats->event_records = calls->event_records;
    stats->event_queries = calls->event_queries;
    stats->copies = calls->copies;
    stats->stream_waits = calls->stream_waits;
    stats->host_waits = calls->host_waits;
}

static void stats_fill(weir_pool *pool, weir_stats *stats)
{
    const weir_pages *pages = &pool->pages;
    stats->limit_bytes = pool->config.limit_bytes;
    stats->requested = pool->requested;
    stats->allocated = pool->allocated;
    stats->reserved = (weir_amount){pages->held_bytes, pool->reserved_peak, pool->reserved_total};
    stats->pending = pool->pending;
    stats->blocks = pool->blocks;
    stats->segments = (weir_amount){pages->held_count, pool->segments_peak, pool->segments_total};
    weir_memcpy(stats->by_class, pool->by_class, sizeof(stats->by_class));
    stats->pinned_bytes = pages->pinned_bytes;
    stats->quarantined_bytes = pages->lost_bytes;
    stats->idle_bytes = pages->idle_bytes;
    stats->shadowed_bytes = pool->shadow_bytes;
    stats->largest_free_bytes = zone_longest(pool, WEIR_ZONE_MAIN);
    stats->allocs = pool->blocks.total;
    stats->frees = pool->frees;
    stats->fails = pool->fails;
    stats->retries = pool->retries;
    stats->reclaims = pool->reclaims;
    stats->moved_handles = pool->moved_handles;
    stats->rescues = pool->rescues;
    stats->rescued_bytes = pool->rescued_bytes;
    stats_device(&pool->device.calls, stats);
}

void weir_stats_read(weir_pool *pool, weir_stats *stats)
{
    weir_stats all;
    size_t size = (size_t)weir_min(stats->size, sizeof(all));
    weir_memset(&all, 0, sizeof(all));
    weir_pool_lock(pool);
    stats_fill(pool, &all);
    weir_pool_unlock(pool);
    all.size = size;
    weir_memcpy(stats, &all, size);
}

static void amount_reset(weir_amount *amount)
{
    amount->peak = amount->current;
}

void weir_stats_reset_peaks(weir_pool *pool)
{
    weir_pool_lock(pool);
    amount_reset(&pool->requested);
    amount_reset(&pool->allocated);
    amount_reset(&pool->pending);
    amount_reset(&pool->blocks);
    for (uint32_t i = 0; i < WEIR_SIZE_CLASSES; i++) amount_reset(&pool->by_class[i]);
    pool->reserved_peak = pool->pages.held_bytes;
    pool->segments_peak = pool->pages.held_count;
    weir_pool_unlock(pool);
}

int64_t weir_native_error(weir_pool *pool)
{
    weir_pool_lock(pool);
    int64_t code = pool->device.calls.native_error;
    weir_pool_unlock(pool);
    return code;
}

/* -------------------------------------------------------------------------------------- oom -- */

/* Of a free node's bytes, those in handles that also hold something live, and those in pinned
 * ones. */
static void oom_note_handles(weir_pool *pool, uint32_t index, weir_oom *oom)
{
    uint64_t end = weir_node_end(&pool->range, index);
    for (uint64_t at = pool->range.node[index].addr; at < end;) {
        uint32_t which = weir_pages_at(&pool->pages, at);
        const weir_piece *piece = weir_piece_get(&pool->pages, which);
        uint64_t bytes = weir_min(end, weir_pages_end(&pool->pages, at)) - at;
        if (piece->pins != 0) oom->pinned_bytes += bytes;
        else if (!weir_piece_movable(pool, index, which)) oom->stranded_bytes += bytes;
        at += bytes;
    }
}

static void oom_note_node(weir_pool *pool, const weir_ask *ask, uint32_t index, weir_oom *oom)
{
    const weir_node *node = &pool->range.node[index];
    uint64_t bytes = weir_node_bytes(&pool->range, index);
    if (node->kind == WEIR_LIMBO) oom->other_stream_bytes += bytes;
    if (node->kind != WEIR_FREE || node->set == WEIR_SET_HOLES) return;
    if (pool->range.set[node->set]->zone != ask->zone) {
        if (pool->range.set[node->set]->zone >= WEIR_ZONE_DOMAINS) oom->domain_bytes += bytes;
        return;
    }
    if (!weir_node_usable(pool, node, ask)) {
        oom->other_stream_bytes += bytes;
        return;
    }
    oom->free_bytes += bytes;
    oom->largest_free_bytes = weir_max(oom->largest_free_bytes, bytes);
    oom_note_handles(pool, index, oom);
}

/* What the device has left and in all; 0: it does not say. The lock is released meanwhile. */
static void oom_ask_device(weir_pool *pool, uint64_t *free_bytes, uint64_t *total)
{
    const weir_device_ops *ops = &pool->device.ops;
    *free_bytes = *total = 0;
    if (ops->memory_info == NULL || pool->device.calls.lost) return;
    weir_calls calls = weir_pool_release(pool);
    weir_status status = ops->memory_info(pool->device.self, free_bytes, total);
    if (status != WEIR_OK) *free_bytes = *total = 0;
    if (status == WEIR_LOST) calls.lost = true; /* the native error stays that of the allocation */
    weir_pool_acquire(pool, &calls);
    if (*total != 0) *free_bytes = weir_min(*free_bytes, *total);
}

void weir_oom_note(weir_pool *pool, const weir_ask *ask, weir_status status)
{
    weir_oom *oom = &pool->oom;
    uint64_t device_free, total;
    oom_ask_device(pool, &device_free, &total);
    weir_memset(oom, 0, sizeof(*oom));
    pool->fails++;
    pool->failed_once = true;
    oom->status = status;
    oom->asked_bytes = ask->requested;
    oom->stream = weir_order_stream(&pool->order, ask->lane);
    oom->domain = ask->domain;
    oom->limit_bytes = pool->config.limit_bytes;
    oom->reserved_bytes = pool->pages.held_bytes;
    oom->allocated_bytes = pool->allocated.current;
    oom->quarantined_bytes = pool->pages.lost_bytes;
    oom->wait_would_help = ask->waits_would_help;
    for (uint32_t at = pool->range.node[0].next; at != 0; at = pool->range.node[at].next)
        oom_note_node(pool, ask, at, oom);
    oom->device_free_bytes = device_free;
    uint64_t room = oom->limit_bytes - weir_min(oom->limit_bytes, oom->reserved_bytes);
    if (total != 0) room = weir_min(room, oom->device_free_bytes);
    oom->short_bytes = ask->bytes - weir_min(ask->bytes, room);
}

weir_status weir_oom_read(weir_pool *pool, weir_oom *oom)
{
    if (pool == NULL || oom == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    weir_status status = pool->failed_once ? WEIR_OK : WEIR_NOT_FOUND;
    if (status == WEIR_OK) {
        size_t size = (size_t)weir_min(oom->size, sizeof(*oom));
        pool->oom.size = size;
        weir_memcpy(oom, &pool->oom, size);
    }
    weir_pool_unlock(pool);
    return status;
}

/* ------------------------------------------------------------------------------------- walks -- */

static uint32_t node_pins(const weir_pool *pool, const weir_node *node)
{
    if (node->kind != WEIR_LIVE) return 0;
    uint32_t extra = weir_order_extra_find(&pool->order, node->b, WEIR_LANE_PINS);
    return extra == 0 ? 0 : (uint32_t)pool->order.extra[extra].value;
}

static void block_describe(const weir_pool *pool, uint32_t index, weir_block *block)
{
    const weir_node *node = &pool->range.node[index];
    const weir_set *label = pool->range.set[node->set];
    uint32_t lane = weir_node_lane(pool, node);
    bool live = node->kind == WEIR_LIVE;
    bool hole = node->set == WEIR_SET_HOLES || node->kind == WEIR_LOST_RANGE;
    *block = (weir_block){.addr = node->addr,
                          .bytes = weir_node_bytes(&pool->range, index),
                          .live = live,
                          .mapped = !hole,
                          .pins = node_pins(pool, node),
                          .small = !hole && label->zone == WEIR_ZONE_SMALL};
    if (live) block->requested_bytes = block->bytes - node->low;
    if (!hole && lane != WEIR_LANE_NONE) block->stream = weir_order_stream(&pool->order, lane);
    if (!hole) block->domain = weir_zone_domain(pool, label->zone);
    if (!live && !hole)
        block->pending = node->kind == WEIR_LIMBO ||
                         (lane != WEIR_LANE_NONE &&
                          !weir_order_passed(&pool->order, lane, weir_node_point(node)));
}

void weir_walk_blocks(weir_pool *pool, bool (*visit)(void *self, const weir_block *block),
                      void *self)
{
    weir_pool_lock(pool);
    bool more = true;
    for (uint32_t at = pool->range.node[0].next; at != 0 && more; at = pool->range.node[at].next) {
        weir_block block;
        if (pool->range.node[at].kind == WEIR_FENCE) continue;
        block_describe(pool, at, &block);
        more = visit(self, &block);
    }
    weir_pool_unlock(pool);
}

void weir_walk_segments(weir_pool *pool, bool (*visit)(void *self, const weir_segment *segment),
                        void *self)
{
    weir_pool_lock(pool);
    bool more = true;
    for (uint32_t i = 1; i < pool->pages.piece_count && more; i++) {
        const weir_piece *piece = weir_piece_get(&pool->pages, i);
        if (piece->state == WEIR_PIECE_UNUSED || !piece->made) continue;
        weir_segment segment = {.addr = piece->state == WEIR_PIECE_MAPPED ? piece->addr : 0,
                                .bytes = weir_piece_bytes(&pool->pages, i),
                                .handle = piece->handle,
                                .pinned = piece->pins != 0,
                                .quarantined = piece->state == WEIR_PIECE_LOST};
        more = visit(self, &segment);
    }
    weir_pool_unlock(pool);
}

weir_status weir_block_find(weir_pool *pool, weir_addr addr, weir_block *block)
{
    if (pool == NULL || block == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    uint32_t index = weir_range_lookup(&pool->range, addr);
    if (index == 0) index = weir_range_at(&pool->range, addr, 0);
    bool found = index != 0 && pool->range.node[index].kind == WEIR_LIVE;
    if (found) block_describe(pool, index, block);
    weir_pool_unlock(pool);
    return found ? WEIR_OK : WEIR_NOT_FOUND;
}
