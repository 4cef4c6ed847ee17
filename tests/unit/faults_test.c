/* SPDX-License-Identifier: MIT */
/*
 * Every device call of a growth, a move, a trim and a rescue fails in turn, once or from then on:
 * the k-th call of each kind, for every k until the operation makes fewer; then the same while
 * nothing can be undone, as unmap or release fails too. Live blocks keep their bytes, every
 * invariant holds, and what was not quarantined goes back to the device.
 */
#include "slivers.h"

typedef struct fault {
    weir_sim_call call;
    uint64_t k;
    bool on;
    weir_status status;
    weir_sim_call also; /* fails for ever too; WEIR_SIM_CALLS: none */
} fault;

static const weir_sim_call fault_calls[] = {
    WEIR_SIM_va_reserve,  WEIR_SIM_handle_create, WEIR_SIM_handle_release, WEIR_SIM_map,
    WEIR_SIM_set_access,  WEIR_SIM_unmap,         WEIR_SIM_event_create,   WEIR_SIM_event_record,
    WEIR_SIM_event_query, WEIR_SIM_stream_wait,   WEIR_SIM_event_wait,     WEIR_SIM_quiesce,
    WEIR_SIM_copy,        WEIR_SIM_resume,        WEIR_SIM_memory_info};

/* Runs one operation with one fault; false once the operation makes fewer calls than k. */
typedef bool (*fault_run)(const fault *with);

static void fault_sweep(fault_run run, weir_status status, weir_sim_call also)
{
    for (size_t i = 0; i < sizeof(fault_calls) / sizeof(fault_calls[0]); i++)
        for (unsigned on = 0; on < 2; on++) {
            fault with = {.call = fault_calls[i], .on = on == 1, .status = status, .also = also};
            if (fault_calls[i] == also) continue;
            do with.k++;
            while (run(&with) && with.k < 400);
            cr_assert_lt(with.k, 400, "%s never came through", weir_sim_call_name(with.call));
        }
}

static void fault_set(sim_rig *rig, const fault *with)
{
    weir_sim_fail(rig->sim, with->call, with->k, with->on, with->status);
    if (with->also != WEIR_SIM_CALLS) weir_sim_fail(rig->sim, with->also, 1, true, WEIR_DEVICE);
}

/* Clears the fault and tells whether it struck. */
static bool fault_clear(sim_rig *rig, const fault *with, uint64_t calls_before)
{
    weir_sim_fail(rig->sim, with->call, 0, false, WEIR_OK);
    if (with->also != WEIR_SIM_CALLS) weir_sim_fail(rig->sim, with->also, 0, false, WEIR_OK);
    return weir_rig_calls(rig, with->call) - calls_before >= with->k;
}

/* The pool ends; only what is quarantined may remain. */
static void fault_close(sim_rig *rig)
{
    (void)weir_finish(rig->pool, WEIR_FOREVER);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    weir_rig_check(rig);
    weir_stats s = weir_rig_stats(rig);
    bool quarantined = s.reserved.current != 0 || s.quarantined_bytes != 0;
    if (quarantined) weir_rig_close_loose(rig);
    else weir_rig_close(rig);
}

/* ----------------------------------------------------------------------------------- growth -- */

static bool fault_growth(const fault *with)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2, .pool = {.growth_bytes = 2 * MIB}});
    weir_addr keep = weir_rig_alloc(rig, 0, 3 * MIB), addr = 0;
    weir_rig_write(rig, 0, keep, 3 * MIB, 5);
    uint64_t before = weir_rig_calls(rig, with->call);
    fault_set(rig, with);
    weir_status status = weir_alloc_on(rig->pool, rig->stream[0], 12 * MIB, &addr);
    bool struck = fault_clear(rig, with, before);
    weir_rig_check(rig);
    weir_rig_read(rig, 0, keep, 3 * MIB, 5);
    if (!struck && with->also == WEIR_SIM_CALLS) cr_expect_eq(status, WEIR_OK);
    if (status == WEIR_OK) weir_rig_free(rig, 0, addr);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 12 * MIB));
    weir_rig_free(rig, 0, keep);
    fault_close(rig);
    return struck;
}

