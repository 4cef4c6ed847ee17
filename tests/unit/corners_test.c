/* SPDX-License-Identifier: MIT */
/*
 * The corners of the core's parts that no series of calls comes to on a machine of this size, or
 * only by an accident: reached by hand, through the parts' own headers.
 */
#include "pool.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#define CORNERS_UNIT UINT64_C(512)
#define CORNERS_BASE (UINT64_C(1) << 40)

/* -------------------------------------------------------------------------------- range, bins -- */

static void corners_range(weir_range *range, host_memory *memory, uint16_t *set)
{
    weir_host_memory_init(memory);
    ASSERT_OK(weir_range_init(range, &memory->platform, 9));
    ASSERT_OK(weir_range_set_add(range, set));
}

Test(corners, nodes_can_be_had_in_advance_even_where_there_are_some)
{
    host_memory memory;
    weir_range range;
    uint16_t set;
    corners_range(&range, &memory, &set);
    uint32_t room = range.node_room, spare = range.spare;
    ASSERT_OK(weir_range_grow(&range, 1));
    cr_expect_eq(range.node_room, 2 * room);
    cr_expect_eq(range.spare, spare + room);
    ASSERT_OK(weir_range_grow(&range, 1000));
    cr_expect_geq(range.spare, 1000);
    EXPECT_STATUS(weir_range_grow(&range, UINT32_MAX / 2), WEIR_NO_METADATA);
    weir_range_fini(&range);
}

Test(corners, there_are_no_more_sets_than_can_be_named)
{
    host_memory memory;
    weir_range range;
    uint16_t set, more;
    corners_range(&range, &memory, &set);
    uint32_t count = range.set_count, room = range.set_room;
    range.set_count = range.set_room = UINT16_MAX / 2 + 1;
    EXPECT_STATUS(weir_range_set_add(&range, &more), WEIR_NO_METADATA);
    range.set_count = count;
    range.set_room = room;
    weir_range_fini(&range);
}

/* A bin that holds a live block, and an index that bites its own tail. */
Test(corners, broken_lists_are_named)
{
    host_memory memory;
    weir_range range;
    uint16_t set;
    corners_range(&range, &memory, &set);
    uint32_t low = weir_range_span_add(&range, CORNERS_BASE, 64 * CORNERS_UNIT, set);
    uint32_t high = weir_range_split(&range, low, CORNERS_BASE + 32 * CORNERS_UNIT);
    range.node[low].kind = WEIR_LIVE;
    weir_range_index(&range, low);
    weir_range_file(&range, high);
    cr_expect_null(weir_range_check(&range));
    range.node[high].kind = WEIR_CLAIMED;
    cr_expect_str_eq(weir_range_check(&range), "R3: a node is in a bin it does not name");
    range.node[high].kind = WEIR_FREE;
    range.node[low].a = low;
    cr_expect_str_eq(weir_range_check(&range), "R3: the index and the live blocks differ");
    range.node[low].a = 0;
    cr_expect_null(weir_range_check(&range));
    weir_range_fini(&range);
}

/* ------------------------------------------------------------------------------------- pages -- */

static void corners_pages(weir_pages *pages, host_memory *memory)
{
    weir_host_memory_init(memory);
    weir_pages_init(pages, &memory->platform, 16);
    ASSERT_OK(weir_pages_span_add(pages, CORNERS_BASE, 64 * MIB));
    ASSERT_OK(weir_pages_span_add(pages, 2 * CORNERS_BASE, 64 * MIB));
}

Test(corners, where_nothing_is_mapped_a_walk_goes_on_by_granules)
{
    host_memory memory;
    weir_pages pages;
    corners_pages(&pages, &memory);
    cr_expect_eq(weir_pages_end(&pages, CORNERS_BASE), CORNERS_BASE + 64 * KIB);
    cr_expect_eq(weir_pages_end(&pages, CORNERS_BASE + 1), CORNERS_BASE + 64 * KIB);
    cr_expect_eq(weir_pages_end(&pages, CORNERS_BASE + 64 * KIB), CORNERS_BASE + 128 * KIB);
    weir_pages_fini(&pages);
}

