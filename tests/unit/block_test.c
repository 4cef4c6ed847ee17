/* SPDX-License-Identifier: MIT */
/* alloc, free, use and find on one block: every answer that weir.h names, and the edges of sizes,
 * alignments and flags. */
#include "rig.h"

#include <string.h>

/* ------------------------------------------------------------------------------------ sizes -- */

Test(block, no_bytes_are_a_block_too)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr a = weir_rig_alloc(rig, 0, 0);
    weir_addr b = weir_rig_alloc(rig, 0, 0);
    cr_expect_neq(a, b);
    cr_expect_eq(weir_rig_find(rig, a).requested_bytes, 0);
    cr_expect_eq(weir_rig_find(rig, a).bytes, 512);
    weir_rig_free(rig, 0, a);
    EXPECT_STATUS(weir_free(rig->pool, a, rig->stream[0]), WEIR_NOT_FOUND);
    weir_rig_free(rig, 0, b);
    weir_rig_close(rig);
}

Test(block, sizes_that_no_memory_holds_fail_in_order)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 45, UINT64_C(1) << 46, (UINT64_C(1) << 46) - 1,
                                     UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 511};
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = GIB}});
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        weir_addr addr = 0;
        EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, sizes[i])), WEIR_NO_MEMORY);
        EXPECT_STATUS(weir_alloc_on(rig->pool, rig->stream[0], sizes[i], &addr), WEIR_NO_MEMORY);
        cr_expect_eq(addr, 0);
    }
    weir_rig_close(rig);
}

Test(block, sizes_around_units_and_granules_round_up_and_no_further)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    for (uint32_t shift = 9; shift < 25; shift++)
        for (uint64_t bytes = (UINT64_C(1) << shift) - 1; bytes <= (UINT64_C(1) << shift) + 1;
             bytes++) {
            weir_addr addr = weir_rig_alloc(rig, 0, bytes);
            weir_block block = weir_rig_find(rig, addr);
            cr_expect_eq(block.requested_bytes, bytes);
            cr_expect_eq(block.bytes, (bytes + 511) / 512 * 512);
            weir_rig_write(rig, 0, addr, block.bytes, bytes);
            weir_rig_free(rig, 0, addr);
        }
    weir_rig_close(rig);
}

Test(block, units_of_every_allowed_size)
{
    for (uint64_t unit = 64; unit <= 4096; unit *= 2) {
        sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.unit_bytes = unit}});
        weir_addr a = weir_rig_alloc(rig, 0, 1);
        weir_addr b = weir_rig_alloc(rig, 0, unit + 1);
        cr_expect_eq(weir_rig_find(rig, a).bytes, unit);
        cr_expect_eq(weir_rig_find(rig, b).bytes, 2 * unit);
        cr_expect_eq(a % unit, 0);
        weir_rig_free(rig, 0, a);
        weir_rig_free(rig, 0, b);
        weir_rig_close(rig);
    }
}

static uint64_t block_size_of(sim_rig *rig, uint64_t bytes)
{
    weir_addr addr = weir_rig_alloc(rig, 0, bytes);
    uint64_t got = weir_rig_find(rig, addr).bytes;
    weir_rig_free(rig, 0, addr);
    return got;
}

Test(block, sizes_are_rounded_by_divisions_of_their_power)
{
    sim_rig *rig = weir_rig_open(&(rig_options){
        .pool = {.roundup_divisions = {[0] = 4, [1] = 1, [2] = 0, [3] = 8, [15] = 2}}});
    cr_expect_eq(block_size_of(rig, 700 * KIB), 768 * KIB);
    cr_expect_eq(block_size_of(rig, 513), 1024, "a step below the unit");
    cr_expect_eq(block_size_of(rig, 5 * KIB), 5 * KIB);
    cr_expect_eq(block_size_of(rig, MIB + 1), MIB + MIB / 4);
    cr_expect_eq(block_size_of(rig, 3 * MIB), 3 * MIB);
    cr_expect_eq(block_size_of(rig, 2 * MIB + 1), 2 * MIB + 512, "entry 1 does not round");
    cr_expect_eq(block_size_of(rig, 5 * MIB + 1), 5 * MIB + 512, "entry 2 does not round");
    cr_expect_eq(block_size_of(rig, 9 * MIB + 1), 10 * MIB);
    weir_rig_close(rig);
}

Test(block, the_last_entry_of_divisions_serves_all_larger_sizes)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = UINT64_C(1) << 40},
                                                .pool = {.roundup_divisions = {[15] = 8}}});
    cr_expect_eq(block_size_of(rig, 69 * GIB), 72 * GIB);
    cr_expect_eq(block_size_of(rig, 33 * GIB), 36 * GIB);
    weir_rig_close(rig);
}

