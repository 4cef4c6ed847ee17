/* SPDX-License-Identifier: MIT */
/* drive: see drive.h. The calls on blocks are in drive_blocks.c. */
#include "drive_parts.h"

#include <stdio.h>
#include <string.h>

uint64_t weir_drive_below(drive *of, uint64_t bound)
{
    return random_below(&of->state, bound);
}

void weir_drive_order(drive *of, uint32_t before, uint32_t after)
{
    const weir_device_ops *ops = weir_sim_ops(of->rig->sim);
    if (before == after || before == MODEL_ORPHAN) return;
    ASSERT_OK(ops->event_record(of->rig->sim, of->event, of->rig->native[before]));
    ASSERT_OK(ops->stream_wait(of->rig->sim, of->rig->native[after], of->event));
}

bool weir_drive_allowed(const drive *of, weir_status status)
{
    if (status == WEIR_OK || status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT) return true;
    if (status == WEIR_DEVICE) return of->options.faults;
    return status == WEIR_NO_METADATA && of->options.short_of_host;
}

/* ------------------------------------------------------------------------------------ device -- */

static void drive_stall(drive *of)
{
    uint32_t stream = (uint32_t)weir_drive_below(of, of->rig->streams);
    if ((of->stalled >> stream & 1) != 0) weir_sim_go(of->rig->sim, of->rig->native[stream]);
    else if (of->options.stalls) weir_sim_stall(of->rig->sim, of->rig->native[stream]);
    else return;
    of->stalled ^= 1u << stream;
}

static void drive_time(drive *of)
{
    weir_sim_time_set(of->rig->sim, weir_sim_time(of->rig->sim) + weir_drive_below(of, 100));
}

/* One call that a pool must survive whenever it fails: only one is out at a time, as a second may
 * hit what undoes the first. Not those of which the driver makes some itself. */
static void drive_fault(drive *of)
{
    static const weir_sim_call calls[] = {
        WEIR_SIM_va_reserve,    WEIR_SIM_handle_create, WEIR_SIM_map,          WEIR_SIM_set_access,
        WEIR_SIM_segment_alloc, WEIR_SIM_copy,          WEIR_SIM_event_create, WEIR_SIM_event_query,
        WEIR_SIM_event_wait,    WEIR_SIM_quiesce};
    static const weir_status answers[] = {WEIR_DEVICE, WEIR_NO_MEMORY};
    weir_sim_call call = calls[weir_drive_below(of, sizeof(calls) / sizeof(calls[0]))];
    uint64_t k = weir_drive_below(of, 3) == 0 ? 0 : 1 + weir_drive_below(of, 4);
    if (!of->options.faults) return;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        weir_sim_fail(of->rig->sim, calls[i], 0, false, WEIR_OK);
    weir_sim_fail(of->rig->sim, call, k, false, answers[weir_drive_below(of, 2)]);
}

static void drive_host_fault(drive *of)
{
    if (of->options.short_of_host)
        weir_host_memory_fail(&of->rig->memory, 1 + weir_drive_below(of, 3), false);
}

/* -------------------------------------------------------------------------------------- pool -- */

static void drive_trim(drive *of)
{
    uint64_t released = 0;
    uint64_t held = weir_rig_stats(of->rig).reserved.current;
    uint64_t keep = weir_drive_below(of, held + 1);
    weir_status status = weir_trim(of->rig->pool, keep, weir_drive_below(of, 2) * 50, &released);
    cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
    cr_assert_leq(released, held);
    if (status == WEIR_OK && !of->options.faults)
        cr_assert_eq(weir_rig_stats(of->rig).reserved.current, held - released);
}

static void drive_finish(drive *of)
{
    weir_status status = weir_finish(of->rig->pool, weir_drive_below(of, 200));
    cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
    if (status == WEIR_OK) cr_assert_eq(weir_rig_stats(of->rig).pending.current, 0);
}

static void drive_limit(drive *of)
{
    uint64_t whole = of->options.rig.pool.limit_bytes;
    if (!of->options.limits) return;
    weir_status status =
        weir_limit_set(of->rig->pool, whole / 2 + weir_drive_below(of, whole / 2 + 1));
    cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
}

