/* SPDX-License-Identifier: MIT */
/* Replays on a CUDA device: what they find, what they refuse, and what they say where it breaks. */
#define _POSIX_C_SOURCE 200809L
#include "capacity.h"
#include "fakecuda.h"
#include "json.h"
#include "measure.h"
#include "threshold.h"
#include "traces.h"
#include "verify.h"
#include "waves.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static void tool_replay_start(void)
{
    (void)setenv("WEIR_CUDA_LIBRARY", weir_fakecuda_path(), 1);
    weir_fakecuda_reset(NULL);
}

/* Each test leaves the driver as it found it, and has used it as it wants to be used. */
static void tool_replay_end(void)
{
    const char *breach = weir_fakecuda_breach(), *left = weir_fakecuda_balance();
    cr_expect_null(breach, "%s", breach);
    cr_expect_null(left, "%s", left);
}

TestSuite(tool_replay, .init = tool_replay_start);

static weir_pass_setup tool_replay_setup(const waves *load, weir_conf *conf,
                                         weir_conf_source source)
{
    weir_pass_setup setup = {.trace = &load->trace, .kind = WEIR_STAGE_CUDA, .conf = conf};

    weir_conf_init(conf);
    conf->source = source;
    return setup;
}

Test(tool_replay, every_source_serves_and_verifies)
{
    for (int source = WEIR_CONF_VMM; source <= WEIR_CONF_MALLOC; source++) {
        for (uint16_t streams = 1; streams <= 3; streams++) {
            waves load;
            weir_conf conf;
            weir_pass_result result;
            weir_fault fault = {{0}};
            waves_fill(&load, streams);
            weir_pass_setup setup = tool_replay_setup(&load, &conf, (weir_conf_source)source);
            cr_assert(weir_verify_run(&setup, &result, &fault), "%s", fault.text);
            cr_expect_str_eq(result.breach.text, "");
            cr_expect_eq(result.failed, 0);
            cr_expect_geq(result.held_peak_bytes, WAVES_PEAK_BYTES);
        }
    }
    tool_replay_end();
}

/* On one stream no timing decides, so the simulator foresees every call, and with handles, whose
 * addresses the pool chooses itself, every address. */
static void tool_replay_foresee(weir_conf_source source, weir_result *result, weir_card *card)
{
    const weir_fakecuda_config small = {.memory_bytes = 2 * WAVES_PEAK_BYTES};
    waves load;
    weir_conf conf;
    weir_fault fault = {{0}};

    weir_fakecuda_reset(&small);
    waves_fill(&load, 1);
    cr_assert(weir_card_open(card, 0, &fault), "%s", fault.text);
    weir_measure_setup setup = {.pass = tool_replay_setup(&load, &conf, source),
                                .verify = true,
                                .predict_bytes = card->total_bytes};
    cr_assert(weir_measure(&setup, result, &fault), "%s", fault.text);
    cr_expect_eq(result->verdict, WEIR_VERIFIED, "%s", result->breach.text);
    cr_assert(result->predicted);
    weir_card_close(card);
}

Test(tool_replay, the_simulator_counts_the_calls_beforehand)
{
    weir_card card;
    weir_result result;
    for (int source = WEIR_CONF_VMM; source <= WEIR_CONF_MALLOC; source++) {
        tool_replay_foresee((weir_conf_source)source, &result, &card);
        for (unsigned i = 0; i < WEIR_SIM_CALLS; i++)
            cr_expect_eq(result.cost.count[i], result.foreseen.count[i], "%s",
                         weir_sim_call_name((weir_sim_call)i));
        cr_expect_gt(result.cost.held_peak_bytes, 0);
        if (source == WEIR_CONF_VMM)
            cr_expect_eq(result.cost.layout_hash, result.foreseen.layout_hash);
    }
    tool_replay_end();
}

