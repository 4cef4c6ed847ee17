/* SPDX-License-Identifier: MIT */
/* Rescue: a pool whose free memory is slivers of handles is put right by copying what lives, without
 * a change of address or content. */
#include "rig.h"

#define RESCUE_HANDLES 24u
#define RESCUE_HANDLE (16 * MIB)

/* Fills the limit with large handles and keeps one live granule in each. */
static sim_rig *rescue_open(weir_addr *keep, rig_options options)
{
    options.streams = 2;
    options.pool.limit_bytes = (RESCUE_HANDLES + 1) * RESCUE_HANDLE;
    options.pool.growth_bytes = RESCUE_HANDLE;
    if (options.sim.memory_bytes == 0) options.sim.memory_bytes = 4 * GIB;
    sim_rig *rig = weir_rig_open(&options);
    weir_addr rest[RESCUE_HANDLES];
    for (unsigned i = 0; i < RESCUE_HANDLES; i++) {
        keep[i] = weir_rig_alloc(rig, 0, MIB);
        rest[i] = weir_rig_alloc(rig, 0, RESCUE_HANDLE - MIB);
        weir_rig_write(rig, 0, keep[i], MIB, 1000 + i);
    }
    for (unsigned i = 0; i < RESCUE_HANDLES; i++) weir_rig_free(rig, 0, rest[i]);
    return rig;
}

static void rescue_verify(sim_rig *rig, const weir_addr *keep)
{
    weir_rig_check(rig);
    for (unsigned i = 0; i < RESCUE_HANDLES; i++) weir_rig_read(rig, 0, keep[i], MIB, 1000 + i);
}

static void rescue_free(sim_rig *rig, const weir_addr *keep)
{
    for (unsigned i = 0; i < RESCUE_HANDLES; i++) weir_rig_free(rig, 0, keep[i]);
}

#define RESCUE_ASK (RESCUE_HANDLES * RESCUE_HANDLE * 3 / 4)

Test(rescue, a_pool_of_slivers_serves_a_large_block)
{
    weir_addr keep[RESCUE_HANDLES];
    sim_rig *rig = rescue_open(keep, (rig_options){.sim = {.lag_us = 100}});
    weir_addr large = weir_rig_alloc(rig, 0, RESCUE_ASK);
    weir_rig_write(rig, 0, large, RESCUE_ASK, 7);
    rescue_verify(rig, keep);
    weir_stats s = weir_rig_stats(rig);
    cr_expect_geq(s.rescues, 1);
    cr_expect_gt(s.rescued_bytes, 0);
    cr_expect_eq(s.copies, weir_rig_calls(rig, WEIR_SIM_copy));
    cr_expect_leq(s.reserved.peak, s.limit_bytes);
    weir_rig_free(rig, 0, large);
    rescue_free(rig, keep);
    weir_rig_close(rig);
}

static uint64_t rescue_told_bytes;

static void rescue_note(void *self, const weir_record *record)
{
    (void)self;
    if (record->what == WEIR_DID_RESCUE) rescue_told_bytes += record->bytes;
}

Test(rescue, what_was_copied_is_told)
{
    weir_addr keep[RESCUE_HANDLES];
    sim_rig *rig = rescue_open(keep, (rig_options){.pool = {.observer = rescue_note}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, RESCUE_ASK));
    cr_expect_eq(rescue_told_bytes, weir_rig_stats(rig).rescued_bytes);
    weir_observer_set(rig->pool, NULL, NULL);
    rescue_free(rig, keep);
    weir_rig_close(rig);
}

static void rescue_refused(rig_options options, weir_request request, weir_status wanted)
{
    weir_addr keep[RESCUE_HANDLES];
    sim_rig *rig = rescue_open(keep, options);
    request.stream = rig->stream[0];
    request.size = sizeof(request);
    request.bytes = RESCUE_ASK;
    EXPECT_STATUS(weir_rig_try(rig, request), wanted);
    cr_expect_eq(weir_rig_stats(rig).rescued_bytes, 0);
    rescue_verify(rig, keep);
    rescue_free(rig, keep);
    weir_rig_close(rig);
}

Test(rescue, is_not_tried_where_it_is_forbidden_or_cannot_be)
{
    rescue_refused((rig_options){.pool = {.no_rescue = true}}, (weir_request){0}, WEIR_NO_MEMORY);
    rescue_refused((rig_options){.sim = {.no_rescue = true}}, (weir_request){0}, WEIR_NO_MEMORY);
    rescue_refused((rig_options){0}, (weir_request){.flags = WEIR_NOWAIT}, WEIR_WOULD_WAIT);
}

static weir_status rescue_with_fault(weir_sim_call call, weir_status answer)
{
    weir_addr keep[RESCUE_HANDLES];
    sim_rig *rig = rescue_open(keep, (rig_options){0});
    weir_sim_fail(rig->sim, call, 1, true, answer);
    weir_status status = weir_rig_try(rig, weir_rig_request(rig, 0, RESCUE_ASK));
    weir_sim_fail(rig->sim, call, 0, false, WEIR_OK);
    rescue_verify(rig, keep);
    rescue_free(rig, keep);
    weir_rig_close(rig);
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
    weir_addr keep[RESCUE_HANDLES];
    sim_rig *rig = rescue_open(keep, (rig_options){0});
    weir_request request = weir_rig_request(rig, 0, RESCUE_ASK);
    weir_sim_busy_until(rig->sim, rig->native[1], 10000);
    weir_rig_write(rig, 1, 0, 0, 0);
    request.wait_us = 100;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_WOULD_WAIT);
    cr_expect_leq(weir_sim_time(rig->sim), 1000);
    request.wait_us = 20000;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    rescue_verify(rig, keep);
    rescue_free(rig, keep);
    weir_rig_close(rig);
}

Test(rescue, pinned_handles_are_not_touched)
{
    weir_addr keep[RESCUE_HANDLES];
    sim_rig *rig = rescue_open(keep, (rig_options){0});
    for (unsigned i = 0; i < RESCUE_HANDLES; i++) ASSERT_OK(weir_pin(rig->pool, keep[i]));
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, RESCUE_ASK)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_stats(rig).rescued_bytes, 0);
    cr_expect_gt(weir_rig_oom(rig).stranded_bytes + weir_rig_oom(rig).pinned_bytes, 0);
    rescue_verify(rig, keep);
    rescue_free(rig, keep);
    weir_rig_close(rig);
}

Test(rescue, again_and_again)
{
    weir_addr keep[RESCUE_HANDLES], part[64];
    sim_rig *rig = rescue_open(keep, (rig_options){.sim = {.lag_us = 10}});
    for (unsigned round = 0; round < 8; round++) {
        unsigned count = 0;
        weir_rig_free(rig, round % 2, weir_rig_alloc(rig, round % 2, RESCUE_ASK));
        while (count < 64 && weir_alloc_on(rig->pool, rig->stream[0], 5 * MIB, &part[count]) == WEIR_OK) {
            weir_rig_write(rig, 0, part[count], 5 * MIB, count);
            count++;
        }
        for (unsigned i = 0; i < count; i++) {
            weir_rig_read(rig, 0, part[i], 5 * MIB, i);
            weir_rig_free(rig, 0, part[i]);
        }
        rescue_verify(rig, keep);
    }
    rescue_free(rig, keep);
    weir_rig_close(rig);
}