Test(faults, growth)
{
    fault_sweep(fault_growth, WEIR_DEVICE, WEIR_SIM_CALLS);
    fault_sweep(fault_growth, WEIR_NO_MEMORY, WEIR_SIM_CALLS);
}

Test(faults, growth_that_cannot_be_undone)
{
    fault_sweep(fault_growth, WEIR_DEVICE, WEIR_SIM_unmap);
    fault_sweep(fault_growth, WEIR_DEVICE, WEIR_SIM_handle_release);
}

/* ------------------------------------------------------------------------------------ moves -- */

#define FAULT_BLOCKS 12u

static bool fault_move(const fault *with)
{
    weir_addr addr[FAULT_BLOCKS], large = 0;
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 50}, .streams = 2,
                                                .pool = {.limit_bytes = FAULT_BLOCKS * 2 * MIB,
                                                         .growth_bytes = 2 * MIB}});
    for (unsigned i = 0; i < FAULT_BLOCKS; i++) {
        addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
        weir_rig_write(rig, 0, addr[i], 2 * MIB, i);
    }
    for (unsigned i = 1; i < FAULT_BLOCKS; i += 2) weir_rig_free(rig, 0, addr[i]);
    uint64_t before = weir_rig_calls(rig, with->call);
    fault_set(rig, with);
    weir_status status = weir_alloc_on(rig->pool, rig->stream[1], 10 * MIB, &large);
    if (status == WEIR_OK) weir_rig_write(rig, 1, large, 10 * MIB, 99);
    (void)weir_finish(rig->pool, WEIR_FOREVER);
    bool struck = fault_clear(rig, with, before);
    weir_rig_check(rig);
    if (!struck && with->also == WEIR_SIM_CALLS)
        cr_expect_eq(status, WEIR_OK, "%s", weir_status_name(status));
    for (unsigned i = 0; i < FAULT_BLOCKS; i += 2) {
        weir_rig_read(rig, 0, addr[i], 2 * MIB, i);
        weir_rig_free(rig, 0, addr[i]);
    }
    if (status == WEIR_OK) weir_rig_free(rig, 1, large);
    fault_close(rig);
    return struck;
}

Test(faults, moves)
{
    fault_sweep(fault_move, WEIR_DEVICE, WEIR_SIM_CALLS);
    fault_sweep(fault_move, WEIR_NO_MEMORY, WEIR_SIM_CALLS);
}

Test(faults, moves_that_cannot_be_undone)
{
    fault_sweep(fault_move, WEIR_DEVICE, WEIR_SIM_unmap);
    fault_sweep(fault_move, WEIR_DEVICE, WEIR_SIM_handle_release);
}

/* ------------------------------------------------------------------------------------- trim -- */

static bool fault_trim(const fault *with)
{
    weir_addr addr[8];
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 50}, .streams = 2,
                                                .pool = {.growth_bytes = 2 * MIB}});
    for (unsigned i = 0; i < 8; i++) {
        addr[i] = weir_rig_alloc(rig, i % 2, 2 * MIB);
        weir_rig_write(rig, i % 2, addr[i], 2 * MIB, i);
    }
    for (unsigned i = 2; i < 8; i++) weir_rig_free(rig, i % 2, addr[i]);
    uint64_t before = weir_rig_calls(rig, with->call);
    fault_set(rig, with);
    weir_status status = weir_trim(rig->pool, 0, WEIR_FOREVER, NULL);
    bool struck = fault_clear(rig, with, before);
    weir_rig_check(rig);
    if (!struck && with->also == WEIR_SIM_CALLS) cr_expect_eq(status, WEIR_OK);
    for (unsigned i = 0; i < 2; i++) {
        weir_rig_read(rig, i, addr[i], 2 * MIB, i);
        weir_rig_free(rig, i, addr[i]);
    }
    fault_close(rig);
    return struck;
}

Test(faults, trims)
{
    fault_sweep(fault_trim, WEIR_DEVICE, WEIR_SIM_CALLS);
}

/* ----------------------------------------------------------------------------------- rescue -- */

