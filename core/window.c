/* SPDX-License-Identifier: MIT */
/*
 * window: where in the arena a block could lie if holes were backed.
 *
 * A window lies in a gap, a stretch between two live blocks over free memory that the request may
 * use and over holes. The best window costs the least, in bytes: half of what it lacks (what has to
 * be mapped there is memory that was free elsewhere, so the half is the price of the mapping), all
 * that it leaves stuck in granules it shares with live blocks, less what was stuck there before,
 * and a little of its gap, so that among like ones the tightest gap is filled. Equals go to the
 * lowest address.
 * Pressed, a pool looks at windows over backed memory too: where handles are short, a block belongs
 * where it strands the least, not where it is mapped already.
 * Owns     nothing.
 * Cost     at most WINDOW_HOLES holes (a third of them when pressed) and WINDOW_RUNS free runs,
 *          with WINDOW_STEPS nodes to each side and four places in each.
 */
#include "window.h"

#define WINDOW_HOLES 48
#define WINDOW_RUNS 8
#define WINDOW_STEPS 32
#define WINDOW_GAP_PART 12 /* a 4096th of the gap counts */
#define WINDOW_GAP_MAX (UINT64_C(1) << 40)

static inline bool node_is_hole(const weir_node *node)
{
    return node->kind == WEIR_FREE && node->set == WEIR_SET_HOLES;
}

static inline bool node_in_reach(const weir_pool *pool, const weir_node *node, const weir_ask *ask)
{
    return node_is_hole(node) || weir_node_usable(pool, node, ask);
}

/* How far a stretch of a hole that has to be backed reaches when it is backed in whole slots. */
static uint64_t slots_bytes(uint64_t lo, uint64_t hi, uint64_t need, uint64_t need_end,
                            uint64_t slot)
{
    return weir_min(weir_round_up(need_end, slot), hi) - weir_max(weir_round_down(need, slot), lo);
}

/* The granules that [start, end) lacks, counted in slots; it starts in `index` or later. */
static uint64_t window_missing(const weir_pool *pool, uint32_t index, uint64_t start, uint64_t end,
                               uint64_t slot)
{
    const weir_range *range = &pool->range;
    uint64_t bytes = 0;
    for (; range->node[index].addr < end; index = range->node[index].next) {
        const weir_node *node = &range->node[index];
        uint64_t hi = range->node[node->next].addr;
        if (hi <= start || !node_is_hole(node)) continue;
        bytes += slots_bytes(node->addr, hi, weir_max(start, node->addr), weir_min(end, hi), slot);
    }
    return bytes >> pool->device.granule_shift;
}

/* Of a gap between two live blocks, the bytes that share a granule with one of them: no handle
 * there can move, so they serve nobody but a block in this very gap. */
static uint64_t gap_stuck(const weir_pool *pool, uint64_t lo, uint64_t hi)
{
    uint64_t granule = weir_pool_granule(pool);
    uint64_t first = weir_round_up(lo, granule), last = weir_round_down(hi, granule);
    return first >= last ? hi - lo : first - lo + (hi - last);
}

/* A stretch between two live blocks, and what every window in it costs at least. */
typedef struct gap {
    uint64_t lo, hi;
    uint64_t cost;
    uint32_t node; /* its first */
} gap;

static gap gap_between(const weir_pool *pool, uint32_t left, uint32_t right)
{
    gap found = {.lo = pool->range.node[left].addr,
                 .hi = weir_node_end(&pool->range, right),
                 .node = left};
    uint64_t never_below = 2 * weir_pool_granule(pool); /* what is stuck, so no cost is negative */
    found.cost = never_below - gap_stuck(pool, found.lo, found.hi) +
                 (weir_min(found.hi - found.lo, WINDOW_GAP_MAX) >> WINDOW_GAP_PART);
    return found;
}

/* Notes a window if it lies in the gap and costs less than the best so far. What is missing is
 * counted last, as that takes a walk. */
static void window_consider(const weir_pool *pool, const weir_ask *ask, const gap *in,
                            uint64_t start, weir_window *best)
{
    uint64_t end = start + ask->bytes;
    if (start < in->lo || start > in->hi || in->hi - start < ask->bytes) return;
    uint64_t cost = in->cost + gap_stuck(pool, in->lo, start) + gap_stuck(pool, end, in->hi);
    if (cost > best->cost) return;
    uint64_t missing = window_missing(pool, in->node, start, end, best->slot);
    cost += (missing << pool->device.granule_shift) / 2;
    if (cost > best->cost || (cost == best->cost && start >= best->start)) return;
    best->cost = cost;
    best->start = start;
    best->end = end;
    best->missing = missing;
    best->node = in->node;
}