/* --------------------------------------------------------------------------------- alignment -- */

Test(block, every_alignment_up_to_the_granule)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr[44];
    unsigned count = 0;
    for (uint64_t align = 1; align <= RIG_GRANULE; align *= 2) {
        for (uint64_t bytes = 700; bytes <= 3 * MIB; bytes = bytes * 64 * 70) {
            weir_request request = weir_rig_request(rig, 0, bytes);
            request.align = align;
            ASSERT_OK(weir_alloc(rig->pool, &request, &addr[count]));
            cr_expect_eq(addr[count] % align, 0);
            weir_rig_write(rig, 0, addr[count], bytes, count);
            count++;
        }
    }
    weir_rig_check(rig);
    for (unsigned i = 0; i < count; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}

/* -------------------------------------------------------------------------------- arguments -- */

Test(block, bad_arguments_change_nothing)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_request request = weir_rig_request(rig, 0, 512);
    weir_addr addr = 77;
    weir_block block;
    EXPECT_STATUS(weir_alloc(NULL, &request, &addr), WEIR_INVALID);
    EXPECT_STATUS(weir_alloc(rig->pool, NULL, &addr), WEIR_INVALID);
    EXPECT_STATUS(weir_alloc(rig->pool, &request, NULL), WEIR_INVALID);
    EXPECT_STATUS(weir_alloc_on(NULL, rig->stream[0], 1, &addr), WEIR_INVALID);
    EXPECT_STATUS(weir_alloc_on(rig->pool, rig->stream[0], 1, NULL), WEIR_INVALID);
    request.align = 3;
    EXPECT_STATUS(weir_alloc(rig->pool, &request, &addr), WEIR_INVALID);
    request.align = 2 * RIG_GRANULE;
    EXPECT_STATUS(weir_alloc(rig->pool, &request, &addr), WEIR_INVALID);
    request.align = 0;
    request.flags = 1u << 31;
    EXPECT_STATUS(weir_alloc(rig->pool, &request, &addr), WEIR_INVALID);
    request.flags = 0;
    request.size = offsetof(weir_request, stream);
    EXPECT_STATUS(weir_alloc(rig->pool, &request, &addr), WEIR_INVALID);
    cr_expect_eq(addr, 77, "a failed call wrote its result");
    EXPECT_STATUS(weir_free(NULL, 1, 0), WEIR_INVALID);
    EXPECT_STATUS(weir_use(NULL, 1, 0), WEIR_INVALID);
    EXPECT_STATUS(weir_block_find(NULL, 1, &block), WEIR_INVALID);
    EXPECT_STATUS(weir_block_find(rig->pool, 1, NULL), WEIR_INVALID);
    cr_expect_eq(weir_rig_stats(rig).allocs, 0);
    weir_rig_close(rig);
}

Test(block, streams_and_domains_that_are_none_are_stale)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 512);
    weir_request request = weir_rig_request(rig, 0, 512);
    request.stream = 0;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_STALE);
    request.stream = 12345;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_STALE);
    request.stream = rig->stream[0];
    request.domain = 999;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_STALE);
    request.domain = 1; /* a zone of the pool's own */
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_STALE);
    EXPECT_STATUS(weir_free(rig->pool, addr, 54321), WEIR_STALE);
    EXPECT_STATUS(weir_use(rig->pool, addr, 54321), WEIR_STALE);
    EXPECT_STATUS(weir_use(rig->pool, addr, 0), WEIR_STALE);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(block, pointers_that_are_no_blocks_are_not_found)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    static const uint64_t off[] = {1, 512, MIB, 4 * MIB};
    for (size_t i = 0; i < 4; i++) {
        EXPECT_STATUS(weir_free(rig->pool, addr + off[i], rig->stream[0]), WEIR_NOT_FOUND);
        EXPECT_STATUS(weir_use(rig->pool, addr + off[i], rig->stream[0]), WEIR_NOT_FOUND);
        EXPECT_STATUS(weir_pin(rig->pool, addr + off[i]), WEIR_NOT_FOUND);
        EXPECT_STATUS(weir_unpin(rig->pool, addr + off[i]), WEIR_NOT_FOUND);
        EXPECT_STATUS(weir_resize(rig->pool, addr + off[i], 1), WEIR_NOT_FOUND);
    }
    EXPECT_STATUS(weir_free(rig->pool, 0, 0), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_free(rig->pool, UINT64_MAX, 0), WEIR_NOT_FOUND);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_free(rig->pool, addr, rig->stream[0]), WEIR_NOT_FOUND);
    weir_rig_close(rig);
}

