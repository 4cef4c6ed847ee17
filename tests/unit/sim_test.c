/* SPDX-License-Identifier: MIT */
/* The simulated device as a device: clocks, costs, faults, limits. What it judges is tested in
 * sim_oracle_test.c. */
#include "sim.h"

#include <criterion/criterion.h>
#include <string.h>

#define GRANULE (UINT64_C(2) << 20)
#define ASSERT_OK(call) cr_assert_eq((call), WEIR_OK, "%s", #call)

static weir_event sim_test_record(weir_sim *sim, uint64_t stream)
{
    weir_event event = 0;
    ASSERT_OK(weir_sim_ops(sim)->event_create(sim, &event));
    ASSERT_OK(weir_sim_ops(sim)->event_record(sim, event, stream));
    return event;
}

static bool sim_test_passed(weir_sim *sim, weir_event event)
{
    bool passed = false;
    ASSERT_OK(weir_sim_ops(sim)->event_query(sim, event, &passed));
    return passed;
}

static weir_sim_totals sim_test_totals(const weir_sim *sim)
{
    weir_sim_totals totals;
    weir_sim_totals_read(sim, &totals);
    return totals;
}

/* Queues a piece of work that touches nothing. */
static void sim_test_work(weir_sim *sim, uint64_t stream)
{
    cr_assert(weir_sim_write(sim, stream, 0, 0, 0));
}

Test(sim, every_call_has_a_name)
{
    for (unsigned call = 0; call < WEIR_SIM_CALLS; call++) {
        cr_expect_str_neq(weir_sim_call_name((weir_sim_call)call), "unknown");
    }
    cr_expect_str_eq(weir_sim_call_name(WEIR_SIM_va_reserve), "va_reserve");
    cr_expect_str_eq(weir_sim_call_name(WEIR_SIM_CALLS), "unknown");
}

Test(sim, a_config_without_sense_makes_none)
{
    cr_expect_null(weir_sim_create(&(weir_sim_config){.granule_bytes = 5000}));
    cr_expect_null(weir_sim_create(&(weir_sim_config){.granule_bytes = 2048}));
    weir_sim_destroy(NULL);
}

Test(sim, describe_tells_defaults_settings_and_lies)
{
    weir_device_info info = {.size = sizeof(info)};
    weir_sim *sim = weir_sim_create(NULL);
    ASSERT_OK(weir_sim_ops(sim)->describe(sim, &info));
    cr_expect_eq(info.granule_bytes, GRANULE);
    cr_expect_eq(info.memory_bytes, UINT64_C(1) << 40);
    cr_expect_eq(info.va_bytes, UINT64_C(64) << 40);
    cr_expect_eq(info.handle_bytes_max, 0);
    weir_sim_destroy(sim);
    sim = weir_sim_create(&(weir_sim_config){
        .memory_bytes = 8 * GRANULE, .handle_bytes_max = 4 * GRANULE, .lies = true});
    ASSERT_OK(weir_sim_ops(sim)->describe(sim, &info));
    cr_expect_eq(info.memory_bytes, 16 * GRANULE);
    cr_expect_eq(info.va_bytes, UINT64_MAX - GRANULE + 1);
    cr_expect_eq(info.handle_bytes_max, 4 * GRANULE);
    weir_sim_destroy(sim);
}

Test(sim, groups_of_calls_can_be_turned_off)
{
    weir_sim *sim = weir_sim_create(&(weir_sim_config){
        .no_virtual = true, .no_event_wait = true, .no_rescue = true, .no_memory_info = true});
    const weir_device_ops *ops = weir_sim_ops(sim);
    cr_expect(!ops->va_reserve && !ops->va_free && !ops->handle_create && !ops->handle_release);
    cr_expect(!ops->map && !ops->set_access && !ops->unmap);
    cr_expect(ops->segment_alloc && ops->segment_free);
    cr_expect(!ops->event_wait && !ops->quiesce && !ops->copy && !ops->resume);
    cr_expect(!ops->memory_info);
    weir_sim_destroy(sim);
    sim = weir_sim_create(NULL);
    ops = weir_sim_ops(sim);
    cr_expect(ops->va_reserve && ops->unmap && !ops->segment_alloc && !ops->segment_free);
    cr_expect(ops->event_wait && ops->quiesce && ops->copy && ops->resume && ops->memory_info);
    weir_sim_destroy(sim);
}

/* -------------------------------------------------------------------------------------- time -- */

