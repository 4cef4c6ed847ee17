/* SPDX-License-Identifier: MIT */
/*
 * Tables. A number that was not measured is a dash, and so is a mean over rows of which any is not
 * positive: a geometric mean says nothing there.
 */
#include "table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum table_column {
    TABLE_RATIO,
    TABLE_HOST,
    TABLE_DRIVER,
    TABLE_WHOLE,
    TABLE_LEAST,
    TABLE_COLUMNS
} table_column;

typedef struct table_row {
    double value[TABLE_COLUMNS];
} table_row;

static double table_per_op(const weir_result *result, uint64_t ns)
{
    return (double)ns / (double)result->trace->count;
}

static double table_ratio(const weir_result *result, uint64_t bytes)
{
    uint64_t peak = result->trace->peak_requested_bytes;
    return peak == 0 ? 0.0 : (double)bytes / (double)peak;
}

static table_row table_of(const weir_result *result)
{
    table_row row;

    row.value[TABLE_RATIO] = table_ratio(result, result->cost.held_peak_bytes);
    row.value[TABLE_HOST] = result->host_ns_per_op;
    row.value[TABLE_DRIVER] = table_per_op(result, result->cost.driver_ns);
    row.value[TABLE_WHOLE] = row.value[TABLE_HOST] + row.value[TABLE_DRIVER];
    row.value[TABLE_LEAST] =
        result->searched ? table_ratio(result, result->least_capacity_bytes) : 0.0;
    return row;
}

static void table_cell(FILE *out, double value, int decimals)
{
    if (value > 0.0) (void)fprintf(out, " %9.*f", decimals, value);
    else (void)fprintf(out, " %9s", "-");
}

static void table_cells(FILE *out, const table_row *row)
{
    table_cell(out, row->value[TABLE_RATIO], 4);
    table_cell(out, row->value[TABLE_LEAST], 4);
    table_cell(out, row->value[TABLE_HOST], 1);
    table_cell(out, row->value[TABLE_DRIVER], 1);
    table_cell(out, row->value[TABLE_WHOLE], 1);
}

static const char *table_verdict(const weir_result *result)
{
    switch (result->verdict) {
    case WEIR_VERIFIED:
        return "yes";
    case WEIR_BREACHED:
        return "NO";
    case WEIR_NOT_VERIFIED:
    default:
        return "-";
    }
}

static void table_line(FILE *out, const weir_result *result)
{
    const weir_pass_result *cost = &result->cost;
    table_row row = table_of(result);

    (void)fprintf(out, "%-16s %9" PRIu32 " %9.0f", result->trace->name, result->trace->count,
                  (double)result->trace->peak_requested_bytes / (1024.0 * 1024.0));
    table_cells(out, &row);
    (void)fprintf(out, " %9" PRIu64 " %7" PRIu64 " %7" PRIu64 " %8s\n", cost->failed,
                  cost->host_waits, cost->moved_handles, table_verdict(result));
}

static table_row table_means(const weir_result *results, size_t count)
{
    table_row mean;

    for (int column = 0; column < TABLE_COLUMNS; column++) {
        double logs = 0.0;
        bool positive = true;
        for (size_t i = 0; i < count; i++) {
            double value = table_of(&results[i]).value[column];
            positive = positive && value > 0.0;
            logs += value > 0.0 ? log(value) : 0.0;
        }
        mean.value[column] = positive ? exp(logs / (double)count) : 0.0;
    }
    return mean;
}

void weir_table_print(FILE *out, const weir_result *results, size_t count)
{
    (void)fprintf(out, "%-16s %9s %9s %9s %9s %9s %9s %9s %9s %7s %7s %8s\n", "trace", "ops",
                  "peak MiB", "reserved", "least", "host ns", "driver ns", "ns/op", "failed",
                  "waits", "moved", "verified");
    for (size_t i = 0; i < count; i++) table_line(out, &results[i]);
    if (count > 1) {
        table_row mean = table_means(results, count);
        (void)fprintf(out, "%-16s %9s %9s", "geometric mean", "", "");
        table_cells(out, &mean);
        (void)fprintf(out, "\n");
    }
}

static void table_peer(FILE *out, const char *trace, const char *allocator, const double value[4])
{
    (void)fprintf(out, "%-16s %-40s", trace, allocator);
    table_cell(out, value[0], 4);
    table_cell(out, value[1], 4);
    table_cell(out, value[2], 1);
    table_cell(out, value[3], 1);
    (void)fprintf(out, "\n");
}

void weir_table_peers(FILE *out, const weir_result *results, size_t count, const weir_peers *peers)
{
    (void)fprintf(out, "%-16s %-40s %9s %9s %9s %9s\n", "trace", "allocator", "reserved", "least",
                  "ns/op", "at least");
    for (size_t i = 0; i < count; i++) {
        const char *trace = results[i].trace->name;
        table_row row = table_of(&results[i]);
        const double own[4] = {row.value[TABLE_RATIO], row.value[TABLE_LEAST],
                               row.value[TABLE_WHOLE], 0.0};
        table_peer(out, trace, results[i].policy == WEIR_PASS_PLAIN ? "plain" : "weir", own);
        for (size_t j = 0; j < peers->count; j++) {
            const weir_peer *peer = &peers->list[j];
            const double theirs[4] = {peer->reserved_ratio, peer->least_capacity_ratio,
                                      peer->ns_per_op, peer->least_capacity_ns_per_op};
            if (strcmp(peer->trace, trace) == 0) table_peer(out, trace, peer->allocator, theirs);
        }
    }
}
