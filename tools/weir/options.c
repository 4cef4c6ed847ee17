/* SPDX-License-Identifier: MIT */
/* The arguments of `weir replay`: each is read strictly, and those that exclude each other
 * refused. */
#include "options.h"

#include <getopt.h>
#include <string.h>

#include "number.h"

enum {
    OPTIONS_BACKEND = 1,
    OPTIONS_CAPACITY,
    OPTIONS_CONF,
    OPTIONS_FIND_CAPACITY,
    OPTIONS_GPU_LAG_US,
    OPTIONS_JSON,
    OPTIONS_NO_VERIFY,
    OPTIONS_PEERS,
    OPTIONS_POLICY,
    OPTIONS_SCALE,
    OPTIONS_SUMMARY
};

static const struct option options_known[] = {
    {"backend", required_argument, NULL, OPTIONS_BACKEND},
    {"capacity", required_argument, NULL, OPTIONS_CAPACITY},
    {"conf", required_argument, NULL, OPTIONS_CONF},
    {"find-capacity", no_argument, NULL, OPTIONS_FIND_CAPACITY},
    {"gpu-lag-us", required_argument, NULL, OPTIONS_GPU_LAG_US},
    {"json", no_argument, NULL, OPTIONS_JSON},
    {"no-verify", no_argument, NULL, OPTIONS_NO_VERIFY},
    {"peers", required_argument, NULL, OPTIONS_PEERS},
    {"policy", required_argument, NULL, OPTIONS_POLICY},
    {"scale", required_argument, NULL, OPTIONS_SCALE},
    {"summary", no_argument, NULL, OPTIONS_SUMMARY},
    {NULL, 0, NULL, 0}};

/* The words as they came, before any of them means something. */
typedef struct options_words {
    const char *backend, *capacity, *conf, *lag, *policy, *scale;
} options_words;

static bool options_take(weir_options *options, options_words *words, int option)
{
    switch (option) {
    case OPTIONS_BACKEND:
        words->backend = optarg;
        return true;
    case OPTIONS_CAPACITY:
        words->capacity = optarg;
        return true;
    case OPTIONS_CONF:
        words->conf = optarg;
        return true;
    case OPTIONS_FIND_CAPACITY:
        options->find_capacity = true;
        return true;
    case OPTIONS_GPU_LAG_US:
        words->lag = optarg;
        return true;
    case OPTIONS_JSON:
        options->json = true;
        return true;
    case OPTIONS_NO_VERIFY:
        options->verify = false;
        return true;
    case OPTIONS_PEERS:
        options->peers = optarg;
        return true;
    case OPTIONS_POLICY:
        words->policy = optarg;
        return true;
    case OPTIONS_SCALE:
        words->scale = optarg;
        return true;
    case OPTIONS_SUMMARY:
        options->summary = true;
        return true;
    default:
        return false;
    }
}

static bool options_words_read(weir_options *options, options_words *words, int argc, char **argv,
                               weir_fault *fault)
{
    int option;

    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":", options_known, NULL)) != -1) {
        if (option == ':')
            return weir_fault_set(fault, "%s needs a value; see 'weir help'", argv[optind - 1]);
        if (!options_take(options, words, option))
            return weir_fault_set(fault, "replay knows no option %s; see 'weir help'",
                                  argv[optind - 1]);
    }
    options->paths = argv + optind;
    options->paths_count = argc - optind;
    if (options->paths_count == 0)
        return weir_fault_set(fault, "replay needs a trace; see 'weir help'");
    return true;
}

static bool options_policy(weir_options *options, const options_words *words, weir_fault *fault)
{
    options->policy = WEIR_PASS_WEIR;
    if (words->policy == NULL || strcmp(words->policy, "weir") == 0) return true;
    if (strcmp(words->policy, "plain") != 0)
        return weir_fault_set(fault, "--policy '%s' is neither weir nor plain", words->policy);
    options->policy = WEIR_PASS_PLAIN;
    if (words->conf != NULL)
        return weir_fault_set(fault, "--conf sets nothing in --policy plain; leave one out");
    if (options->summary)
        return weir_fault_set(fault, "--summary asks a pool; --policy plain has none");
    return true;
}

