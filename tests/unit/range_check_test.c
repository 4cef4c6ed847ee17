/* SPDX-License-Identifier: MIT */
/* What weir_range_check finds: each invariant is broken by hand in a sound range. */
#include "memory.h"
#include "range.h"

#include <criterion/criterion.h>
#include <string.h>

#define UNIT UINT64_C(512)
#define BASE (UINT64_C(1) << 40)

/* live a, free b, live c, free d of another set, then a fence. */
typedef struct broken_range {
    host_memory memory;
    weir_range range;
    uint16_t set, other;
    uint32_t a, b, c, d;
} broken_range;

static void broken_range_live(weir_range *range, uint32_t index)
{
    range->node[index].kind = WEIR_LIVE;
    weir_range_index(range, index);
}

static void broken_range_open(broken_range *rig)
{
    weir_range *range = &rig->range;
    weir_host_memory_init(&rig->memory);
    cr_assert_eq(weir_range_init(range, &rig->memory.platform, 9), WEIR_OK);
    cr_assert_eq(weir_range_set_add(range, &rig->set), WEIR_OK);
    cr_assert_eq(weir_range_set_add(range, &rig->other), WEIR_OK);
    rig->a = weir_range_span_add(range, BASE, 400 * UNIT, rig->set);
    rig->b = weir_range_split(range, rig->a, BASE + 100 * UNIT);
    rig->c = weir_range_split(range, rig->b, BASE + 200 * UNIT);
    rig->d = weir_range_split(range, rig->c, BASE + 300 * UNIT);
    range->node[rig->d].set = rig->other;
    broken_range_live(range, rig->a);
    broken_range_live(range, rig->c);
    weir_range_file(range, rig->b);
    weir_range_file(range, rig->d);
    cr_assert_null(weir_range_check(range));
}

/* Expects the words, then that all is well after `undo`. */
#define EXPECT_BROKEN(rig, words) \
    do { \
        const char *why_ = weir_range_check(&(rig)->range); \
        cr_expect(why_ != NULL && strncmp(why_, (words), strlen(words)) == 0, "%s: %s", (words), \
                  why_ == NULL ? "not seen" : why_); \
    } while (0)

static void broken_range_close(broken_range *rig)
{
    const char *why = weir_range_check(&rig->range);
    cr_expect_null(why, "after the repair: %s", why);
    weir_range_fini(&rig->range);
    cr_expect_eq(rig->memory.live_count, 0);
}

Test(range_check, a_neighbour_that_does_not_point_back)
{
    broken_range rig;
    broken_range_open(&rig);
    rig.range.node[rig.c].prev = rig.a;
    EXPECT_BROKEN(&rig, "R1");
    rig.range.node[rig.c].prev = rig.b;
    broken_range_close(&rig);
}

Test(range_check, addresses_out_of_order)
{
    broken_range rig;
    broken_range_open(&rig);
    weir_range_unindex(&rig.range, rig.range.node[rig.c].addr);
    rig.range.node[rig.c].addr = BASE + 100 * UNIT;
    weir_range_index(&rig.range, rig.c);
    EXPECT_BROKEN(&rig, "R1");
    weir_range_unindex(&rig.range, rig.range.node[rig.c].addr);
    rig.range.node[rig.c].addr = BASE + 200 * UNIT;
    weir_range_index(&rig.range, rig.c);
    broken_range_close(&rig);
}

Test(range_check, an_unused_node_in_the_ring)
{
    broken_range rig;
    broken_range_open(&rig);
    rig.range.node[rig.a].kind = WEIR_UNUSED;
    EXPECT_BROKEN(&rig, "R1");
    rig.range.node[rig.a].kind = WEIR_LIVE;
    broken_range_close(&rig);
}

Test(range_check, two_free_neighbours_of_one_set)
{
    broken_range rig;
    broken_range_open(&rig);
    weir_range_unindex(&rig.range, rig.range.node[rig.c].addr);
    weir_range_file(&rig.range, rig.c);
    EXPECT_BROKEN(&rig, "R2");
    weir_range_unfile(&rig.range, rig.c);
    broken_range_live(&rig.range, rig.c);
    broken_range_close(&rig);
}

Test(range_check, a_live_block_outside_of_the_index)
{
    broken_range rig;
    broken_range_open(&rig);
    weir_range_unindex(&rig.range, BASE);
    EXPECT_BROKEN(&rig, "R3");
    weir_range_index(&rig.range, rig.a);
    broken_range_close(&rig);
}

Test(range_check, more_in_the_index_than_lives)
{
    broken_range rig;
    broken_range_open(&rig);
    rig.range.node[rig.a].kind = WEIR_CLAIMED;
    EXPECT_BROKEN(&rig, "R3");
    rig.range.node[rig.a].kind = WEIR_LIVE;
    broken_range_close(&rig);
}

Test(range_check, a_free_node_in_no_bin)
{
    broken_range rig;
    broken_range_open(&rig);
    weir_range_unfile(&rig.range, rig.b);
    rig.range.node[rig.b].kind = WEIR_FREE;
    EXPECT_BROKEN(&rig, "R3");
    weir_range_file(&rig.range, rig.b);
    broken_range_close(&rig);
}

Test(range_check, a_node_in_the_bin_of_another_set)
{
    broken_range rig;
    broken_range_open(&rig);
    rig.range.node[rig.b].set = rig.other;
    EXPECT_BROKEN(&rig, "R3");
    rig.range.node[rig.b].set = rig.set;
    broken_range_close(&rig);
}

Test(range_check, a_node_in_a_bin_of_another_size)
{
    broken_range rig;
    broken_range_open(&rig);
    weir_range_unindex(&rig.range, BASE + 200 * UNIT);
    rig.range.node[rig.c].addr += 50 * UNIT;
    weir_range_index(&rig.range, rig.c);
    EXPECT_BROKEN(&rig, "R3");
    weir_range_unindex(&rig.range, BASE + 250 * UNIT);
    rig.range.node[rig.c].addr -= 50 * UNIT;
    weir_range_index(&rig.range, rig.c);
    broken_range_close(&rig);
}

Test(range_check, a_bin_that_is_a_ring)
{
    broken_range rig;
    broken_range_open(&rig);
    rig.range.node[rig.b].b = rig.b;
    EXPECT_BROKEN(&rig, "R3");
    rig.range.node[rig.b].b = 0;
    broken_range_close(&rig);
}

Test(range_check, bitmaps_that_do_not_tell_what_is_there)
{
    broken_range rig;
    broken_range_open(&rig);
    weir_set *set = rig.range.set[rig.set];
    set->rows ^= 1;
    EXPECT_BROKEN(&rig, "R4");
    set->rows ^= 1;
    uint32_t row = weir_bit_high(set->rows);
    set->cols[row] |= 1u << 31;
    EXPECT_BROKEN(&rig, "R4");
    set->cols[row] &= ~(1u << 31);
    broken_range_close(&rig);
}
