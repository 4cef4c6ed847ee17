/* SPDX-License-Identifier: MIT */
/* The table and the JSON of results, schema weir.bench/1. A time that was not taken is left out. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

void weir_bench_report_head(weir_bench_form form)
{
    if (form == WEIR_BENCH_JSON) return;
    printf("%-20s %7s %9s %9s %9s %12s %14s\n", "workload", "threads", "live", "ops", "ns/op",
           "pairs/s", "device calls");
    (void)fflush(stdout);
}

static void report_row(bool probed, const weir_bench_result *result)
{
    printf("%-20s %7" PRIu32 " %9" PRIu64 " %9" PRIu64, result->name, result->threads,
           result->live_blocks, result->ops);
    if (probed) printf(" %9s", "-");
    else printf(" %9.1f", result->ns_per_op);
    if (result->pairs_per_s > 0) printf(" %12.0f", result->pairs_per_s);
    else printf(" %12s", "-");
    printf(" %14" PRIu64 "\n", result->device_calls);
}

static void report_json(bool probed, const weir_bench_result *result)
{
    printf("{\"schema\":\"weir.bench/1\",\"workload\":\"%s\",\"threads\":%" PRIu32
           ",\"live_blocks\":%" PRIu64 ",\"ops\":%" PRIu64,
           result->name, result->threads, result->live_blocks, result->ops);
    if (!probed) printf(",\"ns_per_op\":%.2f", result->ns_per_op);
    if (result->pairs_per_s > 0) printf(",\"pairs_per_s\":%.0f", result->pairs_per_s);
    printf(",\"device_calls\":%" PRIu64 "}\n", result->device_calls);
}

void weir_bench_report(weir_bench_form form, bool probed, const weir_bench_result *result)
{
    if (form == WEIR_BENCH_JSON) report_json(probed, result);
    else report_row(probed, result);
    (void)fflush(stdout);
}
