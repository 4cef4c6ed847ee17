/* SPDX-License-Identifier: MIT */
/*
 * Replays traces and reports. All input is read and checked before the first result is printed, so
 * bad input leaves nothing half written.
 */
#define _DEFAULT_SOURCE /* sysconf's free pages */

#include "replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "capacity.h"
#include "json.h"
#include "measure.h"
#include "options.h"
#include "summary.h"
#include "table.h"

typedef struct replay {
    weir_options options;
    weir_peers peers;
    weir_trace *traces;
    weir_result *results;
    size_t count; /* traces read */
    weir_fault fault;
} replay;

/* Real memory is filled to the trace's peak: more than half of what is free would starve others. */
static bool replay_fits(const weir_options *options, const weir_trace *trace, weir_fault *fault)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t peak = trace->peak_requested_bytes, half;

    if (options->kind == WEIR_STAGE_SIM || pages < 1 || page_bytes < 1) return true;
    half = (uint64_t)pages * (uint64_t)page_bytes / 2;
    if (peak <= half) return true;
    return weir_fault_set(fault,
                          "%s: its peak of %" PRIu64 " bytes is more than half of the free "
                          "memory; give --scale %" PRIu64 " or more",
                          trace->name, peak,
                          half == 0 ? UINT64_MAX : options->scale * (peak / half + 1));
}

static bool replay_read(replay *run)
{
    const weir_options *options = &run->options;
    size_t count = (size_t)options->paths_count;

    if (options->peers != NULL && !weir_peers_read(options->peers, &run->peers, &run->fault))
        return false;
    run->traces = calloc(count, sizeof *run->traces);
    run->results = calloc(count, sizeof *run->results);
    if (run->traces == NULL || run->results == NULL)
        return weir_fault_set(&run->fault, "not enough memory for %zu traces", count);
    for (; run->count < count; run->count++) {
        weir_trace *trace = &run->traces[run->count];
        if (!weir_trace_read(options->paths[run->count], trace, &run->fault)) return false;
        if (options->scale > 1) weir_trace_scale(trace, options->scale);
        if (!replay_fits(options, trace, &run->fault)) {
            run->count++; /* so that it is freed */
            return false;
        }
    }
    return true;
}

static uint64_t replay_capacity(const weir_options *options, const weir_trace *trace)
{
    const uint64_t million = 1000000;
    uint64_t peak = trace->peak_requested_bytes;
    uint64_t times = options->capacity_millionths;
    uint64_t whole = peak / million, rest = peak % million;

    if (times == 0) return options->capacity_bytes;
    if (whole >= (UINT64_MAX - million) / times - million) return UINT64_MAX;
    return whole * times + rest * times / million;
}

static weir_measure_setup replay_setup(const weir_options *options, const weir_trace *trace)
{
    weir_measure_setup setup = {.verify = options->verify};

    setup.pass.trace = trace;
    setup.pass.kind = options->kind;
    setup.pass.policy = options->policy;
    setup.pass.conf = &options->conf;
    setup.pass.capacity_bytes = replay_capacity(options, trace);
    setup.pass.lag_us = options->lag_us;
    return setup;
}

static bool replay_search(replay *run, const weir_pass_setup *setup, weir_result *result)
{
    weir_fault breach = {{0}};

    if (!weir_capacity_find(setup, result->cost.held_peak_bytes, &result->least_capacity_bytes,
                            &breach, &run->fault))
        return false;
    if (breach.text[0] == '\0') {
        result->searched = true;
        return true;
    }
    result->verdict = WEIR_BREACHED;
    (void)weir_fault_set(&result->breach, "%s", breach.text);
    return true;
}

static bool replay_trace(replay *run, size_t i)
{
    const weir_options *options = &run->options;
    weir_result *result = &run->results[i];
    weir_measure_setup setup = replay_setup(options, &run->traces[i]);

    if (!weir_measure(&setup, result, &run->fault)) return false;
    if (options->find_capacity && !replay_search(run, &setup.pass, result)) return false;
    if (options->json && !weir_json_print(stdout, result))
        return weir_fault_set(&run->fault, "the result cannot be written");
    return !options->summary || weir_summary_print(stdout, &setup.pass, &run->fault);
}

/* Whether all went as it should; says on stderr where it did not. */
static bool replay_good(const replay *run)
{
    bool good = true;

    for (size_t i = 0; i < run->count; i++) {
        const weir_result *result = &run->results[i];
        if (result->verdict == WEIR_BREACHED) {
            (void)fprintf(stderr, "weir: %s: %s\n", result->trace->name, result->breach.text);
            good = false;
        }
        good = good && result->cost.failed == 0;
    }
    return good;
}

static int replay_run(replay *run)
{
    for (size_t i = 0; i < run->count; i++)
        if (!replay_trace(run, i)) return WEIR_EXIT_USAGE;
    if (!run->options.json) weir_table_print(stdout, run->results, run->count);
    if (run->options.peers != NULL) weir_table_peers(stdout, run->results, run->count, &run->peers);
    if (fflush(stdout) != 0) {
        (void)weir_fault_set(&run->fault, "the result cannot be written");
        return WEIR_EXIT_USAGE;
    }
    return replay_good(run) ? WEIR_EXIT_OK : WEIR_EXIT_FAILED;
}

static void replay_free(replay *run)
{
    for (size_t i = 0; i < run->count; i++) weir_trace_free(&run->traces[i]);
    free(run->traces);
    free(run->results);
    weir_peers_free(&run->peers);
}

int weir_replay(int argc, char **argv)
{
    replay run = {0};
    int code = WEIR_EXIT_USAGE;

    if (weir_options_read(&run.options, argc, argv, &run.fault) && replay_read(&run))
        code = replay_run(&run);
    if (run.fault.text[0] != '\0') weir_fault_print(&run.fault);
    replay_free(&run);
    return code;
}
