/* SPDX-License-Identifier: MIT */
/* Printing. The recommendation is written as WEIR_CONF takes it. */
#include "threshold_print.h"

#include <inttypes.h>

#include "object.h"

#define THRESHOLDS_MIB (UINT64_C(1) << 20)

/* What gives memory: the simulator and the host have plain segments. */
static const char *thresholds_source(const weir_threshold *result)
{
    return result->kind == WEIR_STAGE_CUDA ? weir_stage_source(result->source) : "segments";
}

static double thresholds_mib(double bytes)
{
    return bytes / (double)THRESHOLDS_MIB;
}

static void thresholds_row(FILE *out, const weir_threshold_row *row)
{
    const weir_pass_result *cost = &row->cost;

    (void)fprintf(out, "%-9s ", row->name);
    if (row->bytes == WEIR_THRESHOLD_NONE) (void)fprintf(out, "%9s", "-");
    else (void)fprintf(out, "%9" PRIu64, row->bytes / THRESHOLDS_MIB);
    (void)fprintf(out, " %9.1f %9.1f %9.1f %9.0f %9.0f %9" PRIu64 " %10.0f %7" PRIu64 "\n",
                  row->host_ns_per_op + row->driver_ns_per_op, row->host_ns_per_op,
                  row->driver_ns_per_op, thresholds_mib((double)cost->held_peak_bytes),
                  thresholds_mib(cost->held_mean_bytes), cost->driver_calls,
                  thresholds_mib((double)cost->returned_bytes), cost->failed);
}

void weir_threshold_table(FILE *out, const weir_threshold *result)
{
    const weir_threshold_row *best = &result->row[result->recommended];

    (void)fprintf(out,
                  "%s: %" PRIu32 " ops, peak requested %.0f MiB; %s, %s; a finish every %" PRIu64
                  " us, %" PRIu64 " in all\n",
                  result->trace->name, result->trace->count,
                  thresholds_mib((double)result->trace->peak_requested_bytes),
                  weir_stage_name(result->kind), thresholds_source(result), result->every_us,
                  result->finishes);
    (void)fprintf(out, "%-9s %9s %9s %9s %9s %9s %9s %9s %10s %7s\n", "threshold", "MiB", "ns/op",
                  "host ns", "driver ns", "peak MiB", "mean MiB", "calls", "returned", "failed");
    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++) thresholds_row(out, &result->row[i]);
    if (best->bytes == WEIR_THRESHOLD_NONE) (void)fprintf(out, "recommended: no threshold");
    else
        (void)fprintf(out, "recommended: release_threshold_mb:%" PRIu64,
                      best->bytes / THRESHOLDS_MIB);
    (void)fprintf(out, ", the least whose ns/op is at most 5 %% above the cheapest\n");
}

static weir_object thresholds_object(const weir_threshold_row *row)
{
    weir_object object = weir_object_new();

    weir_object_text(&object, "part_of_peak", row->name);
    if (row->bytes == WEIR_THRESHOLD_NONE) weir_object_null(&object, "threshold_bytes");
    else weir_object_count(&object, "threshold_bytes", row->bytes);
    weir_object_decimal(&object, "host_ns_per_op", row->host_ns_per_op, 1);
    weir_object_decimal(&object, "driver_ns_per_op", row->driver_ns_per_op, 1);
    weir_object_count(&object, "peak_reserved_bytes", row->cost.held_peak_bytes);
    weir_object_count(&object, "mean_reserved_bytes", (uint64_t)row->cost.held_mean_bytes);
    weir_object_count(&object, "driver_calls", row->cost.driver_calls);
    weir_object_count(&object, "returned_bytes", row->cost.returned_bytes);
    weir_object_count(&object, "failed_allocs", row->cost.failed);
    return object;
}

static void thresholds_fill(weir_object *line, const weir_threshold *result, const weir_card *card)
{
    const weir_threshold_row *best = &result->row[result->recommended];

    weir_object_text(line, "schema", "weir.threshold/1");
    weir_object_text(line, "trace", result->trace->name);
    weir_object_text(line, "backend", weir_stage_name(result->kind));
    weir_object_text(line, "source", thresholds_source(result));
    weir_object_text(line, "device", card->driver_version == 0 ? NULL : card->name);
    weir_object_count(line, "ops", result->trace->count);
    weir_object_count(line, "peak_requested_bytes", result->trace->peak_requested_bytes);
    weir_object_count(line, "every_us", result->every_us);
    weir_object_count(line, "finishes", result->finishes);
    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++)
        weir_object_append(line, "thresholds", thresholds_object(&result->row[i]));
    if (best->bytes == WEIR_THRESHOLD_NONE) weir_object_null(line, "recommended_bytes");
    else weir_object_count(line, "recommended_bytes", best->bytes);
    weir_object_text(line, "rule",
                     "the least threshold whose host_ns_per_op and driver_ns_per_op "
                     "together are at most 5 % above the cheapest");
}

bool weir_threshold_json(FILE *out, const weir_threshold *result, const weir_card *card)
{
    weir_object line = weir_object_new();
    bool good;

    thresholds_fill(&line, result, card);
    good = weir_object_print(out, &line);
    weir_object_free(&line);
    return good;
}
