/* SPDX-License-Identifier: MIT */
/* The arguments of the verbs that play traces: each is read strictly, and those that exclude each
 * other refused. */
#include "options.h"

#include <getopt.h>
#include <string.h>

#include "number.h"

enum { OPTIONS_DEVICE_MAX = 999999999 };

#define OPTIONS_EVERY_US UINT64_C(100000)

enum {
    OPTIONS_BACKEND = 1,
    OPTIONS_CAPACITY,
    OPTIONS_CONF,
    OPTIONS_DEVICE,
    OPTIONS_EVERY,
    OPTIONS_FIND_CAPACITY,
    OPTIONS_GPU_LAG_US,
    OPTIONS_JSON,
    OPTIONS_NO_VERIFY,
    OPTIONS_PEERS,
    OPTIONS_POLICY,
    OPTIONS_SCALE,
    OPTIONS_SUMMARY
};

static const struct option options_replay[] = {
    {"backend", required_argument, NULL, OPTIONS_BACKEND},
    {"capacity", required_argument, NULL, OPTIONS_CAPACITY},
    {"conf", required_argument, NULL, OPTIONS_CONF},
    {"device", required_argument, NULL, OPTIONS_DEVICE},
    {"find-capacity", no_argument, NULL, OPTIONS_FIND_CAPACITY},
    {"gpu-lag-us", required_argument, NULL, OPTIONS_GPU_LAG_US},
    {"json", no_argument, NULL, OPTIONS_JSON},
    {"no-verify", no_argument, NULL, OPTIONS_NO_VERIFY},
    {"peers", required_argument, NULL, OPTIONS_PEERS},
    {"policy", required_argument, NULL, OPTIONS_POLICY},
    {"scale", required_argument, NULL, OPTIONS_SCALE},
    {"summary", no_argument, NULL, OPTIONS_SUMMARY},
    {NULL, 0, NULL, 0}};

static const struct option options_threshold[] = {
    {"backend", required_argument, NULL, OPTIONS_BACKEND},
    {"conf", required_argument, NULL, OPTIONS_CONF},
    {"device", required_argument, NULL, OPTIONS_DEVICE},
    {"every-us", required_argument, NULL, OPTIONS_EVERY},
    {"json", no_argument, NULL, OPTIONS_JSON},
    {"scale", required_argument, NULL, OPTIONS_SCALE},
    {NULL, 0, NULL, 0}};

/* The words as they came, before any of them means something. */
typedef struct options_words {
    const char *backend, *capacity, *conf, *device, *every, *lag, *policy, *scale;
} options_words;

/* Where an option's word goes; NULL: it has none. */
static const char **options_word(weir_options *options, options_words *words, int option)
{
    switch (option) {
    case OPTIONS_BACKEND:
        return &words->backend;
    case OPTIONS_CAPACITY:
        return &words->capacity;
    case OPTIONS_CONF:
        return &words->conf;
    case OPTIONS_DEVICE:
        return &words->device;
    case OPTIONS_EVERY:
        return &words->every;
    case OPTIONS_GPU_LAG_US:
        return &words->lag;
    case OPTIONS_PEERS:
        return &options->peers;
    case OPTIONS_POLICY:
        return &words->policy;
    case OPTIONS_SCALE:
        return &words->scale;
    default:
        return NULL;
    }
}

static bool options_switch(weir_options *options, int option)
{
    switch (option) {
    case OPTIONS_FIND_CAPACITY:
        options->find_capacity = true;
        return true;
    case OPTIONS_JSON:
        options->json = true;
        return true;
    case OPTIONS_NO_VERIFY:
        options->verify = false;
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
    bool replay = options->verb == WEIR_OPTIONS_REPLAY;
    const struct option *known = replay ? options_replay : options_threshold;
    int option;

    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":", known, NULL)) != -1) {
        const char **word = options_word(options, words, option);
        if (option == ':')
            return weir_fault_set(fault, "%s needs a value; see 'weir help'", argv[optind - 1]);
        if (word != NULL) *word = optarg;
        else if (!options_switch(options, option))
            return weir_fault_set(fault, "%s knows no option %s; see 'weir help'",
                                  replay ? "replay" : "bench release-threshold", argv[optind - 1]);
    }
    options->paths = argv + optind;
    options->paths_count = argc - optind;
    if (options->paths_count == 0)
        return weir_fault_set(fault, "%s needs a trace; see 'weir help'",
                              replay ? "replay" : "bench release-threshold");
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

/* backend:auto stays simulated: a replay is the same on every machine unless it is told where. */
static weir_stage_kind options_kind_of(weir_conf_backend backend)
{
    switch (backend) {
    case WEIR_CONF_HOST:
        return WEIR_STAGE_HOST;
    case WEIR_CONF_CUDA:
        return WEIR_STAGE_CUDA;
    case WEIR_CONF_AUTO:
    case WEIR_CONF_SIM:
    default:
        return WEIR_STAGE_SIM;
    }
}