Test(corners, there_are_no_more_pieces_than_chunks_hold)
{
    host_memory memory;
    weir_pages pages;
    corners_pages(&pages, &memory);
    uint32_t piece = weir_pages_piece_add(&pages, 1), count = pages.piece_count;
    pages.piece_count = WEIR_PIECE_CHUNK0 * ((1u << WEIR_PIECE_CHUNKS) - 1);
    cr_expect_eq(weir_pages_piece_add(&pages, 1), 0);
    cr_expect_eq(pages.held_bytes, 64 * KIB);
    pages.piece_count = count;
    weir_pages_piece_drop(&pages, piece);
    weir_pages_fini(&pages);
}

Test(corners, broken_maps_and_sums_are_named_in_any_span)
{
    host_memory memory;
    weir_pages pages;
    corners_pages(&pages, &memory);
    for (uint64_t base = CORNERS_BASE; base <= 2 * CORNERS_BASE; base += CORNERS_BASE) {
        uint32_t piece = weir_pages_piece_add(&pages, 2);
        weir_piece_get(&pages, piece)->made = true;
        ASSERT_OK(weir_pages_room(&pages, base, MIB));
        weir_pages_place(&pages, piece, base);
        cr_expect_null(weir_pages_check(&pages));
        pages.span[base == CORNERS_BASE ? 0 : 1].leaf[0][5] = piece;
        cr_expect_str_eq(weir_pages_check(&pages), "P1: a granule names a piece that is not there");
        pages.span[base == CORNERS_BASE ? 0 : 1].leaf[0][5] = 0;
        cr_expect_null(weir_pages_check(&pages));
    }
    uint64_t *sums[] = {&pages.held_bytes, &pages.idle_bytes, &pages.lost_bytes};
    for (unsigned i = 0; i < 3; i++) {
        ++*sums[i];
        cr_expect_str_eq(weir_pages_check(&pages), "P3: the sums of bytes");
        --*sums[i];
    }
    cr_expect_null(weir_pages_check(&pages));
    weir_pages_fini(&pages);
}

/* ------------------------------------------------------------------------------------- order -- */

Test(corners, lanes_end_at_their_number)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_order *order = &rig->pool->order;
    weir_stream_desc desc = {.size = sizeof(desc), .native = 1, .unique = 999, .outlives = true};
    uint32_t count = order->lane_count, lane = 77;
    order->lane_count = WEIR_LANES_MAX;
    EXPECT_STATUS(weir_order_attach(order, &desc, &lane), WEIR_NO_METADATA);
    order->lane_count = count;
    cr_expect_eq(lane, 77);
    weir_rig_close(rig);
}

Test(corners, a_lane_that_has_ended_pays_no_more)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2, .short_lived = 2});
    weir_order *order = &rig->pool->order;
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    uint64_t records = weir_rig_calls(rig, WEIR_SIM_event_record);
    order->lane[1].used = order->lane[1].epoch;
    weir_order_pay(order, 1);
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_event_record), records);
    order->lane[1].used = order->lane[1].recorded;
    weir_rig_close(rig);
}

Test(corners, no_point_covers_an_epoch_to_come)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}});
    weir_order *order = &rig->pool->order;
    weir_rig_write(rig, 0, 0, 0, 0);
    ASSERT_OK(weir_order_record(order, 0));
    cr_expect_neq(weir_order_point(order, 0, order->lane[0].recorded), 0);
    cr_expect_eq(weir_order_point(order, 0, order->lane[0].epoch), 0);
    weir_rig_close(rig);
}

Test(corners, broken_epochs_are_named)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}});
    weir_order *order = &rig->pool->order;
    weir_rig_write(rig, 0, 0, 0, 0);
    ASSERT_OK(weir_order_record(order, 0));
    weir_lane *lane = &order->lane[0];
    uint64_t used = lane->used;
    lane->used = lane->epoch + 1;
    cr_expect_str_eq(weir_order_check(order), "O3: a lane is used in an epoch to come");
    lane->used = used;
    weir_point *point = &order->point[lane->last];
    point->epoch++;
    cr_expect_str_eq(weir_order_check(order), "O1: a lane's last point");
    point->epoch--;
    cr_expect_null(weir_order_check(order));
    weir_rig_close(rig);
}

/* --------------------------------------------------------------------------------------- pool -- */

