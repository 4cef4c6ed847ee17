/* SPDX-License-Identifier: MIT */
/*
 * place: backs a window with handles, and carves the block.
 *
 * What a window lacks comes from idle handles, then from free handles that lie elsewhere and move,
 * then from new ones; moving comes in only where the pool holds more than its share above the
 * largest amount ever asked for at once (move_above_permille), or can't grow.
 * Owns     the scratch list pool->victim while the lock is held.
 * Cost     as many handles as cover twice the need are looked at, WEIR_VICTIMS_MAX at a time.
 */
#include "window.h"

#define KEPT_PERMILLE 5       /* of the limit, kept for rescues */
#define SPARING_PERMILLE 1250 /* of the peak request, above which streams wait for one another */
#define COARSE_PERMILLE 1100  /* of the peak request, up to which handles are of the full size */

/* ---------------------------------------------------------------------------------- victims -- */

typedef struct victims {
    uint32_t count;
    uint64_t granules;
} victims;

/* Notes the movable handles of one free node, until there are `enough` granules. */
static void victims_in_node(weir_pool *pool, uint32_t index, uint64_t enough, victims *list)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t end = weir_node_end(&pool->range, index);
    uint64_t at = weir_round_up(pool->range.node[index].addr, granule);
    while (at < end && list->count < WEIR_VICTIMS_MAX && list->granules < enough) {
        uint32_t which = weir_pages_at(&pool->pages, at);
        weir_piece *piece = weir_piece_get(&pool->pages, which);
        if (weir_piece_movable(pool, index, which)) {
            piece->node = index;
            pool->victim[list->count++] = which;
            list->granules += piece->granules;
        }
        at = weir_pages_end(&pool->pages, at);
    }
}

/* Lists free handles that `ask` may take, from its own zone, the main one and that of small blocks:
 * from the shortest free nodes up, which are the least useful as they are. True if there may be
 * more than what was listed. */
static bool victims_list(weir_pool *pool, const weir_ask *ask, uint64_t enough, victims *list)
{
    *list = (victims){0};
    if (weir_range_need(&pool->range, WEIR_PLAN_NODES) != WEIR_OK) return false;
    weir_ask view = *ask;
    for (uint32_t zone = 0; zone < pool->zone_count; zone++) {
        if (zone >= WEIR_ZONE_DOMAINS && zone != ask->zone) continue;
        view.zone = zone;
        for (uint32_t tag = 0; tag < pool->zone[zone].room; tag++) {
            uint16_t set = pool->zone[zone].set_of[tag];
            weir_cursor cursor = {.begun = false};
            if (set == 0) continue;
            uint32_t index;
            while ((index = weir_range_each_up(&pool->range, set, weir_pool_granule(pool),
                                               &cursor)) != 0) {
                if (list->granules >= enough || list->count == WEIR_VICTIMS_MAX) return true;
                if (weir_node_usable(pool, &pool->range.node[index], &view))
                    victims_in_node(pool, index, enough, list);
            }
        }
    }
    return list->granules >= enough || list->count == WEIR_VICTIMS_MAX;
}

uint64_t weir_place_movable(weir_pool *pool, const weir_ask *ask, uint64_t enough)
{
    victims list;
    (void)victims_list(pool, ask, (enough >> pool->device.granule_shift) + 1, &list);
    return list.granules << pool->device.granule_shift;
}

