/* SPDX-License-Identifier: MIT */
/*
 * Traces: all that is measured of one contestant on one trace, in this order: roomy, call by call,
 * metered, the least capacity, and timed at 1.02 x the peak, at its own least capacity and at the
 * peer's.
 *
 * Each part writes its result at once, so that a process that is stopped has written what it did.
 */
#define _POSIX_C_SOURCE 200809L

#include "racer_events.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "racer_clock.h"
#include "racer_out.h"
#include "racer_play.h"

typedef struct replays_run {
    const racer_entry *entry;
    const racer_replays *replays;
    racer_trace trace;
    racer_stage stage;
    racer_why why;
    uint64_t empty_ns;    /* of the loop */
    uint64_t roomy_bytes; /* held at most, without a cap */
    uint64_t least_bytes; /* 0: not found */
} replays_run;

static void replays_begin(const replays_run *run, racer_out *out, const char *kind)
{
    racer_out_begin(out, kind);
    racer_out_text(out, "trace", run->trace.name);
    racer_out_text(out, "contestant", run->entry->contestant->name);
}

static bool replays_late(const replays_run *run)
{
    return racer_clock_ns() >= run->replays->deadline_ns;
}

static void replays_skipped(const replays_run *run, const char *part)
{
    racer_out out;

    replays_begin(run, &out, "skipped");
    racer_out_text(&out, "part", part);
    racer_out_end(&out);
}

/* ------------------------------------------------------------------------------------- timed -- */

static double replays_per_op(const replays_run *run, const racer_run *played)
{
    double ns = (double)played->loop_ns - (double)run->empty_ns;

    if (!played->completed) return NAN;
    return (ns > 0 ? ns : 0) / run->trace.lines;
}

static void replays_write(const replays_run *run, const char *capacity, uint64_t cap_bytes,
                          const racer_run *best, const double *per_op, int times)
{
    double peak = (double)run->trace.peak_requested_bytes;
    racer_out out;

    replays_begin(run, &out, "replay");
    racer_out_text(&out, "capacity", capacity);
    racer_out_count(&out, "capacity_bytes", cap_bytes);
    racer_out_count(&out, "ops", run->trace.lines);
    racer_out_count(&out, "peak_requested_bytes", run->trace.peak_requested_bytes);
    racer_out_flag(&out, "completed", best->completed);
    racer_out_count(&out, "played", best->ops);
    racer_out_decimal(&out, "ns_per_op", replays_per_op(run, best), 1);
    racer_out_open(&out, "runs_ns_per_op", '[');
    for (int i = 0; i < times; i++) racer_out_decimal(&out, NULL, per_op[i], 1);
    racer_out_close(&out, ']');
    racer_out_decimal(&out, "empty_ns_per_op", (double)run->empty_ns / run->trace.lines, 2);
    racer_out_count(&out, "peak_reserved_bytes", best->reserved_peak_bytes);
    racer_out_decimal(&out, "reserved_ratio", (double)best->reserved_peak_bytes / peak, 4);
    racer_out_count(&out, "end_reserved_bytes", best->reserved_end_bytes);
    racer_out_count(&out, "end_device_bytes", best->device_end_bytes);
    racer_out_end(&out);
}

/* The best of some runs; one that does not complete is the only one. */
static bool replays_timed(replays_run *run, const char *capacity, uint64_t cap_bytes,
                          racer_run *best)
{
    double per_op[16];
    int times = 0;

    memset(best, 0, sizeof *best);
    while (times < run->replays->times && (times == 0 || (best->completed && !replays_late(run)))) {
        racer_run played;
        if (!racer_play(&run->stage, cap_bytes, &played, &run->why)) return false;
        per_op[times++] = replays_per_op(run, &played);
        bool first = times == 1;
        if (first || (best->completed && !played.completed) ||
            (best->completed == played.completed && played.loop_ns < best->loop_ns))
            *best = played;
    }
    replays_write(run, capacity, cap_bytes, best, per_op, times);
    return true;
}

