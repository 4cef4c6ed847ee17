/* SPDX-License-Identifier: MIT */
/* range: bins, nodes, the index and spans, through its own header. What its check finds is in
 * range_check_test.c. */
#include "memory.h"
#include "random.h"
#include "range.h"

#include <criterion/criterion.h>

#define UNIT_SHIFT 9u
#define UNIT (UINT64_C(1) << UNIT_SHIFT)
#define BASE (UINT64_C(1) << 40)

typedef struct range_rig {
    host_memory memory;
    weir_range range;
    uint16_t set;
} range_rig;

static void range_open(range_rig *rig)
{
    weir_host_memory_init(&rig->memory);
    cr_assert_eq(weir_range_init(&rig->range, &rig->memory.platform, UNIT_SHIFT), WEIR_OK);
    cr_assert_eq(weir_range_set_add(&rig->range, &rig->set), WEIR_OK);
}

static void range_sound(const range_rig *rig)
{
    const char *why = weir_range_check(&rig->range);
    cr_assert_null(why, "%s", why);
}

static void range_close(range_rig *rig)
{
    range_sound(rig);
    weir_range_fini(&rig->range);
    cr_expect_eq(rig->memory.live_count, 0);
}

/* A span as one free node. */
static uint32_t range_span(range_rig *rig, uint64_t addr, uint64_t bytes)
{
    cr_assert_eq(weir_range_need(&rig->range, 2), WEIR_OK);
    return weir_range_free(&rig->range, weir_range_span_add(&rig->range, addr, bytes, rig->set));
}

/* Takes a block out of the set as the pool does; 0: nothing fits. */
static uint32_t range_take(range_rig *rig, uint64_t bytes, uint64_t align)
{
    weir_range *range = &rig->range;
    uint64_t start;
    cr_assert_eq(weir_range_need(range, 2), WEIR_OK);
    uint32_t index = weir_range_find(range, rig->set, bytes, align, &start);
    if (index == 0) return 0;
    weir_range_unfile(range, index);
    if (range->node[index].addr != start) {
        uint32_t upper = weir_range_split(range, index, start);
        weir_range_file(range, index);
        index = upper;
    }
    if (weir_node_bytes(range, index) != bytes)
        weir_range_file(range, weir_range_split(range, index, start + bytes));
    range->node[index].kind = WEIR_LIVE;
    weir_range_index(range, index);
    return index;
}

static void range_give(range_rig *rig, uint32_t index)
{
    cr_assert_eq(weir_range_unindex(&rig->range, rig->range.node[index].addr), index);
    rig->range.node[index].kind = WEIR_CLAIMED;
    weir_range_free(&rig->range, index);
}

/* ------------------------------------------------------------------------------------- bins -- */

/* The bin of a size by search: the last whose least size is not above it. */
static void range_bin_naive(uint64_t units, uint32_t *row, uint32_t *col)
{
    *row = 0;
    *col = 0;
    for (uint32_t r = 0; r < WEIR_RANGE_ROWS; r++)
        for (uint32_t c = 0; c < WEIR_RANGE_COLS; c++) {
            uint64_t least = r == 0 ? c : (UINT64_C(32) + c) << (r - 1);
            if (least > units) return;
            *row = r;
            *col = c;
        }
}

static uint64_t range_bin_least(uint32_t row, uint32_t col)
{
    return row == 0 ? col : (UINT64_C(32) + col) << (row - 1);
}

static bool range_visits(const range_rig *rig, uint64_t units)
{
    weir_cursor down = {.begun = false}, up = {.begun = false};
    bool seen = weir_range_each(&rig->range, rig->set, units * UNIT, &down) != 0;
    cr_expect_eq(weir_range_each_up(&rig->range, rig->set, units * UNIT, &up) != 0, seen);
    return seen;
}

