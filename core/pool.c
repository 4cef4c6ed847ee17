/* SPDX-License-Identifier: MIT */
/*
 * pool: making and ending a pool, its streams and domains.
 *
 * Owns     the zones, and which set stands for which zone and tag.
 * Cost     attach O(streams), and O(nodes) once in a while when retired lanes are sought for reuse;
 *          domain release O(free nodes of the domain); destroy O(everything).
 */
#include "pool.h"

#define MIB (UINT64_C(1) << 20)
#define SPANS_OF_MEMORY 8 /* address space of an arena, in sizes of the device's memory */
#define LANES_RETIRED_MAX 16

/* ---------------------------------------------------------------------------------- config -- */

static bool config_in_range(const weir_config *config)
{
    uint64_t unit = config->unit_bytes;
    if (unit != 0 && (!weir_is_power(unit) || unit < 64 || unit > 4096)) return false;
    if (config->growth_bytes != 0 && !weir_is_power(config->growth_bytes)) return false;
    if (config->limit_bytes != 0 && config->initial_bytes > config->limit_bytes) return false;
    if (config->move_above_permille != 0 && config->move_above_permille < 1000) return false;
    if (config->gc_permille > 1000) return false;
    for (uint32_t i = 0; i < 16; i++)
        if (config->roundup_divisions[i] != 0 && !weir_is_power(config->roundup_divisions[i]))
            return false;
    const weir_platform *platform = config->platform;
    return platform != NULL && platform->size >= offsetof(weir_platform, now_us) &&
           platform->mem_alloc != NULL && platform->mem_free != NULL &&
           (platform->lock == NULL) == (platform->unlock == NULL);
}

static void config_fill(weir_config *config, const weir_device_info *info)
{
    if (config->limit_bytes == 0) config->limit_bytes = WEIR_NO_LIMIT;
    if (config->unit_bytes == 0) config->unit_bytes = 512;
    if (config->small_bytes == 0) config->small_bytes = 64 << 10;
    config->small_bytes = weir_min(config->small_bytes, info->granule_bytes / 2);
    if (config->growth_bytes == 0) config->growth_bytes = 128 * MIB;
    config->growth_bytes = weir_max(config->growth_bytes, info->granule_bytes);
    if (config->move_above_permille == 0) config->move_above_permille = 1020;
    if (config->wait_us == 0) config->wait_us = WEIR_FOREVER;
}

/* ------------------------------------------------------------------------------------- sets -- */

static weir_status zone_room(weir_pool *pool, weir_zone *zone, uint32_t tag)
{
    const weir_platform *platform = &pool->platform;
    uint32_t room = zone->room == 0 ? 8 : zone->room;
    while (room <= tag) room *= 2;
    if (room == zone->room) return WEIR_OK;
    uint16_t *set_of = (uint16_t *)platform->mem_alloc(platform->self, room * sizeof(*set_of));
    if (set_of == NULL) return WEIR_NO_METADATA;
    weir_memset(set_of, 0, room * sizeof(*set_of));
    if (zone->set_of != NULL) {
        weir_memcpy(set_of, zone->set_of, zone->room * sizeof(*set_of));
        platform->mem_free(platform->self, zone->set_of, zone->room * sizeof(*set_of));
    }
    zone->set_of = set_of;
    zone->room = room;
    return WEIR_OK;
}

static weir_status set_make(weir_pool *pool, uint32_t zone, uint32_t tag, uint16_t *set)
{
    weir_status status = weir_range_set_add(&pool->range, set);
    if (status != WEIR_OK) return status;
    weir_set *made = pool->range.set[*set];
    made->zone = (uint16_t)zone;
    made->tag = (uint16_t)tag;
    if (zone < WEIR_ZONE_DOMAINS && tag != WEIR_TAG_CLEAN) pool->quick[tag].set[zone] = made;
    return WEIR_OK;
}

weir_status weir_pool_quick_room(weir_pool *pool)
{
    const weir_platform *platform = &pool->platform;
    uint32_t room = pool->quick_room == 0 ? 16 : pool->quick_room;
    while (room <= pool->order.lane_count + 1) room *= 2;
    if (room == pool->quick_room) return WEIR_OK;
    weir_quick *quick = (weir_quick *)platform->mem_alloc(platform->self, room * sizeof(*quick));
    if (quick == NULL) return WEIR_NO_METADATA;
    weir_memset(quick, 0, room * sizeof(*quick));
    if (pool->quick != NULL) {
        weir_memcpy(quick, pool->quick, pool->quick_room * sizeof(*quick));
        platform->mem_free(platform->self, pool->quick, pool->quick_room * sizeof(*quick));
    }
    pool->quick = quick;
    pool->quick_room = room;
    return WEIR_OK;
}

