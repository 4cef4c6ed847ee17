/* SPDX-License-Identifier: MIT */
/*
 * block: allocating and freeing, and the path that needs no device call.
 *
 * Owns nothing; works on range, order and the pool's sums. A live node keeps in `set` the zone and
 * lane that allocated it, in `low` the bytes beyond what was asked, in `b` its extra records.
 * Cost: alloc and free are O(1) here; a miss goes to ladder.c, a free with several lanes to
 * limbo.c.
 */
#include "pool.h"

/* --------------------------------------------------------------------------------- accounts -- */

static inline uint32_t size_class(uint64_t bytes)
{
    return weir_bit_high(bytes | 512) - 9; /* requests end below 2^46 */
}

static inline void account_alloc(weir_pool *pool, uint64_t bytes, uint64_t requested)
{
    weir_amount_add(&pool->requested, requested);
    weir_amount_add(&pool->allocated, bytes);
    weir_amount_add(&pool->blocks, 1);
    weir_amount_add(&pool->by_class[size_class(requested)], 1);
}

static inline void account_free(weir_pool *pool, uint64_t bytes, uint64_t requested)
{
    pool->requested.current -= requested;
    pool->allocated.current -= bytes;
    pool->blocks.current--;
    pool->by_class[size_class(requested)].current--;
    pool->frees++;
}

void weir_block_account(weir_pool *pool, uint32_t index, uint64_t old_bytes, uint64_t old_requested,
                        uint64_t requested)
{
    uint64_t bytes = weir_node_bytes(&pool->range, index);
    account_free(pool, old_bytes, old_requested);
    pool->frees--;
    account_alloc(pool, bytes, requested);
    pool->blocks.total--;
    pool->range.node[index].low = (uint32_t)(bytes - requested);
}

void weir_pool_tell(weir_pool *pool, const weir_record *record)
{
    weir_observer observer = pool->config.observer;
    if (WEIR_UNLIKELY(observer != NULL)) observer(pool->config.observer_self, record);
}

/* ------------------------------------------------------------------------------------ sets -- */

uint32_t weir_node_lane(const weir_pool *pool, const weir_node *node)
{
    return (uint16_t)(pool->range.set[node->set]->tag - 1);
}

bool weir_node_usable(const weir_pool *pool, const weir_node *node, const weir_ask *ask)
{
    const weir_set *label = pool->range.set[node->set];
    if (node->kind != WEIR_FREE || node->set == WEIR_SET_HOLES || label->zone != ask->zone)
        return false;
    if (label->tag == WEIR_TAG_CLEAN || label->tag == ask->lane + 1) return true;
    uint64_t point = weir_node_point(node);
    if (pool->config.no_stream_reuse)
        return weir_order_passed(&pool->order, label->tag - 1u, point);
    return weir_order_before(&pool->order, label->tag - 1u, point, ask->lane);
}

/* Memory that the lane is only ordered after, through a wait, must not look passed to a third lane:
 * it gets the lane's current point, which lies behind that wait. */
uint64_t weir_node_point_for(weir_pool *pool, const weir_node *node, const weir_ask *ask)
{
    uint32_t lane = weir_node_lane(pool, node);
    if (lane == ask->lane) return weir_node_point(node);
    if (lane == WEIR_LANE_NONE || weir_order_passed(&pool->order, lane, weir_node_point(node)))
        return 0;
    return weir_order_open(&pool->order, ask->lane);
}

/* ------------------------------------------------------------------------------------ carve -- */

/* Makes a claimed node of exactly the right size a live block. */
static WEIR_HOT void node_born(weir_pool *pool, uint32_t index, uint16_t set, uint64_t bytes,
                               uint64_t requested)
{
    weir_range *range = &pool->range;
    weir_node *node = &range->node[index];
    WEIR_ASSERT(weir_node_bytes(range, index) == bytes);
    node->kind = WEIR_LIVE;
    node->set = set;
    node->low = (uint32_t)(bytes - requested);
    node->high = 0;
    node->b = 0;
    weir_range_index(range, index);
    account_alloc(pool, bytes, requested);
}

/* Takes the first `bytes` of a free node. */
static uint32_t node_cut(weir_range *range, uint32_t index, uint64_t bytes)
{
    weir_set *set = range->set[range->node[index].set];
    uint32_t bin = weir_bin_of(range, weir_node_bytes(range, index));
    return weir_range_take(range, set, bin, index, bytes);
}