/* ------------------------------------------------------------------------- latency and meter -- */

static bool replays_latency(replays_run *run)
{
    racer_latency latency;
    racer_out out;

    if (!racer_play_latency(&run->stage, &latency, &run->why)) return false;
    replays_begin(run, &out, "latency");
    racer_out_count(&out, "calls", run->trace.calls);
    racer_out_decimal(&out, "p50_ns", latency.p50_ns, 1);
    racer_out_decimal(&out, "p99_ns", latency.p99_ns, 1);
    racer_out_decimal(&out, "p999_ns", latency.p999_ns, 1);
    racer_out_decimal(&out, "worst_ns", latency.worst_ns, 0);
    racer_out_count(&out, "worst_op", latency.worst_op);
    racer_out_end(&out);
    return true;
}

static void replays_counts_write(const replays_run *run, const char *capacity,
                                 const racer_run *played, const racer_counts *counts)
{
    racer_out out;

    replays_begin(run, &out, "calls");
    racer_out_text(&out, "capacity", capacity);
    racer_out_flag(&out, "completed", played->completed);
    racer_out_count(&out, "ops", run->trace.lines);
    racer_out_open(&out, "driver_calls", '{');
    for (uint32_t i = 0; i < counts->kinds; i++)
        racer_out_count(&out, counts->name[i], counts->count[i]);
    racer_out_close(&out, '}');
    racer_out_open(&out, "driver_call_ns", '{');
    for (uint32_t i = 0; i < counts->kinds; i++)
        racer_out_count(&out, counts->name[i], counts->ns[i]);
    racer_out_close(&out, '}');
    racer_out_decimal(&out, "driver_ns_per_op", (double)counts->driver_ns / run->trace.lines, 2);
    racer_out_count(&out, "moved_handles", counts->moved_handles);
    racer_out_count(&out, "rescues", counts->rescues);
    racer_out_count(&out, "host_waits", counts->host_waits);
    racer_out_count(&out, "peak_reserved_bytes", played->reserved_peak_bytes);
    racer_out_end(&out);
}

/* The counts are read before anything is freed or torn down, as `weir replay` does. */
static bool replays_metered(replays_run *run, const char *capacity, uint64_t cap_bytes)
{
    const racer_contestant *who = run->entry->contestant;
    racer_counts counts;
    racer_run played;

    if (who->meter == NULL) return true;
    who->meter(run->entry->self, true);
    run->stage.counts = &counts;
    bool good = racer_play(&run->stage, cap_bytes, &played, &run->why);
    run->stage.counts = NULL;
    who->meter(run->entry->self, false);
    if (good) replays_counts_write(run, capacity, &played, &counts);
    return good;
}

/* ------------------------------------------------------------------------------------ search -- */

static uint64_t replays_peer_read(const replays_run *run)
{
    FILE *file = run->replays->peer_file != NULL ? fopen(run->replays->peer_file, "r") : NULL;
    char name[64];
    unsigned long long bytes, found = 0;

    if (file == NULL) return 0;
    while (fscanf(file, "%63s %llu", name, &bytes) == 2) /* the last line counts */
        if (strcmp(name, run->trace.name) == 0) found = bytes;
    (void)fclose(file);
    return found;
}

static bool replays_peer_write(replays_run *run)
{
    FILE *file = fopen(run->replays->peer_file, "a");

    if (file == NULL)
        return racer_why_set(&run->why, "%s cannot be written", run->replays->peer_file);
    (void)fprintf(file, "%s %llu\n", run->trace.name, (unsigned long long)run->least_bytes);
    (void)fclose(file);
    return true;
}