weir_status weir_pool_set(weir_pool *pool, uint32_t zone_index, uint32_t tag, uint16_t *set)
{
    weir_zone *zone = &pool->zone[zone_index];
    weir_status status = zone_room(pool, zone, tag);
    if (status != WEIR_OK) return status;
    if (zone->set_of[tag] == 0) {
        status = set_make(pool, zone_index, tag, set);
        if (status != WEIR_OK) return status;
        zone->set_of[tag] = *set;
    }
    *set = zone->set_of[tag];
    return WEIR_OK;
}

/* A new open zone at the first index that is free. */
static weir_status zone_add(weir_pool *pool, uint32_t *index)
{
    const weir_platform *platform = &pool->platform;
    uint16_t set;
    for (*index = 0; *index < pool->zone_count && pool->zone[*index].open;) ++*index;
    if (*index == UINT16_MAX) return WEIR_NO_METADATA;
    if (*index == pool->zone_room) {
        uint32_t room = pool->zone_room == 0 ? 4 : pool->zone_room * 2;
        weir_zone *zone = (weir_zone *)platform->mem_alloc(platform->self, room * sizeof(*zone));
        if (zone == NULL) return WEIR_NO_METADATA;
        weir_memset(zone, 0, room * sizeof(*zone));
        if (pool->zone != NULL) {
            weir_memcpy(zone, pool->zone, pool->zone_count * sizeof(*zone));
            platform->mem_free(platform->self, pool->zone, pool->zone_room * sizeof(*zone));
        }
        pool->zone = zone;
        pool->zone_room = room;
    }
    if (*index == pool->zone_count) pool->zone_count++;
    weir_status status = weir_pool_set(pool, *index, WEIR_TAG_CLEAN, &set);
    if (status != WEIR_OK) return status;
    weir_zone *zone = &pool->zone[*index];
    zone->open = true;
    zone->generation = (uint16_t)(zone->generation + 1);
    return WEIR_OK;
}

/* ------------------------------------------------------------------------------------ spans -- */

/* How much address space to ask for first: plenty, but within what the device says it has. */
static uint64_t span_wish(const weir_pool *pool, uint64_t bytes)
{
    const weir_device_info *info = &pool->device.info;
    uint64_t wish = pool->config.va_bytes;
    if (wish == 0) {
        uint64_t memory = info->memory_bytes == 0 ? UINT64_C(1) << 40 : info->memory_bytes;
        wish = memory > UINT64_C(1) << 44 ? UINT64_C(1) << 47 : memory * SPANS_OF_MEMORY;
    }
    if (info->va_bytes != 0) wish = weir_min(wish, info->va_bytes);
    return weir_round_up(weir_max(wish, bytes), info->granule_bytes);
}

static weir_status span_file(weir_pool *pool, weir_addr base, uint64_t bytes)
{
    weir_status status = weir_range_need(&pool->range, WEIR_RUNNING_NODES);
    if (status == WEIR_OK) status = weir_pages_span_add(&pool->pages, base, bytes);
    if (status != WEIR_OK) return status;
    weir_range_free(&pool->range, weir_range_span_add(&pool->range, base, bytes, WEIR_SET_HOLES));
    return WEIR_OK;
}

weir_status weir_pool_span_add(weir_pool *pool, uint64_t bytes)
{
    weir_device *device = &pool->device;
    uint64_t granule = weir_pool_granule(pool);
    uint64_t least = weir_round_up(bytes, granule) + granule;
    uint64_t wish = span_wish(pool, least);
    weir_addr base = 0;
    weir_status status;
    for (;;) {
        weir_calls calls = weir_pool_release(pool);
        status =
            WEIR_DEVICE_CALL(device, &calls, va_reserves, va_reserve(device->self, wish, &base));
        weir_pool_acquire(pool, &calls);
        if (status == WEIR_OK || status == WEIR_LOST || wish == least) break;
        wish = weir_max(weir_round_up(wish / 2, granule), least);
    }
    if (status != WEIR_OK) return status;
    status = span_file(pool, base, wish);
    if (status != WEIR_OK)
        (void)WEIR_DEVICE_CALL(device, &device->calls, va_frees, va_free(device->self, base, wish));
    return status;
}