Test(corners, zones_end_at_their_number)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_pool *pool = rig->pool;
    weir_zone *zone = pool->zone;
    uint32_t count = pool->zone_count, room = pool->zone_room;
    weir_domain domain = 0;
    pool->zone = (weir_zone *)calloc(UINT16_MAX, sizeof(weir_zone));
    pool->zone_count = pool->zone_room = UINT16_MAX;
    for (uint32_t i = 0; i < UINT16_MAX; i++) pool->zone[i].open = true;
    EXPECT_STATUS(weir_domain_create(pool, &domain), WEIR_NO_METADATA);
    free(pool->zone);
    pool->zone = zone;
    pool->zone_count = count;
    pool->zone_room = room;
    weir_rig_close(rig);
}

Test(corners, an_address_range_that_cannot_be_filed_goes_back)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    uint32_t spare = rig->pool->range.spare;
    uint64_t before = weir_rig_calls(rig, WEIR_SIM_va_free);
    rig->pool->range.spare = 0;
    weir_host_memory_fail(&rig->memory, 1, true);
    weir_pool_lock(rig->pool);
    EXPECT_STATUS(weir_pool_span_add(rig->pool, MIB), WEIR_NO_METADATA);
    weir_pool_unlock(rig->pool);
    weir_host_memory_fail(&rig->memory, 0, false);
    rig->pool->range.spare = spare;
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_va_free), before + 1);
    weir_rig_close(rig);
}

/* The excess over what was asked has 32 bits. */
Test(corners, a_size_is_not_rounded_by_more_than_can_be_noted)
{
    rig_options options = {.pool = {.roundup_divisions = {[14] = 2, [15] = 2}}};
    sim_rig *rig = weir_rig_open(&options);
    const uint64_t tib = UINT64_C(1) << 40;
    cr_expect_eq(weir_block_round(rig->pool, tib + 1), tib + 512);
    cr_expect_eq(weir_block_round(rig->pool, tib + tib / 2 - 4 * GIB), tib + tib / 2 - 4 * GIB);
    cr_expect_eq(weir_block_round(rig->pool, tib + tib / 2 - 4 * GIB + 512), tib + tib / 2);
    cr_expect_eq(weir_block_round(rig->pool, UINT64_C(1) << 46), 0);
    cr_expect_eq(weir_block_round(rig->pool, (UINT64_C(1) << 46) - 1), UINT64_C(1) << 46);
    weir_rig_close(rig);
}

/* ------------------------------------------------------------------------------------- check -- */

static uint32_t corners_free_node(const sim_rig *rig, bool hole)
{
    const weir_range *range = &rig->pool->range;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next)
        if (range->node[at].kind == WEIR_FREE && (range->node[at].set == WEIR_SET_HOLES) == hole)
            return at;
    cr_assert_fail("there is no such node");
    return 0;
}

static const char *corners_why(sim_rig *rig)
{
    const char *why = "nothing";
    (void)weir_check(rig->pool, &why);
    return why;
}

Test(corners, memory_filed_as_the_other_kind_is_named)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 4 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_addr wall = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_check(rig);
    weir_range *range = &rig->pool->range;
    uint32_t node = corners_free_node(rig, false);
    uint16_t set = range->node[node].set;
    weir_range_unfile(range, node);
    range->node[node].set = WEIR_SET_HOLES;
    weir_range_file(range, node);
    cr_expect_str_eq(corners_why(rig), "P1: a hole is backed");
    weir_range_unfile(range, node);
    range->node[node].set = set;
    weir_range_file(range, node);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, wall);
    weir_rig_close(rig);
}

/* The last granule of a block that begins in the middle of one. */
Test(corners, a_block_whose_end_alone_is_unmapped_is_named)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB, .limit_bytes = 4 * MIB}});
    weir_addr low = weir_rig_alloc(rig, 0, MIB), high = weir_rig_alloc(rig, 0, 2 * MIB);
    weir_pages *pages = &rig->pool->pages;
    uint32_t last = weir_pages_at(pages, high + 2 * MIB - 1);
    uint64_t at = weir_piece_get(pages, last)->addr;
    cr_assert_neq(last, weir_pages_at(pages, high));
    weir_pages_displace(pages, last);
    cr_expect_str_eq(corners_why(rig), "2: memory without a mapping");
    weir_pages_place(pages, last, at);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, low);
    weir_rig_free(rig, 0, high);
    weir_rig_close(rig);
}
