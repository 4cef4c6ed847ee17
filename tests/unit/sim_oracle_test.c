/* SPDX-License-Identifier: MIT */
/*
 * The simulated device as a judge: each breach of the backend contract is provoked by raw calls and
 * must be reported in words that name it, and what the contract allows must pass in silence.
 */
#include "sim.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE (UINT64_C(2) << 20)

/* A simulator, its calls, and the breaches it reported. */
typedef struct oracle_rig {
    weir_sim *sim;
    const weir_device_ops *ops;
    unsigned breaches;
    char last[4096];
} oracle_rig;

static void oracle_note(void *self, const char *text)
{
    oracle_rig *rig = (oracle_rig *)self;
    rig->breaches++;
    strncpy(rig->last, text, sizeof(rig->last) - 1);
}

static oracle_rig *oracle_open(weir_sim_config config)
{
    oracle_rig *rig = (oracle_rig *)calloc(1, sizeof(*rig));
    cr_assert_not_null(rig);
    config.oracle = true;
    config.breach = oracle_note;
    config.breach_self = rig;
    rig->sim = weir_sim_create(&config);
    cr_assert_not_null(rig->sim);
    rig->ops = weir_sim_ops(rig->sim);
    return rig;
}

static oracle_rig *oracle_open_default(void)
{
    return oracle_open((weir_sim_config){0});
}

static void oracle_close(oracle_rig *rig)
{
    weir_sim_totals totals;
    weir_sim_totals_read(rig->sim, &totals);
    cr_expect_eq(totals.breaches, rig->breaches);
    weir_sim_destroy(rig->sim);
    free(rig);
}

/* One breach since the last look, whose text holds `words`. */
#define EXPECT_BREACH(rig, words) \
    do { \
        cr_expect_eq((rig)->breaches, 1, "%u breaches: %s", (rig)->breaches, (rig)->last); \
        cr_expect(strstr((rig)->last, (words)) != NULL, "wrong text: %s", (rig)->last); \
        weir_sim_totals totals_; \
        weir_sim_totals_read((rig)->sim, &totals_); \
        cr_expect_geq(totals_.breaches, 1); \
    } while (0)

#define EXPECT_LEGAL(rig) cr_expect_eq((rig)->breaches, 0, "unexpected: %s", (rig)->last)

static weir_addr oracle_reserve(oracle_rig *rig, uint64_t granules)
{
    weir_addr base = 0;
    cr_assert_eq(rig->ops->va_reserve(rig->sim, granules * GRANULE, &base), WEIR_OK);
    return base;
}

static weir_handle oracle_handle(oracle_rig *rig, uint64_t granules)
{
    weir_handle handle = 0;
    cr_assert_eq(rig->ops->handle_create(rig->sim, granules * GRANULE, &handle), WEIR_OK);
    return handle;
}

static void oracle_map(oracle_rig *rig, weir_addr addr, uint64_t granules, weir_handle handle)
{
    cr_assert_eq(rig->ops->map(rig->sim, addr, granules * GRANULE, handle), WEIR_OK);
    cr_assert_eq(rig->ops->set_access(rig->sim, addr, granules * GRANULE), WEIR_OK);
}

/* A range of `granules` mapped by one handle. */
static weir_addr oracle_memory(oracle_rig *rig, uint64_t granules)
{
    weir_addr base = oracle_reserve(rig, granules);
    oracle_map(rig, base, granules, oracle_handle(rig, granules));
    return base;
}

static weir_event oracle_record(oracle_rig *rig, uint64_t stream)
{
    weir_event event = 0;
    cr_assert_eq(rig->ops->event_create(rig->sim, &event), WEIR_OK);
    cr_assert_eq(rig->ops->event_record(rig->sim, event, stream), WEIR_OK);
    return event;
}

/* ------------------------------------------------------------------------- work and its bytes -- */

Test(sim_oracle, work_needs_mapped_bytes)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 2);
    cr_expect_not(weir_sim_write(rig->sim, stream, base, 512, 1));
    EXPECT_BREACH(rig, "nothing is mapped");
    oracle_close(rig);
}

Test(sim_oracle, work_needs_every_byte_mapped)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 2);
    oracle_map(rig, base, 1, oracle_handle(rig, 1));
    cr_expect(weir_sim_write(rig->sim, stream, base + GRANULE - 512, 512, 1));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_write(rig->sim, stream, base + GRANULE - 512, 513, 1));
    EXPECT_BREACH(rig, "nothing is mapped");
    cr_expect(weir_sim_mapped(rig->sim, base, GRANULE));
    cr_expect_not(weir_sim_mapped(rig->sim, base, GRANULE + 1));
    cr_expect_not(weir_sim_mapped(rig->sim, base, UINT64_MAX));
    oracle_close(rig);
}

