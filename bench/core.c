/* SPDX-License-Identifier: MIT */
/*
 * What the pool itself costs the host: recorded traces, random sizes beside a thousand to a million
 * live blocks, training patterns, and threads. bench/README.md says what each number means.
 *
 *     weir_bench_core [--json] [--probe] [--only PREFIX] [TRACE...]
 *
 * Invariant  a workload in which a call of the pool fails is no result: the program says which call
 *            and ends with 1.
 */
#include <stdio.h>
#include <string.h>

#include "probe.h"
#include "recorded.h"
#include "report.h"
#include "threads.h"

enum {
    CORE_PAIRS = 100000, /* in a round */
    CORE_ITERATIONS = 60,
    CORE_THREAD_LIVE = 1000,
    CORE_SEED = 20240607
};

typedef struct core_options {
    weir_bench_form form;
    bool probed;
    const char *only;
    int traces; /* where they begin in argv */
} core_options;

static bool core_wanted(const core_options *options, const char *name)
{
    return strncmp(name, options->only, strlen(options->only)) == 0;
}

/* --------------------------------------------------------------------------------- workloads -- */

static bool core_traces(const core_options *options, char **path, weir_fault *fault)
{
    weir_bench_result result;

    for (; core_wanted(options, "trace") && *path != NULL; path++) {
        if (!weir_bench_recorded(*path, options->probed, &result, fault)) return false;
        weir_bench_report(options->form, options->probed, &result);
    }
    return true;
}

/* Measures a script and frees it. */
static bool core_script(const core_options *options, const char *name, weir_bench_script *script,
                        weir_fault *fault)
{
    weir_bench_result result;
    bool good = weir_bench_loop(name, script, options->probed, &result, fault);

    if (good) weir_bench_report(options->form, options->probed, &result);
    weir_bench_script_free(script);
    return good;
}

static bool core_random(const core_options *options, weir_fault *fault)
{
    static const struct {
        const char *name;
        uint32_t live;
    } sizes[] = {{"random:1k", 1000},
                 {"random:10k", 10000},
                 {"random:100k", 100000},
                 {"random:1m", 1000000}};
    weir_bench_script script;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!core_wanted(options, sizes[i].name)) continue;
        if (!weir_bench_script_random(&script, sizes[i].live, CORE_PAIRS, CORE_SEED))
            return weir_fault_set(fault, "%s: not enough memory", sizes[i].name);
        if (!core_script(options, sizes[i].name, &script, fault)) return false;
    }
    return true;
}

static bool core_training(const core_options *options, weir_fault *fault)
{
    weir_bench_script script;

    if (!core_wanted(options, "training")) return true;
    if (!weir_bench_script_training(&script, CORE_ITERATIONS, CORE_SEED))
        return weir_fault_set(fault, "training: not enough memory");
    return core_script(options, "training", &script, fault);
}

static bool core_threads(const core_options *options, weir_fault *fault)
{
    static const uint32_t counts[] = {1, 2, 4};
    weir_bench_result result;
    char name[32];

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        (void)snprintf(name, sizeof name, "threads:%u", counts[i]);
        if (options->probed || !core_wanted(options, name)) continue;
        if (!weir_bench_threads(name, counts[i], CORE_THREAD_LIVE, CORE_PAIRS, &result, fault))
            return false;
        weir_bench_report(options->form, false, &result);
    }
    return true;
}

/* -------------------------------------------------------------------------------------- main -- */

static bool core_options_read(int argc, char **argv, core_options *options, weir_fault *fault)
{
    int i = 1;

    *options = (core_options){.form = WEIR_BENCH_TABLE, .only = ""};
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--json") == 0) options->form = WEIR_BENCH_JSON;
        else if (strcmp(argv[i], "--probe") == 0) options->probed = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) options->only = argv[++i];
        else
            return weir_fault_set(fault,
                                  "'%s' is no option, or lacks its value; there are --json, "
                                  "--probe and --only PREFIX, then paths of traces",
                                  argv[i]);
    }
    options->traces = i;
    if (options->probed && !WEIR_BENCH_PROBE_RUNS())
        return weir_fault_set(fault, "--probe counts nothing outside valgrind, or where "
                                     "valgrind/callgrind.h was missing at compile time; run "
                                     "bench/instructions.sh");
    return true;
}

int main(int argc, char **argv)
{
    weir_fault fault = {.text = ""};
    core_options options;

    if (!core_options_read(argc, argv, &options, &fault)) {
        weir_fault_print(&fault);
        return WEIR_EXIT_USAGE;
    }
    weir_bench_report_head(options.form);
    if (core_traces(&options, argv + options.traces, &fault) && core_random(&options, &fault) &&
        core_training(&options, &fault) && core_threads(&options, &fault))
        return WEIR_EXIT_OK;
    weir_fault_print(&fault);
    return WEIR_EXIT_FAILED;
}