/* Takes a victim of exactly this size off the list; 0: none. */
static uint32_t victim_pick(weir_pool *pool, victims *list, uint64_t granules)
{
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t which = pool->victim[i];
        if (weir_piece_get(&pool->pages, which)->granules != granules) continue;
        pool->victim[i] = pool->victim[--list->count];
        return which;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------- fill -- */

typedef struct fill {
    const weir_ask *ask;
    uint32_t how;
    victims movable;
    bool more;       /* the list was cut short */
    bool unrecorded; /* host memory is short */
    weir_plan plan;
} fill;

uint64_t weir_place_bound(const weir_pool *pool)
{
    uint64_t memory = pool->device.info.memory_bytes;
    return memory == 0 ? pool->config.limit_bytes : weir_min(memory, pool->config.limit_bytes);
}

bool weir_place_possible(const weir_pool *pool, uint64_t bytes)
{
    uint64_t bound = weir_max(weir_place_bound(pool), pool->pages.held_bytes);
    uint64_t kept = pool->allocated.current + pool->pages.lost_bytes;
    return bound - weir_min(bound, kept) >= bytes;
}

uint64_t weir_place_kept(const weir_pool *pool)
{
    return weir_round_up(weir_part(weir_place_bound(pool), KEPT_PERMILLE), weir_pool_granule(pool));
}

/* What the limit still allows. */
static uint64_t headroom_granules(const weir_pool *pool, uint32_t how)
{
    uint64_t limit = weir_place_bound(pool);
    uint64_t used = pool->pages.held_bytes;
    if ((how & WEIR_PLACE_TIGHT) == 0) used += weir_place_kept(pool);
    return limit <= used ? 0 : (limit - used) >> pool->device.granule_shift;
}

/* Whether growing by `missing` granules keeps the pool within a share of the largest amount that
 * was ever asked for at once, this request included. */
static bool growth_within(const weir_pool *pool, const weir_ask *ask, uint64_t missing,
                          uint32_t permille)
{
    uint64_t asked = weir_max(pool->requested.peak, pool->requested.current + ask->requested);
    uint64_t held = pool->pages.held_bytes + (missing << pool->device.granule_shift);
    return held <= weir_part(asked, permille);
}

/* The size of handle to grow by: growth_bytes under a block that fills it, which will leave it free
 * as a whole, else an eighth of what is held or what is missing, at most growth_bytes, or half of
 * that where it would take the pool far above the largest amount ever asked for at once. Not more
 * than a rescue could copy, and less when the limit is near, so that the last handles can still
 * move to where they are needed. */
static uint64_t growth_granules(const weir_pool *pool, const weir_ask *ask, uint64_t remaining,
                                uint64_t headroom)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t growth = pool->config.growth_bytes;
    uint64_t size = weir_max(pool->pages.held_bytes / 8, remaining * granule);
    bool coarse = remaining * granule >= growth ||
                  growth_within(pool, ask, growth >> pool->device.granule_shift, COARSE_PERMILLE);
    size = weir_min(size, coarse ? growth : growth / 2);
    size = weir_min(size, weir_place_kept(pool) / 4 * 5);
    size = weir_min(size, headroom / 2 * granule);
    return UINT64_C(1) << weir_bit_high(weir_max(size, granule) >> pool->device.granule_shift);
}

/* A stretch of a hole that has to be backed. Handles lie in slots, at multiples of their own size
 * from the span's base, so that a free one fits wherever another of its size was. */
typedef struct stretch {
    uint64_t base;    /* of the span */
    uint64_t lo, hi;  /* what may be backed */
    uint64_t at, end; /* what still has to be */
} stretch;

/* The largest order of slot around stretch->at that lies within its bounds. */
static uint32_t slot_order_max(const weir_pool *pool, const stretch *of)
{
    uint32_t order = 0;
    while (order + 1 < WEIR_SIZE_ORDERS) {
        uint64_t slot = weir_pool_granule(pool) << (order + 1);
        uint64_t start = of->base + weir_round_down(of->at - of->base, slot);
        if (start < of->lo || start + slot > of->hi) break;
        order++;
    }
    return order;
}

/* The least order of slot around stretch->at that reaches its end, at most `most`. */
static uint32_t slot_order_wanted(const weir_pool *pool, const stretch *of, uint32_t most)
{
    uint32_t order = 0;
    for (; order < most; order++) {
        uint64_t slot = weir_pool_granule(pool) << order;
        if (of->base + weir_round_down(of->at - of->base, slot) + slot >= of->end) break;
    }
    return order;
}

static uint32_t idle_pick(weir_pool *pool, uint32_t order)
{
    uint32_t which = pool->pages.idle[order];
    if (which != 0) weir_pages_idle_take(&pool->pages, which);
    return which;
}