Test(tool_replay, json_names_the_device_and_what_was_foreseen)
{
    weir_card card;
    weir_result result;
    waves load;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    tool_replay_foresee(WEIR_CONF_ASYNC, &result, &card);
    cr_assert_not_null(out);
    waves_fill(&load, 1);
    result.trace = &load.trace;
    (void)strcpy(card.name, "a card");
    card.driver_version = 12080;
    cr_assert(weir_json_print(out, &result, &card));
    (void)fclose(out);
    cr_expect_not_null(strstr(text, "\"backend\":\"cuda\""));
    cr_expect_not_null(
        strstr(text, "\"device\":\"a card\",\"driver_version\":\"12.8\",\"source\":\"async\""));
    cr_expect_not_null(strstr(text, "\"predicted\":{\"same_calls\":true,"));
    cr_expect_not_null(strstr(text, "\"verified\":true"));
    free(text);
    tool_replay_end();
}

Test(tool_replay, the_least_capacity_is_that_of_the_simulator)
{
    waves load;
    weir_conf conf;
    uint64_t real = 0, simulated = 0;
    weir_fault breach = {{0}}, fault = {{0}};
    waves_fill(&load, 1);
    weir_pass_setup setup = tool_replay_setup(&load, &conf, WEIR_CONF_VMM);
    cr_assert(weir_capacity_find(&setup, WAVES_PEAK_BYTES, &real, &breach, &fault), "%s",
              fault.text);
    setup.kind = WEIR_STAGE_SIM;
    cr_assert(weir_capacity_find(&setup, WAVES_PEAK_BYTES, &simulated, &breach, &fault));
    cr_expect_str_eq(breach.text, "");
    cr_expect_eq(real, simulated);
    cr_expect_geq(real, WAVES_PEAK_BYTES);
    tool_replay_end();
}

Test(tool_replay, a_limit_below_the_peak_fails_allocations_and_nothing_else)
{
    waves load;
    weir_conf conf;
    weir_pass_result result;
    weir_fault fault = {{0}};
    waves_fill(&load, 2);
    weir_pass_setup setup = tool_replay_setup(&load, &conf, WEIR_CONF_VMM);
    setup.capacity_bytes = WAVES_PEAK_BYTES / 2;
    cr_assert(weir_verify_run(&setup, &result, &fault), "%s", fault.text);
    cr_expect_gt(result.failed, 0);
    cr_expect_leq(result.held_peak_bytes, WAVES_PEAK_BYTES / 2);
    cr_expect_str_eq(result.breach.text, "");
    tool_replay_end();
}

/* -------------------------------------------------------------------------------- thresholds -- */

Test(tool_replay, a_threshold_bench_gives_back_through_the_drivers_pool)
{
    waves load;
    weir_conf conf;
    weir_threshold result;
    weir_fault fault = {{0}};
    waves_fill(&load, 1);
    weir_pass_setup setup = tool_replay_setup(&load, &conf, WEIR_CONF_ASYNC);
    cr_assert(weir_threshold_measure(&setup, WAVES_PAUSE_US / 2, &result, &fault), "%s",
              fault.text);
    cr_expect_str_eq(result.breach.text, "");
    cr_expect_gt(result.row[0].cost.returned_bytes, 0);
    cr_expect_gt(weir_fakecuda_calls("cuMemPoolTrimTo"), 0);
    cr_expect_eq(result.row[WEIR_THRESHOLDS - 1].cost.returned_bytes, 0);
    tool_replay_end();
}

static void tool_replay_stage(weir_stage *stage, const weir_conf *conf)
{
    const weir_stage_setup setup = {
        .kind = WEIR_STAGE_CUDA, .streams = 2, .oracle = true, .conf = conf};
    weir_fault fault = {{0}};

    cr_assert(weir_stage_open(stage, &setup, &fault), "%s", fault.text);
}

/* What the driver's pool holds after 64 MiB in segments were taken and given back. */
static uint64_t tool_replay_kept(const char *settings)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_stage stage;
    weir_conf conf;
    weir_addr addr[16];
    uint64_t kept;

    weir_conf_init(&conf);
    cr_assert_eq(weir_conf_parse(&conf, settings, error), WEIR_OK, "%s", error);
    tool_replay_stage(&stage, &conf);
    for (int i = 0; i < 16; i++)
        cr_assert_eq(stage.ops->segment_alloc(stage.self, 4 * MIB, &addr[i]), WEIR_OK);
    cr_expect_geq(weir_fakecuda_pool_reserved(0), 64 * MIB);
    for (int i = 0; i < 16; i++)
        cr_assert_eq(stage.ops->segment_free(stage.self, addr[i], 4 * MIB), WEIR_OK);
    kept = weir_fakecuda_pool_reserved(0);
    weir_stage_close(&stage);
    cr_expect_str_eq(stage.breach.text, "");
    return kept;
}

