/* SPDX-License-Identifier: MIT */
/*
 * The passes behind the table: for each threshold one that counts what the device's calls cost, and
 * some more by the clock, of which the shortest tells what the pool itself took. Thresholds take
 * turns, so that a machine that slows down does so for all of them.
 *
 * Invariant  Device costs of the simulator are those of its table and the same in every run; those
 *            of real devices are of the pass in which they were least.
 */
#include "threshold.h"

#include <inttypes.h>
#include <string.h>

#include "clock.h"

enum { THRESHOLD_ROUNDS = 3 };

#define THRESHOLD_MIB (UINT64_C(1) << 20)
#define THRESHOLD_WITHIN 1.05

typedef struct threshold_watch {
    const weir_trace *trace;
    weir_pool *pool; /* NULL in passes without one */
    uint64_t every_us, next_us;
    uint64_t finishes;
    weir_fault fault;
} threshold_watch;

typedef struct threshold_run {
    const weir_pass_setup *setup;
    weir_threshold *result;
    weir_fault *fault;
    threshold_watch watch;
    uint64_t clock_ps;
    uint64_t own_ns;                   /* the least of passes without a pool */
    uint64_t rest_ns[WEIR_THRESHOLDS]; /* the least of passes with one */
} threshold_run;

/* ------------------------------------------------------------------------------------- hooks -- */

static void threshold_allocated(void *self, uint32_t index, weir_status status, weir_addr addr)
{
    (void)self, (void)index, (void)status, (void)addr;
}

static void threshold_freeing(void *self, uint32_t index, weir_addr addr)
{
    (void)self, (void)index, (void)addr;
}

static void threshold_finish(threshold_watch *watch, uint32_t index)
{
    weir_status status = weir_finish(watch->pool, WEIR_FOREVER);

    watch->finishes++;
    if (status != WEIR_OK)
        (void)weir_fault_set(&watch->fault, "after op %u a finish answered %s: %s", index + 1,
                             weir_status_name(status), weir_status_text(status));
}

static uint64_t threshold_after(uint64_t time_us, uint64_t every_us)
{
    return every_us <= UINT64_MAX - time_us ? time_us + every_us : UINT64_MAX;
}

static void threshold_played(void *self, uint32_t index)
{
    threshold_watch *watch = self;
    uint64_t now_us = watch->trace->ops[index].time_us;

    if (now_us < watch->next_us) return;
    watch->next_us += (now_us - watch->next_us) / watch->every_us * watch->every_us;
    watch->next_us = threshold_after(watch->next_us, watch->every_us);
    if (watch->pool != NULL) threshold_finish(watch, index);
}

static void threshold_watch_start(threshold_watch *watch)
{
    watch->pool = NULL;
    watch->finishes = 0;
    watch->next_us = threshold_after(watch->trace->ops[0].time_us, watch->every_us);
}

/* ------------------------------------------------------------------------------------ passes -- */

static void threshold_breach(threshold_run *run, const weir_threshold_row *row,
                             const weir_pass_result *pass)
{
    const char *text = run->watch.fault.text[0] != '\0' ? run->watch.fault.text : pass->breach.text;

    if (text[0] != '\0')
        (void)weir_fault_set(&run->result->breach, "at the threshold '%s': %s", row->name, text);
}

/* The settings with this row's threshold. */
static weir_conf threshold_conf(const threshold_run *run, const weir_threshold_row *row)
{
    weir_conf conf = *run->setup->conf;

    conf.release_threshold_set = row->bytes != WEIR_THRESHOLD_NONE;
    conf.release_threshold.permille = 0;
    conf.release_threshold.bytes = conf.release_threshold_set ? row->bytes : 0;
    return conf;
}

static bool threshold_pass(threshold_run *run, const weir_threshold_row *row, bool clocked,
                           weir_pass_policy policy, weir_pass_result *pass)
{
    const weir_player_hooks hooks = {&run->watch, threshold_allocated, threshold_freeing,
                                     threshold_played};
    weir_conf conf = threshold_conf(run, row);
    weir_pass_setup setup = *run->setup;

    setup.conf = &conf;
    setup.segments = true;
    setup.policy = policy;
    setup.clocked = clocked;
    setup.hooks = &hooks;
    setup.pool = &run->watch.pool;
    threshold_watch_start(&run->watch);
    if (!weir_pass_run(&setup, pass, run->fault)) return false;
    threshold_breach(run, row, pass);
    return true;
}

static uint64_t threshold_rest_ns(const threshold_run *run, const weir_pass_result *pass)
{
    uint64_t away_ns = pass->driver_ns + pass->driver_calls * run->clock_ps / 1000;
    return pass->wall_ns > away_ns ? pass->wall_ns - away_ns : 0;
}