static uint32_t move_pick(weir_pool *pool, fill *with, uint32_t order)
{
    uint32_t which = victim_pick(pool, &with->movable, UINT64_C(1) << order);
    if (which == 0) return 0;
    const weir_piece *piece = weir_piece_get(&pool->pages, which);
    weir_plan_claim_piece(pool, weir_range_at(&pool->range, piece->addr, piece->node), which);
    return which;
}

/* An idle or free handle: of the order that is wanted, else smaller, else larger. */
static uint32_t held_pick(weir_pool *pool, fill *with, uint32_t wanted, uint32_t most)
{
    uint32_t which = 0;
    for (uint32_t i = 0; i <= most && which == 0; i++) {
        uint32_t order = i <= wanted ? wanted - i : i;
        if ((with->how & WEIR_PLACE_IDLE) != 0) which = idle_pick(pool, order);
        if (which == 0 && with->movable.count != 0) which = move_pick(pool, with, order);
    }
    return which;
}

static uint32_t piece_add(weir_pool *pool, fill *with, uint32_t order)
{
    uint32_t which = weir_pages_piece_add(&pool->pages, 1u << order);
    with->unrecorded = with->unrecorded || which == 0;
    return which;
}

static uint32_t fresh_pick(weir_pool *pool, fill *with, const stretch *of, uint32_t most)
{
    uint64_t headroom = headroom_granules(pool, with->how);
    uint64_t largest = pool->device.info.handle_bytes_max >> pool->device.granule_shift;
    uint64_t remaining = (of->end - of->at) >> pool->device.granule_shift;
    if (headroom == 0) return 0;
    uint32_t order = weir_bit_high(growth_granules(pool, with->ask, remaining, headroom));
    bool tight = (with->how & WEIR_PLACE_TIGHT) != 0 || with->ask->zone == WEIR_ZONE_SMALL;
    if (largest != 0 && order > weir_bit_high(largest)) order = weir_bit_high(largest);
    if (order > most) order = most;
    while (order > 0 && tight &&
           (weir_round_down(of->at - of->base, weir_pool_granule(pool) << order) !=
                of->at - of->base ||
            UINT64_C(1) << order > remaining))
        order--;
    if (order > weir_bit_high(headroom)) order = weir_bit_high(headroom);
    return piece_add(pool, with, order);
}

/* A handle of exactly this order, by any of the means. */
static uint32_t one_pick(weir_pool *pool, fill *with, uint32_t order)
{
    uint32_t which = 0;
    if ((with->how & WEIR_PLACE_IDLE) != 0) which = idle_pick(pool, order);
    if (which == 0 && with->movable.count != 0) which = move_pick(pool, with, order);
    if (which == 0 && (with->how & WEIR_PLACE_GROW) != 0 &&
        headroom_granules(pool, with->how) >= UINT64_C(1) << order)
        which = piece_add(pool, with, order);
    return which;
}

static uint32_t fill_pick(weir_pool *pool, fill *with, const stretch *of)
{
    uint32_t most = slot_order_max(pool, of);
    uint32_t wanted = slot_order_wanted(pool, of, most);
    if ((with->how & WEIR_PLACE_ONE) != 0) return one_pick(pool, with, wanted);
    uint32_t which = held_pick(pool, with, wanted, most);
    if (which == 0 && with->more) {
        uint64_t remaining = (of->end - of->at) >> pool->device.granule_shift;
        with->more = victims_list(pool, with->ask, 2 * remaining, &with->movable);
        which = held_pick(pool, with, wanted, most);
    }
    if (which == 0 && (with->how & WEIR_PLACE_GROW) != 0) which = fresh_pick(pool, with, of, most);
    return which;
}

/* Backs the stretch; the plan takes the pieces even if they are not enough. [*lo, *hi) is what they
 * cover then. */