static bool options_conf(weir_options *options, const options_words *words, weir_fault *fault)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_status status = WEIR_OK;

    weir_conf_init(&options->conf);
    if (words->conf != NULL) status = weir_conf_parse(&options->conf, words->conf, error);
    else if (options->policy == WEIR_PASS_WEIR)
        status = weir_conf_environment(&options->conf, error);
    if (status != WEIR_OK)
        return weir_fault_set(fault, "%s%s", words->conf != NULL ? "--conf: " : "", error);
    return true;
}

static bool options_backend(weir_options *options, const options_words *words, weir_fault *fault)
{
    weir_conf_backend backend = options->conf.backend;

    if (words->backend == NULL && backend == WEIR_CONF_CUDA)
        return weir_fault_set(fault, "the settings ask for backend cuda, but a replay runs on sim "
                                     "or host: give --backend");
    if (words->backend == NULL)
        options->kind = backend == WEIR_CONF_HOST ? WEIR_STAGE_HOST : WEIR_STAGE_SIM;
    else if (strcmp(words->backend, "sim") == 0) options->kind = WEIR_STAGE_SIM;
    else if (strcmp(words->backend, "host") == 0) options->kind = WEIR_STAGE_HOST;
    else return weir_fault_set(fault, "--backend '%s' is neither sim nor host", words->backend);
    options->conf.backend = options->kind == WEIR_STAGE_SIM ? WEIR_CONF_SIM : WEIR_CONF_HOST;
    return true;
}

static bool options_numbers(weir_options *options, const options_words *words, weir_fault *fault)
{
    options->scale = 1;
    if (words->lag != NULL && !weir_number_read(words->lag, &options->lag_us))
        return weir_fault_set(fault, "--gpu-lag-us '%s' is not a number of microseconds",
                              words->lag);
    if (words->scale != NULL &&
        (!weir_number_read(words->scale, &options->scale) || options->scale == 0))
        return weir_fault_set(fault, "--scale '%s' is not a number from 1", words->scale);
    if (words->capacity != NULL &&
        !weir_number_factor(words->capacity, &options->capacity_millionths) &&
        (weir_conf_size(words->capacity, &options->capacity_bytes) != WEIR_OK ||
         options->capacity_bytes == 0))
        return weir_fault_set(fault,
                              "--capacity '%s' is neither a size as 512M or 2GiB nor a "
                              "multiple of the trace's peak as 1.02x",
                              words->capacity);
    return true;
}

static bool options_agree(const weir_options *options, weir_fault *fault)
{
    if (options->json && options->summary)
        return weir_fault_set(fault, "--json and --summary exclude each other");
    if (options->json && options->peers != NULL)
        return weir_fault_set(fault, "--json and --peers exclude each other");
    if (options->kind == WEIR_STAGE_SIM) return true;
    if (options->find_capacity) return weir_fault_set(fault, "--find-capacity needs --backend sim");
    if (options->lag_us != 0) return weir_fault_set(fault, "--gpu-lag-us needs --backend sim");
    if (options->policy == WEIR_PASS_PLAIN)
        return weir_fault_set(fault, "--policy plain needs --backend sim");
    return true;
}

bool weir_options_read(weir_options *options, int argc, char **argv, weir_fault *fault)
{
    options_words words = {0};

    memset(options, 0, sizeof *options);
    options->verify = true;
    return options_words_read(options, &words, argc, argv, fault) &&
           options_policy(options, &words, fault) && options_conf(options, &words, fault) &&
           options_backend(options, &words, fault) && options_numbers(options, &words, fault) &&
           options_agree(options, fault);
}
