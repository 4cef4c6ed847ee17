/* SPDX-License-Identifier: MIT */
/* Numbers, reports and walks: every field of weir_stats says what happened. */
#include "rig.h"

#include <string.h>

/* ------------------------------------------------------------------------------------ stats -- */

Test(stats, amounts_of_live_blocks)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 64 * MIB}});
    weir_addr a = weir_rig_alloc(rig, 0, 1000), b = weir_rig_alloc(rig, 0, 3 * MIB + 1);
    weir_stats s = weir_rig_stats(rig);
    cr_expect_eq(s.size, sizeof(s));
    cr_expect_eq(s.limit_bytes, 64 * MIB);
    cr_expect_eq(s.requested.current, 1000 + 3 * MIB + 1);
    cr_expect_eq(s.allocated.current, 1024 + 3 * MIB + 512);
    cr_expect_eq(s.blocks.current, 2);
    cr_expect_eq(s.by_class[0].current, 1);
    cr_expect_eq(s.by_class[12].current, 1);
    weir_rig_free(rig, 0, a);
    s = weir_rig_stats(rig);
    cr_expect_eq(s.requested.current, 3 * MIB + 1);
    cr_expect_eq(s.requested.peak, 1000 + 3 * MIB + 1);
    cr_expect_eq(s.allocated.peak, 1024 + 3 * MIB + 512);
    cr_expect_eq(s.blocks.peak, 2);
    cr_expect_eq(s.by_class[0].current, 0);
    cr_expect_eq(s.by_class[0].peak, 1);
    weir_rig_free(rig, 0, b);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 512));
    s = weir_rig_stats(rig);
    cr_expect_eq(s.requested.total, 1000 + 3 * MIB + 1 + 512);
    cr_expect_eq(s.allocated.total, 1024 + 3 * MIB + 512 + 512);
    cr_expect_eq(s.blocks.total, 3);
    cr_expect_eq(s.by_class[0].total, 2);
    cr_expect_eq(s.allocs, 3);
    cr_expect_eq(s.frees, 3);
    cr_expect_eq(s.fails, 0);
    weir_rig_close(rig);
}

Test(stats, size_classes_are_powers_of_two_of_what_was_asked)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = UINT64_C(1) << 42}});
    for (uint32_t i = 0; i < 32; i++) {
        weir_addr addr = weir_rig_alloc(rig, 0, (UINT64_C(1) << (i + 9)) + 1);
        cr_expect_eq(weir_rig_stats(rig).by_class[i].current, 1, "class %u", i);
        weir_rig_free(rig, 0, addr);
        if (i == 0) continue;
        addr = weir_rig_alloc(rig, 0, (UINT64_C(1) << (i + 9)) - 1);
        cr_expect_eq(weir_rig_stats(rig).by_class[i - 1].current, 1, "below class %u", i);
        weir_rig_free(rig, 0, addr);
    }
    weir_rig_close(rig);
}

Test(stats, held_memory_and_its_handles)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_stats s = weir_rig_stats(rig);
    weir_sim_totals totals;
    weir_sim_totals_read(rig->sim, &totals);
    cr_expect_eq(s.reserved.current, totals.held_bytes);
    cr_expect_eq(s.segments.current, totals.count[WEIR_SIM_handle_create]);
    cr_expect_eq(s.reserved.total, totals.held_bytes);
    cr_expect_eq(s.segments.total, s.segments.current);
    weir_rig_free(rig, 0, addr);
    uint64_t held = s.reserved.current;
    cr_expect_eq(weir_rig_stats(rig).largest_free_bytes, held);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    s = weir_rig_stats(rig);
    cr_expect_eq(s.reserved.current, 0);
    cr_expect_eq(s.reserved.peak, held);
    cr_expect_eq(s.segments.current, 0);
    cr_expect_gt(s.segments.peak, 0);
    cr_expect_eq(s.largest_free_bytes, 0);
    weir_rig_close(rig);
}

Test(stats, peaks_are_set_to_now)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB), keep = weir_rig_alloc(rig, 0, MIB);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_rig_free(rig, 0, addr);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(weir_rig_stats(rig).pending.peak, 8 * MIB);
    cr_expect_eq(weir_rig_stats(rig).pending.total, 8 * MIB);
    weir_stats_reset_peaks(rig->pool);
    weir_stats s = weir_rig_stats(rig);
    const weir_amount *amounts[] = {&s.requested, &s.allocated, &s.reserved, &s.pending,
                                    &s.blocks,    &s.segments,  &s.by_class[14]};
    for (size_t i = 0; i < sizeof(amounts) / sizeof(amounts[0]); i++)
        cr_expect_eq(amounts[i]->peak, amounts[i]->current, "amount %zu", i);
    cr_expect_eq(s.requested.total, 9 * MIB, "totals stay");
    weir_rig_free(rig, 0, keep);
    weir_rig_close(rig);
}