static bool fill_stretch(weir_pool *pool, fill *with, stretch of, uint64_t *lo, uint64_t *hi)
{
    *lo = *hi = of.at;
    for (bool first = true; of.at < of.end; first = false) {
        uint32_t which = fill_pick(pool, with, &of);
        if (which == 0) return false;
        uint64_t bytes = weir_piece_bytes(&pool->pages, which);
        uint64_t to = of.base + weir_round_down(of.at - of.base, bytes);
        weir_plan_piece(pool, &with->plan, which, to);
        if (first) *lo = to;
        *hi = of.at = of.lo = to + bytes;
    }
    with->unrecorded = weir_pages_room(&pool->pages, *lo, *hi - *lo) != WEIR_OK;
    return !with->unrecorded;
}

/* Claims a hole's part [lo, hi) and files what is left on both sides; gives the claimed node. */
static uint32_t hole_trim(weir_pool *pool, uint32_t index, uint64_t lo, uint64_t hi)
{
    weir_range *range = &pool->range;
    if (weir_node_end(range, index) != hi)
        weir_range_free(range, weir_range_split(range, index, hi));
    if (range->node[index].addr != lo) {
        uint32_t upper = weir_range_split(range, index, lo);
        weir_range_free(range, index);
        index = upper;
    }
    return index;
}

/* Takes the nodes of a window out of their bins. */
static void window_claim(weir_pool *pool, const weir_window *at, fill *with)
{
    weir_range *range = &pool->range;
    uint32_t index = at->node;
    while (weir_node_end(range, index) <= at->start) index = range->node[index].next;
    with->plan.node_first = index;
    for (; range->node[index].addr < at->end; index = range->node[index].next) {
        weir_range_unfile(range, index);
        with->plan.node_last = index;
    }
}

/* Backs every hole of a claimed window; the plan then holds all that was taken. */
static bool window_fill(weir_pool *pool, const weir_window *at, fill *with)
{
    weir_range *range = &pool->range;
    uint64_t granule = weir_pool_granule(pool);
    uint32_t index = with->plan.node_first;
    for (bool last = false; !last;) {
        const weir_node *node = &range->node[index];
        last = index == with->plan.node_last;
        uint32_t next = node->next;
        if (node->set == WEIR_SET_HOLES) {
            stretch of = {.lo = node->addr, .hi = weir_node_end(range, index)};
            uint64_t lo, hi;
            of.base = weir_pages_span(&pool->pages, of.lo)->base;
            of.at = weir_round_down(weir_max(at->start, of.lo), granule);
            of.end = weir_round_up(weir_min(at->end, of.hi), granule);
            if (!fill_stretch(pool, with, of, &lo, &hi)) return false;
            uint32_t kept = hole_trim(pool, index, lo, hi);
            if (with->plan.node_first == index) with->plan.node_first = kept;
            if (last) with->plan.node_last = kept;
        }
        index = next;
    }
    return true;
}

/* Backs one window with the means of `how`; gives the claimed node over it. */
static weir_status window_back(weir_pool *pool, const weir_ask *ask, const weir_window *at,
                               uint32_t how, uint32_t *index)
{
    fill with = {.ask = ask, .how = how};
    if ((how & WEIR_PLACE_GROW) != 0 && headroom_granules(pool, how) < at->missing)
        weir_pool_press(pool, true);
    if ((how & WEIR_PLACE_GROW) != 0 && (how & WEIR_PLACE_MOVE) == 0 &&
        headroom_granules(pool, how) + (pool->pages.idle_bytes >> pool->device.granule_shift) <
            at->missing)
        return WEIR_NO_MEMORY;
    weir_status status = weir_range_need(&pool->range, WEIR_PLAN_NODES);
    if (status != WEIR_OK) return status;
    window_claim(pool, at, &with);
    if ((how & WEIR_PLACE_MOVE) != 0)
        with.more = victims_list(pool, ask, 2 * at->missing, &with.movable);
    if (!window_fill(pool, at, &with)) {
        weir_plan_drop(pool, &with.plan);
        return with.unrecorded ? WEIR_NO_METADATA : WEIR_NO_MEMORY;
    }
    return weir_plan_run(pool, &with.plan, ask, index);
}

/* ------------------------------------------------------------------------------------ place -- */

