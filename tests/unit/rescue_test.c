/* SPDX-License-Identifier: MIT */
/* Rescue: a pool whose free memory is slivers of handles is put right by copying what lives,
 * without a change of address or content. */
#include "slivers.h"

Test(rescue, a_pool_of_slivers_serves_a_large_block)
{
    slivers of;
    weir_slivers_open(&of, (rig_options){.sim = {.lag_us = 100}});
    weir_addr large = weir_rig_alloc(of.rig, 0, SLIVERS_ASK);
    weir_rig_write(of.rig, 0, large, SLIVERS_ASK, 7);
    weir_stats s = weir_rig_stats(of.rig);
    cr_expect_geq(s.rescues, 1);
    cr_expect_gt(s.rescued_bytes, 0);
    cr_expect_eq(s.copies, weir_rig_calls(of.rig, WEIR_SIM_copy));
    cr_expect_gt(s.host_waits, 0);
    cr_expect_leq(s.reserved.peak, s.limit_bytes);
    weir_slivers_verify(&of);
    weir_rig_free(of.rig, 0, large);
    weir_slivers_close(&of);
}

Test(rescue, the_other_stream_may_ask_too)
{
    slivers of;
    weir_slivers_open(&of, (rig_options){.sim = {.lag_us = 100}});
    weir_addr large = weir_rig_alloc(of.rig, 1, SLIVERS_ASK);
    weir_rig_write(of.rig, 1, large, SLIVERS_ASK, 7);
    weir_rig_free(of.rig, 1, large);
    cr_expect_gt(weir_rig_stats(of.rig).rescued_bytes, 0);
    weir_slivers_close(&of);
}

static void rescue_note(void *self, const weir_record *record)
{
    if (record->what == WEIR_DID_RESCUE) *(uint64_t *)self += record->bytes;
}

Test(rescue, what_was_copied_is_told)
{
    slivers of;
    uint64_t told = 0;
    weir_slivers_open(&of,
                      (rig_options){.pool = {.observer = rescue_note, .observer_self = &told}});
    weir_rig_free(of.rig, 0, weir_rig_alloc(of.rig, 0, SLIVERS_ASK));
    cr_expect_gt(told, 0);
    cr_expect_eq(told, weir_rig_stats(of.rig).rescued_bytes);
    weir_observer_set(of.rig->pool, NULL, NULL);
    weir_slivers_close(&of);
}

static void rescue_refused(rig_options options, uint32_t flags, weir_status wanted)
{
    slivers of;
    weir_slivers_open(&of, options);
    weir_request request = weir_rig_request(of.rig, 0, SLIVERS_ASK);
    request.flags = flags;
    EXPECT_STATUS(weir_rig_try(of.rig, request), wanted);
    cr_expect_eq(weir_rig_stats(of.rig).rescued_bytes, 0);
    cr_expect_eq(weir_rig_stats(of.rig).rescues, 0);
    cr_expect_gt(weir_rig_oom(of.rig).stranded_bytes, 0);
    weir_slivers_close(&of);
}

Test(rescue, is_not_tried_where_it_is_forbidden_or_cannot_be)
{
    rescue_refused((rig_options){.pool = {.no_rescue = true}}, 0, WEIR_NO_MEMORY);
    rescue_refused((rig_options){.sim = {.no_rescue = true}}, 0, WEIR_NO_MEMORY);
    rescue_refused((rig_options){0}, WEIR_NOWAIT, WEIR_WOULD_WAIT);
}

static weir_status rescue_with_fault(weir_sim_call call, weir_status answer)
{
    slivers of;
    weir_slivers_open(&of, (rig_options){0});
    weir_sim_fail(of.rig->sim, call, 1, true, answer);
    weir_status status = weir_rig_try(of.rig, weir_rig_request(of.rig, 0, SLIVERS_ASK));
    weir_sim_fail(of.rig->sim, call, 0, false, WEIR_OK);
    weir_slivers_close(&of);
    return status;
}

Test(rescue, a_device_that_will_not_be_quiet_is_left_alone)
{
    EXPECT_STATUS(rescue_with_fault(WEIR_SIM_quiesce, WEIR_UNSUPPORTED), WEIR_NO_MEMORY);
    EXPECT_STATUS(rescue_with_fault(WEIR_SIM_quiesce, WEIR_WOULD_WAIT), WEIR_WOULD_WAIT);
    EXPECT_STATUS(rescue_with_fault(WEIR_SIM_quiesce, WEIR_DEVICE), WEIR_DEVICE);
}

Test(rescue, quiet_is_waited_for_no_longer_than_allowed)
{
    slivers of;
    weir_slivers_open(&of, (rig_options){0});
    weir_request request = weir_rig_request(of.rig, 0, SLIVERS_ASK);
    weir_sim_busy_until(of.rig->sim, of.rig->native[1], 10000);
    weir_rig_write(of.rig, 1, 0, 0, 0);
    request.wait_us = 100;
    EXPECT_STATUS(weir_rig_try(of.rig, request), WEIR_WOULD_WAIT);
    cr_expect_leq(weir_sim_time(of.rig->sim), 1000);
    request.wait_us = 20000;
    EXPECT_STATUS(weir_rig_try(of.rig, request), WEIR_OK);
    weir_slivers_close(&of);
}

Test(rescue, pinned_handles_are_not_touched)
{
    slivers of;
    weir_slivers_open(&of, (rig_options){0});
    for (unsigned i = 0; i < of.count; i++) ASSERT_OK(weir_pin(of.rig->pool, of.keep[i]));
    EXPECT_STATUS(weir_rig_try(of.rig, weir_rig_request(of.rig, 0, SLIVERS_ASK)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_stats(of.rig).rescued_bytes, 0);
    cr_expect_gt(weir_rig_oom(of.rig).pinned_bytes, 0);
    weir_slivers_close(&of);
}

Test(rescue, again_and_again)
{
    weir_addr part[400];
    slivers of;
    weir_slivers_open(&of, (rig_options){.sim = {.lag_us = 10}});
    for (unsigned round = 0; round < 6; round++) {
        unsigned count = 0;
        weir_rig_free(of.rig, round % 2, weir_rig_alloc(of.rig, round % 2, SLIVERS_ASK));
        while (count < 400 &&
               weir_alloc_on(of.rig->pool, of.rig->stream[0], 300 * KIB, &part[count]) == WEIR_OK) {
            weir_rig_write(of.rig, 0, part[count], 300 * KIB, count);
            count++;
        }
        for (unsigned i = 0; i < count; i++) {
            weir_rig_read(of.rig, 0, part[i], 300 * KIB, i);
            weir_rig_free(of.rig, 0, part[i]);
        }
        weir_slivers_verify(&of);
    }
    weir_slivers_close(&of);
}