/* Takes a free node out of its bin and cuts the block out of it; what is left is filed as it
 * was. */
static uint32_t carve_filed(weir_pool *pool, const weir_ask *ask, uint32_t index, uint64_t start,
                            uint16_t set)
{
    weir_range *range = &pool->range;
    uint64_t addr = range->node[index].addr;
    if (addr != start) {
        uint32_t below = node_cut(range, index, start - addr);
        weir_range_file(range, below);
    }
    index = node_cut(range, index, ask->bytes);
    node_born(pool, index, set, ask->bytes, ask->requested);
    return index;
}

uint32_t weir_block_carve_filed(weir_pool *pool, const weir_ask *ask, uint32_t index,
                                uint64_t start)
{
    return carve_filed(pool, ask, index, start, weir_ask_set(pool, ask));
}

uint32_t weir_block_carve(weir_pool *pool, const weir_ask *ask, uint32_t index, uint64_t start)
{
    weir_range *range = &pool->range;
    uint16_t live_set = pool->zone[ask->zone].set_of[ask->lane + 1];
    if (weir_node_end(range, index) != start + ask->bytes)
        weir_range_free(range, weir_range_split(range, index, start + ask->bytes));
    if (range->node[index].addr != start) {
        uint32_t upper = weir_range_split(range, index, start);
        weir_range_free(range, index);
        index = upper;
    }
    node_born(pool, index, live_set, ask->bytes, ask->requested);
    return index;
}

/* Whether a fit would leave a rest of less than a granule, which no handle can move out of. Under
 * pressure another place may be better; window.c weighs that. */
static inline bool fit_strands(const weir_pool *pool, const weir_ask *ask, uint32_t index)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t rest = weir_node_bytes(&pool->range, index) - ask->bytes;
    return pool->pressed && rest != 0 && rest < granule && ask->bytes >= granule / 2 &&
           ask->zone != WEIR_ZONE_SMALL;
}

/* Whether a fit would split a run that max_split_bytes keeps whole while there is another way. */
static inline bool fit_splits(const weir_pool *pool, const weir_ask *ask, uint32_t index)
{
    uint64_t bound = pool->config.max_split_bytes;
    return bound != 0 && ask->bytes < bound && weir_node_bytes(&pool->range, index) >= bound;
}

uint32_t weir_block_fit(weir_pool *pool, const weir_ask *ask, uint16_t set, bool strand)
{
    uint64_t start;
    uint32_t index = weir_range_find(&pool->range, set, ask->bytes, ask->align, &start);
    if (index == 0 || !weir_node_usable(pool, &pool->range.node[index], ask)) return 0;
    if (!strand && (fit_strands(pool, ask, index) || fit_splits(pool, ask, index))) return 0;
    return weir_block_carve_filed(pool, ask, index, start);
}

/* ------------------------------------------------------------------------------------ alloc -- */

/* Rounds like PyTorch's roundup_power2_divisions: up to a step of its power of two. */
static uint64_t round_by_divisions(const weir_config *config, uint64_t bytes)
{
    uint32_t high = weir_bit_high(bytes);
    uint32_t entry = high < 20 ? 0 : high - 20;
    uint32_t divisions = config->roundup_divisions[entry < 16 ? entry : 15];
    if (divisions <= 1) return bytes;
    uint64_t step = (UINT64_C(1) << high) >> weir_bit_high(divisions);
    return step < config->unit_bytes ? bytes : weir_round_up(bytes, step);
}

/* The excess over what was asked is kept in 32 bits. */
uint64_t weir_block_round(const weir_pool *pool, uint64_t bytes)
{
    uint64_t unit = pool->config.unit_bytes;
    if (WEIR_UNLIKELY(bytes >= UINT64_C(1) << 46)) return 0;
    uint64_t rounded = bytes == 0 ? unit : weir_round_up(bytes, unit);
    if (WEIR_UNLIKELY(pool->rounds)) {
        uint64_t coarse = round_by_divisions(&pool->config, rounded);
        if (coarse - bytes <= UINT32_MAX) rounded = coarse;
    }
    return rounded;
}