static weir_status place_window(weir_pool *pool, const weir_ask *ask, const weir_window *at,
                                uint32_t how, uint32_t *index)
{
    const uint32_t both = WEIR_PLACE_GROW | WEIR_PLACE_MOVE;
    if ((how & WEIR_PLACE_SPARING) != 0 && !growth_within(pool, ask, at->missing, SPARING_PERMILLE))
        how &= ~(uint32_t)WEIR_PLACE_GROW;
    if ((how & both) != both || (how & WEIR_PLACE_TIGHT) != 0)
        return window_back(pool, ask, at, how, index);
    if (growth_within(pool, ask, at->missing, pool->config.move_above_permille))
        how &= ~(uint32_t)WEIR_PLACE_MOVE;
    return window_back(pool, ask, at, how, index);
}

static weir_status place_carve(weir_pool *pool, const weir_ask *ask, const weir_window *at,
                               weir_status status, uint32_t *index)
{
    if (status == WEIR_OK) *index = weir_block_carve(pool, ask, *index, at->start);
    return status;
}

/* Small blocks lie in stretches of their own, made of small handles. */
static weir_status place_small(weir_pool *pool, const weir_ask *ask, uint32_t how, uint32_t *index)
{
    weir_ask chunk = *ask;
    weir_window at;
    chunk.bytes = weir_pool_granule(pool);
    chunk.align = chunk.bytes;
    if (!weir_window_fresh(pool, &chunk, &at)) {
        if (weir_pool_span_add(pool, chunk.bytes) != WEIR_OK ||
            !weir_window_fresh(pool, &chunk, &at))
            return WEIR_NO_MEMORY;
    }
    weir_status status = window_back(pool, &chunk, &at, how, index);
    if (status != WEIR_OK) return status;
    *index = weir_block_carve(pool, ask, *index, weir_round_up(at.start, ask->align));
    return WEIR_OK;
}

/* The order of the slots that windows are compared by: what growth would fill. */
static uint32_t slot_order(const weir_pool *pool, const weir_ask *ask, uint32_t how)
{
    if ((how & WEIR_PLACE_TIGHT) != 0 || pool->pressed) return 0;
    return weir_bit_high(growth_granules(pool, ask, 0, headroom_granules(pool, how)));
}

static weir_status place_segment(weir_pool *pool, const weir_ask *ask, uint32_t how,
                                 uint32_t *index)
{
    if ((how & WEIR_PLACE_GROW) == 0) return WEIR_NO_MEMORY;
    weir_status status = weir_segment_add(pool, ask, index);
    if (status != WEIR_OK) return status;
    uint64_t start = weir_round_up(pool->range.node[*index].addr, ask->align);
    *index = weir_block_carve(pool, ask, *index, start);
    return WEIR_OK;
}

weir_status weir_place_stretch(weir_pool *pool, const weir_ask *ask, uint32_t *index)
{
    weir_window at;
    if (!weir_device_virtual(&pool->device)) return weir_segment_add(pool, ask, index);
    weir_status status = WEIR_OK;
    if (!weir_window_fresh(pool, ask, &at)) status = weir_pool_span_add(pool, ask->bytes);
    if (status != WEIR_OK) return status;
    if (!weir_window_fresh(pool, ask, &at)) return WEIR_NO_MEMORY;
    return window_back(pool, ask, &at, WEIR_PLACE_GROW | WEIR_PLACE_TIGHT, index);
}

/* Where in a free node the block would lie in one handle; UINT64_MAX: nowhere. */
static uint64_t one_start(weir_pool *pool, const weir_ask *ask, uint32_t index)
{
    uint64_t end = weir_node_end(&pool->range, index);
    for (uint64_t at = pool->range.node[index].addr; at < end;) {
        uint64_t piece_end = weir_pages_end(&pool->pages, at);
        uint64_t start = weir_round_up(at, ask->align);
        uint64_t room_end = weir_min(end, piece_end);
        if (start <= room_end && room_end - start >= ask->bytes) return start;
        at = piece_end;
    }
    return UINT64_MAX;
}