/* Every block of a stream that ends has lost its owner; other streams go on using it. */
static void drive_retire(drive *of)
{
    uint32_t stream = (uint32_t)weir_drive_below(of, of->rig->streams);
    if (of->options.no_retire || (of->stalled >> stream & 1) != 0) return;
    weir_status status = weir_stream_retire(of->rig->pool, of->rig->stream[stream]);
    if (status != WEIR_OK) {
        cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
        return;
    }
    if (of->stalled != 0) { /* it may wait for one of those */
        for (uint32_t i = 0; i < of->rig->streams; i++)
            weir_sim_go(of->rig->sim, of->rig->native[i]);
        of->stalled = 0;
    }
    weir_sim_sync(of->rig->sim, of->rig->native[stream]);
    weir_sim_stream_destroy(of->rig->sim, of->rig->native[stream]);
    for (uint32_t i = 0; i < of->model.count; i++) {
        model_block *block = &of->model.block[i];
        if (block->owner == stream) block->owner = MODEL_ORPHAN;
        block->users &= ~(1u << stream);
    }
    weir_host_memory_fail(&of->rig->memory, 0, false);
    weir_rig_attach(of->rig, stream, weir_drive_below(of, 2) == 0);
}

static void drive_domain(drive *of)
{
    weir_domain *domain = &of->domain[weir_drive_below(of, DRIVE_DOMAINS)];
    weir_status status;
    if (of->options.no_domains) return;
    if (*domain == 0) {
        status = weir_domain_create(of->rig->pool, domain);
    } else {
        bool busy = false;
        for (uint32_t i = 0; i < of->model.count; i++)
            busy = busy || of->model.block[i].domain == (uint32_t)(domain - of->domain) + 1;
        status = weir_domain_release(of->rig->pool, *domain);
        if (busy) cr_assert_eq(status, WEIR_BUSY);
        if (status == WEIR_OK) *domain = 0;
        if (busy) return;
    }
    cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
}

/* --------------------------------------------------------------------------------------- run -- */

typedef struct drive_weight {
    uint32_t weight;
    void (*call)(drive *of);
} drive_weight;

static void drive_step(drive *of)
{
    static const drive_weight weights[] = {
        {80, weir_drive_alloc}, {70, weir_drive_free}, {20, weir_drive_work},
        {12, weir_drive_use},   {8, weir_drive_pin},   {10, weir_drive_resize},
        {10, weir_drive_wrong}, {8, drive_stall},      {8, drive_time},
        {3, drive_trim},        {3, drive_finish},     {2, drive_limit},
        {3, drive_retire},      {3, drive_domain},     {6, drive_fault},
        {4, drive_host_fault}};
    uint32_t sum = 0, i = 0;
    for (size_t at = 0; at < sizeof(weights) / sizeof(weights[0]); at++) sum += weights[at].weight;
    uint32_t pick = (uint32_t)weir_drive_below(of, sum);
    while (pick >= weights[i].weight) pick -= weights[i++].weight;
    weights[i].call(of);
}

static void drive_open(const drive_options *options, drive *of)
{
    memset(of, 0, sizeof(*of));
    of->options = *options;
    of->options.seed = random_setting("WEIR_TEST_SEED", options->seed);
    of->options.steps = random_setting("WEIR_TEST_STEPS", options->steps);
    of->state = of->options.seed;
    printf("%s: WEIR_TEST_SEED=%llu WEIR_TEST_STEPS=%llu\n", options->name,
           (unsigned long long)of->options.seed, (unsigned long long)of->options.steps);
    fflush(stdout);
    of->rig = weir_rig_open(&options->rig);
    ASSERT_OK(weir_sim_ops(of->rig->sim)->event_create(of->rig->sim, &of->event));
}

/* Everything goes on, every block is read once more and freed, and all is given back. */
static void drive_close(drive *of)
{
    for (unsigned call = 0; call < WEIR_SIM_CALLS; call++)
        weir_sim_fail(of->rig->sim, (weir_sim_call)call, 0, false, WEIR_OK);
    weir_host_memory_fail(&of->rig->memory, 0, false);
    for (uint32_t i = 0; i < of->rig->streams; i++) weir_sim_go(of->rig->sim, of->rig->native[i]);
    of->stats = weir_rig_stats(of->rig);
    while (of->model.count != 0) weir_drive_free(of);
    weir_sim_sync(of->rig->sim, 0);
    ASSERT_OK(weir_finish(of->rig->pool, WEIR_FOREVER));
    weir_sim_ops(of->rig->sim)->event_destroy(of->rig->sim, of->event);
    if (weir_rig_stats(of->rig).quarantined_bytes != 0) weir_rig_close_loose(of->rig);
    else weir_rig_close(of->rig);
}

void weir_drive_run(const drive_options *options, drive *of)
{
    drive_open(options, of);
    uint64_t limit = options->rig.pool.limit_bytes;
    for (; of->step < of->options.steps; of->step++) {
        drive_step(of);
        weir_rig_check(of->rig);
        weir_model_compare(&of->model, of->rig);
        if (limit != 0) cr_assert_leq(weir_rig_stats(of->rig).reserved.peak, limit);
        cr_assert_not(of->rig->memory.held, "step %llu left the lock held",
                      (unsigned long long)of->step);
    }
    drive_close(of);
}
