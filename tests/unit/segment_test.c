/* SPDX-License-Identifier: MIT */
/* Devices without virtual memory: segments are taken and given back whole and never joined. */
#include "rig.h"

static rig_options segment_options(uint64_t limit_bytes)
{
    return (rig_options){.sim = {.no_virtual = true, .lag_us = 10}, .streams = 2,
                         .pool = {.limit_bytes = limit_bytes}};
}

Test(segment, a_segment_is_cut_and_given_back_whole)
{
    rig_options options = segment_options(64 * MIB);
    options.pool.initial_bytes = 16 * MIB;
    sim_rig *rig = weir_rig_open(&options);
    weir_addr a = weir_rig_alloc(rig, 0, 5 * MIB), b = weir_rig_alloc(rig, 0, 5 * MIB);
    cr_expect_eq(weir_rig_stats(rig).segments.current, 1);
    weir_rig_free(rig, 0, a);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 16 * MIB);
    weir_rig_free(rig, 0, b);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_rig_close(rig);
}

Test(segment, no_block_crosses_two_segments)
{
    rig_options options = segment_options(64 * MIB);
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr[8];
    for (unsigned i = 0; i < 8; i++) addr[i] = weir_rig_alloc(rig, 0, 8 * MIB);
    for (unsigned i = 0; i < 8; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_check(rig);
    cr_expect_leq(weir_rig_stats(rig).largest_free_bytes, 16 * MIB);
    weir_addr large = weir_rig_alloc(rig, 0, 40 * MIB);
    weir_rig_write(rig, 0, large, 40 * MIB, 1);
    weir_rig_free(rig, 0, large);
    weir_rig_close(rig);
}

Test(segment, the_device_bounds_what_one_segment_may_be)
{
    rig_options options = segment_options(256 * MIB);
    options.sim.handle_bytes_max = 8 * MIB;
    sim_rig *rig = weir_rig_open(&options);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 9 * MIB)), WEIR_NO_MEMORY);
    weir_addr addr[20];
    for (unsigned i = 0; i < 20; i++) addr[i] = weir_rig_alloc(rig, 0, 8 * MIB);
    for (unsigned i = 0; i < 20; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}

Test(segment, pending_segments_are_not_given_back)
{
    rig_options options = segment_options(64 * MIB);
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    uint64_t released = 1;
    ASSERT_OK(weir_trim(rig->pool, 0, 0, &released));
    cr_expect_eq(released, 0);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, &released));
    cr_expect_geq(released, 8 * MIB);
    weir_rig_close(rig);
}

Test(segment, domains_keep_theirs)
{
    rig_options options = segment_options(64 * MIB);
    sim_rig *rig = weir_rig_open(&options);
    weir_domain domain = 0;
    weir_request request = weir_rig_request(rig, 0, 8 * MIB);
    ASSERT_OK(weir_domain_create(rig->pool, &domain));
    request.domain = domain;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_geq(weir_rig_stats(rig).reserved.current, 8 * MIB);
    ASSERT_OK(weir_domain_release(rig->pool, domain));
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_rig_close(rig);
}

Test(segment, refusals_are_told_and_survived)
{
    rig_options options = segment_options(64 * MIB);
    sim_rig *rig = weir_rig_open(&options);
    weir_sim_fail(rig->sim, WEIR_SIM_segment_alloc, 1, true, WEIR_DEVICE);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_DEVICE);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_sim_fail(rig->sim, WEIR_SIM_segment_alloc, 0, false, WEIR_OK);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_OK);
    weir_sim_fail(rig->sim, WEIR_SIM_segment_free, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL), WEIR_DEVICE);
    weir_rig_check(rig);
    cr_expect_geq(weir_rig_stats(rig).quarantined_bytes, 8 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_OK);
    weir_rig_close_loose(rig);
}

Test(segment, short_host_memory_is_told_and_nothing_is_kept)
{
    weir_status status = WEIR_NO_METADATA;
    for (uint64_t k = 1; status != WEIR_OK && k < 30; k++) {
        rig_options options = segment_options(64 * MIB);
        sim_rig *rig = weir_rig_open(&options);
        weir_host_memory_fail(&rig->memory, k, false);
        status = weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB));
        if (status != WEIR_OK) {
            cr_expect_eq(status, WEIR_NO_METADATA, "at %llu: %s", (unsigned long long)k,
                         weir_status_name(status));
            cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
        }
        weir_rig_check(rig);
        weir_host_memory_fail(&rig->memory, 0, false);
        weir_rig_close(rig);
    }
    cr_expect_eq(status, WEIR_OK);
}

Test(segment, what_can_neither_be_filed_nor_given_back_is_quarantined)
{
    rig_options options = segment_options(64 * MIB);
    unsigned quarantined = 0;
    for (uint64_t k = 1; k < 12; k++) {
        sim_rig *rig = weir_rig_open(&options);
        weir_host_memory_fail(&rig->memory, k, false);
        weir_sim_fail(rig->sim, WEIR_SIM_segment_free, 1, false, WEIR_DEVICE);
        weir_status status = weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB));
        cr_expect(status == WEIR_OK || status == WEIR_NO_METADATA, "%s", weir_status_name(status));
        weir_rig_check(rig);
        cr_expect_eq(weir_rig_stats(rig).reserved.current,
                     weir_rig_calls(rig, WEIR_SIM_segment_free) * 8 * MIB +
                         (status == WEIR_OK ? 8 * MIB : 0));
        quarantined += weir_rig_stats(rig).quarantined_bytes != 0;
        weir_host_memory_fail(&rig->memory, 0, false);
        weir_rig_close_loose(rig);
    }
    cr_expect_gt(quarantined, 0);
}

Test(segment, more_segments_than_the_pool_can_name)
{
    static weir_addr addr[400];
    rig_options options = segment_options(0);
    options.sim.granule_bytes = 64 * KIB;
    options.sim.handle_bytes_max = 64 * KIB;
    sim_rig *rig = weir_rig_open(&options);
    unsigned count = 0;
    while (count < 400 &&
           weir_alloc_on(rig->pool, rig->stream[0], 60 * KIB, &addr[count]) == WEIR_OK)
        count++;
    cr_expect_eq(count, 256);
    weir_rig_check(rig);
    for (unsigned i = 0; i < count; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}
