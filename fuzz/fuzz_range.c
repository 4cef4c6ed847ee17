/* SPDX-License-Identifier: MIT */
/*
 * Target: the range engine through its own header, against a picture of the address space that has
 * one cell for each unit. Nodes, bins, bitmaps, the index and the joins are wrong if the ring ever
 * differs from the picture, or a search from a look at every run of free cells.
 *
 * Input: 2 bytes of settings, then records of 4 bytes: operation and its arguments.
 */
#include "memory.h"
#include "range_picture.h"
#include "shapes.h"

#include <string.h>

typedef enum range_op {
    RANGE_TAKE,
    RANGE_QUICK,
    RANGE_GIVE,
    RANGE_SHRINK,
    RANGE_ABSORB,
    RANGE_RETAG,
    RANGE_LOOKUP,
    RANGE_WALK,
    RANGE_SPAN,
    RANGE_DROP,
    RANGE_HOST_FAULT,
    RANGE_OPS
} range_op;

static const uint8_t range_weights[RANGE_OPS] = {60, 50, 70, 14, 12, 18, 6, 10, 6, 6, 4};

typedef struct range_world {
    host_memory memory;
    weir_range range;
    uint16_t set[PICTURE_SETS];
    uint32_t sets;
    picture picture;
    uint8_t arg[RANGE_RECORD];
} range_world;

static bool range_need(range_world *of)
{
    uint64_t before = of->memory.calls;
    if (weir_range_need(&of->range, 4) == WEIR_OK) return true;
    FUZZ_SAY(of->memory.calls > before && of->memory.fail_at != 0,
             "no node though memory is there");
    return false;
}

static uint32_t range_set(const range_world *of, uint8_t byte)
{
    return fuzz_of(byte, of->sets);
}

/* Sizes whose logarithm is spread evenly, from 1 to 255 units. */
static uint32_t range_units(uint8_t byte)
{
    uint32_t units = (8u + (byte & 7u)) << (byte >> 5) >> 3;
    return units == 0 ? 1 : units;
}

/* ------------------------------------------------------------------------------------ search -- */

/* What `found` is good for by the picture: it fits, and where much is promised, nothing less was
 * overlooked. */
static void range_judge(const range_world *of, uint32_t set, uint32_t units, uint32_t align,
                        uint32_t found, uint32_t start)
{
    picture_best best = weir_picture_search(&of->picture, set, units, align);
    if (found == 0) {
        FUZZ_SAY(!best.above_bin || align > 1, "a run in a longer bin was overlooked");
        FUZZ_SAY(!best.fits || best.in_bin > WEIR_RANGE_LOOK || align > 1,
                 "the only run that fits was overlooked");
        FUZZ_SAY(!best.fits || best.crowded, "an aligned run was overlooked");
        return;
    }
    FUZZ_CHECK(start % align == 0);
    FUZZ_CHECK(weir_picture_is_free(&of->picture, start, units, set));
    if (align == 1 && best.in_bin_fits && best.in_bin <= WEIR_RANGE_LOOK)
        FUZZ_SAY(weir_picture_run(&of->picture, start) == best.shortest_in_bin,
                 "a shorter run in the same bin was overlooked");
}

static void range_take(range_world *of)
{
    weir_range *range = &of->range;
    uint32_t set = range_set(of, of->arg[1]), units = range_units(of->arg[2]);
    uint32_t align = 1u << (of->arg[3] < 128 ? 0 : of->arg[3] & 7);
    uint64_t start = 0;
    if (!range_need(of)) return;
    uint32_t index =
        weir_range_find(range, of->set[set], units * PICTURE_UNIT, align * PICTURE_UNIT, &start);
    uint32_t cell = index == 0 ? 0 : weir_picture_cell(start);
    range_judge(of, set, units, align, index, cell);
    if (index == 0) return;
    weir_range_unfile(range, index);
    if (range->node[index].addr != start) {
        uint32_t upper = weir_range_split(range, index, start);
        weir_range_file(range, index);
        index = upper;
    }
    if (weir_node_bytes(range, index) != units * PICTURE_UNIT)
        weir_range_file(range, weir_range_split(range, index, start + units * PICTURE_UNIT));
    range->node[index].kind = WEIR_LIVE;
    weir_range_index(range, index);
    weir_picture_take(&of->picture, cell, units);
}

