/* SPDX-License-Identifier: MIT */
/* What a release threshold holds and costs, on waves of blocks whose end is a synchronisation. */
#define _POSIX_C_SOURCE 200809L
#include "threshold_print.h"

#include "waves.h"

#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
#define NONE (WEIR_THRESHOLDS - 1)

static void threshold_test_run(weir_threshold *result, const waves *load, weir_stage_kind kind,
                               uint64_t every_us)
{
    weir_conf conf;
    weir_fault fault = {{0}};
    weir_pass_setup setup = {.trace = &load->trace, .kind = kind, .conf = &conf};

    weir_conf_init(&conf);
    cr_assert(weir_threshold_measure(&setup, every_us, result, &fault), "%s", fault.text);
    cr_assert_str_eq(result->breach.text, "");
}

Test(threshold, rows_are_parts_of_the_peak_in_whole_mib)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 1);
    load.trace.peak_requested_bytes = 100 * MIB + 1;
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, 100000);
    const uint64_t mib[WEIR_THRESHOLDS - 1] = {0, 13, 25, 50, 75, 101, 126, 151};
    for (unsigned i = 0; i < NONE; i++)
        cr_expect_eq(result.row[i].bytes, mib[i] * MIB, "row %u", i);
    cr_expect_eq(result.row[NONE].bytes, WEIR_THRESHOLD_NONE);
}

Test(threshold, each_pause_has_one_finish)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 1);
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, WAVES_PAUSE_US / 2);
    cr_expect_eq(result.finishes, WAVES - 1, "a pause of two periods is one synchronisation");
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, UINT64_MAX);
    cr_expect_eq(result.finishes, 0);
}

Test(threshold, a_higher_one_holds_no_less_and_calls_no_more)
{
    weir_threshold result;
    waves load;
    for (uint16_t streams = 1; streams <= 2; streams++) {
        waves_fill(&load, streams);
        threshold_test_run(&result, &load, WEIR_STAGE_SIM, WAVES_PAUSE_US / 2);
        for (unsigned i = 0; i < WEIR_THRESHOLDS; i++) {
            const weir_pass_result *low = &result.row[i == 0 ? 0 : i - 1].cost;
            const weir_pass_result *this = &result.row[i].cost;
            cr_expect_geq(this->held_mean_bytes, low->held_mean_bytes, "row %u", i);
            cr_expect_leq(this->returned_bytes, low->returned_bytes, "row %u", i);
            cr_expect_leq(this->driver_calls, low->driver_calls, "row %u", i);
            cr_expect_leq(this->driver_ns, low->driver_ns, "row %u", i);
            cr_expect_geq(this->held_peak_bytes, WAVES_PEAK_BYTES);
            cr_expect_eq(this->failed, 0);
        }
        cr_expect_gt(result.row[0].cost.returned_bytes, 0, "nothing is kept at 0");
        cr_expect_eq(result.row[NONE].cost.returned_bytes, 0, "everything is kept without one");
        cr_expect_gt(result.row[NONE].cost.held_mean_bytes, result.row[0].cost.held_mean_bytes);
    }
}

/* A finish finds all free but the first block of the next wave, so what is above the threshold goes,
 * by whole segments. */
Test(threshold, what_is_given_back_is_what_lies_above_it)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 1);
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, WAVES_PAUSE_US / 2);
    for (unsigned i = 0; i < NONE; i++) {
        const weir_threshold_row *row = &result.row[i];
        uint64_t keep = row->bytes > WAVES_BLOCK_BYTES ? row->bytes : WAVES_BLOCK_BYTES;
        uint64_t above = WAVES_PEAK_BYTES > keep ? WAVES_PEAK_BYTES - keep : 0;
        cr_expect_gt(row->cost.count[WEIR_SIM_segment_alloc], 0);
        cr_expect_eq(row->cost.count[WEIR_SIM_handle_create], 0);
        cr_expect_geq(row->cost.returned_bytes, above * (WAVES - 1), "row %u", i);
        cr_expect_leq(row->cost.returned_bytes, (above + WAVES_BLOCK_BYTES) * (WAVES - 1), "row %u",
                      i);
    }
}

Test(threshold, the_simulator_says_the_same_twice)
{
    weir_threshold first, second;
    waves load;
    waves_fill(&load, 2);
    threshold_test_run(&first, &load, WEIR_STAGE_SIM, 100000);
    threshold_test_run(&second, &load, WEIR_STAGE_SIM, 100000);
    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++) {
        cr_expect_eq(first.row[i].cost.driver_ns, second.row[i].cost.driver_ns);
        cr_expect_eq(first.row[i].cost.held_peak_bytes, second.row[i].cost.held_peak_bytes);
        cr_expect_eq(first.row[i].cost.held_mean_bytes, second.row[i].cost.held_mean_bytes);
    }
}