/* The free node that serves a request without a device call: the lane's own first, then clean. */
static inline uint32_t fit_fast(weir_pool *pool, const weir_ask *ask)
{
    const weir_zone *zone = &pool->zone[ask->zone];
    uint64_t start;
    if (WEIR_UNLIKELY(ask->lane + 1 >= zone->room)) return 0;
    uint16_t own = zone->set_of[ask->lane + 1];
    if (WEIR_UNLIKELY(own == 0)) return 0;
    uint32_t index = weir_range_find(&pool->range, own, ask->bytes, ask->align, &start);
    if (index == 0) {
        index = weir_range_find(&pool->range, zone->set_of[WEIR_TAG_CLEAN], ask->bytes, ask->align,
                                &start);
        if (index == 0) return 0;
    }
    if (WEIR_UNLIKELY(fit_strands(pool, ask, index) || fit_splits(pool, ask, index))) return 0;
    return carve_filed(pool, ask, index, start, own);
}

static WEIR_NOINLINE weir_status alloc_slow(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    uint16_t set;
    weir_status status = weir_range_need(&pool->range, WEIR_PLAN_NODES);
    if (status == WEIR_OK) status = weir_pool_set(pool, ask->zone, ask->lane + 1, &set);
    if (status == WEIR_OK && pool->device.calls.lost) status = WEIR_LOST;
    if (status == WEIR_OK) status = weir_ladder_climb(pool, ask, index);
    if (status != WEIR_OK) weir_oom_note(pool, ask, status);
    return status;
}

static weir_status free_node(weir_pool *pool, uint32_t index, uint32_t lane);

/* A block that could not be kept was never allocated: the totals do not count it. */
static void alloc_undo(weir_pool *pool, const weir_ask *ask, uint32_t index)
{
    uint64_t bytes = weir_node_bytes(&pool->range, index);
    (void)free_node(pool, index, ask->lane);
    pool->requested.total -= ask->requested;
    pool->allocated.total -= bytes;
    pool->blocks.total--;
    pool->by_class[size_class(ask->requested)].total--;
    pool->frees--;
    weir_oom_note(pool, ask, WEIR_NO_METADATA);
}

static weir_status alloc_checked(weir_pool *pool, weir_ask *ask, weir_addr *addr)
{
    uint32_t index = 0;
    weir_status status = WEIR_OK;
    if (WEIR_UNLIKELY(pool->config.max_blocks != 0) &&
        pool->blocks.current >= pool->config.max_blocks) {
        weir_oom_note(pool, ask, WEIR_NO_METADATA);
        return WEIR_NO_METADATA;
    }
    status = weir_range_need(&pool->range, 2);
    if (WEIR_UNLIKELY(status != WEIR_OK)) return status;
    if (WEIR_LIKELY((ask->flags & WEIR_ONE_HANDLE) == 0)) index = fit_fast(pool, ask);
    if (WEIR_UNLIKELY(index == 0)) status = alloc_slow(pool, ask, &index);
    if (status == WEIR_OK && pool->config.max_blocks != 0 &&
        WEIR_UNLIKELY(pool->blocks.current > pool->config.max_blocks)) {
        alloc_undo(pool, ask, index); /* others came while the lock was released */
        return WEIR_NO_METADATA;
    }
    if (status == WEIR_OK && WEIR_UNLIKELY((ask->flags & WEIR_PINNED) != 0)) {
        status = weir_block_pin(pool, index);
        if (status != WEIR_OK) alloc_undo(pool, ask, index);
    }
    if (status == WEIR_OK) *addr = pool->range.node[index].addr;
    return status;
}

static WEIR_NOINLINE void tell_alloc(weir_pool *pool, const weir_ask *ask, weir_stream stream,
                                     weir_status status, weir_addr addr)
{
    weir_record record = {.what = status == WEIR_OK ? WEIR_DID_ALLOC : WEIR_DID_FAIL,
                          .status = status,
                          .stream = stream,
                          .domain = ask->domain,
                          .addr = status == WEIR_OK ? addr : 0,
                          .bytes = ask->requested};
    weir_pool_tell(pool, &record);
}

/* A size that no address space could hold is refused without a search, and told like any
 * refusal. */
static weir_status alloc_impossible(weir_pool *pool, weir_ask *ask)
{
    ask->bytes = UINT64_MAX;
    ask->zone = ask->zone == WEIR_ZONE_SMALL ? WEIR_ZONE_MAIN : ask->zone;
    weir_oom_note(pool, ask, WEIR_NO_MEMORY);
    return WEIR_NO_MEMORY;
}