/* A lone node is visited for all least sizes up to the end of its bin, and for none above. */
static void range_expect_bin(uint64_t units)
{
    range_rig rig;
    uint32_t row, col;
    range_open(&rig);
    range_span(&rig, BASE, units * UNIT);
    range_bin_naive(units, &row, &col);
    uint64_t least = range_bin_least(row, col);
    uint64_t next =
        col + 1 < WEIR_RANGE_COLS ? range_bin_least(row, col + 1) : range_bin_least(row + 1, 0);
    cr_expect(range_visits(&rig, least), "%llu units", (unsigned long long)units);
    cr_expect(range_visits(&rig, units), "%llu units", (unsigned long long)units);
    cr_expect(range_visits(&rig, next - 1), "%llu units", (unsigned long long)units);
    if (row + 1 < WEIR_RANGE_ROWS)
        cr_expect_not(range_visits(&rig, next), "%llu units", (unsigned long long)units);
    cr_expect_eq(rig.range.set[rig.set]->rows, UINT64_C(1) << row);
    cr_expect_eq(rig.range.set[rig.set]->cols[row], 1u << col);
    range_close(&rig);
}

Test(range, sizes_around_every_power_lie_in_the_bin_that_a_search_finds)
{
    for (uint32_t k = 0; k < 48; k++) {
        uint64_t power = UINT64_C(1) << k;
        range_expect_bin(power);
        range_expect_bin(power + 1);
        if (k > 1) range_expect_bin(power - 1);
    }
}

Test(range, random_sizes_lie_in_the_bin_that_a_search_finds)
{
    uint64_t state = 2;
    for (uint32_t i = 0; i < 500; i++) range_expect_bin(random_size(&state, 47));
}

Test(range, a_request_beyond_the_last_bin_finds_nothing)
{
    range_rig rig;
    uint64_t start;
    range_open(&rig);
    range_span(&rig, BASE, 1 << 20);
    cr_expect_eq(weir_range_find(&rig.range, rig.set, UINT64_C(1) << 60, UNIT, &start), 0);
    weir_cursor cursor = {.begun = false};
    cr_expect_eq(weir_range_each_up(&rig.range, rig.set, UINT64_C(1) << 60, &cursor), 0);
    range_close(&rig);
}

/* ------------------------------------------------------------------------------------- find -- */

Test(range, what_was_freed_always_fits_again)
{
    range_rig rig;
    uint32_t block[512];
    uint64_t state = 3;
    range_open(&rig);
    for (uint32_t round = 0; round < 40; round++) {
        uint32_t count = 0;
        uint32_t span = range_span(&rig, BASE, UINT64_C(1) << 24);
        cr_assert_neq(span, 0);
        while (count < 512 &&
               (block[count] = range_take(&rig, random_size(&state, 10) * UNIT, UNIT)) != 0)
            count++;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = (uint32_t)random_below(&state, count);
            uint64_t bytes = weir_node_bytes(&rig.range, block[at]);
            range_give(&rig, block[at]);
            block[at] = range_take(&rig, bytes, UNIT);
            cr_assert_neq(block[at], 0, "%llu bytes were freed and do not fit again",
                          (unsigned long long)bytes);
        }
        range_sound(&rig);
        for (uint32_t i = 0; i < count; i++) range_give(&rig, block[i]);
        uint32_t whole = rig.range.node[0].next;
        cr_assert_eq(weir_node_bytes(&rig.range, whole), UINT64_C(1) << 24);
        weir_range_unfile(&rig.range, whole);
        weir_range_span_drop(&rig.range, whole);
    }
    range_close(&rig);
}

Test(range, the_best_of_a_bin_is_found_before_a_longer_one)
{
    range_rig rig;
    uint64_t start = 0;
    range_open(&rig);
    range_span(&rig, BASE, 100 * UNIT);
    uint32_t exact = range_span(&rig, BASE + 4096 * UNIT, 65 * UNIT);
    range_span(&rig, BASE + 8192 * UNIT, 66 * UNIT);
    cr_expect_eq(weir_range_find(&rig.range, rig.set, 65 * UNIT, UNIT, &start), exact);
    cr_expect_eq(start, BASE + 4096 * UNIT);
    range_close(&rig);
}

Test(range, find_looks_at_a_bounded_number_of_nodes_in_a_bin)
{
    range_rig rig;
    uint64_t start = 0;
    range_open(&rig);
    uint32_t longest = range_span(&rig, BASE, 129 * UNIT);
    for (uint64_t i = 1; i <= WEIR_RANGE_LOOK; i++)
        range_span(&rig, BASE + i * 4096 * UNIT, 128 * UNIT);
    cr_expect_eq(weir_range_find(&rig.range, rig.set, 129 * UNIT, UNIT, &start), 0);
    weir_range_unfile(&rig.range, longest);
    weir_range_file(&rig.range, longest);
    cr_expect_eq(weir_range_find(&rig.range, rig.set, 129 * UNIT, UNIT, &start), longest);
    range_close(&rig);
}