Test(threshold, host_memory_is_given_back_too)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 2);
    threshold_test_run(&result, &load, WEIR_STAGE_HOST, WAVES_PAUSE_US / 2);
    cr_expect_gt(result.row[0].cost.returned_bytes, 0);
    cr_expect_eq(result.row[NONE].cost.returned_bytes, 0);
}

/* The mean is over the trace's time: pauses count, ops do not. */
Test(threshold, the_mean_is_that_of_time)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 1);
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, UINT64_MAX);
    const weir_pass_result *cost = &result.row[NONE].cost;
    cr_expect_leq(cost->held_mean_bytes, (double)cost->held_peak_bytes);
    cr_expect_geq(cost->held_mean_bytes, (double)cost->held_peak_bytes * 0.99,
                  "all is held from the first wave on, a thousandth of the time");
}

static void threshold_test_costs(weir_threshold_row row[WEIR_THRESHOLDS], double cheapest,
                                 unsigned from)
{
    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++) {
        row[i] = (weir_threshold_row){.bytes = i * MIB};
        row[i].host_ns_per_op = cheapest / 2;
        row[i].driver_ns_per_op = i < from ? cheapest : cheapest / 2;
    }
}

Test(threshold, the_least_within_five_percent_is_recommended)
{
    weir_threshold_row row[WEIR_THRESHOLDS];
    threshold_test_costs(row, 100.0, 3);
    cr_expect_eq(weir_threshold_recommend(row), 3);
    row[2].driver_ns_per_op = 55.0; /* 105 in all */
    cr_expect_eq(weir_threshold_recommend(row), 2, "5 %% above the cheapest is near enough");
    row[2].driver_ns_per_op = 55.1;
    cr_expect_eq(weir_threshold_recommend(row), 3, "more is not");
    row[NONE].driver_ns_per_op = 0.0; /* 50 in all */
    cr_expect_eq(weir_threshold_recommend(row), NONE);
    threshold_test_costs(row, 0.0, 3);
    cr_expect_eq(weir_threshold_recommend(row), 0, "where nothing costs anything, keep nothing");
}

static char *threshold_test_print(const weir_threshold *result, bool json)
{
    weir_card card = {.name = "", .driver_version = 0};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    cr_assert_not_null(out);
    if (json) cr_assert(weir_threshold_json(out, result, &card));
    else weir_threshold_table(out, result);
    (void)fclose(out);
    return text;
}

Test(threshold, the_recommendation_is_a_setting)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 1);
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, WAVES_PAUSE_US / 2);
    result.recommended = 2;
    char *text = threshold_test_print(&result, false);
    cr_expect_not_null(strstr(text, "waves: 96 ops, peak requested 32 MiB; sim, segments; a finish "
                                    "every 100000 us, 5 in all\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "recommended: release_threshold_mb:8, the least"), "%s", text);
    free(text);
    result.recommended = NONE;
    text = threshold_test_print(&result, false);
    cr_expect_not_null(strstr(text, "recommended: no threshold, the least"), "%s", text);
    free(text);
}

Test(threshold, json_has_every_row)
{
    weir_threshold result;
    waves load;
    waves_fill(&load, 1);
    threshold_test_run(&result, &load, WEIR_STAGE_SIM, WAVES_PAUSE_US / 2);
    result.recommended = 1;
    char *text = threshold_test_print(&result, true);
    struct json_object *line = json_tokener_parse(text), *rows, *row;
    cr_assert_not_null(line);
    cr_expect_str_eq(json_object_get_string(json_object_object_get(line, "schema")),
                     "weir.threshold/1");
    cr_expect_eq(json_object_get_uint64(json_object_object_get(line, "recommended_bytes")),
                 4 * MIB);
    rows = json_object_object_get(line, "thresholds");
    cr_assert_eq(json_object_array_length(rows), WEIR_THRESHOLDS);
    row = json_object_array_get_idx(rows, NONE);
    cr_expect_null(json_object_object_get(row, "threshold_bytes"), "no threshold is null");
    cr_expect_eq(json_object_get_uint64(json_object_object_get(row, "driver_calls")),
                 result.row[NONE].cost.driver_calls);
    json_object_put(line);
    free(text);
}
