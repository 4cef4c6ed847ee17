/* SPDX-License-Identifier: MIT */
/*
 * One JSON object per result. Keys and their order are the schema's; ratios carry four decimals,
 * times one; what was not looked for is null.
 *
 * Invariant  An object that could not be built whole is not printed.
 */
#include "json.h"

#include <inttypes.h>
#include <json-c/json.h>

typedef struct json_line {
    struct json_object *object;
    bool good;
} json_line;

/* Takes `value` over; NULL is a failure, not null. */
static void json_add(json_line *line, const char *key, struct json_object *value)
{
    if (value == NULL) line->good = false;
    else if (line->object == NULL || json_object_object_add(line->object, key, value) != 0) {
        (void)json_object_put(value);
        line->good = false;
    }
}

static void json_add_null(json_line *line, const char *key)
{
    if (line->object == NULL || json_object_object_add(line->object, key, NULL) != 0)
        line->good = false;
}

static void json_add_text(json_line *line, const char *key, const char *text)
{
    json_add(line, key, json_object_new_string(text));
}

static void json_add_count(json_line *line, const char *key, uint64_t count)
{
    json_add(line, key, json_object_new_uint64(count));
}

static void json_add_decimal(json_line *line, const char *key, double value, int decimals)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    json_add(line, key, json_object_new_double_s(value, text));
}

static void json_add_ratio(json_line *line, const char *key, uint64_t part, uint64_t whole)
{
    if (whole == 0) json_add_null(line, key);
    else json_add_decimal(line, key, (double)part / (double)whole, 4);
}

static void json_add_per_op(json_line *line, const char *key, uint64_t ns, uint32_t ops)
{
    json_add_decimal(line, key, (double)ns / (double)ops, 1);
}

static void json_add_times(json_line *line, const weir_result *result)
{
    const weir_pass_result *cost = &result->cost;
    uint32_t ops = result->trace->count;

    json_add_decimal(line, "host_ns_per_op", result->host_ns_per_op, 1);
    json_add_per_op(line, "driver_ns_per_op", cost->driver_ns, ops);
    json_add_per_op(line, "growth_ns_per_op", cost->growth_ns, ops);
    json_add_per_op(line, "steady_ns_per_op", cost->driver_ns - cost->growth_ns, ops);
    json_add_per_op(line, "teardown_ns_per_op", cost->teardown_ns, ops);
    json_add_count(line, "host_waits", cost->host_waits);
    json_add_count(line, "waited_us", cost->waited_us);
}

static void json_add_calls(json_line *line, const weir_pass_result *cost)
{
    json_line calls = {json_object_new_object(), true};

    for (unsigned i = 0; i < WEIR_SIM_CALLS; i++)
        json_add_count(&calls, weir_sim_call_name((weir_sim_call)i), cost->count[i]);
    line->good = line->good && calls.good;
    json_add(line, "driver_calls", calls.object);
}

static void json_add_capacity(json_line *line, const weir_result *result)
{
    if (!result->searched) {
        json_add_null(line, "least_capacity_bytes");
        json_add_null(line, "least_capacity_ratio");
        return;
    }
    json_add_count(line, "least_capacity_bytes", result->least_capacity_bytes);
    json_add_ratio(line, "least_capacity_ratio", result->least_capacity_bytes,
                   result->trace->peak_requested_bytes);
}

static void json_add_verdict(json_line *line, weir_verdict verdict)
{
    if (verdict == WEIR_NOT_VERIFIED) json_add_null(line, "verified");
    else json_add(line, "verified", json_object_new_boolean(verdict == WEIR_VERIFIED));
}

static void json_fill(json_line *line, const weir_result *result)
{
    const weir_trace *trace = result->trace;
    const weir_pass_result *cost = &result->cost;
    char hash[17];

    (void)snprintf(hash, sizeof hash, "%016" PRIx64, cost->layout_hash);
    json_add_text(line, "schema", "weir.replay/1");
    json_add_text(line, "trace", trace->name);
    json_add_text(line, "backend", result->kind == WEIR_STAGE_SIM ? "sim" : "host");
    json_add_count(line, "ops", trace->count);
    json_add_count(line, "streams", trace->streams);
    json_add_count(line, "peak_requested_bytes", trace->peak_requested_bytes);
    json_add_count(line, "peak_reserved_bytes", cost->held_peak_bytes);
    json_add_ratio(line, "reserved_ratio", cost->held_peak_bytes, trace->peak_requested_bytes);
    json_add_count(line, "failed_allocs", cost->failed);
    json_add_times(line, result);
    json_add_count(line, "moved_handles", cost->moved_handles);
    json_add_text(line, "layout_hash", hash);
    json_add_text(line, "conf", result->conf);
    json_add_calls(line, cost);
    json_add_capacity(line, result);
    json_add_verdict(line, result->verdict);
}

bool weir_json_print(FILE *out, const weir_result *result)
{
    json_line line = {json_object_new_object(), true};
    bool good;

    json_fill(&line, result);
    good = line.good &&
           fprintf(out, "%s\n",
                   json_object_to_json_string_ext(
                       line.object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)) > 0 &&
           fflush(out) == 0;
    (void)json_object_put(line.object);
    return good;
}