Test(block, find_knows_the_block_around_an_inner_address)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 1, MIB);
    weir_block block;
    for (uint64_t off = 0; off < MIB; off += MIB / 4 - 1) {
        block = weir_rig_find(rig, addr + off);
        cr_expect_eq(block.addr, addr);
        cr_expect_eq(block.stream, rig->stream[1]);
        cr_expect(block.live);
        cr_expect(block.mapped);
        cr_expect_not(block.pending);
        cr_expect_not(block.small);
    }
    EXPECT_STATUS(weir_block_find(rig->pool, addr + MIB, &block), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_block_find(rig->pool, addr - 1, &block), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_block_find(rig->pool, 0, &block), WEIR_NOT_FOUND);
    weir_rig_free(rig, 1, addr);
    EXPECT_STATUS(weir_block_find(rig->pool, addr, &block), WEIR_NOT_FOUND);
    weir_rig_close(rig);
}

/* ------------------------------------------------------------------------------------ flags -- */

Test(block, small_blocks_lie_apart)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.small_bytes = 4 * KIB}});
    weir_addr small = weir_rig_alloc(rig, 0, 4 * KIB);
    weir_addr large = weir_rig_alloc(rig, 0, 4 * KIB + 1);
    cr_expect(weir_rig_find(rig, small).small);
    cr_expect_not(weir_rig_find(rig, large).small);
    weir_request request = weir_rig_request(rig, 0, 1024);
    request.flags = WEIR_PINNED;
    weir_addr pinned = 0;
    ASSERT_OK(weir_alloc(rig->pool, &request, &pinned));
    cr_expect_not(weir_rig_find(rig, pinned).small, "a pin in the region of small blocks");
    weir_rig_free(rig, 0, small);
    weir_rig_free(rig, 0, large);
    weir_rig_free(rig, 0, pinned);
    weir_rig_close(rig);
}

Test(block, at_most_max_blocks_live)
{
    weir_addr addr[5];
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.max_blocks = 5}});
    for (unsigned i = 0; i < 5; i++) addr[i] = weir_rig_alloc(rig, 0, 512);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 512)), WEIR_NO_METADATA);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 64 * MIB)), WEIR_NO_METADATA);
    weir_rig_free(rig, 0, addr[2]);
    addr[2] = weir_rig_alloc(rig, 0, 64 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 512)), WEIR_NO_METADATA);
    for (unsigned i = 0; i < 5; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}

Test(block, a_block_freed_on_its_own_stream_costs_no_device_call)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    weir_sim_totals before, after;
    weir_sim_totals_read(rig->sim, &before);
    for (unsigned i = 0; i < 100; i++) {
        weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB - i * 512);
        weir_rig_write(rig, 0, addr, 512, i);
        weir_rig_free(rig, 0, addr);
    }
    weir_sim_totals_read(rig->sim, &after);
    for (unsigned call = 0; call < WEIR_SIM_CALLS; call++)
        cr_expect_eq(after.count[call], before.count[call], "%s",
                     weir_sim_call_name((weir_sim_call)call));
    weir_rig_close(rig);
}

Test(block, a_large_free_run_is_kept_for_large_requests)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.max_split_bytes = 32 * MIB}});
    weir_addr large = weir_rig_alloc(rig, 0, 32 * MIB);
    weir_addr wall = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_free(rig, 0, large);
    weir_addr less = weir_rig_alloc(rig, 0, 4 * MIB);
    cr_expect(less < large || less >= large + 32 * MIB, "the free run was cut");
    cr_expect_eq(weir_rig_alloc(rig, 0, 32 * MIB), large);
    weir_rig_free(rig, 0, large);
    weir_rig_free(rig, 0, wall);
    weir_rig_free(rig, 0, less);
    weir_rig_close(rig);
}

Test(block, a_large_free_run_is_cut_where_there_is_no_other_way)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.pool = {.max_split_bytes = 32 * MIB, .limit_bytes = 32 * MIB,
                                .initial_bytes = 32 * MIB}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 4 * MIB));
    weir_rig_close(rig);
}

typedef struct block_cover {
    weir_addr addr;
    uint64_t bytes;
    unsigned handles; /* that touch it */
} block_cover;

static bool block_note_cover(void *self, const weir_segment *segment)
{
    block_cover *cover = (block_cover *)self;
    cover->handles += segment->addr < cover->addr + cover->bytes &&
                      cover->addr < segment->addr + segment->bytes;
    return true;
}

static unsigned block_handles(sim_rig *rig, weir_addr addr, uint64_t bytes)
{
    block_cover cover = {.addr = addr, .bytes = bytes};
    weir_walk_segments(rig->pool, block_note_cover, &cover);
    return cover.handles;
}