Test(sim_oracle, work_needs_access)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 1);
    cr_assert_eq(rig->ops->map(rig->sim, base, GRANULE, oracle_handle(rig, 1)), WEIR_OK);
    cr_expect_not(weir_sim_write(rig->sim, stream, base, 512, 1));
    EXPECT_BREACH(rig, "no access");
    oracle_close(rig);
}

Test(sim_oracle, unordered_streams_may_not_share_bytes)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    cr_expect(weir_sim_write(rig->sim, b, base + 4096, 4096, 2));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_write(rig->sim, b, base + 4095, 1, 3));
    EXPECT_BREACH(rig, "still in use by work 1 of stream 1");
    cr_expect(strstr(rig->last, "write [0x700000000000, +4096) on stream 1") != NULL,
              "no history: %s", rig->last);
    oracle_close(rig);
}

Test(sim_oracle, time_orders_streams)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    weir_sim_time_set(rig->sim, 10);
    cr_expect(weir_sim_write(rig->sim, b, base, 4096, 2));
    EXPECT_LEGAL(rig);
    weir_sim_time_set(rig->sim, 19);
    cr_expect_not(weir_sim_read(rig->sim, a, base, 1, 2));
    EXPECT_BREACH(rig, "still in use");
    oracle_close(rig);
}

Test(sim_oracle, a_stream_wait_orders_streams)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    weir_event event = oracle_record(rig, a);
    cr_expect(weir_sim_write(rig->sim, a, base + 4096, 4096, 1));
    cr_assert_eq(rig->ops->stream_wait(rig->sim, b, event), WEIR_OK);
    cr_expect(weir_sim_write(rig->sim, b, base, 4096, 2));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_write(rig->sim, b, base + 4096, 4096, 2));
    EXPECT_BREACH(rig, "still in use");
    oracle_close(rig);
}

Test(sim_oracle, order_is_transitive)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    uint64_t c = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    weir_sim_stall(rig->sim, a);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    cr_assert_eq(rig->ops->stream_wait(rig->sim, b, oracle_record(rig, a)), WEIR_OK);
    weir_event from_b = oracle_record(rig, b);
    cr_assert_eq(rig->ops->stream_wait(rig->sim, c, from_b), WEIR_OK);
    cr_expect(weir_sim_write(rig->sim, c, base, 4096, 2));
    EXPECT_LEGAL(rig);
    bool passed = true;
    cr_assert_eq(rig->ops->event_query(rig->sim, from_b, &passed), WEIR_OK);
    cr_expect_not(passed, "b waits for a, which is stalled");
    weir_sim_go(rig->sim, a);
    cr_assert_eq(rig->ops->event_query(rig->sim, from_b, &passed), WEIR_OK);
    cr_expect(passed);
    oracle_close(rig);
}

Test(sim_oracle, an_event_recorded_again_orders_only_what_came_before_its_wait)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    weir_event event = oracle_record(rig, a);
    cr_assert_eq(rig->ops->stream_wait(rig->sim, b, event), WEIR_OK);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    cr_assert_eq(rig->ops->event_record(rig->sim, event, a), WEIR_OK);
    cr_expect_not(weir_sim_write(rig->sim, b, base, 4096, 2));
    EXPECT_BREACH(rig, "still in use");
    oracle_close(rig);
}

Test(sim_oracle, a_recycled_stream_number_orders_nothing)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t unique = weir_sim_stream_unique(rig->sim, a);
    weir_addr base = oracle_memory(rig, 1);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    weir_sim_stream_destroy(rig->sim, a);
    uint64_t b = weir_sim_stream_create(rig->sim);
    cr_expect_eq(a, b, "numbers are given again");
    cr_expect_neq(unique, weir_sim_stream_unique(rig->sim, b));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_write(rig->sim, b, base, 4096, 2));
    EXPECT_BREACH(rig, "still in use");
    oracle_close(rig);
}

Test(sim_oracle, wrong_and_missing_tags)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    cr_expect(weir_sim_write(rig->sim, stream, base, 4096, 7));
    cr_expect(weir_sim_read(rig->sim, stream, base + 100, 200, 7));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_read(rig->sim, stream, base, 4097, 7));
    EXPECT_BREACH(rig, "never written");
    rig->breaches = 0;
    cr_expect(weir_sim_write(rig->sim, stream, base + 1000, 8, 9));
    cr_expect(weir_sim_read(rig->sim, stream, base, 1000, 7));
    cr_expect(weir_sim_read(rig->sim, stream, base + 1008, 3088, 7));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_read(rig->sim, stream, base, 4096, 7));
    EXPECT_BREACH(rig, "hold tag 0x9 instead of 0x7");
    rig->breaches = 2;
    oracle_close(rig);
}