/* The zone of a domain; UINT32_MAX if there is none. The lock is held. */
static uint32_t zone_of_domain(const weir_pool *pool, weir_domain domain)
{
    uint32_t index = domain & 0xFFFF;
    if (index < WEIR_ZONE_DOMAINS || index >= pool->zone_count) return UINT32_MAX;
    const weir_zone *zone = &pool->zone[index];
    return zone->open && zone->generation == domain >> 16 ? index : UINT32_MAX;
}

/* With the lock held, which it releases. */
static weir_status alloc_and_unlock(weir_pool *pool, weir_ask *ask, weir_stream stream,
                                    weir_addr *addr)
{
    weir_status status = WEIR_STALE;
    weir_addr got = 0;
    ask->lane = weir_order_lane(&pool->order, stream);
    if (ask->domain != 0) ask->zone = zone_of_domain(pool, ask->domain);
    if (WEIR_LIKELY(ask->lane != WEIR_LANE_NONE && ask->zone != UINT32_MAX))
        status = ask->bytes == 0 ? alloc_impossible(pool, ask) : alloc_checked(pool, ask, &got);
    bool observed = pool->config.observer != NULL;
    weir_pool_unlock(pool);
    if (status == WEIR_OK) *addr = got;
    if (WEIR_UNLIKELY(observed)) tell_alloc(pool, ask, stream, status, got);
    return status;
}

/* ------------------------------------------------------------------------------------ quick -- */

/* The shortest path: a fit in the lane's own set or the clean one, nothing rounded, watched,
 * bounded or weighed. All that would forbid it is summed up in one flag. */
void weir_block_set_careful(weir_pool *pool)
{
    const weir_config *config = &pool->config;
    WEIR_ASSERT(pool->kept.index == 0);
    pool->careful = pool->rounds || pool->pressed || config->max_blocks != 0 ||
                    config->max_split_bytes != 0 || config->observer != NULL;
}

static WEIR_HOT void kept_file(weir_pool *pool)
{
    weir_range *range = &pool->range;
    uint32_t index = pool->kept.index;
    weir_node *node = &range->node[index];
    pool->kept.index = 0;
    (void)weir_range_free_hot(range, range->set[node->set], index, weir_node_point(node));
}

void weir_block_file_kept(weir_pool *pool)
{
    kept_file(pool);
}

/* The kept block, if it is what is asked for; else it is filed. */
static WEIR_HOT weir_addr kept_take(weir_pool *pool, weir_stream stream, uint64_t bytes,
                                    uint64_t requested)
{
    weir_range *range = &pool->range;
    uint32_t index = pool->kept.index;
    if (pool->kept.bytes != bytes || pool->kept.stream != stream) {
        kept_file(pool);
        return 0;
    }
    pool->kept.index = 0;
    node_born(pool, index, range->node[index].set, bytes, requested);
    return range->node[index].addr;
}

static WEIR_HOT weir_addr alloc_quick(weir_pool *pool, weir_stream stream, uint64_t requested)
{
    weir_range *range = &pool->range;
    uint64_t unit = pool->config.unit_bytes;
    uint64_t bytes = (requested + unit - 1) & ~(unit - 1);
    bool small = bytes <= pool->config.small_bytes;
    if (pool->kept.index != 0) {
        weir_addr kept = kept_take(pool, stream, bytes, requested);
        if (kept != 0) return kept;
    }
    if (WEIR_UNLIKELY((stream & 0xFFFF) >= pool->quick_room)) return 0;
    const weir_quick *lane = &pool->quick[stream & 0xFFFF];
    if (WEIR_UNLIKELY(lane->name != stream || pool->careful || bytes == 0)) return 0;
    weir_set *set = lane->set[small];
    if (WEIR_UNLIKELY(set == NULL || range->spare <= range->reserve)) return 0;
    uint16_t own = set->index;
    uint32_t bin;
    uint32_t index = weir_range_quick(range, set, bytes, &bin);
    if (index == 0) {
        set = range->set[pool->zone[small].set_of[WEIR_TAG_CLEAN]];
        if (set->rows == 0) return 0;
        index = weir_range_quick(range, set, bytes, &bin);
        if (index == 0) return 0;
    }
    index = weir_range_take(range, set, bin, index, bytes);
    node_born(pool, index, own, bytes, requested);
    return range->node[index].addr;
}