Test(tool_replay, the_drivers_pool_keeps_what_the_threshold_says)
{
    cr_expect_eq(tool_replay_kept("source:async"), 0);
    cr_expect_eq(tool_replay_kept("source:async,release_threshold_mb:0"), 0);
    cr_expect_eq(tool_replay_kept("source:async,release_threshold_mb:32"), 32 * MIB);
    uint64_t tenth = tool_replay_kept("source:async,release_threshold_mb:10%");
    cr_expect_leq(tenth, 512 * MIB / 10, "a part is one of the device's memory");
    cr_expect_geq(tenth, 512 * MIB / 10 - 4 * MIB);
    tool_replay_end();
}

/* ---------------------------------------------------------------------------------- breaches -- */

Test(tool_replay, a_changed_word_is_a_breach)
{
    weir_stage stage;
    weir_addr addr = 0;
    weir_conf conf;
    weir_conf_init(&conf);
    conf.source = WEIR_CONF_MALLOC;
    tool_replay_stage(&stage, &conf);
    cr_assert_eq(stage.ops->segment_alloc(stage.self, 2 * MIB, &addr), WEIR_OK);
    weir_stage_write(&stage, 0, addr, 2 * MIB, 1);
    weir_stage_write(&stage, 0, addr + 4096, 8, 2); /* as a pool that gave it twice would */
    weir_stage_side(&stage, 0, 1, 0, addr, 2 * MIB, 1);
    stage.calls->settle(&stage);
    cr_expect_str_eq(stage.breach.text, "1 words of live blocks were changed");
    cr_expect_eq(stage.ops->segment_free(stage.self, addr, 2 * MIB), WEIR_OK);
    weir_stage_close(&stage);
    tool_replay_end();
}

Test(tool_replay, what_is_not_given_back_is_a_breach)
{
    weir_stage stage;
    weir_event event;
    weir_conf conf;
    weir_conf_init(&conf);
    tool_replay_stage(&stage, &conf);
    cr_assert_eq(stage.ops->event_create(stage.self, &event), WEIR_OK);
    weir_stage_close(&stage);
    cr_expect_not_null(strstr(stage.breach.text, "not all was given back to the device"));
    cr_expect_not_null(weir_fakecuda_balance(), "the driver says so too");
    weir_fakecuda_reset(NULL);
    tool_replay_end();
}

Test(tool_replay, a_device_that_is_lost_is_a_breach)
{
    weir_stage stage;
    weir_conf conf;
    weir_conf_init(&conf);
    tool_replay_stage(&stage, &conf);
    weir_fakecuda_lose(0, WEIR_CU_LAUNCH_FAILED);
    weir_stage_write(&stage, 0, 4096, 8, 1);
    weir_stage_close(&stage);
    cr_expect_str_eq(stage.breach.text, "the device took no work");
    weir_fakecuda_reset(NULL);
    tool_replay_end();
}

/* ---------------------------------------------------------------------------------- refusals -- */

static void tool_replay_refuse(weir_conf_source source, int device, const char *sentence)
{
    waves load;
    weir_conf conf;
    weir_pass_result result;
    weir_fault fault = {{0}};

    waves_fill(&load, 1);
    weir_pass_setup setup = tool_replay_setup(&load, &conf, source);
    setup.device = device;
    cr_expect_not(weir_pass_run(&setup, &result, &fault));
    cr_expect_not_null(strstr(fault.text, sentence), "'%s' is not in '%s'", sentence, fault.text);
}

Test(tool_replay, a_source_that_the_device_lacks_is_refused)
{
    const weir_fakecuda_config config = {.no_vmm = true, .no_pools = true};
    weir_fakecuda_reset(&config);
    tool_replay_refuse(WEIR_CONF_VMM, 0, "lacks source:vmm");
    tool_replay_refuse(WEIR_CONF_ASYNC, 0, "lacks source:async");
    tool_replay_end();
}