static bool replays_search(replays_run *run)
{
    uint64_t peak = run->trace.peak_requested_bytes;
    racer_search search = {.roomy_bytes = run->roomy_bytes,
                           .step_bytes = peak / 1000 > 0 ? peak / 1000 : 1,
                           .deadline_ns = run->replays->deadline_ns};
    racer_out out;

    if (!racer_play_search(&run->stage, &search, &run->why)) return false;
    run->least_bytes = search.least_bytes;
    replays_begin(run, &out, "capacity");
    racer_out_count(&out, "least_capacity_bytes", search.least_bytes);
    racer_out_decimal(&out, "least_capacity_ratio",
                      search.least_bytes != 0 ? (double)search.least_bytes / (double)peak : NAN, 4);
    racer_out_decimal(&out, "below_ratio", (double)search.below_bytes / (double)peak, 4);
    racer_out_count(&out, "runs", search.runs);
    racer_out_flag(&out, "settled",
                   search.least_bytes != 0 &&
                       search.least_bytes - search.below_bytes <= search.step_bytes);
    racer_out_end(&out);
    if ((run->entry->contestant->traits & RACER_PEER) == 0 || search.least_bytes == 0 ||
        run->replays->peer_file == NULL)
        return true;
    return replays_peer_write(run);
}

/* ------------------------------------------------------------------------------------- trace -- */

static bool replays_capped(replays_run *run)
{
    uint64_t peak = run->trace.peak_requested_bytes;
    uint64_t tight = peak / 1000000 * 1020000 + peak % 1000000 * 1020000 / 1000000;
    bool peer = (run->entry->contestant->traits & RACER_PEER) != 0;
    uint64_t peer_bytes = peer ? 0 : replays_peer_read(run);
    racer_run played;

    if (!replays_search(run)) return false;
    if (replays_late(run)) {
        replays_skipped(run, "timed at caps");
        return true;
    }
    if (!replays_timed(run, "1.02", tight, &played)) return false;
    if (played.completed && !replays_metered(run, "1.02", tight)) return false;
    if (run->least_bytes != 0 && !replays_timed(run, "least", run->least_bytes, &played))
        return false;
    return peer_bytes == 0 || replays_timed(run, "peer", peer_bytes, &played);
}

static bool replays_trace(replays_run *run)
{
    racer_run played;

    if (!racer_stage_open(&run->stage, &run->why)) return false;
    run->empty_ns = racer_play_empty(&run->stage, 3);
    if (!replays_timed(run, "roomy", 0, &played)) return false;
    run->roomy_bytes = played.reserved_peak_bytes;
    if (!played.completed)
        return racer_why_set(&run->why, "out of memory without a cap, at op %u", played.ops + 1);
    if (!replays_latency(run) || !replays_metered(run, "roomy", 0)) return false;
    if (!run->replays->search || (run->entry->contestant->traits & RACER_CAPS) == 0) return true;
    if (!replays_late(run)) return replays_capped(run);
    replays_skipped(run, "least capacity");
    return true;
}

static void replays_one(const racer_entry *entry, const racer_replays *replays, const char *path)
{
    replays_run run = {.entry = entry, .replays = replays};
    racer_out out;

    bool good = racer_trace_read(path, &run.trace, &run.why);
    if (good) {
        replays_begin(&run, &out, "begin");
        racer_out_end(&out);
        run.stage.gpu = entry->gpu;
        run.stage.contestant = entry->contestant;
        run.stage.self = entry->self;
        run.stage.trace = &run.trace;
        good = replays_trace(&run);
        racer_stage_close(&run.stage);
    } else {
        (void)snprintf(run.trace.name, sizeof run.trace.name, "%s", path);
    }
    replays_begin(&run, &out, good ? "end" : "failure");
    if (!good) racer_out_text(&out, "what", run.why.text);
    racer_out_end(&out);
    racer_trace_free(&run.trace);
}

void racer_event_replays(const racer_entry *entry, const racer_replays *replays)
{
    for (int i = 0; i < replays->traces_count; i++) replays_one(entry, replays, replays->traces[i]);
}