static WEIR_NOINLINE weir_status alloc_general(weir_pool *pool, weir_stream stream, uint64_t bytes,
                                               weir_addr *addr)
{
    weir_ask ask = {.bytes = weir_block_round(pool, bytes), .requested = bytes};
    ask.align = pool->config.unit_bytes;
    ask.zone = ask.bytes <= pool->config.small_bytes ? WEIR_ZONE_SMALL : WEIR_ZONE_MAIN;
    ask.wait_us = pool->config.wait_us;
    return alloc_and_unlock(pool, &ask, stream, addr);
}

weir_status weir_alloc_on(weir_pool *pool, weir_stream stream, uint64_t bytes, weir_addr *addr)
{
    if (WEIR_UNLIKELY(pool == NULL || addr == NULL)) return WEIR_INVALID;
    weir_pool_lock_hot(pool);
    weir_addr got = alloc_quick(pool, stream, bytes);
    if (WEIR_UNLIKELY(got == 0)) return alloc_general(pool, stream, bytes, addr);
    weir_pool_unlock(pool);
    *addr = got;
    return WEIR_OK;
}

static weir_status ask_from_request(weir_pool *pool, const weir_request *given, weir_ask *ask,
                                    weir_stream *stream)
{
    const uint32_t known = WEIR_NOWAIT | WEIR_ONE_HANDLE | WEIR_PINNED | WEIR_NO_EVENTS;
    weir_request request;
    weir_memset(&request, 0, sizeof(request));
    weir_memcpy(&request, given, (size_t)weir_min(given->size, sizeof(request)));
    if (given->size < offsetof(weir_request, domain) || (request.flags & ~known) != 0)
        return WEIR_INVALID;
    uint64_t align = request.align == 0 ? 1 : request.align;
    if (!weir_is_power(align) || align > weir_pool_granule(pool)) return WEIR_INVALID;
    ask->bytes = weir_block_round(pool, request.bytes);
    ask->requested = request.bytes;
    ask->domain = request.domain;
    ask->align = weir_max(align, pool->config.unit_bytes);
    ask->flags = request.flags;
    ask->wait_us = request.wait_us == 0 ? pool->config.wait_us : request.wait_us;
    if ((request.flags & (WEIR_NOWAIT | WEIR_NO_EVENTS)) != 0) ask->wait_us = 0;
    *stream = request.stream;
    ask->zone = WEIR_ZONE_MAIN; /* that of a domain is looked up with the lock held */
    if (request.domain == 0 && ask->bytes <= pool->config.small_bytes &&
        ask->align <= pool->config.small_bytes &&
        (ask->flags & (WEIR_ONE_HANDLE | WEIR_PINNED)) == 0)
        ask->zone = WEIR_ZONE_SMALL;
    return WEIR_OK;
}

weir_status weir_alloc(weir_pool *pool, const weir_request *request, weir_addr *addr)
{
    weir_ask ask = {.waits_would_help = false};
    weir_stream stream;
    if (pool == NULL || request == NULL || addr == NULL) return WEIR_INVALID;
    weir_status status = ask_from_request(pool, request, &ask, &stream);
    if (status != WEIR_OK) return status;
    weir_pool_lock(pool);
    return alloc_and_unlock(pool, &ask, stream, addr);
}

/* ------------------------------------------------------------------------------------- free -- */

/* Ends a live block. With no extra records and one lane it goes straight to its set; the order of
 * that lane makes reuse safe. */
static weir_status free_node(weir_pool *pool, uint32_t index, uint32_t lane)
{
    weir_range *range = &pool->range;
    weir_node *node = &range->node[index];
    if (WEIR_UNLIKELY((node->high & WEIR_NODE_PINNED) != 0)) weir_block_unpin(pool, index);
    uint32_t owner = weir_node_lane(pool, node);
    weir_range_unindex(range, node->addr);
    account_free(pool, weir_node_bytes(range, index), weir_node_bytes(range, index) - node->low);
    const weir_lane *own = &pool->order.lane[owner];
    weir_node_point_set(node, weir_order_open(&pool->order, owner));
    if (WEIR_LIKELY(node->b == 0 && owner == lane && own->outlives)) {
        weir_range_free(range, index);
        return WEIR_OK;
    }
    if (owner != lane && weir_order_extra_find(&pool->order, node->b, (uint16_t)lane) == 0) {
        weir_status status = weir_order_extra_add(&pool->order, &node->b, (uint16_t)lane, 0);
        WEIR_ASSERT(status == WEIR_OK);
        (void)status;
    }
    return weir_limbo_enter(pool, index);
}