Test(range, find_gives_an_aligned_start_that_lies_inside)
{
    range_rig rig;
    uint64_t start = 0;
    range_open(&rig);
    uint32_t index = range_span(&rig, BASE + 3 * UNIT, 16 * UNIT);
    for (uint64_t align = UNIT; align <= 8 * UNIT; align *= 2) {
        cr_expect_eq(weir_range_find(&rig.range, rig.set, 4 * UNIT, align, &start), index);
        cr_expect_eq(start % align, 0);
        cr_expect(start >= BASE + 3 * UNIT && start + 4 * UNIT <= BASE + 19 * UNIT);
    }
    cr_expect_eq(weir_range_find(&rig.range, rig.set, 16 * UNIT, 8 * UNIT, &start), 0);
    cr_expect_eq(weir_range_find(&rig.range, rig.set, 4 * UNIT, 64 * UNIT, &start), 0);
    range_close(&rig);
}

/* ------------------------------------------------------------------------------ split, merge -- */

Test(range, neighbours_of_one_set_join_with_the_later_point)
{
    range_rig rig;
    range_open(&rig);
    weir_range *range = &rig.range;
    uint32_t a = range_span(&rig, BASE, 96 * UNIT);
    weir_range_unfile(range, a);
    uint32_t b = weir_range_split(range, a, BASE + 32 * UNIT);
    uint32_t c = weir_range_split(range, b, BASE + 64 * UNIT);
    weir_node_point_set(&range->node[a], UINT64_C(7) << 32);
    weir_node_point_set(&range->node[b], 5);
    weir_node_point_set(&range->node[c], 9);
    cr_expect_eq(weir_range_free(range, a), a);
    cr_expect_eq(weir_range_free(range, c), c);
    range_sound(&rig);
    cr_expect_eq(weir_range_free(range, b), a);
    cr_expect_eq(weir_node_bytes(range, a), 96 * UNIT);
    cr_expect_eq(weir_node_point(&range->node[a]), UINT64_C(7) << 32);
    cr_expect_eq(weir_bit_low(range->set[rig.set]->rows), weir_bit_high(range->set[rig.set]->rows));
    range_close(&rig);
}

Test(range, neighbours_of_two_sets_stay_apart)
{
    range_rig rig;
    uint16_t other;
    range_open(&rig);
    cr_assert_eq(weir_range_set_add(&rig.range, &other), WEIR_OK);
    uint32_t a = range_span(&rig, BASE, 64 * UNIT);
    weir_range_unfile(&rig.range, a);
    uint32_t b = weir_range_split(&rig.range, a, BASE + 32 * UNIT);
    rig.range.node[b].set = other;
    weir_range_free(&rig.range, a);
    weir_range_free(&rig.range, b);
    cr_expect_eq(weir_node_bytes(&rig.range, a), 32 * UNIT);
    cr_expect_eq(weir_node_bytes(&rig.range, b), 32 * UNIT);
    cr_expect_neq(rig.range.set[other]->rows, 0);
    range_close(&rig);
}

Test(range, nodes_are_used_again_and_grow_beyond_their_first_room)
{
    range_rig rig;
    range_open(&rig);
    weir_range *range = &rig.range;
    uint32_t spare = range->spare;
    uint32_t a = range_span(&rig, BASE, UINT64_C(1) << 20);
    weir_range_unfile(range, a);
    uint32_t b = weir_range_split(range, a, BASE + UNIT);
    weir_range_absorb(range, a);
    cr_expect_eq(weir_range_split(range, a, BASE + 2 * UNIT), b, "the dropped node is not used");
    weir_range_absorb(range, a);
    cr_expect_eq(range->spare, spare - 2);
    weir_range_free(range, a);
    for (uint32_t i = 0; i < 1000; i++) cr_assert_neq(range_take(&rig, UNIT, UNIT), 0);
    range_sound(&rig);
    cr_expect_gt(range->node_room, 64);
    cr_expect_neq(weir_range_lookup(range, BASE + 999 * UNIT), 0, "growing lost the index");
    range_close(&rig);
}

