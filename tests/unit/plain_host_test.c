/* SPDX-License-Identifier: MIT */
/* A host with the least that a platform must have: no lock, no clock. */
#include "pool.h"
#include "rig.h"

Test(plain_host, a_pool_without_lock_and_clock_does_all_that_others_do)
{
    sim_rig *rig = weir_rig_device(
        &(weir_sim_config){.lag_us = 100, .granule_bytes = 64 * KIB, .memory_bytes = GIB});
    rig->memory.platform.lock = NULL;
    rig->memory.platform.unlock = NULL;
    rig->memory.platform.size = offsetof(weir_platform, now_us);
    ASSERT_OK(weir_rig_pool(rig, (weir_config){.limit_bytes = 16 * MIB, .wait_us = 500}));
    rig->streams = 2;
    for (unsigned i = 0; i < 2; i++) weir_rig_attach(rig, i, i == 0);
    weir_addr addr[24];
    for (unsigned i = 0; i < 24; i++) {
        addr[i] = weir_rig_alloc(rig, i % 2, 500 * KIB);
        weir_rig_write(rig, i % 2, addr[i], 500 * KIB, i);
    }
    ASSERT_OK(weir_use(rig->pool, addr[0], rig->stream[1]));
    ASSERT_OK(weir_pin(rig->pool, addr[0]));
    ASSERT_OK(weir_unpin(rig->pool, addr[0]));
    for (unsigned i = 0; i < 24; i += 2) weir_rig_free(rig, i % 4 == 0, addr[i]);
    weir_addr large = weir_rig_alloc(rig, 1, 5 * MIB);
    weir_rig_write(rig, 1, large, 5 * MIB, 99);
    ASSERT_OK(weir_resize(rig->pool, large, 4 * MIB));
    (void)weir_trim(rig->pool, 0, 50, NULL);
    ASSERT_OK(weir_stream_retire(rig->pool, rig->stream[1]));
    weir_rig_check(rig);
    weir_rig_free(rig, 0, large);
    for (unsigned i = 1; i < 24; i += 2) weir_rig_free(rig, 0, addr[i]);
    cr_expect_eq(rig->memory.locks, 0);
    weir_rig_close(rig);
}

/* The bound of a call counts down by the clock; without one it stands for each wait. */
Test(plain_host, a_bound_on_waiting_without_a_clock_is_no_bound_on_their_sum)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    uint64_t left = 500;
    weir_pool_spend(rig->pool, weir_pool_now(rig->pool), &left);
    cr_expect_eq(left, 500);
    left = WEIR_FOREVER;
    weir_pool_spend(rig->pool, 0, &left);
    cr_expect_eq(left, WEIR_FOREVER);
    weir_rig_close(rig);
}

/* What fell may rise again, but the peak is the most that ever was. */
Test(plain_host, a_peak_outlasts_a_smaller_rise)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_free(rig, 0, addr);
    addr = weir_rig_alloc(rig, 0, MIB);
    weir_stats stats = weir_rig_stats(rig);
    cr_expect_eq(stats.requested.peak, 8 * MIB);
    cr_expect_eq(stats.allocated.peak, 8 * MIB);
    cr_expect_eq(stats.requested.current, MIB);
    cr_expect_eq(stats.requested.total, 9 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}