/* After a breach nothing is measured any more: a device that was lost begins no other pass. */
static bool threshold_broken(const threshold_run *run)
{
    return run->result->breach.text[0] != '\0';
}

static bool threshold_costs(threshold_run *run)
{
    for (unsigned i = 0; i < WEIR_THRESHOLDS && !threshold_broken(run); i++) {
        weir_threshold_row *row = &run->result->row[i];
        if (!threshold_pass(run, row, false, WEIR_PASS_WEIR, &row->cost)) return false;
        run->rest_ns[i] = UINT64_MAX;
        run->result->finishes = run->watch.finishes;
    }
    return true;
}

static bool threshold_round(threshold_run *run)
{
    weir_pass_result pass;
    uint64_t rest_ns;

    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++) {
        weir_threshold_row *row = &run->result->row[i];
        if (threshold_broken(run)) return true;
        if (!threshold_pass(run, row, true, WEIR_PASS_WEIR, &pass)) return false;
        rest_ns = threshold_rest_ns(run, &pass);
        run->rest_ns[i] = rest_ns < run->rest_ns[i] ? rest_ns : run->rest_ns[i];
        if (run->setup->kind != WEIR_STAGE_SIM && pass.driver_ns < row->cost.driver_ns)
            row->cost = pass;
    }
    if (!threshold_pass(run, &run->result->row[0], true, WEIR_PASS_NOTHING, &pass)) return false;
    rest_ns = threshold_rest_ns(run, &pass);
    run->own_ns = rest_ns < run->own_ns ? rest_ns : run->own_ns;
    return true;
}

/* ------------------------------------------------------------------------------------ result -- */

static uint64_t threshold_mib_up(uint64_t bytes)
{
    return bytes / THRESHOLD_MIB + (bytes % THRESHOLD_MIB != 0);
}

static void threshold_rows(weir_threshold *result)
{
    static const struct {
        const char *name;
        unsigned eighths;
    } parts[WEIR_THRESHOLDS - 1] = {{"0", 0},   {"1/8", 1}, {"1/4", 2},  {"1/2", 4},
                                    {"3/4", 6}, {"1", 8},   {"5/4", 10}, {"3/2", 12}};
    uint64_t peak = result->trace->peak_requested_bytes;

    peak = peak < UINT64_MAX / 2 ? peak : UINT64_MAX / 2;
    for (unsigned i = 0; i + 1 < WEIR_THRESHOLDS; i++) {
        uint64_t mib =
            threshold_mib_up(peak / 8 * parts[i].eighths + peak % 8 * parts[i].eighths / 8);
        result->row[i].name = parts[i].name;
        result->row[i].bytes = mib * THRESHOLD_MIB;
    }
    result->row[WEIR_THRESHOLDS - 1].name = "none";
    result->row[WEIR_THRESHOLDS - 1].bytes = WEIR_THRESHOLD_NONE;
}

static void threshold_totals(threshold_run *run)
{
    double ops = (double)run->result->trace->count;

    for (unsigned i = 0; i < WEIR_THRESHOLDS; i++) {
        weir_threshold_row *row = &run->result->row[i];
        uint64_t rest_ns = run->rest_ns[i];
        row->host_ns_per_op = rest_ns > run->own_ns ? (double)(rest_ns - run->own_ns) / ops : 0.0;
        row->driver_ns_per_op = (double)row->cost.driver_ns / ops;
    }
    run->result->recommended = weir_threshold_recommend(run->result->row);
}

static double threshold_whole(const weir_threshold_row *row)
{
    return row->host_ns_per_op + row->driver_ns_per_op;
}

unsigned weir_threshold_recommend(const weir_threshold_row row[WEIR_THRESHOLDS])
{
    double least = threshold_whole(&row[0]);
    unsigned i = 0;

    for (i = 1; i < WEIR_THRESHOLDS; i++)
        least = threshold_whole(&row[i]) < least ? threshold_whole(&row[i]) : least;
    for (i = 0; threshold_whole(&row[i]) > least * THRESHOLD_WITHIN;) i++;
    return i;
}

bool weir_threshold_measure(const weir_pass_setup *setup, uint64_t every_us, weir_threshold *result,
                            weir_fault *fault)
{
    threshold_run run = {.setup = setup, .result = result, .fault = fault, .own_ns = UINT64_MAX};

    memset(result, 0, sizeof *result);
    result->trace = run.watch.trace = setup->trace;
    result->kind = setup->kind;
    result->source = setup->conf->source;
    result->every_us = run.watch.every_us = every_us;
    threshold_rows(result);
    run.clock_ps = weir_clock_cost_ps();
    if (!threshold_costs(&run)) return false;
    for (int i = 0; i < THRESHOLD_ROUNDS; i++)
        if (!threshold_round(&run)) return false;
    if (!threshold_broken(&run)) threshold_totals(&run);
    return true;
}