void weir_pool_note_held(weir_pool *pool, uint64_t added_bytes, uint32_t added_count)
{
    pool->reserved_total += added_bytes;
    pool->segments_total += added_count;
    pool->reserved_peak = weir_max(pool->reserved_peak, pool->pages.held_bytes);
    pool->segments_peak = weir_max(pool->segments_peak, pool->pages.held_count);
}

/* --------------------------------------------------------------------------- create, destroy -- */

static weir_status pool_init(weir_pool *pool)
{
    uint32_t zone;
    uint16_t holes;
    uint32_t unit_shift = weir_bit_high(pool->config.unit_bytes);
    weir_order_init(&pool->order, &pool->platform, &pool->device);
    weir_pages_init(&pool->pages, &pool->platform, pool->device.granule_shift);
    weir_status status = weir_range_init(&pool->range, &pool->platform, unit_shift);
    if (status == WEIR_OK) status = set_make(pool, 0, WEIR_TAG_CLEAN, &holes);
    WEIR_ASSERT(status != WEIR_OK || holes == WEIR_SET_HOLES);
    if (status == WEIR_OK) status = zone_add(pool, &zone);
    if (status == WEIR_OK) status = zone_add(pool, &zone);
    for (uint32_t i = 0; i < 16; i++)
        pool->rounds = pool->rounds || pool->config.roundup_divisions[i] > 1;
    weir_block_set_careful(pool);
    return status;
}

static void pool_free(weir_pool *pool)
{
    const weir_platform platform = pool->platform;
    for (uint32_t i = 0; i < pool->zone_count; i++)
        if (pool->zone[i].set_of != NULL)
            platform.mem_free(platform.self, pool->zone[i].set_of,
                              pool->zone[i].room * sizeof(uint16_t));
    if (pool->zone != NULL)
        platform.mem_free(platform.self, pool->zone, pool->zone_room * sizeof(weir_zone));
    if (pool->quick != NULL)
        platform.mem_free(platform.self, pool->quick, pool->quick_room * sizeof(weir_quick));
    weir_order_fini(&pool->order);
    weir_pages_fini(&pool->pages);
    weir_range_fini(&pool->range);
    platform.mem_free(platform.self, pool, sizeof(*pool));
}

/* Takes the initial memory through the clean set, as a block of no lane that is freed at once. */
static weir_status pool_take_initial(weir_pool *pool)
{
    uint64_t granule = weir_pool_granule(pool);
    if (pool->config.initial_bytes == 0) return WEIR_OK;
    if (!weir_fits_up(pool->config.initial_bytes, granule)) return WEIR_NO_MEMORY;
    weir_ask ask = {.bytes = weir_round_up(pool->config.initial_bytes, granule), .align = granule};
    if (ask.bytes > pool->config.limit_bytes) return WEIR_NO_MEMORY;
    uint32_t index;
    bool no_growth = pool->config.no_growth;
    ask.requested = ask.bytes;
    ask.lane = WEIR_LANE_NONE;
    pool->config.no_growth = false;
    weir_status status = weir_place_stretch(pool, &ask, &index);
    pool->config.no_growth = no_growth;
    if (status == WEIR_OK) weir_range_free(&pool->range, index);
    return status;
}

weir_status weir_pool_create(const weir_config *given, weir_pool **out)
{
    weir_config config;
    if (given == NULL || out == NULL || given->size < offsetof(weir_config, limit_bytes))
        return WEIR_INVALID;
    weir_memset(&config, 0, sizeof(config));
    weir_memcpy(&config, given, (size_t)weir_min(given->size, sizeof(config)));
    config.size = sizeof(config);
    if (!config_in_range(&config)) return WEIR_INVALID;
    const weir_platform *platform = config.platform;
    weir_pool *pool = (weir_pool *)platform->mem_alloc(platform->self, sizeof(*pool));
    if (pool == NULL) return WEIR_NO_METADATA;
    weir_memset(pool, 0, sizeof(*pool));
    weir_memcpy(&pool->platform, platform, (size_t)weir_min(platform->size, sizeof(*platform)));
    weir_status status = weir_device_init(&pool->device, config.ops, config.device_self);
    if (status != WEIR_OK) {
        platform->mem_free(platform->self, pool, sizeof(*pool));
        return status;
    }
    config_fill(&config, &pool->device.info);
    pool->config = config;
    status = pool_init(pool);
    weir_pool_lock(pool);
    if (status == WEIR_OK) status = pool_take_initial(pool);
    weir_pool_unlock(pool);
    if (status == WEIR_OK) {
        *out = pool;
        return WEIR_OK;
    }
    if (pool->range.node != NULL) (void)weir_pool_give_back(pool);
    pool_free(pool);
    return status;
}

