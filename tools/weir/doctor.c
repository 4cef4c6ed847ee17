/* SPDX-License-Identifier: MIT */
/*
 * The doctor: what is here, what a pool would use, and why. One tree of facts is built, and printed
 * as JSON or as text, so both say the same. Settings that cannot be read count as none, after it was
 * said what is wrong with them.
 */
#define _GNU_SOURCE /* secure_getenv */

#include "doctor.h"

#include <getopt.h>
#include <stdlib.h>

#include "cards.h"
#include "machine.h"
#include "options.h"
#include "tree.h"

enum { DOCTOR_CONF_BYTES = 4096 };

typedef struct doctor {
    const weir_doctor_options *options;
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES]; /* empty: the settings were read */
    weir_cards cards;
    weir_object report;
    int code;
    weir_fault *fault;
} doctor;

static void doctor_fail(doctor *run, int code)
{
    run->code = run->code > code ? run->code : code;
}

/* ---------------------------------------------------------------------------------- settings -- */

static void doctor_off(weir_object *settings, bool off, const char *what, const char *setting)
{
    weir_object reason;

    if (!off) return;
    reason = weir_object_new();
    weir_object_text(&reason, "what", what);
    weir_object_text(&reason, "why", setting);
    weir_object_append(settings, "off", reason);
}

static void doctor_settings(doctor *run)
{
    weir_object settings = weir_object_new();
    const weir_config *pool = &run->conf.pool;
    char line[DOCTOR_CONF_BYTES];

    (void)weir_conf_print(&run->conf, line, sizeof line);
    weir_object_text(&settings, "variable", secure_getenv("WEIR_CONF"));
    weir_object_text(&settings, "error", run->error[0] == '\0' ? NULL : run->error);
    weir_object_text(&settings, "in_force", line);
    weir_object_list(&settings, "off");
    doctor_off(&settings, pool->no_growth, "growth", "the settings say expandable_segments:false");
    doctor_off(&settings, pool->no_moves, "moves", "the settings say moves:false");
    doctor_off(&settings, pool->no_rescue, "rescue", "the settings say rescue:false");
    doctor_off(&settings, !pool->no_rescue, "rescue on CUDA",
               "unless a program promises that the threads that call the pool queue all work");
    doctor_off(&settings, pool->no_stream_reuse, "reuse by a wait between streams",
               "the settings say stream_reuse:false");
    weir_object_put(&run->report, "settings", settings);
}

static void doctor_read(doctor *run)
{
    weir_conf_init(&run->conf);
    run->error[0] = '\0';
    if (weir_conf_environment(&run->conf, run->error) == WEIR_OK) return;
    doctor_fail(run, WEIR_EXIT_USAGE);
    (void)weir_fault_set(run->fault, "%s", run->error);
}

/* --------------------------------------------------------------------------------------- use -- */

/* What is asked for is not here. */
static const char *doctor_lack(doctor *run, const char *why)
{
    doctor_fail(run, WEIR_EXIT_FAILED);
    (void)weir_fault_set(run->fault, "%s", why);
    return why;
}

static void doctor_use_cuda(const doctor *run, weir_object *use)
{
    weir_object_text(use, "backend", "cuda");
    weir_object_count(use, "device", (uint64_t)run->cards.usable);
    weir_object_text(use, "source", weir_stage_source(run->cards.source));
    weir_object_text(use, "why",
                     run->conf.backend == WEIR_CONF_CUDA
                         ? "the settings say backend:cuda"
                         : "backend:auto is cuda where there is a device for it");
}

static void doctor_use_other(weir_object *use, const char *backend, const char *why)
{
    weir_object_text(use, "backend", backend);
    weir_object_null(use, "device");
    weir_object_null(use, "source");
    weir_object_text(use, "why", why);
}

static void doctor_use_backend(doctor *run, weir_object *use)
{
    bool cuda = run->cards.usable >= 0;

    if (run->error[0] != '\0') doctor_use_other(use, NULL, "the settings cannot be read");
    else if (run->conf.backend == WEIR_CONF_SIM)
        doctor_use_other(use, "sim", "the settings say backend:sim");
    else if (run->conf.backend == WEIR_CONF_HOST)
        doctor_use_other(use, "host", "the settings say backend:host");
    else if (cuda) doctor_use_cuda(run, use);
    else if (run->conf.backend == WEIR_CONF_CUDA)
        doctor_use_other(use, NULL,
                         doctor_lack(run, "the settings say backend:cuda, but there is no CUDA "
                                          "device for it"));
    else
        doctor_use_other(use, "sim",
                         "there is no CUDA device for a pool; sim simulates one, and "
                         "host is of real host memory");
}

static void doctor_use(doctor *run)
{
    weir_object use = weir_object_new();

    doctor_use_backend(run, &use);
    weir_object_text(&use, "replays",
                     run->error[0] != '\0'                 ? NULL
                     : run->conf.backend == WEIR_CONF_CUDA ? "cuda"
                     : run->conf.backend == WEIR_CONF_HOST ? "host"
                                                           : "sim");
    weir_object_put(&run->report, "will_use", use);
}

/* ------------------------------------------------------------------------------------ report -- */

static void doctor_look(doctor *run)
{
    int device = run->options->device;
    char text[96];

    weir_object_text(&run->report, "schema", "weir.doctor/1");
    weir_object_put(&run->report, "weir", weir_machine_build());
    doctor_settings(run);
    weir_cards_describe(&run->report, &run->conf, device, &run->cards);
    if (device >= run->cards.count) {
        (void)snprintf(text, sizeof text, "there is no CUDA device %d: the driver sees %d of them",
                       device, run->cards.count);
        (void)doctor_lack(run, text);
    }
    if (!run->cards.healthy) (void)doctor_lack(run, "a device failed its self-test");
    weir_object_put(&run->report, "host", weir_machine_host());
    doctor_use(run);
}

int weir_doctor_report(FILE *out, const weir_doctor_options *options, weir_fault *fault)
{
    doctor run = {.options = options, .code = WEIR_EXIT_OK, .fault = fault};
    bool written;

    run.report = weir_object_new();
    doctor_read(&run);
    doctor_look(&run);
    written =
        options->json ? weir_object_print(out, &run.report) : weir_tree_print(out, &run.report);
    if (!written) {
        doctor_fail(&run, WEIR_EXIT_USAGE);
        (void)weir_fault_set(fault, "the report cannot be written");
    }
    weir_object_free(&run.report);
    return run.code;
}

static bool doctor_options(weir_doctor_options *options, int argc, char **argv, weir_fault *fault)
{
    static const struct option known[] = {{"device", required_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    int option;

    options->json = false;
    options->device = -1;
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1) {
        if (option == ':')
            return weir_fault_set(fault, "%s needs a value; see 'weir help'", argv[optind - 1]);
        if (option == '?')
            return weir_fault_set(fault, "doctor knows no option %s; see 'weir help'",
                                  argv[optind - 1]);
        if (option == 'j') options->json = true;
        else if (!weir_options_device(optarg, &options->device, fault)) return false;
    }
    if (optind == argc) return true;
    return weir_fault_set(fault, "doctor takes no '%s'; see 'weir help'", argv[optind]);
}

int weir_doctor(int argc, char **argv)
{
    weir_doctor_options options;
    weir_fault fault = {{0}};
    int code = WEIR_EXIT_USAGE;

    if (doctor_options(&options, argc, argv, &fault))
        code = weir_doctor_report(stdout, &options, &fault);
    if (fault.text[0] != '\0') weir_fault_print(&fault);
    return code;
}