Test(sim, work_ends_a_lag_after_its_queueing)
{
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.lag_us = 100});
    uint64_t stream = weir_sim_stream_create(sim);
    weir_sim_time_set(sim, 50);
    sim_test_work(sim, stream);
    weir_event event = sim_test_record(sim, stream);
    weir_sim_time_set(sim, 149);
    cr_expect_not(sim_test_passed(sim, event));
    weir_sim_time_set(sim, 150);
    cr_expect(sim_test_passed(sim, event));
    weir_sim_time_set(sim, 20);
    cr_expect_eq(weir_sim_time(sim), 150, "time never goes back");
    weir_sim_destroy(sim);
}

Test(sim, busy_until_delays_later_work)
{
    weir_sim *sim = weir_sim_create(NULL);
    uint64_t stream = weir_sim_stream_create(sim);
    sim_test_work(sim, stream);
    weir_event before = sim_test_record(sim, stream);
    weir_sim_busy_until(sim, stream, 1000);
    sim_test_work(sim, stream);
    weir_event after = sim_test_record(sim, stream);
    cr_expect(sim_test_passed(sim, before));
    cr_expect_not(sim_test_passed(sim, after));
    weir_sim_sync(sim, stream);
    cr_expect_eq(weir_sim_time(sim), 1000);
    cr_expect(sim_test_passed(sim, after));
    cr_expect_eq(sim_test_totals(sim).host_waits, 0, "sync is the caller's own wait");
    weir_sim_destroy(sim);
}

Test(sim, a_host_wait_moves_the_clock_by_what_it_counts)
{
    bool passed = true;
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.lag_us = 100});
    const weir_device_ops *ops = weir_sim_ops(sim);
    uint64_t stream = weir_sim_stream_create(sim);
    sim_test_work(sim, stream);
    weir_event event = sim_test_record(sim, stream);
    ASSERT_OK(ops->event_wait(sim, event, 0, &passed));
    cr_expect_not(passed);
    cr_expect_eq(sim_test_totals(sim).host_waits, 0);
    ASSERT_OK(ops->event_wait(sim, event, 30, &passed));
    cr_expect_not(passed);
    cr_expect_eq(weir_sim_time(sim), 30);
    ASSERT_OK(ops->event_wait(sim, event, WEIR_FOREVER, &passed));
    cr_expect(passed);
    cr_expect_eq(weir_sim_time(sim), 100);
    ASSERT_OK(ops->event_wait(sim, event, WEIR_FOREVER, &passed));
    cr_expect_eq(sim_test_totals(sim).host_waits, 2);
    cr_expect_eq(sim_test_totals(sim).waited_us, 100);
    weir_sim_time_set(sim, 70);
    cr_expect_eq(weir_sim_time(sim), 170, "what was waited delays all that follows");
    weir_sim_destroy(sim);
}

Test(sim, quiesce_waits_for_the_last_stream)
{
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    uint64_t a = weir_sim_stream_create(sim);
    uint64_t b = weir_sim_stream_create(sim);
    weir_sim_busy_until(sim, a, 500);
    weir_sim_busy_until(sim, b, 300);
    sim_test_work(sim, a);
    sim_test_work(sim, b);
    cr_expect_eq(ops->quiesce(sim, 400), WEIR_WOULD_WAIT);
    cr_expect_eq(weir_sim_time(sim), 400);
    ASSERT_OK(ops->quiesce(sim, 100));
    cr_expect_eq(weir_sim_time(sim), 500);
    ASSERT_OK(ops->resume(sim));
    cr_expect_eq(sim_test_totals(sim).waited_us, 500);
    cr_expect_eq(sim_test_totals(sim).host_waits, 2);
    weir_sim_destroy(sim);
}

Test(sim, a_stalled_stream_ends_nothing_until_it_goes_on)
{
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.lag_us = 10});
    uint64_t stream = weir_sim_stream_create(sim);
    sim_test_work(sim, stream);
    weir_event early = sim_test_record(sim, stream);
    weir_sim_stall(sim, stream);
    sim_test_work(sim, stream);
    weir_event late = sim_test_record(sim, stream);
    weir_sim_time_set(sim, 1000);
    cr_expect_not(sim_test_passed(sim, early));
    cr_expect_not(sim_test_passed(sim, late));
    weir_sim_go(sim, stream);
    cr_expect(sim_test_passed(sim, early));
    cr_expect(sim_test_passed(sim, late));
    weir_sim_destroy(sim);
}