static uint32_t one_fit(weir_pool *pool, const weir_ask *ask, uint16_t set)
{
    weir_cursor cursor = {.begun = false};
    for (uint32_t look = 0; look < WEIR_VICTIMS_MAX && set != 0; look++) {
        uint32_t index = weir_range_each_up(&pool->range, set, ask->bytes, &cursor);
        if (index == 0) break;
        uint64_t start = one_start(pool, ask, index);
        if (start != UINT64_MAX) return weir_block_carve_filed(pool, ask, index, start);
    }
    return 0;
}

/* A window that is one slot, for one handle. */
static bool one_window(weir_pool *pool, uint64_t slot, weir_window *at)
{
    weir_cursor cursor = {.begun = false};
    uint32_t hole = weir_range_each(&pool->range, WEIR_SET_HOLES, slot, &cursor);
    if (hole == 0) return false;
    uint64_t base = weir_pages_span(&pool->pages, pool->range.node[hole].addr)->base;
    at->start = base + weir_round_up(pool->range.node[hole].addr - base, slot);
    at->end = at->start + slot;
    at->missing = slot >> pool->device.granule_shift;
    at->node = hole;
    return at->end <= weir_node_end(&pool->range, hole);
}

uint64_t weir_place_slot(const weir_pool *pool, uint64_t bytes)
{
    uint64_t slot = weir_pool_granule(pool);
    while (slot < bytes) slot *= 2;
    return slot;
}

weir_status weir_place_one(weir_pool *pool, const weir_ask *ask, uint32_t how, uint32_t *index)
{
    weir_window at = {.slot = weir_pool_granule(pool)};
    uint64_t most = pool->device.info.handle_bytes_max;
    uint64_t slot = weir_place_slot(pool, ask->bytes);
    if (most != 0 && slot > most) return WEIR_UNSUPPORTED;
    *index = one_fit(pool, ask, weir_ask_set(pool, ask));
    if (*index == 0) *index = one_fit(pool, ask, pool->zone[ask->zone].set_of[WEIR_TAG_CLEAN]);
    if (*index != 0) return WEIR_OK;
    if (!one_window(pool, slot, &at)) {
        if (weir_pool_span_add(pool, 2 * slot) != WEIR_OK || !one_window(pool, slot, &at))
            return WEIR_NO_MEMORY;
    }
    weir_status status = window_back(pool, ask, &at, how | WEIR_PLACE_ONE, index);
    return place_carve(pool, ask, &at, status, index);
}

weir_status weir_place(weir_pool *pool, const weir_ask *ask, uint32_t how, uint32_t *index)
{
    weir_window at;
    if (pool->config.no_moves) how &= ~(uint32_t)WEIR_PLACE_MOVE;
    if (pool->config.no_growth) how &= ~(uint32_t)WEIR_PLACE_GROW;
    if (!weir_device_virtual(&pool->device)) return place_segment(pool, ask, how, index);
    if ((ask->flags & WEIR_ONE_HANDLE) != 0) return weir_place_one(pool, ask, how, index);
    if (ask->zone == WEIR_ZONE_SMALL)
        return place_small(pool, ask, how & ~(uint32_t)WEIR_PLACE_MOVE, index);
    uint64_t slot = weir_pool_granule(pool) << slot_order(pool, ask, how);
    if (!weir_window_best(pool, ask, slot, &at)) {
        if (weir_pool_span_add(pool, ask->bytes) != WEIR_OK ||
            !weir_window_best(pool, ask, slot, &at))
            return WEIR_NO_MEMORY;
    }
    weir_status status = place_window(pool, ask, &at, how, index);
    if (status == WEIR_NO_MEMORY && weir_window_fresh(pool, ask, &at))
        status = place_window(pool, ask, &at, how, index);
    return place_carve(pool, ask, &at, status, index);
}

weir_status weir_place_at(weir_pool *pool, const weir_ask *ask, uint64_t start, uint32_t how,
                          uint32_t *index)
{
    weir_window at;
    if (!weir_window_at(pool, ask, start, &at)) return WEIR_NO_MEMORY;
    if (pool->config.no_moves) how &= ~(uint32_t)WEIR_PLACE_MOVE;
    if (pool->config.no_growth) how &= ~(uint32_t)WEIR_PLACE_GROW;
    return window_back(pool, ask, &at, how, index);
}