static bool options_backend(weir_options *options, const options_words *words, weir_fault *fault)
{
    if (words->backend == NULL) options->kind = options_kind_of(options->conf.backend);
    else if (strcmp(words->backend, "sim") == 0) options->kind = WEIR_STAGE_SIM;
    else if (strcmp(words->backend, "host") == 0) options->kind = WEIR_STAGE_HOST;
    else if (strcmp(words->backend, "cuda") == 0) options->kind = WEIR_STAGE_CUDA;
    else return weir_fault_set(fault, "--backend '%s' is none of sim, host, cuda", words->backend);
    return true;
}

/* The device goes into the settings, so that they say what was played. */
static void options_settle(weir_options *options)
{
    static const weir_conf_backend backends[] = {WEIR_CONF_SIM, WEIR_CONF_HOST, WEIR_CONF_CUDA};

    if (options->verb == WEIR_OPTIONS_REPLAY) options->conf.backend = backends[options->kind];
    else if (options->kind == WEIR_STAGE_CUDA && options->conf.source == WEIR_CONF_VMM)
        options->conf.source = WEIR_CONF_ASYNC;
}

bool weir_options_device(const char *word, int *device, weir_fault *fault)
{
    uint64_t number;

    if (!weir_number_read(word, &number) || number > OPTIONS_DEVICE_MAX)
        return weir_fault_set(fault, "--device '%s' is not the number of a device, from 0", word);
    *device = (int)number;
    return true;
}

static bool options_numbers(weir_options *options, const options_words *words, weir_fault *fault)
{
    options->scale = 1;
    options->every_us = OPTIONS_EVERY_US;
    if (words->lag != NULL && !weir_number_read(words->lag, &options->lag_us))
        return weir_fault_set(fault, "--gpu-lag-us '%s' is not a number of microseconds",
                              words->lag);
    if (words->every != NULL &&
        (!weir_number_read(words->every, &options->every_us) || options->every_us == 0))
        return weir_fault_set(fault, "--every-us '%s' is not a number of microseconds from 1",
                              words->every);
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
    return words->device == NULL || weir_options_device(words->device, &options->device, fault);
}

/* What only some devices have. */
static bool options_agree_kind(const weir_options *options, const options_words *words,
                               weir_fault *fault)
{
    if (options->kind != WEIR_STAGE_CUDA && words->device != NULL)
        return weir_fault_set(fault, "--device needs --backend cuda");
    if (options->kind != WEIR_STAGE_CUDA && options->conf.source != WEIR_CONF_VMM &&
        options->verb == WEIR_OPTIONS_REPLAY)
        return weir_fault_set(fault, "source:%s needs --backend cuda",
                              weir_stage_source(options->conf.source));
    if (options->kind == WEIR_STAGE_SIM) return true;
    if (options->find_capacity && options->kind == WEIR_STAGE_HOST)
        return weir_fault_set(fault, "--find-capacity needs --backend sim or cuda");
    if (options->lag_us != 0)
        return weir_fault_set(fault,
                              "--gpu-lag-us needs --backend sim; on %s work takes the time "
                              "that it takes",
                              weir_stage_name(options->kind));
    if (options->policy == WEIR_PASS_PLAIN)
        return weir_fault_set(fault, "--policy plain needs --backend sim");
    return true;
}

static bool options_agree(const weir_options *options, const options_words *words,
                          weir_fault *fault)
{
    if (options->json && options->summary)
        return weir_fault_set(fault, "--json and --summary exclude each other");
    if (options->json && options->peers != NULL)
        return weir_fault_set(fault, "--json and --peers exclude each other");
    if (options->verb == WEIR_OPTIONS_THRESHOLD && options->conf.release_threshold_set)
        return weir_fault_set(fault, "release_threshold_mb is what the bench varies; take it out "
                                     "of the settings, or give others with --conf");
    return options_agree_kind(options, words, fault);
}

bool weir_options_read(weir_options *options, weir_options_verb verb, int argc, char **argv,
                       weir_fault *fault)
{
    options_words words = {0};

    memset(options, 0, sizeof *options);
    options->verb = verb;
    options->verify = true;
    if (!options_words_read(options, &words, argc, argv, fault) ||
        !options_policy(options, &words, fault) || !options_conf(options, &words, fault) ||
        !options_backend(options, &words, fault) || !options_numbers(options, &words, fault) ||
        !options_agree(options, &words, fault))
        return false;
    options_settle(options);
    return true;
}

uint64_t weir_options_capacity(const weir_options *options, const weir_trace *trace)
{
    const uint64_t million = 1000000;
    uint64_t peak = trace->peak_requested_bytes;
    uint64_t times = options->capacity_millionths;
    uint64_t whole = peak / million, rest = peak % million;

    if (times == 0) return options->capacity_bytes;
    if (whole >= (UINT64_MAX - million) / times - million) return UINT64_MAX;
    return whole * times + rest * times / million;
}
