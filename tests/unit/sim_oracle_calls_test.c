/* SPDX-License-Identifier: MIT */
/*
 * The simulated device as a judge of calls: each breach of the backend contract is provoked and must
 * be reported in words that name it, and what the contract allows must pass in silence.
 */
#include "sim_oracle_rig.h"

/* ------------------------------------------------------------------------------------ memory -- */

Test(sim_oracle, unmap_under_unfinished_work)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 2);
    weir_handle handle = oracle_handle(rig, 1);
    oracle_map(rig, base, 1, handle);
    oracle_map(rig, base + GRANULE, 1, handle);
    cr_expect(weir_sim_write(rig->sim, stream, base, 8, 1));
    cr_expect_eq(rig->ops->unmap(rig->sim, base + GRANULE, GRANULE), WEIR_OK);
    EXPECT_LEGAL(rig);
    cr_expect_eq(rig->ops->unmap(rig->sim, base, GRANULE), WEIR_INVALID);
    EXPECT_BREACH(rig, "has not ended");
    weir_sim_sync(rig->sim, stream);
    cr_expect_eq(rig->ops->unmap(rig->sim, base, GRANULE), WEIR_OK);
    EXPECT_BREACH(rig, "has not ended");
    oracle_close(rig);
}

Test(sim_oracle, an_order_of_streams_does_not_allow_an_unmap)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    weir_sim_stall(rig->sim, a);
    cr_expect(weir_sim_write(rig->sim, a, base, 8, 1));
    cr_assert_eq(rig->ops->stream_wait(rig->sim, b, oracle_record(rig, a)), WEIR_OK);
    cr_expect(weir_sim_write(rig->sim, b, base, 8, 1));
    cr_expect_eq(rig->ops->unmap(rig->sim, base, GRANULE), WEIR_INVALID);
    EXPECT_BREACH(rig, "has not ended");
    oracle_close(rig);
}

Test(sim_oracle, release_while_mapped)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 1);
    weir_handle handle = oracle_handle(rig, 1);
    oracle_map(rig, base, 1, handle);
    cr_expect_eq(rig->ops->handle_release(rig->sim, handle, GRANULE), WEIR_INVALID);
    EXPECT_BREACH(rig, "still mapped");
    oracle_close(rig);
}

Test(sim_oracle, release_twice)
{
    oracle_rig *rig = oracle_open_default();
    weir_handle handle = oracle_handle(rig, 1);
    cr_expect_eq(rig->ops->handle_release(rig->sim, handle, GRANULE), WEIR_OK);
    weir_handle other = oracle_handle(rig, 1);
    cr_expect_neq(handle, other);
    EXPECT_LEGAL(rig);
    rig->ops->handle_release(rig->sim, handle, GRANULE);
    EXPECT_BREACH(rig, "no such handle");
    oracle_close(rig);
}

Test(sim_oracle, release_with_a_wrong_size)
{
    oracle_rig *rig = oracle_open_default();
    rig->ops->handle_release(rig->sim, oracle_handle(rig, 1), 2 * GRANULE);
    EXPECT_BREACH(rig, "no such handle of that size");
    oracle_close(rig);
}

Test(sim_oracle, unmap_of_a_part)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_memory(rig, 2);
    rig->ops->unmap(rig->sim, base, GRANULE);
    EXPECT_BREACH(rig, "only a part of a mapping");
    oracle_close(rig);
}

Test(sim_oracle, unmap_of_the_end_of_a_mapping)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_memory(rig, 2);
    rig->ops->unmap(rig->sim, base + GRANULE, GRANULE);
    EXPECT_BREACH(rig, "only a part of a mapping");
    oracle_close(rig);
}

Test(sim_oracle, unmap_across_a_gap)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 3);
    oracle_map(rig, base, 1, oracle_handle(rig, 1));
    oracle_map(rig, base + 2 * GRANULE, 1, oracle_handle(rig, 1));
    rig->ops->unmap(rig->sim, base, 3 * GRANULE);
    EXPECT_BREACH(rig, "part of it is not mapped");
    cr_expect(weir_sim_mapped(rig->sim, base, GRANULE), "a breach has no effect");
    oracle_close(rig);
}

Test(sim_oracle, map_over_a_mapping)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 2);
    oracle_map(rig, base + GRANULE, 1, oracle_handle(rig, 1));
    rig->ops->map(rig->sim, base, 2 * GRANULE, oracle_handle(rig, 2));
    EXPECT_BREACH(rig, "mapped already");
    oracle_close(rig);
}

Test(sim_oracle, map_of_a_part)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 2);
    rig->ops->map(rig->sim, base, GRANULE, oracle_handle(rig, 2));
    EXPECT_BREACH(rig, "whole or not at all");
    oracle_close(rig);
}