Test(range, a_reserve_is_kept_for_running_calls)
{
    range_rig rig;
    range_open(&rig);
    uint32_t room = rig.range.node_room;
    uint32_t spare = rig.range.spare;
    cr_assert_eq(weir_range_need(&rig.range, spare), WEIR_OK);
    cr_expect_eq(rig.range.node_room, room);
    rig.range.reserve = 4;
    cr_assert_eq(weir_range_need(&rig.range, spare), WEIR_OK);
    cr_expect_gt(rig.range.node_room, room);
    cr_expect_geq(rig.range.spare, spare + 4);
    range_close(&rig);
}

/* ----------------------------------------------------------------------------------- cursors -- */

static uint64_t range_units_of(const range_rig *rig, uint32_t index)
{
    return weir_node_bytes(&rig->range, index) / UNIT;
}

/* Fills a set with lone nodes of random sizes; returns their number. */
static uint32_t range_scatter(range_rig *rig, uint64_t *state, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        range_span(rig, BASE + (uint64_t)i * (UINT64_C(1) << 30), random_size(state, 18) * UNIT);
    return count;
}

static uint32_t range_at_least(const range_rig *rig, uint64_t units)
{
    uint32_t count = 0;
    for (uint32_t at = rig->range.node[0].next; at != 0; at = rig->range.node[at].next)
        count += rig->range.node[at].kind == WEIR_FREE && range_units_of(rig, at) >= units;
    return count;
}

Test(range, each_visits_from_the_longest_down_to_the_least)
{
    range_rig rig;
    uint64_t state = 4;
    range_open(&rig);
    range_scatter(&rig, &state, 200);
    for (uint64_t units = 1; units < 200000; units *= 3) {
        weir_cursor cursor = {.begun = false};
        uint32_t enough = 0, last_row = UINT32_MAX, last_col = UINT32_MAX;
        for (uint32_t at;
             (at = weir_range_each(&rig.range, rig.set, units * UNIT, &cursor)) != 0;) {
            uint32_t row, col;
            range_bin_naive(range_units_of(&rig, at), &row, &col);
            cr_assert(row < last_row || (row == last_row && col <= last_col));
            last_row = row;
            last_col = col;
            enough += range_units_of(&rig, at) >= units;
        }
        cr_expect_eq(enough, range_at_least(&rig, units), "at least %llu units",
                     (unsigned long long)units);
    }
    range_close(&rig);
}

Test(range, each_up_visits_from_the_least_to_the_longest)
{
    range_rig rig;
    uint64_t state = 5;
    range_open(&rig);
    range_scatter(&rig, &state, 200);
    for (uint64_t units = 1; units < 200000; units *= 3) {
        weir_cursor cursor = {.begun = false};
        uint32_t enough = 0, last_row = 0, last_col = 0;
        for (uint32_t at;
             (at = weir_range_each_up(&rig.range, rig.set, units * UNIT, &cursor)) != 0;) {
            uint32_t row, col;
            range_bin_naive(range_units_of(&rig, at), &row, &col);
            cr_assert(row > last_row || (row == last_row && col >= last_col));
            last_row = row;
            last_col = col;
            enough += range_units_of(&rig, at) >= units;
        }
        cr_expect_eq(enough, range_at_least(&rig, units));
    }
    range_close(&rig);
}

Test(range, cursors_over_an_empty_set_end_at_once)
{
    range_rig rig;
    weir_cursor down = {.begun = false}, up = {.begun = false};
    range_open(&rig);
    cr_expect_eq(weir_range_each(&rig.range, rig.set, 0, &down), 0);
    cr_expect_eq(weir_range_each_up(&rig.range, rig.set, 0, &up), 0);
    range_close(&rig);
}

/* ------------------------------------------------------------------------------ index, spans -- */

Test(range, the_index_finds_first_addresses_only)
{
    range_rig rig;
    uint32_t block[300];
    range_open(&rig);
    range_span(&rig, BASE, UINT64_C(1) << 24);
    for (uint32_t i = 0; i < 300; i++) block[i] = range_take(&rig, 2 * UNIT, UNIT);
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t addr = rig.range.node[block[i]].addr;
        cr_assert_eq(weir_range_lookup(&rig.range, addr), block[i]);
        cr_assert_eq(weir_range_lookup(&rig.range, addr + UNIT), 0);
        cr_assert_eq(weir_range_lookup(&rig.range, addr + 1), 0);
    }
    for (uint32_t i = 0; i < 300; i += 2) {
        uint64_t addr = rig.range.node[block[i]].addr;
        range_give(&rig, block[i]);
        cr_assert_eq(weir_range_lookup(&rig.range, addr), 0);
        cr_assert_eq(weir_range_unindex(&rig.range, addr), 0, "it was taken out twice");
    }
    for (uint32_t i = 1; i < 300; i += 2) {
        uint64_t addr = rig.range.node[block[i]].addr;
        cr_assert_eq(weir_range_lookup(&rig.range, addr), block[i]);
    }
    range_close(&rig);
}

