/* SPDX-License-Identifier: MIT */
/*
 * The simulated device as a judge of work: each breach of the backend contract is provoked and must
 * be reported in words that name it, and what the contract allows must pass in silence.
 */
#include "sim_oracle_rig.h"

/* ------------------------------------------------------------------------ work and its bytes -- */

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