/* The shortest path of an allocation. */
static void range_quick(range_world *of)
{
    weir_range *range = &of->range;
    uint32_t set = range_set(of, of->arg[1]), units = range_units(of->arg[2]), bin = 0;
    if (!range_need(of)) return;
    weir_set *from = range->set[of->set[set]];
    uint32_t index = weir_range_quick(range, from, units * PICTURE_UNIT, &bin);
    uint32_t cell = index == 0 ? 0 : weir_picture_cell(range->node[index].addr);
    range_judge(of, set, units, 1, index, cell);
    if (index == 0) return;
    index = weir_range_take(range, from, bin, index, units * PICTURE_UNIT);
    FUZZ_CHECK(weir_picture_cell(range->node[index].addr) == cell);
    range->node[index].kind = WEIR_LIVE;
    weir_range_index(range, index);
    weir_picture_take(&of->picture, cell, units);
}

/* ------------------------------------------------------------------------------- live blocks -- */

/* The node of some live block and its first cell; 0: there is none. */
static uint32_t range_live(range_world *of, uint8_t which, uint32_t *cell)
{
    if (!weir_picture_live(&of->picture, which, cell)) return 0;
    uint32_t index = weir_range_lookup(&of->range, weir_picture_addr(*cell));
    FUZZ_SAY(index != 0, "a live block is not in the index");
    FUZZ_CHECK(weir_range_at(&of->range, weir_picture_addr(*cell) + 1,
                             of->arg[3] & 1 ? index : 0) == index);
    return index;
}

/* Frees with a point of its own, which the joined run must not be earlier than. */
static void range_give(range_world *of)
{
    uint32_t cell, index = range_live(of, of->arg[1], &cell);
    if (index == 0) return;
    FUZZ_CHECK(weir_range_unindex(&of->range, weir_picture_addr(cell)) == index);
    FUZZ_CHECK(weir_range_lookup(&of->range, weir_picture_addr(cell)) == 0);
    of->range.node[index].kind = WEIR_CLAIMED;
    uint64_t point = (uint64_t)of->arg[2] << (of->arg[3] & 31);
    weir_node_point_set(&of->range.node[index], point);
    weir_range_free(&of->range, index);
    weir_picture_give(&of->picture, cell, point);
}

static void range_shrink(range_world *of)
{
    uint32_t cell, index = range_live(of, of->arg[1], &cell);
    uint32_t units = index == 0 ? 0 : weir_picture_run(&of->picture, cell);
    if (units < 2 || !range_need(of)) return;
    uint32_t keep = 1 + fuzz_of(of->arg[2], units - 1);
    uint32_t upper =
        weir_range_split(&of->range, weir_range_lookup(&of->range, weir_picture_addr(cell)),
                         weir_picture_addr(cell + keep));
    of->range.node[upper].kind = WEIR_CLAIMED;
    weir_node_point_set(&of->range.node[upper], of->arg[3]);
    weir_range_free(&of->range, upper);
    weir_picture_shrink(&of->picture, cell, keep, of->arg[3]);
}

/* A block grows over all of the free run that follows it. */
static void range_absorb(range_world *of)
{
    uint32_t cell, index = range_live(of, of->arg[1], &cell);
    if (index == 0) return;
    uint32_t next = of->range.node[index].next;
    if (of->range.node[next].kind != WEIR_FREE) return;
    weir_range_unfile(&of->range, next);
    weir_range_absorb(&of->range, index);
    weir_picture_absorb(&of->picture, cell);
}

/* ------------------------------------------------------------------------------------ others -- */

/* A free run changes its set, as memory that has passed does. */
static void range_retag(range_world *of)
{
    uint32_t cell;
    uint32_t set = range_set(of, of->arg[2]);
    if (!weir_picture_some_free(&of->picture, of->arg[1], &cell)) return;
    uint32_t index = weir_range_at(&of->range, weir_picture_addr(cell), 0);
    FUZZ_CHECK(index != 0 && of->range.node[index].addr == weir_picture_addr(cell));
    weir_range_unfile(&of->range, index);
    of->range.node[index].set = of->set[set];
    weir_range_free(&of->range, index);
    weir_picture_retag(&of->picture, cell, set);
}

static void range_lookup(range_world *of)
{
    uint32_t cell = (uint32_t)of->arg[1] << 1 | (of->arg[2] & 1u);
    uint64_t addr = weir_picture_addr(cell) + (of->arg[3] & 1);
    bool is = (of->arg[3] & 1) == 0 && weir_picture_starts_live(&of->picture, cell);
    FUZZ_CHECK((weir_range_lookup(&of->range, addr) != 0) == is);
    FUZZ_CHECK((weir_range_at(&of->range, addr, 0) != 0) ==
               weir_picture_inside(&of->picture, cell));
}