Test(sim_oracle, map_outside_every_range)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 2);
    rig->ops->map(rig->sim, base + GRANULE, 2 * GRANULE, oracle_handle(rig, 2));
    EXPECT_BREACH(rig, "outside every reserved range");
    oracle_close(rig);
}

Test(sim_oracle, map_off_the_grid)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 2);
    rig->ops->map(rig->sim, base + 4096, GRANULE, oracle_handle(rig, 1));
    EXPECT_BREACH(rig, "not whole granules");
    oracle_close(rig);
}

Test(sim_oracle, map_of_no_handle)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 1);
    rig->ops->map(rig->sim, base, GRANULE, 12345);
    EXPECT_BREACH(rig, "no such handle");
    oracle_close(rig);
}

Test(sim_oracle, access_to_unmapped_addresses)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 2);
    cr_assert_eq(rig->ops->map(rig->sim, base, GRANULE, oracle_handle(rig, 1)), WEIR_OK);
    rig->ops->set_access(rig->sim, base, 2 * GRANULE);
    EXPECT_BREACH(rig, "part of it is not mapped");
    cr_expect_not(weir_sim_mapped(rig->sim, base, 1), "a breach has no effect");
    oracle_close(rig);
}

Test(sim_oracle, sizes_are_whole_granules)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = 0;
    weir_handle handle = 0;
    rig->ops->va_reserve(rig->sim, 0, &base);
    EXPECT_BREACH(rig, "not whole granules");
    rig->ops->va_reserve(rig->sim, GRANULE + 1, &base);
    rig->ops->handle_create(rig->sim, 0, &handle);
    rig->ops->handle_create(rig->sim, GRANULE / 2, &handle);
    cr_expect_eq(rig->breaches, 4);
    cr_expect_eq(base, 0);
    cr_expect_eq(handle, 0);
    oracle_close(rig);
}

Test(sim_oracle, va_free_of_what_is_mapped)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_memory(rig, 1);
    rig->ops->va_free(rig->sim, base, GRANULE);
    EXPECT_BREACH(rig, "still mapped");
    oracle_close(rig);
}

Test(sim_oracle, va_free_of_a_part)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_reserve(rig, 2);
    rig->ops->va_free(rig->sim, base, GRANULE);
    EXPECT_BREACH(rig, "not a reserved range");
    oracle_close(rig);
}

/* ---------------------------------------------------------------------------------- segments -- */

Test(sim_oracle, segment_free_under_unfinished_work)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.no_virtual = true, .lag_us = 10});
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr addr = 0;
    cr_assert_eq(rig->ops->segment_alloc(rig->sim, GRANULE, &addr), WEIR_OK);
    cr_expect(weir_sim_write(rig->sim, stream, addr, 8, 1));
    cr_expect_eq(rig->ops->segment_free(rig->sim, addr, GRANULE), WEIR_INVALID);
    EXPECT_BREACH(rig, "has not ended");
    oracle_close(rig);
}

Test(sim_oracle, work_stays_inside_one_segment)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.no_virtual = true});
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr first = 0;
    weir_addr second = 0;
    cr_assert_eq(rig->ops->segment_alloc(rig->sim, GRANULE, &first), WEIR_OK);
    cr_assert_eq(rig->ops->segment_alloc(rig->sim, GRANULE, &second), WEIR_OK);
    cr_assert_eq(second, first + GRANULE, "neighbours, to tempt a pool into joining them");
    cr_expect_not(weir_sim_write(rig->sim, stream, first + GRANULE - 8, 16, 1));
    EXPECT_BREACH(rig, "leaves its segment");
    oracle_close(rig);
}

Test(sim_oracle, segments_are_freed_whole)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.no_virtual = true});
    weir_addr addr = 0;
    cr_assert_eq(rig->ops->segment_alloc(rig->sim, 2 * GRANULE, &addr), WEIR_OK);
    rig->ops->segment_free(rig->sim, addr, GRANULE);
    EXPECT_BREACH(rig, "not a segment");
    oracle_close(rig);
}

/* ------------------------------------------------------------------------------------ events -- */

Test(sim_oracle, an_event_must_be_recorded_first)
{
    oracle_rig *rig = oracle_open_default();
    weir_event event = 0;
    bool passed = false;
    cr_assert_eq(rig->ops->event_create(rig->sim, &event), WEIR_OK);
    rig->ops->event_query(rig->sim, event, &passed);
    EXPECT_BREACH(rig, "never recorded");
    rig->ops->stream_wait(rig->sim, weir_sim_stream_create(rig->sim), event);
    rig->ops->event_wait(rig->sim, event, 0, &passed);
    cr_expect_eq(rig->breaches, 3);
    oracle_close(rig);
}