/* Gives the device everything back that it takes. */
weir_status weir_pool_give_back(weir_pool *pool)
{
    weir_device *device = &pool->device;
    uint64_t released;
    weir_status status = weir_trim_to(pool, 0, &released);
    if (status == WEIR_OK) status = weir_shadow_drain(pool, 0);
    bool quarantined = pool->pages.lost_bytes != 0 || pool->pages.held_bytes != 0;
    for (uint32_t i = 0; i < pool->pages.span_count && weir_device_virtual(device); i++) {
        const weir_span *span = &pool->pages.span[i];
        uint32_t index = weir_range_at(&pool->range, span->base, 0);
        bool whole = pool->range.node[index].kind == WEIR_FREE &&
                     weir_node_bytes(&pool->range, index) == span->bytes;
        if (quarantined && !whole) continue; /* something is still mapped in it */
        (void)WEIR_DEVICE_CALL(device, &device->calls, va_frees,
                               va_free(device->self, span->base, span->bytes));
    }
    return status;
}

weir_status weir_pool_destroy(weir_pool *pool)
{
    uint64_t wait_us = WEIR_FOREVER;
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    if (pool->blocks.current != 0 || pool->running != 0) {
        weir_pool_unlock(pool);
        return WEIR_BUSY;
    }
    if (!pool->device.calls.lost) {
        (void)weir_gather_wait(pool, &wait_us);
        for (uint32_t i = WEIR_ZONE_DOMAINS; i < pool->zone_count; i++)
            if (pool->zone[i].open) (void)weir_zone_release(pool, i);
        (void)weir_pool_give_back(pool);
    }
    weir_pool_unlock(pool);
    pool_free(pool);
    return WEIR_OK;
}

/* ----------------------------------------------------------------------------------- streams -- */

/* Marks the lanes that some node or extra record names. */
static void lanes_mark_named(weir_pool *pool)
{
    const weir_range *range = &pool->range;
    weir_order *order = &pool->order;
    for (uint32_t i = 0; i < order->lane_count; i++) order->lane[i].named = false;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next) {
        const weir_node *node = &range->node[at];
        uint32_t lane = weir_node_lane(pool, node);
        if (node->kind != WEIR_FENCE && lane < order->lane_count) order->lane[lane].named = true;
        if (node->kind != WEIR_LIVE && node->kind != WEIR_LIMBO) continue;
        for (uint32_t use = node->b; use != 0; use = order->extra[use].next)
            if (order->extra[use].lane < order->lane_count)
                order->lane[order->extra[use].lane].named = true;
    }
}

/* Finds a retired lane that nothing names any more, if so many are retired that the look pays. */
static bool lane_find_unnamed(weir_pool *pool, uint32_t *lane)
{
    weir_order *order = &pool->order;
    if (order->retired_count < LANES_RETIRED_MAX || order->retired_count < order->lane_count / 2 ||
        pool->running != 0)
        return false;
    (void)weir_gather_all(pool);
    lanes_mark_named(pool);
    for (*lane = 0; *lane < order->lane_count; ++*lane) {
        const weir_lane *at = &order->lane[*lane];
        if (!at->retired || at->named) continue;
        (void)weir_order_poll(order, *lane); /* one that no memory names was not asked before */
        if (at->first == 0) return true;
    }
    return false;
}

weir_status weir_stream_attach(weir_pool *pool, const weir_stream_desc *given, weir_stream *stream)
{
    weir_stream_desc desc;
    weir_status status = WEIR_OK;
    uint32_t lane;
    if (pool == NULL || given == NULL || stream == NULL ||
        given->size < offsetof(weir_stream_desc, outlives))
        return WEIR_INVALID;
    weir_memset(&desc, 0, sizeof(desc));
    weir_memcpy(&desc, given, (size_t)weir_min(given->size, sizeof(desc)));
    weir_pool_lock(pool);
    if (weir_order_known(&pool->order, desc.unique, &lane)) {
        status = WEIR_OK;
    } else if (lane_find_unnamed(pool, &lane)) {
        weir_order_reuse(&pool->order, lane, &desc);
    } else {
        status = weir_pool_quick_room(pool);
        if (status == WEIR_OK) status = weir_order_attach(&pool->order, &desc, &lane);
    }
    if (status == WEIR_OK) {
        *stream = weir_order_stream(&pool->order, lane);
        pool->quick[lane + 1].name = *stream;
    }
    weir_pool_unlock(pool);
    return status;
}