/* The furthest node to one side that a window around `index` can reach over. */
static uint32_t window_reach(const weir_pool *pool, const weir_ask *ask, uint32_t index, bool left)
{
    const weir_range *range = &pool->range;
    uint64_t reached = 0;
    for (uint32_t step = 0; step < WINDOW_STEPS && reached < ask->bytes; step++) {
        uint32_t next = left ? range->node[index].prev : range->node[index].next;
        if (next == 0 || !node_in_reach(pool, &range->node[next], ask)) break;
        index = next;
        reached += weir_node_bytes(range, index);
    }
    return index;
}

/* Considers four places in the gap around a hole or a free run: against each end of the gap, and
 * against each end of the backed memory there. */
static void windows_around(const weir_pool *pool, const weir_ask *ask, uint32_t index,
                           weir_window *best)
{
    const weir_range *range = &pool->range;
    uint64_t align = ask->align;
    uint32_t left = window_reach(pool, ask, index, true);
    uint32_t right = window_reach(pool, ask, index, false);
    gap in = gap_between(pool, left, right);
    if (in.hi - in.lo < ask->bytes || in.cost > best->cost) return;
    window_consider(pool, ask, &in, weir_round_up(in.lo, align), best);
    if (left != index)
        window_consider(pool, ask, &in, weir_round_up(range->node[index].addr, align), best);
    bool hole = node_is_hole(&range->node[index]);
    if (right == index && hole)
        return; /* only placed against its low end: the hole may be all the rest */
    window_consider(pool, ask, &in, weir_round_down(in.hi - ask->bytes, align), best);
    uint64_t end = weir_node_end(range, hole ? range->node[index].next : index);
    if (end != in.hi && end >= ask->bytes)
        window_consider(pool, ask, &in, weir_round_down(end - ask->bytes, align), best);
}

/* Considers the gaps around the shortest free runs of a set that hold the request. */
static void windows_over_runs(const weir_pool *pool, const weir_ask *ask, uint16_t set,
                              weir_window *best)
{
    weir_cursor cursor = {.begun = false};
    for (uint32_t i = 0; i < WINDOW_RUNS && set != 0; i++) {
        uint32_t run = weir_range_each_up(&pool->range, set, ask->bytes, &cursor);
        if (run == 0) break;
        if (weir_node_usable(pool, &pool->range.node[run], ask))
            windows_around(pool, ask, run, best);
    }
}

static void window_init(weir_window *window, uint64_t slot)
{
    *window = (weir_window){.start = UINT64_MAX, .cost = UINT64_MAX, .slot = slot};
}

bool weir_window_best(const weir_pool *pool, const weir_ask *ask, uint64_t slot, weir_window *best)
{
    weir_cursor cursor = {.begun = false};
    uint32_t holes = pool->pressed ? WINDOW_HOLES / 3 : WINDOW_HOLES;
    window_init(best, slot);
    while (holes-- != 0) {
        uint32_t hole = weir_range_each(&pool->range, WEIR_SET_HOLES, 0, &cursor);
        if (hole == 0) break;
        windows_around(pool, ask, hole, best);
    }
    if (pool->pressed) {
        windows_over_runs(pool, ask, pool->zone[ask->zone].set_of[WEIR_TAG_CLEAN], best);
        windows_over_runs(pool, ask, weir_ask_set(pool, ask), best);
    }
    return best->cost != UINT64_MAX;
}

bool weir_window_fresh(const weir_pool *pool, const weir_ask *ask, weir_window *found)
{
    const weir_range *range = &pool->range;
    weir_cursor cursor = {.begun = false};
    uint64_t bytes = weir_round_up(ask->bytes, weir_pool_granule(pool));
    uint32_t hole = weir_range_each(range, WEIR_SET_HOLES, bytes, &cursor);
    if (hole == 0 || weir_node_bytes(range, hole) < bytes) return false;
    window_init(found, weir_pool_granule(pool));
    if (ask->zone == WEIR_ZONE_SMALL) {
        gap in = gap_between(pool, hole, hole);
        in.lo = in.hi - bytes;
        window_consider(pool, ask, &in, in.lo, found);
    } else {
        windows_around(pool, ask, hole, found);
    }
    return found->cost != UINT64_MAX;
}

bool weir_window_at(const weir_pool *pool, const weir_ask *ask, uint64_t start, weir_window *found)
{
    const weir_range *range = &pool->range;
    uint64_t end = start + ask->bytes;
    uint32_t first = range->node[weir_range_at(range, start - 1, 0)].next;
    for (uint32_t node = first; range->node[node].addr < end; node = range->node[node].next)
        if (!node_in_reach(pool, &range->node[node], ask)) return false;
    window_init(found, weir_pool_granule(pool));
    window_consider(pool, ask, &(gap){.lo = start, .hi = end, .node = first}, start, found);
    return true;
}
