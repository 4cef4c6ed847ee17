/* SPDX-License-Identifier: MIT */
/*
 * Replays traces and reports. All input is read and checked before the first result is printed, so
 * bad input leaves nothing half written.
 */
#include "replay.h"

#include <stdlib.h>

#include "capacity.h"
#include "json.h"
#include "measure.h"
#include "summary.h"
#include "table.h"
#include "traces.h"

typedef struct replay {
    weir_options options;
    weir_peers peers;
    weir_card card; /* empty on other backends */
    weir_traces traces;
    weir_result *results;
    weir_fault fault;
} replay;

static bool replay_read(replay *run)
{
    const weir_options *options = &run->options;

    if (options->peers != NULL && !weir_peers_read(options->peers, &run->peers, &run->fault))
        return false;
    if (options->kind == WEIR_STAGE_CUDA &&
        !weir_card_open(&run->card, options->device, &run->fault))
        return false;
    if (!weir_traces_read(&run->traces, options, &run->card, &run->fault)) return false;
    run->results = calloc(run->traces.count, sizeof *run->results);
    return run->results != NULL ||
           weir_fault_set(&run->fault, "not enough memory for %zu results", run->traces.count);
}

static weir_measure_setup replay_setup(const replay *run, const weir_trace *trace)
{
    const weir_options *options = &run->options;
    weir_measure_setup setup = {.verify = options->verify};

    setup.predict_bytes = run->card.total_bytes;
    setup.pass.trace = trace;
    setup.pass.kind = options->kind;
    setup.pass.device = options->device;
    setup.pass.policy = options->policy;
    setup.pass.conf = &options->conf;
    setup.pass.capacity_bytes = weir_options_capacity(options, trace);
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
    weir_measure_setup setup = replay_setup(run, &run->traces.list[i]);

    if (!weir_measure(&setup, result, &run->fault)) return false;
    if (options->find_capacity && result->verdict != WEIR_BREACHED &&
        !replay_search(run, &setup.pass, result))
        return false;
    if (options->json && !weir_json_print(stdout, result, &run->card))
        return weir_fault_set(&run->fault, "the result cannot be written");
    return !options->summary || weir_summary_print(stdout, &setup.pass, &run->fault);
}

/* Whether all went as it should; says on stderr where it did not. */
static bool replay_good(const replay *run)
{
    bool good = true;

    for (size_t i = 0; i < run->traces.count; i++) {
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
    for (size_t i = 0; i < run->traces.count; i++)
        if (!replay_trace(run, i)) {
            (void)replay_good(run); /* a breach is the better reason */
            return WEIR_EXIT_USAGE;
        }
    if (!run->options.json) weir_table_print(stdout, run->results, run->traces.count);
    if (!run->options.json) weir_table_predicted(stdout, run->results, run->traces.count);
    if (run->options.peers != NULL)
        weir_table_peers(stdout, run->results, run->traces.count, &run->peers);
    if (fflush(stdout) != 0) {
        (void)weir_fault_set(&run->fault, "the result cannot be written");
        return WEIR_EXIT_USAGE;
    }
    return replay_good(run) ? WEIR_EXIT_OK : WEIR_EXIT_FAILED;
}

static void replay_free(replay *run)
{
    free(run->results);
    weir_traces_free(&run->traces);
    weir_card_close(&run->card);
    weir_peers_free(&run->peers);
}

int weir_replay(int argc, char **argv)
{
    replay run = {0};
    int code = WEIR_EXIT_USAGE;

    if (weir_options_read(&run.options, WEIR_OPTIONS_REPLAY, argc, argv, &run.fault) &&
        replay_read(&run))
        code = replay_run(&run);
    if (run.fault.text[0] != '\0') weir_fault_print(&run.fault);
    replay_free(&run);
    return code;
}
