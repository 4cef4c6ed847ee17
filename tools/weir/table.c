/* SPDX-License-Identifier: MIT */
/*
 * Tables. A number that was not measured is negative and shown as a dash; so is a mean over rows of
 * which any is not positive, for a geometric mean says nothing there.
 */
#include "table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define TABLE_NONE (-1.0)

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
    return peak == 0 ? TABLE_NONE : (double)bytes / (double)peak;
}

static table_row table_of(const weir_result *result)
{
    table_row row;

    row.value[TABLE_RATIO] = table_ratio(result, result->cost.held_peak_bytes);
    row.value[TABLE_HOST] = result->host_ns_per_op;
    row.value[TABLE_DRIVER] = table_per_op(result, result->cost.driver_ns);
    row.value[TABLE_WHOLE] = row.value[TABLE_HOST] + row.value[TABLE_DRIVER];
    row.value[TABLE_LEAST] =
        result->searched ? table_ratio(result, result->least_capacity_bytes) : TABLE_NONE;
    return row;
}

static void table_cell(FILE *out, double value, int decimals)
{
    if (value >= 0.0) (void)fprintf(out, " %9.*f", decimals, value);
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

/* A geometric mean as it grows. */
typedef struct table_mean {
    double logs;
    size_t count;
    bool positive; /* all values so far */
} table_mean;

static void table_mean_add(table_mean *mean, double value)
{
    mean->positive = (mean->count == 0 || mean->positive) && value > 0.0;
    mean->logs += value > 0.0 ? log(value) : 0.0;
    mean->count++;
}

static double table_mean_of(const table_mean *mean)
{
    return mean->positive ? exp(mean->logs / (double)mean->count) : TABLE_NONE;
}

static table_row table_means(const weir_result *results, size_t count)
{
    table_row row;

    for (int column = 0; column < TABLE_COLUMNS; column++) {
        table_mean mean = {0};
        for (size_t i = 0; i < count; i++)
            table_mean_add(&mean, table_of(&results[i]).value[column]);
        row.value[column] = table_mean_of(&mean);
    }
    return row;
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

static void table_predicted_line(FILE *out, const weir_result *result, const char *call,
                                 const uint64_t counts[2], const uint64_t ns[2])
{
    (void)fprintf(out, "%-16s %-16s %9" PRIu64 " %9" PRIu64, result->trace->name, call, counts[0],
                  counts[1]);
    table_cell(out, (double)ns[0] / 1000.0, 1);
    table_cell(out, (double)ns[1] / 1000.0, 1);
    table_cell(out, ns[1] > 0 ? (double)ns[0] / (double)ns[1] : TABLE_NONE, 2);
    (void)fprintf(out, "\n");
}

/* Measured first, then predicted. */
static void table_predicted_all(FILE *out, const weir_result *result)
{
    const weir_pass_result *cost = &result->cost, *foreseen = &result->foreseen;
    const uint64_t calls[2] = {cost->driver_calls, foreseen->driver_calls};
    const uint64_t all_ns[2] = {cost->driver_ns, foreseen->driver_ns};

    for (unsigned i = 0; i < WEIR_SIM_CALLS; i++) {
        const uint64_t counts[2] = {cost->count[i], foreseen->count[i]};
        const uint64_t ns[2] = {cost->call_ns[i], foreseen->call_ns[i]};
        if (counts[0] != 0 || counts[1] != 0)
            table_predicted_line(out, result, weir_sim_call_name((weir_sim_call)i), counts, ns);
    }
    table_predicted_line(out, result, "all", calls, all_ns);
}

void weir_table_predicted(FILE *out, const weir_result *results, size_t count)
{
    bool headed = false;

    for (size_t i = 0; i < count; i++) {
        if (!results[i].predicted) continue;
        if (!headed)
            (void)fprintf(out, "%-16s %-16s %9s %9s %9s %9s %9s\n", "trace", "call", "counted",
                          "predicted", "us", "predicted", "ratio");
        headed = true;
        table_predicted_all(out, &results[i]);
    }
}

/* What is recorded of peers, in the order of the columns. */
enum { TABLE_PEER_COLUMNS = 4 };

static double table_peer_value(const weir_peer *peer, int column)
{
    const double values[TABLE_PEER_COLUMNS] = {peer->reserved_ratio, peer->least_capacity_ratio,
                                               peer->ns_per_op, peer->least_capacity_ns_per_op};
    return values[column];
}

static double table_own_value(const table_row *row, int column)
{
    const double values[TABLE_PEER_COLUMNS] = {row->value[TABLE_RATIO], row->value[TABLE_LEAST],
                                               row->value[TABLE_WHOLE], TABLE_NONE};
    return values[column];
}

static void table_peer_line(FILE *out, const char *trace, const char *allocator,
                            const double value[TABLE_PEER_COLUMNS])
{
    (void)fprintf(out, "%-16s %-40s", trace, allocator);
    for (int column = 0; column < TABLE_PEER_COLUMNS; column++)
        table_cell(out, value[column], column < 2 ? 4 : 1);
    (void)fprintf(out, "\n");
}

static void table_own_line(FILE *out, const char *trace, const weir_result *result,
                           const table_row *row)
{
    double value[TABLE_PEER_COLUMNS];

    for (int column = 0; column < TABLE_PEER_COLUMNS; column++)
        value[column] = table_own_value(row, column);
    table_peer_line(out, trace, result->policy == WEIR_PASS_PLAIN ? "plain" : "weir", value);
}

static const weir_peer *table_peer_find(const weir_peers *peers, const char *trace,
                                        const char *allocator)
{
    for (size_t i = 0; i < peers->count; i++)
        if (strcmp(peers->list[i].trace, trace) == 0 &&
            strcmp(peers->list[i].allocator, allocator) == 0)
            return &peers->list[i];
    return NULL;
}

/* The peer's means over the traces of the results; nothing where one of them was not recorded. */
static void table_peer_means(FILE *out, const weir_result *results, size_t count,
                             const weir_peers *peers, const char *allocator)
{
    table_mean means[TABLE_PEER_COLUMNS] = {{0}};
    double value[TABLE_PEER_COLUMNS];

    for (size_t i = 0; i < count; i++) {
        const weir_peer *peer = table_peer_find(peers, results[i].trace->name, allocator);
        if (peer == NULL) return;
        for (int column = 0; column < TABLE_PEER_COLUMNS; column++)
            table_mean_add(&means[column], table_peer_value(peer, column));
    }
    for (int column = 0; column < TABLE_PEER_COLUMNS; column++)
        value[column] = table_mean_of(&means[column]);
    table_peer_line(out, "geometric mean", allocator, value);
}

static void table_peer_block(FILE *out, const weir_result *result, const weir_peers *peers)
{
    const char *trace = result->trace->name;
    table_row row = table_of(result);

    table_own_line(out, trace, result, &row);
    for (size_t i = 0; i < peers->count; i++) {
        const weir_peer *peer = &peers->list[i];
        double value[TABLE_PEER_COLUMNS];
        if (strcmp(peer->trace, trace) != 0) continue;
        for (int column = 0; column < TABLE_PEER_COLUMNS; column++)
            value[column] = table_peer_value(peer, column);
        table_peer_line(out, trace, peer->allocator, value);
    }
}

void weir_table_peers(FILE *out, const weir_result *results, size_t count, const weir_peers *peers)
{
    (void)fprintf(out, "%-16s %-40s %9s %9s %9s %9s\n", "trace", "allocator", "reserved", "least",
                  "ns/op", "at least");
    for (size_t i = 0; i < count; i++) table_peer_block(out, &results[i], peers);
    if (count > 1) {
        table_row row = table_means(results, count);
        table_own_line(out, "geometric mean", &results[0], &row);
        /* A peer is named once: where the first trace names it. */
        for (size_t i = 0; i < peers->count; i++)
            if (strcmp(peers->list[i].trace, results[0].trace->name) == 0)
                table_peer_means(out, results, count, peers, peers->list[i].allocator);
    }
}