/* A rescue that can neither go on nor go back loses the device: then only frees are left. */
static bool fault_rescue(const fault *with)
{
    slivers of;
    weir_addr large = 0;
    weir_slivers_open(&of, (rig_options){.sim = {.lag_us = 50}});
    uint64_t before = weir_rig_calls(of.rig, with->call);
    fault_set(of.rig, with);
    weir_status status = weir_alloc_on(of.rig->pool, of.rig->stream[0], SLIVERS_ASK, &large);
    bool struck = fault_clear(of.rig, with, before);
    bool once = with->call == WEIR_SIM_resume && !with->on; /* resume is tried twice */
    if ((!struck || once) && with->also == WEIR_SIM_CALLS)
        cr_expect_eq(status, WEIR_OK, "%s", weir_status_name(status));
    if (struck && with->call == WEIR_SIM_resume && with->on)
        cr_expect_eq(status, WEIR_LOST, "%s", weir_status_name(status));
    if (status == WEIR_LOST) {
        for (unsigned i = 0; i < of.count; i++) weir_rig_free(of.rig, 0, of.keep[i]);
        weir_rig_close_loose(of.rig);
        return struck;
    }
    weir_slivers_verify(&of);
    if (status == WEIR_OK) {
        weir_rig_write(of.rig, 0, large, SLIVERS_ASK, 7);
        weir_rig_free(of.rig, 0, large);
    }
    for (unsigned i = 0; i < of.count; i++) weir_rig_free(of.rig, 0, of.keep[i]);
    fault_close(of.rig);
    return struck;
}

/* The calls of one kind, at each k up to the tenth and then sparsely: a rescue makes hundreds. */
static void fault_rescue_sweep(weir_sim_call call, bool on, weir_sim_call also)
{
    fault with = {.call = call, .k = 1, .on = on, .status = WEIR_DEVICE, .also = also};
    while (fault_rescue(&with)) with.k += with.k < 10 ? 1 : with.k / 3;
}

Test(faults, rescues_when_one_call_fails)
{
    for (size_t i = 0; i < sizeof(fault_calls) / sizeof(fault_calls[0]); i++)
        fault_rescue_sweep(fault_calls[i], false, WEIR_SIM_CALLS);
}

Test(faults, rescues_when_a_call_fails_for_ever)
{
    for (size_t i = 0; i < sizeof(fault_calls) / sizeof(fault_calls[0]); i++)
        fault_rescue_sweep(fault_calls[i], true, WEIR_SIM_CALLS);
}

Test(faults, rescues_that_cannot_be_undone)
{
    static const weir_sim_call calls[] = {WEIR_SIM_map, WEIR_SIM_set_access, WEIR_SIM_copy,
                                          WEIR_SIM_handle_create};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fault_rescue_sweep(calls[i], false, WEIR_SIM_unmap);
        fault_rescue_sweep(calls[i], false, WEIR_SIM_handle_release);
    }
    fault_rescue_sweep(WEIR_SIM_set_access, true, WEIR_SIM_map);
}

/* Handles that a rescue left idle are taken first, and idle again when they can't be mapped. */
Test(faults, idle_handles_that_cannot_be_mapped)
{
    slivers of;
    weir_slivers_open(&of, (rig_options){0});
    weir_addr large = weir_rig_alloc(of.rig, 0, SLIVERS_ASK);
    weir_rig_free(of.rig, 0, large);
    ASSERT_OK(weir_trim(of.rig->pool, 0, WEIR_FOREVER, NULL));
    for (uint64_t k = 1; k < 60; k++) {
        weir_sim_fail(of.rig->sim, WEIR_SIM_map, k, false, WEIR_DEVICE);
        weir_status status = weir_rig_try(of.rig, weir_rig_request(of.rig, 0, SLIVERS_ASK));
        cr_expect(status == WEIR_OK || status == WEIR_DEVICE, "%s", weir_status_name(status));
        weir_slivers_verify(&of);
    }
    weir_sim_fail(of.rig->sim, WEIR_SIM_map, 0, false, WEIR_OK);
    weir_slivers_close(&of);
}