static weir_status stream_end(weir_pool *pool, weir_stream stream,
                              weir_status (*end)(weir_order *order, uint32_t lane))
{
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    uint32_t lane = weir_order_lane(&pool->order, stream);
    weir_status status = WEIR_STALE;
    if (lane != WEIR_LANE_NONE) status = end(&pool->order, lane);
    if (status == WEIR_OK) pool->quick[lane + 1].name = 0;
    weir_pool_unlock(pool);
    return status;
}

weir_status weir_stream_retire(weir_pool *pool, weir_stream stream)
{
    return stream_end(pool, stream, weir_order_retire);
}

weir_status weir_stream_forget(weir_pool *pool, weir_stream stream)
{
    return stream_end(pool, stream, weir_order_forget);
}

/* ----------------------------------------------------------------------------------- domains -- */

weir_status weir_domain_create(weir_pool *pool, weir_domain *domain)
{
    uint32_t index;
    if (pool == NULL || domain == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    weir_status status = zone_add(pool, &index);
    if (status == WEIR_OK) *domain = (weir_domain)pool->zone[index].generation << 16 | index;
    weir_pool_unlock(pool);
    return status;
}

static bool zone_is_empty(const weir_pool *pool, uint32_t zone)
{
    const weir_range *range = &pool->range;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next) {
        weir_kind kind = (weir_kind)range->node[at].kind;
        if ((kind == WEIR_LIVE || kind == WEIR_CLAIMED) &&
            pool->range.set[range->node[at].set]->zone == zone &&
            range->node[at].set != WEIR_SET_HOLES)
            return false;
    }
    return true;
}

/* Everything of the zone gets the same tag in the main zone; limbo nodes and shadows too. */
weir_status weir_zone_release(weir_pool *pool, uint32_t zone)
{
    weir_range *range = &pool->range;
    weir_status status = WEIR_OK;
    if (!zone_is_empty(pool, zone)) return WEIR_BUSY;
    for (uint32_t tag = 0; tag < pool->zone[zone].room && status == WEIR_OK; tag++) {
        uint16_t main_set;
        if (pool->zone[zone].set_of[tag] != 0)
            status = weir_pool_set(pool, WEIR_ZONE_MAIN, tag, &main_set);
    }
    if (status != WEIR_OK) return status;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next) {
        weir_node *node = &range->node[at];
        if (node->kind == WEIR_FENCE || node->set == WEIR_SET_HOLES) continue;
        if (pool->range.set[node->set]->zone != zone) continue;
        uint16_t set = pool->zone[WEIR_ZONE_MAIN].set_of[pool->range.set[node->set]->tag];
        bool filed = node->kind == WEIR_FREE;
        if (filed) weir_range_unfile(range, at);
        node->set = set;
        if (filed) at = weir_range_free(range, at);
    }
    pool->zone[zone].open = false;
    return WEIR_OK;
}

weir_status weir_domain_release(weir_pool *pool, weir_domain domain)
{
    if (pool == NULL) return WEIR_INVALID;
    weir_pool_lock(pool);
    uint32_t index = domain & 0xFFFF;
    weir_status status = WEIR_STALE;
    if (index >= WEIR_ZONE_DOMAINS && index < pool->zone_count && pool->zone[index].open &&
        pool->zone[index].generation == domain >> 16) /* a running call may be about to allocate */
        status = pool->running != 0 ? WEIR_BUSY : weir_zone_release(pool, index);
    weir_pool_unlock(pool);
    return status;
}

/* --------------------------------------------------------------------------------- callbacks -- */

void weir_observer_set(weir_pool *pool, weir_observer observer, void *self)
{
    weir_pool_lock(pool);
    pool->config.observer = observer;
    pool->config.observer_self = self;
    weir_block_set_careful(pool);
    weir_pool_unlock(pool);
}

void weir_reclaimer_set(weir_pool *pool, weir_reclaimer reclaimer, void *self)
{
    weir_pool_lock(pool);
    pool->config.reclaimer = reclaimer;
    pool->config.reclaimer_self = self;
    weir_pool_unlock(pool);
}