Test(stats, device_calls_are_those_that_the_device_saw)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 10}, .streams = 3,
                                                .pool = {.limit_bytes = 64 * MIB,
                                                         .growth_bytes = 2 * MIB}});
    for (unsigned i = 0; i < 200; i++) {
        weir_addr addr = weir_rig_alloc(rig, i % 3, (i * 7 % 50 + 1) * MIB);
        weir_rig_write(rig, i % 3, addr, MIB, i);
        if (i % 5 == 0) ASSERT_OK(weir_use(rig->pool, addr, rig->stream[(i + 1) % 3]));
        weir_rig_free(rig, (i + i % 2) % 3, addr);
        if (i % 50 == 49) ASSERT_OK(weir_trim(rig->pool, 4 * MIB, WEIR_FOREVER, NULL));
    }
    weir_stats s = weir_rig_stats(rig);
    cr_expect_eq(s.va_reserves, weir_rig_calls(rig, WEIR_SIM_va_reserve));
    cr_expect_eq(s.va_frees, weir_rig_calls(rig, WEIR_SIM_va_free));
    cr_expect_eq(s.creates, weir_rig_calls(rig, WEIR_SIM_handle_create));
    cr_expect_eq(s.releases, weir_rig_calls(rig, WEIR_SIM_handle_release));
    cr_expect_eq(s.maps, weir_rig_calls(rig, WEIR_SIM_map));
    cr_expect_eq(s.accesses, weir_rig_calls(rig, WEIR_SIM_set_access));
    cr_expect_eq(s.unmaps, weir_rig_calls(rig, WEIR_SIM_unmap));
    cr_expect_eq(s.event_creates, weir_rig_calls(rig, WEIR_SIM_event_create));
    cr_expect_eq(s.event_destroys, weir_rig_calls(rig, WEIR_SIM_event_destroy));
    cr_expect_eq(s.event_records, weir_rig_calls(rig, WEIR_SIM_event_record));
    cr_expect_eq(s.event_queries, weir_rig_calls(rig, WEIR_SIM_event_query));
    cr_expect_eq(s.stream_waits, weir_rig_calls(rig, WEIR_SIM_stream_wait));
    cr_expect_eq(s.host_waits, weir_rig_calls(rig, WEIR_SIM_event_wait) +
                                   weir_rig_calls(rig, WEIR_SIM_quiesce));
    cr_expect_eq(s.copies, weir_rig_calls(rig, WEIR_SIM_copy));
    cr_expect_gt(s.releases, 0);
    cr_expect_gt(s.stream_waits, 0);
    weir_rig_close(rig);
}

Test(stats, an_older_struct_is_filled_to_its_size)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 1000);
    weir_stats stats;
    memset(&stats, 0xEE, sizeof(stats));
    stats.size = offsetof(weir_stats, allocated);
    weir_stats_read(rig->pool, &stats);
    cr_expect_eq(stats.size, offsetof(weir_stats, allocated));
    cr_expect_eq(stats.requested.current, 1000);
    cr_expect_eq(stats.allocated.current, UINT64_C(0xEEEEEEEEEEEEEEEE));
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

/* -------------------------------------------------------------------------------------- oom -- */

Test(stats, no_report_before_the_first_failure)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_oom oom = {.size = sizeof(oom)};
    EXPECT_STATUS(weir_oom_read(rig->pool, &oom), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_oom_read(NULL, &oom), WEIR_INVALID);
    EXPECT_STATUS(weir_oom_read(rig->pool, NULL), WEIR_INVALID);
    cr_expect_eq(weir_native_error(rig->pool), 0);
    weir_rig_close(rig);
}

Test(stats, a_report_says_where_the_bytes_are)
{
    sim_rig *rig = weir_rig_open(&(rig_options){
        .sim = {.memory_bytes = 128 * MIB, .lag_us = 100}, .streams = 2,
        .pool = {.limit_bytes = 64 * MIB, .growth_bytes = 2 * MIB, .no_rescue = true,
                 .no_stream_reuse = true}});
    weir_addr live = weir_rig_alloc(rig, 0, 16 * MIB);
    weir_addr pending = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_sim_stall(rig->sim, rig->native[1]);
    weir_rig_write(rig, 1, 0, 0, 0);
    ASSERT_OK(weir_use(rig->pool, pending, rig->stream[1]));
    weir_rig_free(rig, 0, pending);
    weir_request request = weir_rig_request(rig, 0, 44 * MIB);
    request.flags = WEIR_NOWAIT;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_WOULD_WAIT);
    weir_oom oom = weir_rig_oom(rig);
    cr_expect_eq(oom.status, WEIR_WOULD_WAIT);
    cr_expect_eq(oom.asked_bytes, 44 * MIB);
    cr_expect_eq(oom.stream, rig->stream[0]);
    cr_expect_eq(oom.limit_bytes, 64 * MIB);
    cr_expect_eq(oom.reserved_bytes, weir_rig_stats(rig).reserved.current);
    cr_expect_eq(oom.allocated_bytes, 16 * MIB);
    cr_expect_eq(oom.quarantined_bytes, 0);
    cr_expect_eq(oom.device_free_bytes, 128 * MIB - oom.reserved_bytes);
    cr_expect_eq(oom.short_bytes, 44 * MIB - (64 * MIB - oom.reserved_bytes));
    cr_expect(oom.wait_would_help);
    cr_expect_geq(oom.free_bytes + oom.other_stream_bytes, oom.reserved_bytes - 16 * MIB);
    cr_expect_leq(oom.largest_free_bytes, oom.free_bytes);
    cr_expect_eq(weir_rig_stats(rig).fails, 1);
    weir_sim_go(rig->sim, rig->native[1]);
    weir_rig_free(rig, 0, live);
    weir_rig_close(rig);
}

