/* SPDX-License-Identifier: MIT */
/*
 * One JSON object per result. Keys and their order are the schema's; ratios carry four decimals,
 * times one; what was not looked for is null.
 */
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include "object.h"

static void json_per_op(weir_object *line, const char *key, uint64_t ns, uint32_t ops)
{
    weir_object_decimal(line, key, (double)ns / (double)ops, 1);
}

static void json_times(weir_object *line, const weir_result *result)
{
    const weir_pass_result *cost = &result->cost;
    uint32_t ops = result->trace->count;

    weir_object_decimal(line, "host_ns_per_op", result->host_ns_per_op, 1);
    json_per_op(line, "driver_ns_per_op", cost->driver_ns, ops);
    json_per_op(line, "growth_ns_per_op", cost->growth_ns, ops);
    json_per_op(line, "steady_ns_per_op", cost->driver_ns - cost->growth_ns, ops);
    json_per_op(line, "teardown_ns_per_op", cost->teardown_ns, ops);
    weir_object_count(line, "host_waits", cost->host_waits);
    weir_object_count(line, "waited_us", cost->waited_us);
}

static void json_by_call(weir_object *line, const char *key, const uint64_t numbers[WEIR_SIM_CALLS])
{
    weir_object calls = weir_object_new();

    for (unsigned i = 0; i < WEIR_SIM_CALLS; i++)
        weir_object_count(&calls, weir_sim_call_name((weir_sim_call)i), numbers[i]);
    weir_object_put(line, key, calls);
}

static void json_capacity(weir_object *line, const weir_result *result)
{
    if (!result->searched) {
        weir_object_null(line, "least_capacity_bytes");
        weir_object_null(line, "least_capacity_ratio");
        return;
    }
    weir_object_count(line, "least_capacity_bytes", result->least_capacity_bytes);
    weir_object_ratio(line, "least_capacity_ratio", result->least_capacity_bytes,
                      result->trace->peak_requested_bytes);
}

static void json_verdict(weir_object *line, weir_verdict verdict)
{
    if (verdict == WEIR_NOT_VERIFIED) weir_object_null(line, "verified");
    else weir_object_flag(line, "verified", verdict == WEIR_VERIFIED);
}

static void json_device(weir_object *line, const weir_result *result, const weir_card *card)
{
    char version[32];

    if (card == NULL || card->driver_version == 0) {
        weir_object_null(line, "device");
        weir_object_null(line, "driver_version");
        weir_object_null(line, "source");
        return;
    }
    (void)snprintf(version, sizeof version, "%d.%d", card->driver_version / 1000,
                   card->driver_version % 1000 / 10);
    weir_object_text(line, "device", card->name);
    weir_object_text(line, "driver_version", version);
    weir_object_text(line, "source", weir_stage_source(result->source));
}

static void json_predicted(weir_object *line, const weir_result *result)
{
    const weir_pass_result *cost = &result->cost, *foreseen = &result->foreseen;
    weir_object part;

    if (!result->predicted) {
        weir_object_null(line, "predicted");
        return;
    }
    part = weir_object_new();
    weir_object_flag(&part, "same_calls",
                     memcmp(cost->count, foreseen->count, sizeof cost->count) == 0);
    weir_object_flag(&part, "same_layout", cost->layout_hash == foreseen->layout_hash);
    json_per_op(&part, "ns_per_op", foreseen->driver_ns, result->trace->count);
    json_by_call(&part, "calls", foreseen->count);
    json_by_call(&part, "call_ns", foreseen->call_ns);
    weir_object_put(line, "predicted", part);
}

static void json_fill(weir_object *line, const weir_result *result, const weir_card *card)
{
    const weir_trace *trace = result->trace;
    const weir_pass_result *cost = &result->cost;
    char hash[17];

    (void)snprintf(hash, sizeof hash, "%016" PRIx64, cost->layout_hash);
    weir_object_text(line, "schema", "weir.replay/1");
    weir_object_text(line, "trace", trace->name);
    weir_object_text(line, "backend", weir_stage_name(result->kind));
    weir_object_count(line, "ops", trace->count);
    weir_object_count(line, "streams", trace->streams);
    weir_object_count(line, "peak_requested_bytes", trace->peak_requested_bytes);
    weir_object_count(line, "peak_reserved_bytes", cost->held_peak_bytes);
    weir_object_ratio(line, "reserved_ratio", cost->held_peak_bytes, trace->peak_requested_bytes);
    weir_object_count(line, "failed_allocs", cost->failed);
    json_times(line, result);
    weir_object_count(line, "moved_handles", cost->moved_handles);
    weir_object_text(line, "layout_hash", hash);
    weir_object_text(line, "conf", result->conf);
    json_by_call(line, "driver_calls", cost->count);
    json_capacity(line, result);
    json_verdict(line, result->verdict);
    weir_object_count(line, "mean_reserved_bytes", (uint64_t)cost->held_mean_bytes);
    json_by_call(line, "driver_call_ns", cost->call_ns);
    json_device(line, result, card);
    json_predicted(line, result);
}

bool weir_json_print(FILE *out, const weir_result *result, const weir_card *card)
{
    weir_object line = weir_object_new();
    bool good;

    json_fill(&line, result, card);
    good = weir_object_print(out, &line);
    weir_object_free(&line);
    return good;
}
