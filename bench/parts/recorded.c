/* SPDX-License-Identifier: MIT */
/* Time is what `weir replay` measures; a probed trace is one pass of it. */
#include "recorded.h"

#include <stdio.h>
#include <string.h>

#include "measure.h"
#include "probe.h"

/* Counts the allocations, and the most blocks alive at once. */
static uint64_t recorded_allocs(const weir_trace *trace, uint64_t *most)
{
    uint64_t allocs = 0, live = 0;

    *most = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        if (trace->ops[i].kind == WEIR_TRACE_ALLOC) {
            allocs++;
            live++;
        }
        if (trace->ops[i].kind == WEIR_TRACE_FREE) live--;
        if (live > *most) *most = live;
    }
    return allocs;
}

static bool recorded_good(const weir_pass_result *pass, const char *name, weir_fault *fault)
{
    if (pass->breach.text[0] != '\0')
        return weir_fault_set(fault, "%s: %s", name, pass->breach.text);
    if (pass->failed > 0)
        return weir_fault_set(fault, "%s: %llu allocations failed, so the rest measures nothing",
                              name, (unsigned long long)pass->failed);
    return true;
}

static bool recorded_probe(const weir_pass_setup *setup, weir_bench_result *result,
                           weir_fault *fault)
{
    weir_pass_result pass;

    WEIR_BENCH_PROBE_BEGIN();
    bool good = weir_pass_run(setup, &pass, fault);
    WEIR_BENCH_PROBE_END(result->name);
    if (!good || !recorded_good(&pass, result->name, fault)) return false;
    result->device_calls = pass.driver_calls;
    return true;
}

static bool recorded_time(const weir_pass_setup *setup, weir_bench_result *result,
                          weir_fault *fault)
{
    weir_measure_setup measure = {.pass = *setup};
    weir_result replay;

    if (!weir_measure(&measure, &replay, fault)) return false;
    if (!recorded_good(&replay.cost, result->name, fault)) return false;
    result->ns_per_op = replay.host_ns_per_op;
    result->device_calls = replay.cost.driver_calls;
    return true;
}

bool weir_bench_recorded(const char *path, bool probed, weir_bench_result *result,
                         weir_fault *fault)
{
    weir_trace trace;
    weir_conf conf;

    memset(result, 0, sizeof *result);
    if (!weir_trace_read(path, &trace, fault)) return false;
    weir_conf_init(&conf);
    weir_pass_setup setup = {.trace = &trace, .policy = WEIR_PASS_WEIR, .conf = &conf};
    setup.kind = WEIR_STAGE_SIM;
    (void)snprintf(result->name, sizeof result->name, "trace:%s", trace.name);
    uint64_t allocs = recorded_allocs(&trace, &result->live_blocks);
    result->threads = 1;
    result->ops = probed ? 2 * allocs : trace.count;
    bool good =
        probed ? recorded_probe(&setup, result, fault) : recorded_time(&setup, result, fault);
    weir_trace_free(&trace);
    return good;
}