Test(block, one_handle_lies_in_one_handle)
{
    static const uint64_t sizes[] = {1, 512, MIB, 2 * MIB, 3 * MIB, 12 * MIB, 33 * MIB};
    weir_addr addr[7];
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_addr plain = weir_rig_alloc(rig, 0, 12 * MIB);
    cr_expect_gt(block_handles(rig, plain, 12 * MIB), 1);
    weir_rig_free(rig, 0, plain);
    for (unsigned i = 0; i < 7; i++) {
        weir_request request = weir_rig_request(rig, 0, sizes[i]);
        request.flags = WEIR_ONE_HANDLE;
        request.align = i % 2 == 0 ? 0 : MIB;
        ASSERT_OK(weir_alloc(rig->pool, &request, &addr[i]));
        cr_expect_eq(block_handles(rig, addr[i], sizes[i]), 1, "%llu bytes",
                     (unsigned long long)sizes[i]);
        if (i % 2 == 1) cr_expect_eq(addr[i] % MIB, 0);
        weir_rig_write(rig, 0, addr[i], sizes[i], i);
        weir_rig_check(rig);
    }
    for (unsigned i = 0; i < 7; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}

Test(block, one_handle_takes_its_room_from_free_memory)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 16 * MIB,
                                                         .growth_bytes = 2 * MIB}});
    weir_request request = weir_rig_request(rig, 0, 12 * MIB);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 16 * MIB));
    request.flags = WEIR_ONE_HANDLE;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    cr_expect_leq(weir_rig_stats(rig).reserved.peak, 16 * MIB);
    weir_rig_close(rig);
}

Test(block, one_handle_longer_than_the_arena_gets_another_range)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.va_bytes = 8 * MIB}});
    weir_addr addr = 0;
    weir_request request = weir_rig_request(rig, 0, 12 * MIB);
    weir_addr first = weir_rig_alloc(rig, 0, MIB);
    request.flags = WEIR_ONE_HANDLE;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    cr_expect_eq(block_handles(rig, addr, 12 * MIB), 1);
    cr_expect_eq(weir_rig_stats(rig).va_reserves, 2);
    weir_rig_free(rig, 0, addr);
    weir_rig_free(rig, 0, first);
    weir_rig_close(rig);
}

Test(block, one_handle_on_segments)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.no_virtual = true}});
    weir_request request = weir_rig_request(rig, 0, 12 * MIB);
    request.flags = WEIR_ONE_HANDLE;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    weir_rig_close(rig);
}

Test(block, one_handle_is_no_longer_than_the_device_makes_them)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.handle_bytes_max = 8 * MIB}});
    weir_request request = weir_rig_request(rig, 0, 8 * MIB + 1);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB + 1));
    request.flags = WEIR_ONE_HANDLE;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_UNSUPPORTED);
    request.bytes = 8 * MIB;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    weir_rig_close(rig);
}

/* ----------------------------------------------------------------------------------- memory -- */

/* Fills a pool's records while every k-th host allocation fails: calls answer NO_METADATA or work,
 * and what lives stays as it is. */
static void block_run_short(uint64_t k)
{
    weir_addr addr[200];
    unsigned count = 0;
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    for (unsigned i = 0; i < 200; i++) {
        weir_host_memory_fail(&rig->memory, k, false);
        weir_status status =
            weir_alloc_on(rig->pool, rig->stream[i % 2], 3000 * (i + 1), &addr[count]);
        cr_assert(status == WEIR_OK || status == WEIR_NO_METADATA, "%s", weir_status_name(status));
        if (status != WEIR_OK) continue;
        weir_host_memory_fail(&rig->memory, k, false);
        (void)weir_use(rig->pool, addr[count], rig->stream[(i + 1) % 2]);
        weir_host_memory_fail(&rig->memory, k, false);
        (void)weir_pin(rig->pool, addr[count]);
        count++;
    }
    weir_rig_check(rig);
    for (unsigned i = 0; i < count; i++) {
        weir_host_memory_fail(&rig->memory, k, false);
        if (weir_free(rig->pool, addr[i], rig->stream[1]) == WEIR_OK) continue;
        weir_host_memory_fail(&rig->memory, 0, false);
        weir_rig_free(rig, 1, addr[i]);
    }
    weir_rig_check(rig);
    weir_host_memory_fail(&rig->memory, 0, false);
    weir_rig_close(rig);
}

Test(block, calls_survive_short_host_memory)
{
    for (uint64_t k = 1; k < 8; k++) block_run_short(k);
}
