/* SPDX-License-Identifier: MIT */
/* The arguments of replay and bench: what they mean together, and the sentence where they don't. */
#define _POSIX_C_SOURCE 200809L
#include "options.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* Reads the words; the first stands for the verb's name. */
static bool options_test_read(weir_options *options, weir_options_verb verb, weir_fault *fault,
                              const char *const *words)
{
    static char *argv[16]; /* getopt permutes them, and paths points into them */
    int argc = 0;

    argv[argc++] = (char *)(uintptr_t) "verb";
    for (; words[argc - 1] != NULL; argc++) argv[argc] = (char *)(uintptr_t)words[argc - 1];
    argv[argc] = NULL;
    fault->text[0] = '\0';
    return weir_options_read(options, verb, argc, argv, fault);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define READ(verb, ...) \
    cr_assert(options_test_read(&options, (verb), &fault, WORDS(__VA_ARGS__)), "%s", fault.text)
#define REFUSE(verb, sentence, ...) \
    do { \
        cr_expect_not(options_test_read(&options, (verb), &fault, WORDS(__VA_ARGS__))); \
        cr_expect_str_eq(fault.text, (sentence)); \
    } while (0)

#define REPLAY WEIR_OPTIONS_REPLAY
#define THRESHOLD WEIR_OPTIONS_THRESHOLD

static void options_test_start(void)
{
    (void)unsetenv("WEIR_CONF");
}

TestSuite(options, .init = options_test_start);

Test(options, a_trace_alone_is_simulated_and_verified)
{
    weir_options options;
    weir_fault fault;
    READ(REPLAY, "a.csv", "b.csv");
    cr_expect_eq(options.kind, WEIR_STAGE_SIM);
    cr_expect_eq(options.conf.backend, WEIR_CONF_SIM);
    cr_expect_eq(options.paths_count, 2);
    cr_expect_str_eq(options.paths[1], "b.csv");
    cr_expect(options.verify);
    cr_expect_eq(options.scale, 1);
}

Test(options, a_backend_is_named_or_comes_with_the_settings)
{
    weir_options options;
    weir_fault fault;
    READ(REPLAY, "--backend", "cuda", "t");
    cr_expect_eq(options.kind, WEIR_STAGE_CUDA);
    cr_expect_eq(options.conf.backend, WEIR_CONF_CUDA, "the settings say what was played");
    READ(REPLAY, "--conf", "backend:cuda,source:async", "t");
    cr_expect_eq(options.kind, WEIR_STAGE_CUDA);
    cr_expect_eq(options.conf.source, WEIR_CONF_ASYNC);
    READ(REPLAY, "--conf", "backend:host", "t");
    cr_expect_eq(options.kind, WEIR_STAGE_HOST);
    READ(REPLAY, "--conf", "backend:cuda", "--backend", "sim", "t");
    cr_expect_eq(options.kind, WEIR_STAGE_SIM, "what is named wins");
    (void)setenv("WEIR_CONF", "backend:cuda", 1);
    READ(REPLAY, "t");
    cr_expect_eq(options.kind, WEIR_STAGE_CUDA);
    REFUSE(REPLAY, "--backend 'gpu' is none of sim, host, cuda", "--backend", "gpu", "t");
}

Test(options, auto_stays_simulated)
{
    weir_options options;
    weir_fault fault;
    READ(REPLAY, "--conf", "backend:auto", "t");
    cr_expect_eq(options.kind, WEIR_STAGE_SIM);
}

Test(options, a_device_is_a_number_and_needs_cuda)
{
    weir_options options;
    weir_fault fault;
    READ(REPLAY, "--backend", "cuda", "--device", "3", "t");
    cr_expect_eq(options.device, 3);
    REFUSE(REPLAY, "--device needs --backend cuda", "--device", "0", "t");
    REFUSE(REPLAY, "--device 'one' is not the number of a device, from 0", "--backend", "cuda",
           "--device", "one", "t");
    REFUSE(REPLAY, "--device '-1' is not the number of a device, from 0", "--backend", "cuda",
           "--device", "-1", "t");
    REFUSE(REPLAY, "--device '1000000000' is not the number of a device, from 0", "--backend",
           "cuda", "--device", "1000000000", "t");
}

Test(options, what_a_backend_cannot_do_is_refused)
{
    weir_options options;
    weir_fault fault;
    REFUSE(REPLAY, "source:malloc needs --backend cuda", "--conf", "source:malloc", "t");
    REFUSE(REPLAY, "--gpu-lag-us needs --backend sim; on cuda work takes the time that it takes",
           "--backend", "cuda", "--gpu-lag-us", "5", "t");
    REFUSE(REPLAY, "--gpu-lag-us needs --backend sim; on host work takes the time that it takes",
           "--backend", "host", "--gpu-lag-us", "5", "t");
    REFUSE(REPLAY, "--find-capacity needs --backend sim or cuda", "--backend", "host",
           "--find-capacity", "t");
    REFUSE(REPLAY, "--policy plain needs --backend sim", "--backend", "cuda", "--policy", "plain",
           "t");
    READ(REPLAY, "--backend", "cuda", "--find-capacity", "t");
    cr_expect(options.find_capacity);
}

Test(options, words_that_are_wrong_are_named)
{
    weir_options options;
    weir_fault fault;
    REFUSE(REPLAY, "replay needs a trace; see 'weir help'", "--json");
    REFUSE(REPLAY, "replay knows no option --every-us; see 'weir help'", "--every-us", "t");
    REFUSE(REPLAY, "--device needs a value; see 'weir help'", "t", "--device");
    REFUSE(REPLAY, "--json and --summary exclude each other", "--json", "--summary", "t");
    REFUSE(THRESHOLD, "bench release-threshold needs a trace; see 'weir help'", "--json");
    REFUSE(THRESHOLD, "bench release-threshold knows no option --capacity; see 'weir help'",
           "--capacity", "t");
    cr_expect_not(options_test_read(&options, REPLAY, &fault, WORDS("--conf", "limt:1G", "t")));
    cr_expect_not_null(strstr(fault.text, "the nearest valid key is limit"), "%s", fault.text);
}

Test(options, a_capacity_is_a_size_or_a_multiple_of_the_peak)
{
    weir_options options;
    weir_fault fault;
    weir_trace trace = {.peak_requested_bytes = 100 * MIB};
    READ(REPLAY, "t");
    cr_expect_eq(weir_options_capacity(&options, &trace), 0);
    READ(REPLAY, "--capacity", "3M", "t");
    cr_expect_eq(weir_options_capacity(&options, &trace), 3 * MIB);
    READ(REPLAY, "--capacity", "1.5x", "t");
    cr_expect_eq(weir_options_capacity(&options, &trace), 150 * MIB);
    trace.peak_requested_bytes = UINT64_MAX;
    cr_expect_eq(weir_options_capacity(&options, &trace), UINT64_MAX);
}

Test(options, a_threshold_bench_finishes_ten_times_a_second)
{
    weir_options options;
    weir_fault fault;
    READ(THRESHOLD, "t");
    cr_expect_eq(options.every_us, 100000);
    cr_expect_eq(options.kind, WEIR_STAGE_SIM);
    READ(THRESHOLD, "--every-us", "250", "t");
    cr_expect_eq(options.every_us, 250);
    REFUSE(THRESHOLD, "--every-us '0' is not a number of microseconds from 1", "--every-us", "0",
           "t");
}

Test(options, a_threshold_bench_is_about_segments)
{
    weir_options options;
    weir_fault fault;
    READ(THRESHOLD, "--backend", "cuda", "t");
    cr_expect_eq(options.conf.source, WEIR_CONF_ASYNC);
    READ(THRESHOLD, "--conf", "backend:cuda,source:malloc", "t");
    cr_expect_eq(options.conf.source, WEIR_CONF_MALLOC);
    READ(THRESHOLD, "--conf", "source:async", "t");
    cr_expect_eq(options.kind, WEIR_STAGE_SIM, "the simulator has segments too");
    REFUSE(THRESHOLD,
           "release_threshold_mb is what the bench varies; take it out of the settings, or give "
           "others with --conf",
           "--conf", "release_threshold_mb:0", "t");
}
