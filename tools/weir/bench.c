/* SPDX-License-Identifier: MIT */
/* Measures and reports, trace by trace. All input is read before the first is measured. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#include "threshold_print.h"
#include "traces.h"

typedef struct bench {
    weir_options options;
    weir_card card; /* empty on other backends */
    weir_traces traces;
    bool good; /* no breach and no failed allocation so far */
    weir_fault fault;
} bench;

static bool bench_read(bench *run, int argc, char **argv)
{
    weir_options *options = &run->options;

    if (!weir_options_read(options, WEIR_OPTIONS_THRESHOLD, argc, argv, &run->fault)) return false;
    if (options->kind == WEIR_STAGE_CUDA &&
        !weir_card_open(&run->card, options->device, &run->fault))
        return false;
    return weir_traces_read(&run->traces, options, &run->card, &run->fault);
}

/* True where there is something to show. */
static bool bench_judge(bench *run, const weir_threshold *result)
{
    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++)
        run->good = run->good && result->row[i].cost.failed == 0;
    if (result->breach.text[0] == '\0') return true;
    (void)fprintf(stderr, "weir: %s: %s\n", result->trace->name, result->breach.text);
    run->good = false;
    return false;
}

static bool bench_trace(bench *run, const weir_trace *trace)
{
    const weir_options *options = &run->options;
    weir_pass_setup setup = {.trace = trace, .kind = options->kind, .device = options->device};
    weir_threshold result;

    setup.conf = &options->conf;
    if (!weir_threshold_measure(&setup, options->every_us, &result, &run->fault)) return false;
    if (!bench_judge(run, &result)) return true;
    if (options->json) {
        if (!weir_threshold_json(stdout, &result, &run->card))
            return weir_fault_set(&run->fault, "the result cannot be written");
        return true;
    }
    if (trace != run->traces.list) (void)fputc('\n', stdout);
    weir_threshold_table(stdout, &result);
    return fflush(stdout) == 0 || weir_fault_set(&run->fault, "the result cannot be written");
}

static bool bench_run(bench *run)
{
    run->good = true;
    for (size_t i = 0; i < run->traces.count; i++)
        if (!bench_trace(run, &run->traces.list[i])) return false;
    return true;
}

static int bench_threshold(int argc, char **argv)
{
    bench run = {0};
    int code = WEIR_EXIT_USAGE;

    if (bench_read(&run, argc, argv) && bench_run(&run))
        code = run.good ? WEIR_EXIT_OK : WEIR_EXIT_FAILED;
    if (run.fault.text[0] != '\0') weir_fault_print(&run.fault);
    weir_traces_free(&run.traces);
    weir_card_close(&run.card);
    return code;
}

int weir_bench(int argc, char **argv)
{
    weir_fault fault = {{0}};

    if (argc > 1 && strcmp(argv[1], "release-threshold") == 0)
        return bench_threshold(argc - 1, argv + 1);
    if (argc > 1)
        (void)weir_fault_set(&fault, "unknown bench '%s'; there is release-threshold", argv[1]);
    else (void)weir_fault_set(&fault, "bench needs a name; there is release-threshold");
    weir_fault_print(&fault);
    return WEIR_EXIT_USAGE;
}