Test(stats, stranded_bytes_share_a_handle_with_live_ones)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.no_virtual = true},
                                                .pool = {.limit_bytes = 8 * MIB,
                                                         .initial_bytes = 8 * MIB}});
    weir_addr a = weir_rig_alloc(rig, 0, 3 * MIB), b = weir_rig_alloc(rig, 0, MIB);
    weir_rig_free(rig, 0, a);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 6 * MIB)), WEIR_NO_MEMORY);
    weir_oom oom = weir_rig_oom(rig);
    cr_expect_eq(oom.free_bytes, 7 * MIB);
    cr_expect_eq(oom.stranded_bytes, 7 * MIB);
    cr_expect_eq(oom.largest_free_bytes, 4 * MIB);
    cr_expect_not(oom.wait_would_help);
    weir_rig_free(rig, 0, b);
    weir_rig_close(rig);
}

Test(stats, without_memory_info_the_device_is_not_mentioned)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.sim = {.memory_bytes = 8 * MIB, .no_memory_info = true}});
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_oom(rig).device_free_bytes, 0);
    cr_expect_eq(weir_rig_oom(rig).limit_bytes, WEIR_NO_LIMIT);
    weir_rig_close(rig);
    rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = 8 * MIB}});
    weir_sim_fail(rig->sim, WEIR_SIM_memory_info, 1, true, WEIR_DEVICE);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_oom(rig).device_free_bytes, 0);
    weir_rig_close(rig);
}

/* ------------------------------------------------------------------------------------- walks -- */

typedef struct stats_walk {
    weir_addr last_end;
    uint64_t live, free_bytes, unmapped, pending, mapped, count, stop_at;
} stats_walk;

static bool stats_visit_block(void *self, const weir_block *block)
{
    stats_walk *walk = (stats_walk *)self;
    cr_assert_geq(block->addr, walk->last_end, "blocks overlap or are out of order");
    walk->last_end = block->addr + block->bytes;
    if (block->live) walk->live += block->bytes;
    else if (!block->mapped) walk->unmapped += block->bytes;
    else if (block->pending) walk->pending += block->bytes;
    else walk->free_bytes += block->bytes;
    if (block->mapped) walk->mapped += block->bytes;
    return ++walk->count != walk->stop_at;
}

Test(stats, blocks_are_walked_in_the_order_of_addresses)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_addr addr[6];
    stats_walk walk = {0}, first = {.stop_at = 1};
    for (unsigned i = 0; i < 6; i++) addr[i] = weir_rig_alloc(rig, 0, (i + 1) * MIB);
    ASSERT_OK(weir_use(rig->pool, addr[1], rig->stream[1]));
    weir_rig_free(rig, 0, addr[1]);
    weir_rig_free(rig, 0, addr[3]);
    weir_walk_blocks(rig->pool, stats_visit_block, &walk);
    weir_stats s = weir_rig_stats(rig);
    cr_expect_eq(walk.live, s.allocated.current);
    cr_expect_eq(walk.mapped, s.reserved.current);
    cr_expect_geq(walk.pending, s.pending.current);
    cr_expect_gt(walk.unmapped, 0);
    weir_walk_blocks(rig->pool, stats_visit_block, &first);
    cr_expect_eq(first.count, 1);
    for (unsigned i = 0; i < 6; i++)
        if (i != 1 && i != 3) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}

typedef struct stats_segments {
    uint64_t bytes, mapped, count, stop_at;
} stats_segments;

static bool stats_visit_segment(void *self, const weir_segment *segment)
{
    stats_segments *sum = (stats_segments *)self;
    cr_assert_neq(segment->handle, 0);
    cr_assert_not(segment->quarantined);
    sum->bytes += segment->bytes;
    if (segment->addr != 0) sum->mapped += segment->bytes;
    return ++sum->count != sum->stop_at;
}

Test(stats, handles_are_walked_in_the_order_of_creation)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_addr addr = weir_rig_alloc(rig, 0, 20 * MIB);
    stats_segments sum = {0}, first = {.stop_at = 1};
    weir_walk_segments(rig->pool, stats_visit_segment, &sum);
    weir_stats s = weir_rig_stats(rig);
    cr_expect_eq(sum.bytes, s.reserved.current);
    cr_expect_eq(sum.count, s.segments.current);
    cr_expect_eq(sum.bytes - sum.mapped, s.idle_bytes);
    weir_walk_segments(rig->pool, stats_visit_segment, &first);
    cr_expect_eq(first.count, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}