Test(sim_oracle, a_destroyed_event_is_gone)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_event event = oracle_record(rig, stream);
    rig->ops->event_destroy(rig->sim, event);
    weir_event next = oracle_record(rig, stream);
    cr_expect_neq(event, next);
    EXPECT_LEGAL(rig);
    bool passed = false;
    rig->ops->event_query(rig->sim, event, &passed);
    EXPECT_BREACH(rig, "was destroyed");
    rig->ops->event_destroy(rig->sim, event);
    rig->ops->event_record(rig->sim, event, stream);
    cr_expect_eq(rig->breaches, 3);
    oracle_close(rig);
}

Test(sim_oracle, an_event_outlives_its_stream)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    cr_expect(weir_sim_write(rig->sim, a, base, 8, 1));
    weir_event event = oracle_record(rig, a);
    weir_sim_stream_destroy(rig->sim, a);
    cr_assert_eq(rig->ops->stream_wait(rig->sim, b, event), WEIR_OK);
    cr_expect(weir_sim_read(rig->sim, b, base, 8, 1));
    EXPECT_LEGAL(rig);
    rig->ops->event_record(rig->sim, event, a);
    EXPECT_BREACH(rig, "was destroyed");
    oracle_close(rig);
}

Test(sim_oracle, an_endless_wait_on_a_stalled_stream_hangs)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_sim_stall(rig->sim, stream);
    cr_expect(weir_sim_write(rig->sim, stream, 0, 0, 1));
    weir_event event = oracle_record(rig, stream);
    bool passed = true;
    cr_expect_eq(rig->ops->event_wait(rig->sim, event, 500, &passed), WEIR_OK);
    cr_expect_not(passed);
    cr_expect_eq(weir_sim_time(rig->sim), 500);
    EXPECT_LEGAL(rig);
    cr_expect_eq(rig->ops->event_wait(rig->sim, event, WEIR_FOREVER, &passed), WEIR_DEVICE);
    EXPECT_BREACH(rig, "would hang");
    cr_expect_eq(rig->ops->quiesce(rig->sim, WEIR_FOREVER), WEIR_DEVICE);
    cr_expect_eq(rig->breaches, 2);
    oracle_close(rig);
}

/* ------------------------------------------------------------------------------------ rescue -- */

Test(sim_oracle, a_quiet_device_starts_no_work)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    cr_assert_eq(rig->ops->quiesce(rig->sim, WEIR_FOREVER), WEIR_OK);
    cr_expect_not(weir_sim_write(rig->sim, stream, base, 8, 1));
    EXPECT_BREACH(rig, "between quiesce and resume");
    cr_assert_eq(rig->ops->resume(rig->sim), WEIR_OK);
    cr_expect(weir_sim_write(rig->sim, stream, base, 8, 1));
    EXPECT_BREACH(rig, "between quiesce and resume");
    oracle_close(rig);
}

Test(sim_oracle, a_copy_needs_a_quiet_device)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_memory(rig, 2);
    rig->ops->copy(rig->sim, base, base + GRANULE, GRANULE);
    EXPECT_BREACH(rig, "outside quiesce and resume");
    rig->ops->resume(rig->sim);
    cr_expect_eq(rig->breaches, 2);
    oracle_close(rig);
}

Test(sim_oracle, a_copy_may_not_overlap)
{
    oracle_rig *rig = oracle_open_default();
    weir_addr base = oracle_memory(rig, 2);
    cr_assert_eq(rig->ops->quiesce(rig->sim, 0), WEIR_OK);
    rig->ops->copy(rig->sim, base, base + 4096, GRANULE);
    EXPECT_BREACH(rig, "overlapping");
    oracle_close(rig);
}

Test(sim_oracle, a_copy_moves_the_tags)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr from = oracle_memory(rig, 2);
    weir_addr to = oracle_reserve(rig, 2);
    oracle_map(rig, to, 1, oracle_handle(rig, 1));
    oracle_map(rig, to + GRANULE, 1, oracle_handle(rig, 1));
    cr_expect(weir_sim_write(rig->sim, a, from + GRANULE - 100, 200, 5));
    cr_expect(weir_sim_write(rig->sim, a, to, 2 * GRANULE, 6));
    cr_assert_eq(rig->ops->quiesce(rig->sim, 100), WEIR_OK);
    cr_assert_eq(rig->ops->copy(rig->sim, to, from, 2 * GRANULE), WEIR_OK);
    cr_assert_eq(rig->ops->resume(rig->sim), WEIR_OK);
    cr_expect(weir_sim_read(rig->sim, b, to + GRANULE - 100, 200, 5));
    cr_expect(weir_sim_read(rig->sim, b, from + GRANULE - 100, 200, 5));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_read(rig->sim, b, to, 8, 6));
    EXPECT_BREACH(rig, "never written");
    oracle_close(rig);
}