/* Both cursors see each free run that may have the size once, and in the order of bins. */
static void range_walk(range_world *of)
{
    uint32_t set = range_set(of, of->arg[1]), units = range_units(of->arg[2]), seen = 0, up = 0;
    weir_cursor cursor = {.begun = false};
    uint32_t index, last = UINT32_MAX;
    while ((index = weir_range_each(&of->range, of->set[set], units * PICTURE_UNIT, &cursor)) !=
           0) {
        uint32_t bin = weir_bin_of(&of->range, weir_node_bytes(&of->range, index));
        FUZZ_CHECK(bin <= last && of->range.node[index].kind == WEIR_FREE);
        last = bin;
        seen++;
    }
    cursor = (weir_cursor){.begun = false};
    while (weir_range_each_up(&of->range, of->set[set], units * PICTURE_UNIT, &cursor) != 0) up++;
    FUZZ_CHECK(seen == up);
    FUZZ_CHECK(seen == weir_picture_count(&of->picture, set, units));
}

static void range_span(range_world *of)
{
    uint32_t cell, units = 8 + of->arg[2] / 2u, set = range_set(of, of->arg[1]);
    if (!weir_picture_gap(&of->picture, units, &cell) || !range_need(of)) return;
    uint32_t index = weir_range_span_add(&of->range, weir_picture_addr(cell), units * PICTURE_UNIT,
                                         of->set[set]);
    weir_range_free(&of->range, index);
    weir_picture_span(&of->picture, cell, units, set);
}

static void range_drop(range_world *of)
{
    uint32_t cell;
    if (!weir_picture_whole(&of->picture, of->arg[1], &cell)) return;
    uint32_t index = weir_range_at(&of->range, weir_picture_addr(cell), 0);
    weir_range_unfile(&of->range, index);
    weir_range_span_drop(&of->range, index);
    weir_picture_unspan(&of->picture, cell);
}

/* -------------------------------------------------------------------------------------- run -- */

/* The ring, walked once, shows what the picture shows. */
static void range_compare(range_world *of)
{
    const weir_range *range = &of->range;
    uint32_t cell = 0;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next) {
        const weir_node *node = &range->node[at];
        if (node->kind == WEIR_FENCE) continue;
        uint32_t set = UINT32_MAX;
        for (uint32_t i = 0; i < of->sets; i++) set = of->set[i] == node->set ? i : set;
        cell = weir_picture_expect(&of->picture, cell, weir_picture_cell(node->addr),
                                   (uint32_t)(weir_node_bytes(range, at) / PICTURE_UNIT),
                                   node->kind == WEIR_LIVE, set, weir_node_point(node));
    }
    FUZZ_SAY(weir_picture_is_over(&of->picture, cell), "the ring ends too early");
    const char *why = weir_range_check(range);
    FUZZ_SAY(why == NULL, "%s", why);
}

static void range_host_fault(range_world *of)
{
    weir_host_memory_fail(&of->memory, of->arg[1] & 3, false);
}

static void range_step(range_world *of)
{
    static void (*const steps[RANGE_OPS])(range_world *) = {
        range_take,   range_quick, range_give, range_shrink, range_absorb,    range_retag,
        range_lookup, range_walk,  range_span, range_drop,   range_host_fault};
    steps[fuzz_weighted(of->arg[0], range_weights, RANGE_OPS)](of);
    range_compare(of);
}

static void range_open(range_world *of, const uint8_t head[RANGE_HEAD])
{
    memset(of, 0, sizeof *of);
    weir_host_memory_init(&of->memory);
    FUZZ_CHECK(weir_range_init(&of->range, &of->memory.platform, PICTURE_UNIT_SHIFT) == WEIR_OK);
    of->sets = 1 + fuzz_of(head[0], PICTURE_SETS);
    for (uint32_t i = 0; i < of->sets; i++)
        FUZZ_CHECK(weir_range_set_add(&of->range, &of->set[i]) == WEIR_OK);
    of->arg[2] = head[1];
    range_span(of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static range_world of;
    uint8_t head[RANGE_HEAD];
    fuzz_input in = {data, size};
    fuzz_bytes(&in, head, sizeof head);
    range_open(&of, head);
    while (in.left != 0) {
        fuzz_bytes(&in, of.arg, sizeof of.arg);
        range_step(&of);
    }
    weir_range_fini(&of.range);
    FUZZ_SAY(of.memory.live_count == 0, "host memory is left over");
    return 0;
}