/* c waits for b, b waits for a; work on each before and after; a is stalled half way. */
Test(sim, a_stall_reaches_all_who_wait)
{
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.lag_us = 10});
    const weir_device_ops *ops = weir_sim_ops(sim);
    uint64_t a = weir_sim_stream_create(sim);
    uint64_t b = weir_sim_stream_create(sim);
    uint64_t c = weir_sim_stream_create(sim);
    sim_test_work(sim, a);
    sim_test_work(sim, c);
    weir_event first_c = sim_test_record(sim, c);
    ASSERT_OK(ops->stream_wait(sim, b, sim_test_record(sim, a)));
    ASSERT_OK(ops->stream_wait(sim, c, sim_test_record(sim, b)));
    sim_test_work(sim, c);
    weir_event last_c = sim_test_record(sim, c);
    weir_sim_stall(sim, a);
    weir_sim_time_set(sim, 50);
    cr_expect(sim_test_passed(sim, first_c));
    cr_expect_not(sim_test_passed(sim, last_c));
    weir_sim_stall(sim, b);
    weir_sim_go(sim, a);
    cr_expect_not(sim_test_passed(sim, last_c));
    weir_sim_go(sim, b);
    cr_expect(sim_test_passed(sim, last_c));
    weir_sim_destroy(sim);
}

Test(sim, sync_sets_going_what_is_in_its_way)
{
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    uint64_t a = weir_sim_stream_create(sim);
    uint64_t b = weir_sim_stream_create(sim);
    weir_sim_stall(sim, a);
    sim_test_work(sim, a);
    ASSERT_OK(ops->stream_wait(sim, b, sim_test_record(sim, a)));
    weir_event event = sim_test_record(sim, b);
    weir_sim_sync(sim, b);
    cr_expect(sim_test_passed(sim, event));
    weir_sim_stall(sim, a);
    weir_sim_stall(sim, b);
    sim_test_work(sim, a);
    event = sim_test_record(sim, a);
    weir_sim_sync(sim, 0);
    cr_expect(sim_test_passed(sim, event));
    weir_sim_destroy(sim);
}

/* -------------------------------------------------------------------------------------- cost -- */

/* What one call of each kind on a handle of this size costs. */
static void sim_test_expect_costs(uint64_t bytes, uint64_t create, uint64_t map, uint64_t access,
                                  uint64_t unmap, uint64_t release)
{
    weir_handle handle = 0;
    weir_addr base = 0;
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    ASSERT_OK(ops->va_reserve(sim, bytes, &base));
    ASSERT_OK(ops->handle_create(sim, bytes, &handle));
    ASSERT_OK(ops->map(sim, base, bytes, handle));
    ASSERT_OK(ops->set_access(sim, base, bytes));
    ASSERT_OK(ops->unmap(sim, base, bytes));
    ASSERT_OK(ops->handle_release(sim, handle, bytes));
    weir_sim_totals totals = sim_test_totals(sim);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_handle_create], create);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_map], map);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_set_access], access);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_unmap], unmap);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_handle_release], release);
    cr_expect_eq(weir_sim_time(sim), 0, "costs do not move the clock");
    weir_sim_destroy(sim);
}

Test(sim, costs_are_those_of_the_table)
{
    uint64_t mib = UINT64_C(1) << 20;
    sim_test_expect_costs(2 * mib, 6900, 600, 18700, 13100, 8800);
    sim_test_expect_costs(16 * mib, 7000, 500, 18900, 13100, 14900);
    sim_test_expect_costs(4096 * mib, 127000, 1100, 133000, 54000, 1038000);
}

Test(sim, costs_between_and_beyond_rows_follow_the_line)
{
    uint64_t mib = UINT64_C(1) << 20;
    sim_test_expect_costs(40 * mib, 7300, 550, 25900, 16800, 19600);
    sim_test_expect_costs(160 * mib, 8500, 600, 33600, 20400, 47150);
    sim_test_expect_costs(7168 * mib, 237500, 1400, 209400, 79300, 1814000);
}

Test(sim, access_and_unmap_cost_per_handle)
{
    weir_addr base = 0;
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    ASSERT_OK(ops->va_reserve(sim, 10 * GRANULE, &base));
    for (uint64_t i = 0; i < 10; i++) {
        weir_handle handle = 0;
        ASSERT_OK(ops->handle_create(sim, GRANULE, &handle));
        ASSERT_OK(ops->map(sim, base + i * GRANULE, GRANULE, handle));
    }
    ASSERT_OK(ops->set_access(sim, base, 10 * GRANULE));
    ASSERT_OK(ops->unmap(sim, base, 10 * GRANULE));
    weir_sim_totals totals = sim_test_totals(sim);
    cr_expect_eq(totals.count[WEIR_SIM_set_access], 1);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_set_access], 187000);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_unmap], 131000);
    weir_sim_destroy(sim);
}