Test(range, spans_that_touch_never_join)
{
    range_rig rig;
    range_open(&rig);
    uint32_t high = range_span(&rig, BASE + 64 * UNIT, 64 * UNIT);
    uint32_t low = range_span(&rig, BASE, 64 * UNIT);
    uint32_t far = range_span(&rig, BASE + 128 * UNIT, 64 * UNIT);
    range_sound(&rig);
    cr_expect_eq(weir_node_bytes(&rig.range, low), 64 * UNIT);
    cr_expect_eq(weir_node_bytes(&rig.range, high), 64 * UNIT);
    cr_expect_eq(weir_range_at(&rig.range, BASE + 64 * UNIT - 1, 0), low);
    cr_expect_eq(weir_range_at(&rig.range, BASE + 64 * UNIT, 0), high);
    cr_expect_eq(weir_range_at(&rig.range, BASE + 64 * UNIT, far), high);
    weir_range_unfile(&rig.range, high);
    weir_range_span_drop(&rig.range, high);
    cr_expect_eq(weir_range_at(&rig.range, BASE + 64 * UNIT, 0), 0);
    cr_expect_eq(weir_range_at(&rig.range, BASE + 128 * UNIT, low), far);
    range_close(&rig);
}

Test(range, addresses_outside_of_every_span_have_no_node)
{
    range_rig rig;
    range_open(&rig);
    cr_expect_eq(weir_range_at(&rig.range, BASE, 0), 0);
    uint32_t only = range_span(&rig, BASE, 64 * UNIT);
    cr_expect_eq(weir_range_at(&rig.range, BASE - 1, 0), 0);
    cr_expect_eq(weir_range_at(&rig.range, BASE - 1, only), 0);
    cr_expect_eq(weir_range_at(&rig.range, BASE + 64 * UNIT, 0), 0);
    cr_expect_eq(weir_range_at(&rig.range, UINT64_MAX, only), 0);
    range_close(&rig);
}

/* ----------------------------------------------------------------------------------- memory -- */

Test(range, short_host_memory_is_told_and_changes_nothing)
{
    range_rig rig;
    weir_host_memory_init(&rig.memory);
    for (uint64_t k = 1; k <= 2; k++) {
        weir_host_memory_fail(&rig.memory, k, false);
        cr_expect_eq(weir_range_init(&rig.range, &rig.memory.platform, UNIT_SHIFT),
                     WEIR_NO_METADATA);
        cr_expect_eq(rig.memory.live_count, 0);
    }
    range_open(&rig);
    range_span(&rig, BASE, UINT64_C(1) << 20);
    cr_assert_neq(range_take(&rig, UNIT, UNIT), 0);
    for (uint64_t k = 1; k <= 2; k++) {
        weir_host_memory_fail(&rig.memory, k, false);
        cr_expect_eq(weir_range_need(&rig.range, 1000), WEIR_NO_METADATA);
        range_sound(&rig);
    }
    cr_expect_eq(weir_range_need(&rig.range, UINT32_MAX / 2), WEIR_NO_METADATA);
    range_close(&rig);
}

Test(range, sets_can_be_had_until_host_memory_is_short)
{
    range_rig rig;
    uint16_t set = 0;
    range_open(&rig);
    for (uint32_t i = 1; i < 16; i++) {
        cr_assert_eq(weir_range_set_add(&rig.range, &set), WEIR_OK);
        cr_assert_eq(set, i);
    }
    for (uint64_t k = 1; k <= 2; k++) {
        weir_host_memory_fail(&rig.memory, k, false);
        cr_expect_eq(weir_range_set_add(&rig.range, &set), WEIR_NO_METADATA);
        cr_expect_eq(rig.range.set_count, 16);
    }
    cr_expect_eq(weir_range_set_add(&rig.range, &set), WEIR_OK);
    cr_expect_eq(set, 16);
    range_close(&rig);
}