static weir_status free_locked(weir_pool *pool, weir_addr addr, weir_stream stream,
                               weir_record *record)
{
    uint32_t index = weir_range_lookup(&pool->range, addr);
    if (WEIR_UNLIKELY(index == 0)) return WEIR_NOT_FOUND;
    uint32_t owner = weir_node_lane(pool, &pool->range.node[index]);
    uint32_t lane = stream == 0 ? owner : weir_order_lane(&pool->order, stream);
    if (WEIR_UNLIKELY(lane == WEIR_LANE_NONE)) return WEIR_STALE;
    if (WEIR_UNLIKELY(lane != owner)) {
        /* Room for the record of the freeing lane, so that nothing fails half-way. */
        uint32_t probe = 0;
        weir_status status = weir_order_extra_add(&pool->order, &probe, 0, 0);
        if (status != WEIR_OK) return status;
        weir_order_extra_drop(&pool->order, &probe, probe);
    }
    if (WEIR_UNLIKELY(pool->config.observer != NULL)) {
        record->addr = addr;
        record->bytes = weir_node_bytes(&pool->range, index) - pool->range.node[index].low;
        record->stream = weir_order_stream(&pool->order, lane);
        record->domain = weir_zone_domain(pool, pool->range.set[pool->range.node[index].set]->zone);
    }
    return free_node(pool, index, lane);
}

/* The shortest path: one lane, which outlives its frees, nothing pinned and nobody watching. */
static WEIR_HOT bool free_quick(weir_pool *pool, weir_addr addr, weir_stream stream)
{
    weir_range *range = &pool->range;
    uint32_t *link = weir_range_bucket(range, addr);
    while (*link != 0 && range->node[*link].addr != addr) link = &range->node[*link].a;
    uint32_t index = *link;
    weir_node *node = &range->node[index];
    weir_set *set = range->set[node->set];
    uint32_t owner = set->tag - 1u;
    if (WEIR_UNLIKELY(index == 0 || (node->b | node->high) != 0)) return false;
    weir_lane *own = &pool->order.lane[owner];
    if (WEIR_UNLIKELY(!own->outlives || pool->config.observer != NULL)) return false;
    if (stream != 0 && stream != own->name) return false;
    uint64_t bytes = weir_node_bytes(range, index);
    *link = node->a;
    own->used = own->epoch;
    account_free(pool, bytes, bytes - node->low);
    if (pool->kept.index != 0) kept_file(pool);
    if (WEIR_UNLIKELY(pool->careful || set->zone >= WEIR_ZONE_DOMAINS)) {
        (void)weir_range_free_hot(range, set, index, own->epoch);
        return true;
    }
    node->kind = WEIR_CLAIMED;
    weir_node_point_set(node, own->epoch);
    pool->kept = (weir_kept){index, own->name, bytes};
    return true;
}

static WEIR_NOINLINE weir_status free_general(weir_pool *pool, weir_addr addr, weir_stream stream)
{
    weir_record record;
    if (pool->kept.index != 0) kept_file(pool);
    weir_status status = free_locked(pool, addr, stream, &record);
    bool observed = pool->config.observer != NULL && status == WEIR_OK;
    weir_pool_unlock(pool);
    if (WEIR_UNLIKELY(observed)) {
        record.what = WEIR_DID_FREE;
        record.status = WEIR_OK;
        weir_pool_tell(pool, &record);
    }
    return status;
}

weir_status weir_free(weir_pool *pool, weir_addr addr, weir_stream stream)
{
    if (WEIR_UNLIKELY(pool == NULL)) return WEIR_INVALID;
    weir_pool_lock_hot(pool);
    if (WEIR_UNLIKELY(!free_quick(pool, addr, stream))) return free_general(pool, addr, stream);
    weir_pool_unlock(pool);
    return WEIR_OK;
}