Test(sim, segments_and_order_calls_cost_too)
{
    weir_addr addr = 0;
    bool passed = false;
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.no_virtual = true});
    const weir_device_ops *ops = weir_sim_ops(sim);
    uint64_t stream = weir_sim_stream_create(sim);
    ASSERT_OK(ops->segment_alloc(sim, 32 * GRANULE, &addr));
    ASSERT_OK(ops->segment_free(sim, addr, 32 * GRANULE));
    weir_event event = sim_test_record(sim, stream);
    ASSERT_OK(ops->event_query(sim, event, &passed));
    ASSERT_OK(ops->stream_wait(sim, stream, event));
    ASSERT_OK(ops->event_wait(sim, event, 1, &passed));
    ops->event_destroy(sim, event);
    weir_sim_totals totals = sim_test_totals(sim);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_segment_alloc], 50000);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_segment_free], 60000);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_event_create], 140);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_event_destroy], 120);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_event_record], 200);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_event_query], 200);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_stream_wait], 200);
    cr_expect_eq(totals.cost_ns[WEIR_SIM_event_wait], 5000);
    weir_sim_destroy(sim);
}

/* ---------------------------------------------------------------------------- faults, limits -- */

Test(sim, the_kth_call_fails_without_effect)
{
    weir_handle handle = 77;
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    weir_sim_fail(sim, WEIR_SIM_handle_create, 2, false, WEIR_DEVICE);
    ASSERT_OK(ops->handle_create(sim, GRANULE, &handle));
    weir_handle first = handle;
    cr_expect_eq(ops->handle_create(sim, GRANULE, &handle), WEIR_DEVICE);
    cr_expect_eq(handle, first);
    cr_expect_neq(ops->native_error(sim), 0);
    cr_expect_eq(sim_test_totals(sim).held_bytes, GRANULE);
    cr_expect_eq(sim_test_totals(sim).count[WEIR_SIM_handle_create], 2);
    cr_expect_eq(sim_test_totals(sim).cost_ns[WEIR_SIM_handle_create], 6900);
    ASSERT_OK(ops->handle_create(sim, GRANULE, &handle));
    cr_expect_eq(sim_test_totals(sim).held_peak_bytes, 2 * GRANULE);
    weir_sim_destroy(sim);
}

Test(sim, a_fault_may_stay_until_it_is_cleared)
{
    weir_addr base = 0;
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    weir_sim_fail(sim, WEIR_SIM_va_reserve, 1, true, WEIR_NO_MEMORY);
    cr_expect_eq(ops->va_reserve(sim, GRANULE, &base), WEIR_NO_MEMORY);
    cr_expect_eq(ops->va_reserve(sim, GRANULE, &base), WEIR_NO_MEMORY);
    weir_sim_fail(sim, WEIR_SIM_va_reserve, 0, false, WEIR_OK);
    cr_expect_eq(ops->va_reserve(sim, GRANULE, &base), WEIR_OK);
    weir_sim_destroy(sim);
}

Test(sim, a_tenant_takes_from_the_device)
{
    weir_handle handle = 0;
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.memory_bytes = 10 * GRANULE});
    const weir_device_ops *ops = weir_sim_ops(sim);
    weir_sim_tenant(sim, 7 * GRANULE);
    cr_expect_eq(ops->handle_create(sim, 4 * GRANULE, &handle), WEIR_NO_MEMORY);
    ASSERT_OK(ops->handle_create(sim, 3 * GRANULE, &handle));
    ASSERT_OK(ops->memory_info(sim, &free_bytes, &total_bytes));
    cr_expect_eq(free_bytes, 0);
    cr_expect_eq(total_bytes, 10 * GRANULE);
    weir_sim_tenant(sim, 100 * GRANULE);
    ASSERT_OK(ops->memory_info(sim, &free_bytes, &total_bytes));
    cr_expect_eq(free_bytes, 0);
    weir_sim_tenant(sim, 0);
    ASSERT_OK(ops->memory_info(sim, &free_bytes, &total_bytes));
    cr_expect_eq(free_bytes, 7 * GRANULE);
    weir_sim_destroy(sim);
}

