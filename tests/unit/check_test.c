/* SPDX-License-Identifier: MIT */
/* weir_check: each of the pool's own invariants is broken by hand and must be named. */
#include "pool.h"
#include "rig.h"

#include <string.h>

/* A pool with a live block, a free one, one in limbo and a shadow. */
static sim_rig *check_open(void)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}, .streams = 2,
                                                .pool = {.limit_bytes = 48 * MIB,
                                                         .growth_bytes = 2 * MIB,
                                                         .no_rescue = true}});
    weir_addr addr[12];
    for (unsigned i = 0; i < 12; i++) addr[i] = weir_rig_alloc(rig, 0, 4 * MIB - 512);
    for (unsigned i = 1; i < 12; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    ASSERT_OK(weir_use(rig->pool, addr[0], rig->stream[1]));
    weir_rig_write(rig, 1, addr[0], 4 * MIB - 512, 1);
    weir_rig_free(rig, 0, addr[0]);
    cr_assert_gt(rig->pool->shadows.count, 0);
    cr_assert_gt(rig->pool->limbo.count, 0);
    weir_rig_check(rig);
    for (unsigned i = 2; i < 10; i += 2) weir_rig_free(rig, 0, addr[i]);
    return rig;
}

static uint32_t check_node_of(const sim_rig *rig, weir_kind kind, bool hole)
{
    const weir_range *range = &rig->pool->range;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next)
        if (range->node[at].kind == kind && (range->node[at].set == WEIR_SET_HOLES) == hole)
            return at;
    cr_assert_fail("there is no such node");
    return 0;
}

#define EXPECT_CORRUPT(rig, words) \
    do { \
        const char *why_ = ""; \
        EXPECT_STATUS(weir_check((rig)->pool, &why_), WEIR_CORRUPT); \
        cr_expect(strstr(why_, (words)) != NULL, "%s: %s", (words), why_); \
        EXPECT_STATUS(weir_check((rig)->pool, NULL), WEIR_CORRUPT); \
    } while (0)

/* Frees what still lives and ends the pool. */
static void check_close(sim_rig *rig)
{
    weir_rig_check(rig);
    const weir_range *range = &rig->pool->range;
    for (uint32_t at = range->node[0].next; at != 0;) {
        uint32_t next = range->node[at].next;
        if (range->node[at].kind == WEIR_LIVE) {
            ASSERT_OK(weir_free(rig->pool, range->node[at].addr, 0));
            next = range->node[0].next;
        }
        at = next;
    }
    weir_rig_close(rig);
}

Test(check, sums_of_live_blocks)
{
    sim_rig *rig = check_open();
    EXPECT_STATUS(weir_check(NULL, NULL), WEIR_INVALID);
    rig->pool->allocated.current++;
    EXPECT_CORRUPT(rig, "allocated");
    rig->pool->allocated.current--;
    rig->pool->requested.current++;
    EXPECT_CORRUPT(rig, "requested");
    rig->pool->requested.current--;
    rig->pool->blocks.current++;
    EXPECT_CORRUPT(rig, "blocks");
    rig->pool->blocks.current--;
    rig->pool->by_class[3].current++;
    EXPECT_CORRUPT(rig, "class");
    rig->pool->by_class[3].current--;
    check_close(rig);
}

Test(check, sums_of_limbo_and_shadows)
{
    sim_rig *rig = check_open();
    rig->pool->pending.current++;
    EXPECT_CORRUPT(rig, "L1");
    rig->pool->pending.current--;
    rig->pool->limbo.count++;
    EXPECT_CORRUPT(rig, "L1");
    rig->pool->limbo.count--;
    rig->pool->shadow_bytes++;
    EXPECT_CORRUPT(rig, "S1");
    rig->pool->shadow_bytes--;
    rig->pool->shadows.count++;
    EXPECT_CORRUPT(rig, "S1");
    rig->pool->shadows.count--;
    check_close(rig);
}

Test(check, a_block_shorter_than_was_asked)
{
    sim_rig *rig = check_open();
    weir_node *node = &rig->pool->range.node[check_node_of(rig, WEIR_LIVE, false)];
    uint32_t low = node->low;
    node->low = UINT32_MAX;
    EXPECT_CORRUPT(rig, "asked");
    node->low = low;
    check_close(rig);
}

Test(check, memory_without_a_mapping)
{
    sim_rig *rig = check_open();
    weir_pages *pages = &rig->pool->pages;
    uint32_t node = check_node_of(rig, WEIR_LIVE, false);
    uint32_t which = weir_pages_at(pages, rig->pool->range.node[node].addr);
    uint64_t addr = weir_piece_get(pages, which)->addr;
    weir_pages_displace(pages, which);
    EXPECT_CORRUPT(rig, "mapping");
    weir_pages_place(pages, which, addr);
    check_close(rig);
}

Test(check, a_hole_or_a_shadow_with_a_mapping)
{
    sim_rig *rig = check_open();
    weir_pages *pages = &rig->pool->pages;
    uint32_t live = check_node_of(rig, WEIR_LIVE, false);
    uint32_t which = weir_pages_at(pages, rig->pool->range.node[live].addr);
    const uint32_t nodes[] = {check_node_of(rig, WEIR_FREE, true),
                              check_node_of(rig, WEIR_SHADOW, false)};
    uint64_t home = weir_piece_get(pages, which)->addr;
    for (size_t i = 0; i < 2; i++) {
        uint64_t addr = weir_round_up(rig->pool->range.node[nodes[i]].addr, RIG_GRANULE);
        ASSERT_OK(weir_pages_room(pages, addr, RIG_GRANULE));
        weir_pages_displace(pages, which);
        weir_pages_place(pages, which, addr);
        const char *why = "";
        EXPECT_STATUS(weir_check(rig->pool, &why), WEIR_CORRUPT);
        weir_pages_displace(pages, which);
        weir_pages_place(pages, which, home);
    }
    check_close(rig);
}

Test(check, a_claim_that_no_call_holds)
{
    sim_rig *rig = check_open();
    uint32_t index = check_node_of(rig, WEIR_FREE, false);
    weir_range_unfile(&rig->pool->range, index);
    EXPECT_CORRUPT(rig, "claimed");
    rig->pool->running++;
    weir_rig_check(rig);
    rig->pool->running--;
    weir_range_file(&rig->pool->range, index);
    check_close(rig);
}

Test(check, what_the_parts_find_is_told)
{
    sim_rig *rig = check_open();
    rig->pool->range.set[WEIR_SET_HOLES]->rows ^= 1;
    EXPECT_CORRUPT(rig, "R4");
    rig->pool->range.set[WEIR_SET_HOLES]->rows ^= 1;
    rig->pool->pages.held_bytes++;
    EXPECT_CORRUPT(rig, "P3");
    rig->pool->pages.held_bytes--;
    rig->pool->order.retired_count++;
    EXPECT_CORRUPT(rig, "O4");
    rig->pool->order.retired_count--;
    check_close(rig);
}