Test(sim_oracle, a_new_handle_holds_nothing)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 1);
    weir_handle handle = oracle_handle(rig, 1);
    oracle_map(rig, base, 1, handle);
    cr_expect(weir_sim_write(rig->sim, stream, base, GRANULE, 7));
    cr_assert_eq(rig->ops->unmap(rig->sim, base, GRANULE), WEIR_OK);
    cr_assert_eq(rig->ops->handle_release(rig->sim, handle, GRANULE), WEIR_OK);
    oracle_map(rig, base, 1, oracle_handle(rig, 1));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_read(rig->sim, stream, base, 8, 7));
    EXPECT_BREACH(rig, "never written");
    oracle_close(rig);
}

Test(sim_oracle, work_on_no_bytes_touches_none)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    cr_expect(weir_sim_write(rig->sim, stream, 0, 0, 1));
    cr_expect(weir_sim_read(rig->sim, stream, 12345, 0, 1));
    EXPECT_LEGAL(rig);
    oracle_close(rig);
}

Test(sim_oracle, aliases_show_the_same_bytes)
{
    oracle_rig *rig = oracle_open((weir_sim_config){.lag_us = 10});
    uint64_t a = weir_sim_stream_create(rig->sim);
    uint64_t b = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 2);
    weir_handle handle = oracle_handle(rig, 1);
    oracle_map(rig, base, 1, handle);
    oracle_map(rig, base + GRANULE, 1, handle);
    cr_expect(weir_sim_write(rig->sim, a, base, 4096, 1));
    cr_expect(weir_sim_read(rig->sim, a, base + GRANULE, 4096, 1));
    EXPECT_LEGAL(rig);
    cr_expect_not(weir_sim_write(rig->sim, b, base + GRANULE, 4096, 2));
    EXPECT_BREACH(rig, "still in use");
    cr_expect(strstr(rig->last, "write [0x700000000000, +4096) on stream 1") != NULL,
              "the history misses the work through the other address: %s", rig->last);
    oracle_close(rig);
}

Test(sim_oracle, work_needs_a_living_stream)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_memory(rig, 1);
    weir_sim_stream_destroy(rig->sim, stream);
    cr_expect_not(weir_sim_write(rig->sim, stream, base, 8, 1));
    EXPECT_BREACH(rig, "was destroyed");
    oracle_close(rig);
}

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

/* ------------------------------------------------------------------------------------ shadow -- */

#define MODEL_BYTES 512u

static uint32_t model_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Random writes and reads of one handle, through two addresses, against one tag for each byte. */
Test(sim_oracle, the_shadow_agrees_with_a_byte_by_byte_model)
{
    oracle_rig *rig = oracle_open_default();
    uint64_t stream = weir_sim_stream_create(rig->sim);
    weir_addr base = oracle_reserve(rig, 2);
    weir_handle handle = oracle_handle(rig, 1);
    oracle_map(rig, base, 1, handle);
    oracle_map(rig, base + GRANULE, 1, handle);
    uint8_t model[MODEL_BYTES] = {0};
    uint32_t state = 7;
    unsigned expected = 0;
    for (unsigned step = 0; step < 20000; step++) {
        uint32_t start = model_random(&state) % MODEL_BYTES;
        uint32_t bytes = 1 + model_random(&state) % (MODEL_BYTES - start);
        bytes = step % 3 ? 1 + bytes % 24 : bytes;
        bytes = bytes < MODEL_BYTES - start ? bytes : MODEL_BYTES - start;
        weir_addr addr = base + (step % 2) * GRANULE + start;
        uint8_t tag = (uint8_t)(1 + model_random(&state) % 3);
        if (model_random(&state) % 2) {
            cr_assert(weir_sim_write(rig->sim, stream, addr, bytes, tag));
            memset(&model[start], tag, bytes);
            continue;
        }
        bool same = true;
        for (uint32_t i = 0; i < bytes; i++) {
            same = same && model[start + i] == tag;
        }
        cr_assert_eq(weir_sim_read(rig->sim, stream, addr, bytes, tag), same, "step %u", step);
        expected += !same;
        cr_assert_eq(rig->breaches, expected);
    }
    cr_expect_gt(expected, 100);
    oracle_close(rig);
}