Test(sim, a_handle_may_be_too_large)
{
    weir_handle handle = 0;
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.handle_bytes_max = 4 * GRANULE});
    const weir_device_ops *ops = weir_sim_ops(sim);
    cr_expect_eq(ops->handle_create(sim, 5 * GRANULE, &handle), WEIR_INVALID);
    cr_expect_eq(ops->handle_create(sim, 4 * GRANULE, &handle), WEIR_OK);
    weir_sim_destroy(sim);
}

Test(sim, a_lost_device_answers_nothing_else)
{
    weir_handle handle = 0;
    weir_addr base = 0;
    bool passed = false;
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    uint64_t stream = weir_sim_stream_create(sim);
    weir_event event = sim_test_record(sim, stream);
    ASSERT_OK(ops->handle_create(sim, GRANULE, &handle));
    cr_expect_not_null(weir_sim_balance(sim));
    weir_sim_lose(sim);
    cr_expect_eq(ops->handle_create(sim, GRANULE, &handle), WEIR_LOST);
    cr_expect_eq(ops->va_reserve(sim, GRANULE, &base), WEIR_LOST);
    cr_expect_eq(ops->event_query(sim, event, &passed), WEIR_LOST);
    cr_expect_eq(ops->handle_release(sim, handle, GRANULE), WEIR_LOST);
    cr_expect_null(weir_sim_balance(sim));
    weir_sim_destroy(sim);
}

Test(sim, balance_names_what_remains)
{
    weir_handle handle = 0;
    weir_addr base = 0;
    weir_sim *sim = weir_sim_create(NULL);
    const weir_device_ops *ops = weir_sim_ops(sim);
    cr_expect_null(weir_sim_balance(sim));
    ASSERT_OK(ops->va_reserve(sim, 2 * GRANULE, &base));
    ASSERT_OK(ops->handle_create(sim, GRANULE, &handle));
    ASSERT_OK(ops->map(sim, base, GRANULE, handle));
    cr_expect_not_null(strstr(weir_sim_balance(sim), "1 handles, 1 address ranges, 1 mappings"));
    ASSERT_OK(ops->unmap(sim, base, GRANULE));
    ASSERT_OK(ops->handle_release(sim, handle, GRANULE));
    ASSERT_OK(ops->va_free(sim, base, 2 * GRANULE));
    cr_expect_null(weir_sim_balance(sim));
    weir_event event = sim_test_record(sim, weir_sim_stream_create(sim));
    cr_expect_not_null(strstr(weir_sim_balance(sim), "1 events"));
    ops->event_destroy(sim, event);
    cr_expect_null(weir_sim_balance(sim));
    weir_sim_destroy(sim);
}

Test(sim, addresses_are_the_same_in_every_run)
{
    weir_addr a = 0;
    weir_addr b = 0;
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.va_bytes = 10 * GRANULE});
    const weir_device_ops *ops = weir_sim_ops(sim);
    ASSERT_OK(ops->va_reserve(sim, 4 * GRANULE, &a));
    cr_expect_eq(a, UINT64_C(0x700000000000));
    ASSERT_OK(ops->va_reserve(sim, 6 * GRANULE, &b));
    cr_expect_eq(b, a + 4 * GRANULE);
    cr_expect_eq(ops->va_reserve(sim, GRANULE, &b), WEIR_NO_MEMORY);
    ASSERT_OK(ops->va_free(sim, a, 4 * GRANULE));
    cr_expect_eq(ops->va_reserve(sim, 5 * GRANULE, &a), WEIR_NO_MEMORY);
    ASSERT_OK(ops->va_reserve(sim, GRANULE, &a));
    cr_expect_eq(a, UINT64_C(0x700000000000));
    weir_sim_destroy(sim);
}

Test(sim, numbers_of_streams_come_back_last_in_first_out)
{
    weir_sim *sim = weir_sim_create(NULL);
    uint64_t a = weir_sim_stream_create(sim);
    uint64_t b = weir_sim_stream_create(sim);
    uint64_t unique = weir_sim_stream_unique(sim, b);
    cr_expect_neq(a, 0);
    weir_sim_stream_destroy(sim, a);
    weir_sim_stream_destroy(sim, b);
    cr_expect_eq(weir_sim_stream_create(sim), b);
    cr_expect_gt(weir_sim_stream_unique(sim, b), unique);
    cr_expect_eq(weir_sim_stream_create(sim), a);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t more = weir_sim_stream_create(sim);
        cr_assert_eq(more, 3 + i);
        sim_test_work(sim, more);
        cr_assert(sim_test_passed(sim, sim_test_record(sim, more)));
    }
    weir_sim_destroy(sim);
}