Test(tool_replay, a_device_that_takes_no_kernels_is_refused)
{
    weir_fakecuda_fail("cuModuleLoadData", 1, WEIR_CU_INVALID_VALUE, false);
    tool_replay_refuse(WEIR_CONF_VMM, 0, "the device takes no kernels: CUDA_ERROR_INVALID_VALUE");
    tool_replay_end();
}

Test(tool_replay, a_stream_that_the_driver_refuses_is_named)
{
    weir_fakecuda_fail("cuStreamCreate", 2, WEIR_CU_OUT_OF_MEMORY, false); /* the first is Weir's */
    tool_replay_refuse(WEIR_CONF_VMM, 0, "the driver gives no stream 0: CUDA_ERROR_OUT_OF_MEMORY");
    tool_replay_end();
}

Test(tool_replay, no_driver_and_no_device_are_said)
{
    weir_card card;
    weir_fault fault = {{0}};
    cr_expect_not(weir_card_open(&card, 2, &fault));
    cr_expect_str_eq(fault.text, "there is no CUDA device 2: the driver sees 2 of them, from 0");
    (void)setenv("WEIR_CUDA_LIBRARY", "/there/is/no/libcuda.so.1", 1);
    fault.text[0] = '\0';
    cr_expect_not(weir_card_open(&card, 0, &fault));
    cr_expect_not_null(strstr(fault.text, "backend cuda: no CUDA driver here: /there/is/no/"));
    weir_card_close(&card);
    tool_replay_refuse(WEIR_CONF_VMM, 0, "backend cuda: no CUDA driver here");
    tool_replay_end();
}

Test(tool_replay, a_card_tells_its_name_and_memory)
{
    const weir_fakecuda_config config = {.memory_bytes = 256 * MIB, .driver_version = 12080};
    weir_card card;
    weir_fault fault = {{0}};
    weir_fakecuda_reset(&config);
    cr_assert(weir_card_open(&card, 1, &fault), "%s", fault.text);
    cr_expect_neq(card.name[0], '\0');
    cr_expect_eq(card.driver_version, 12080);
    cr_expect_eq(card.total_bytes, 256 * MIB);
    cr_expect_leq(card.free_bytes, card.total_bytes);
    weir_card_close(&card);
    weir_card_close(&card); /* an empty one may be closed */
    tool_replay_end();
}

/* A file of one block, for what is read before anything is played. */
static void tool_replay_file(char path[64], uint64_t bytes)
{
    FILE *file;

    (void)snprintf(path, 64, "/tmp/weir_tool_replay_%ld.csv", (long)getpid());
    file = fopen(path, "w");
    cr_assert_not_null(file);
    (void)fprintf(file, "a,1,%llu,0,0\n", (unsigned long long)bytes);
    (void)fclose(file);
}

static void tool_replay_fits(uint64_t bytes, uint64_t capacity, const char *sentence)
{
    char path[64];
    char *paths[] = {path};
    weir_options options = {.kind = WEIR_STAGE_CUDA, .scale = 1, .paths = paths, .paths_count = 1};
    weir_card card;
    weir_traces traces = {NULL, 0};
    weir_fault fault = {{0}};

    options.capacity_bytes = capacity;
    tool_replay_file(path, bytes);
    cr_assert(weir_card_open(&card, 0, &fault), "%s", fault.text);
    cr_expect_eq(weir_traces_read(&traces, &options, &card, &fault), sentence == NULL);
    if (sentence != NULL)
        cr_expect_not_null(strstr(fault.text, sentence), "'%s' is not in '%s'", sentence,
                           fault.text);
    weir_traces_free(&traces);
    weir_card_close(&card);
    (void)remove(path);
}

Test(tool_replay, what_the_card_cannot_hold_is_refused_before_it_is_tried)
{
    tool_replay_fits(100 * MIB, 0, NULL);
    tool_replay_fits(1025 * MIB, 0,
                     "its peak of 1074790400 bytes is more than the 536870912 that "
                     "are free on device 0 (Stand-in 0); give --scale 3 or more");
    tool_replay_fits(100 * MIB, 513 * MIB,
                     "a capacity of 537919488 bytes is more than the "
                     "536870912 that are free on device 0");
    tool_replay_fits(100 * MIB, 512 * MIB, NULL);
    tool_replay_end();
}
