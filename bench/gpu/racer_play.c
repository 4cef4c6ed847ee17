/* SPDX-License-Identifier: MIT */
/*
 * The loops. The timed one makes an indirect call for each op and keeps the address, no more; what
 * that takes is measured with the contestant that does nothing and taken away by the caller.
 */
#define _POSIX_C_SOURCE 200809L

#include "racer_play.h"

#include <stdlib.h>
#include <string.h>

#include "racer_clock.h"

enum { PLAY_RAISES = 6 }; /* of a cap that did not complete though a roomy run held no more */

/* ------------------------------------------------------------------------------------ nobody -- */

static bool nobody_reset(void *self, uint64_t cap_bytes, uint32_t streams, racer_why *why)
{
    (void)self, (void)cap_bytes, (void)streams, (void)why;
    return true;
}

static uint64_t nobody_alloc(void *self, uint32_t stream, uint64_t bytes)
{
    (void)self, (void)stream;
    return bytes | 1;
}

static void nobody_free(void *self, uint64_t addr, uint64_t bytes, uint32_t stream)
{
    (void)self, (void)addr, (void)bytes, (void)stream;
}

static void nobody_use(void *self, uint64_t addr, uint32_t owner, uint32_t side)
{
    (void)self, (void)addr, (void)owner, (void)side;
}

const racer_contestant racer_nobody = {.key = "nobody",
                                       .name = "nobody",
                                       .reset = nobody_reset,
                                       .alloc = nobody_alloc,
                                       .free = nobody_free,
                                       .use = nobody_use};

/* ------------------------------------------------------------------------------------- stage -- */

bool racer_stage_open(racer_stage *stage, racer_why *why)
{
    stage->addrs = calloc(stage->trace->slots, sizeof *stage->addrs);
    return stage->addrs != NULL || racer_why_set(why, "not enough memory for the trace");
}

void racer_stage_close(racer_stage *stage)
{
    free(stage->addrs);
    stage->addrs = NULL;
}

/* ------------------------------------------------------------------------------------- loops -- */

/* Returns the ops played: all, or up to the first allocation that failed. */
static uint32_t play_loop(const racer_contestant *who, void *self, const racer_trace *trace,
                          uint64_t *addrs)
{
    const racer_op *op = trace->ops, *end = trace->ops + trace->count;

    for (; op < end; op++) {
        uint64_t *addr = &addrs[op->slot];
        if (op->step == RACER_ALLOC) {
            *addr = who->alloc(self, op->stream, op->bytes);
            if (*addr == 0) break;
        } else {
            if (op->step == RACER_USE_FREE) who->use(self, *addr, op->stream, op->side);
            who->free(self, *addr, op->bytes, op->stream);
            *addr = 0;
        }
    }
    return (uint32_t)(op - trace->ops);
}

/* As play_loop, and notes what each call took; ticks has room for trace->calls. */
static uint32_t play_ticks(const racer_contestant *who, void *self, const racer_trace *trace,
                           uint64_t *addrs, uint64_t *ticks)
{
    const racer_op *op = trace->ops, *end = trace->ops + trace->count;
    uint64_t start;

    for (; op < end; op++) {
        uint64_t *addr = &addrs[op->slot];
        if (op->step == RACER_ALLOC) {
            start = racer_clock_ticks();
            *addr = who->alloc(self, op->stream, op->bytes);
            *ticks++ = racer_clock_ticks() - start;
            if (*addr == 0) break;
            continue;
        }
        if (op->step == RACER_USE_FREE) {
            start = racer_clock_ticks();
            who->use(self, *addr, op->stream, op->side);
            *ticks++ = racer_clock_ticks() - start;
        }
        start = racer_clock_ticks();
        who->free(self, *addr, op->bytes, op->stream);
        *ticks++ = racer_clock_ticks() - start;
        *addr = 0;
    }
    return (uint32_t)(op - trace->ops);
}

/* Frees what is live after `ops` ops, each on the stream that allocated it. */
static void play_clear(racer_stage *stage, uint32_t ops)
{
    const racer_trace *trace = stage->trace;

    for (uint32_t i = 0; i < ops; i++) {
        const racer_op *op = &trace->ops[i];
        uint64_t addr = op->step == RACER_ALLOC ? stage->addrs[op->slot] : 0;
        if (addr == 0) continue;
        stage->contestant->free(stage->self, addr, op->bytes, op->stream);
        stage->addrs[op->slot] = 0;
    }
}

static bool play_begin(racer_stage *stage, uint64_t cap_bytes, racer_why *why)
{
    memset(stage->addrs, 0, stage->trace->slots * sizeof *stage->addrs);
    return stage->contestant->reset(stage->self, cap_bytes, stage->trace->streams, why) &&
           (racer_gpu_sync(stage->gpu) || racer_why_set(why, "the device reports an error"));
}

static bool play_fault(racer_stage *stage, racer_why *why)
{
    const char *fault = stage->contestant->fault(stage->self);

    if (fault == NULL) return false;
    (void)racer_why_set(why, "%s", fault);
    return true;
}

bool racer_play(racer_stage *stage, uint64_t cap_bytes, racer_run *run, racer_why *why)
{
    const racer_contestant *who = stage->contestant;

    memset(run, 0, sizeof *run);
    if (!play_begin(stage, cap_bytes, why)) return false;
    uint64_t used_bytes = racer_gpu_used(stage->gpu);
    uint64_t start_ns = racer_clock_ns();
    run->ops = play_loop(who, stage->self, stage->trace, stage->addrs);
    run->loop_ns = racer_clock_ns() - start_ns;
    if (stage->counts != NULL) who->counts(stage->self, stage->counts);
    run->device_end_bytes = racer_gpu_used(stage->gpu);
    run->device_end_bytes -=
        run->device_end_bytes < used_bytes ? run->device_end_bytes : used_bytes;
    run->reserved_end_bytes = who->reserved(stage->self);
    run->reserved_peak_bytes = who->reserved_peak(stage->self);
    bool fault = play_fault(stage, why);
    play_clear(stage, run->ops);
    fault = fault || play_fault(stage, why);
    run->completed = !fault && run->ops == stage->trace->count &&
                     (cap_bytes == 0 || run->reserved_peak_bytes <= cap_bytes);
    return !fault;
}

uint64_t racer_play_empty(racer_stage *stage, int times)
{
    uint64_t least_ns = UINT64_MAX;

    for (int i = 0; i < times; i++) {
        memset(stage->addrs, 0, stage->trace->slots * sizeof *stage->addrs);
        uint64_t start_ns = racer_clock_ns();
        (void)play_loop(&racer_nobody, NULL, stage->trace, stage->addrs);
        uint64_t loop_ns = racer_clock_ns() - start_ns;
        if (loop_ns < least_ns) least_ns = loop_ns;
    }
    return least_ns;
}

/* ----------------------------------------------------------------------------------- latency -- */

static int play_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The op that made call number `call`, from 1. */
static uint32_t play_op_of_call(const racer_trace *trace, uint32_t call)
{
    uint32_t op = 0;

    for (uint32_t calls = 0; op < trace->count && calls <= call; op++)
        calls += trace->ops[op].step == RACER_USE_FREE ? 2 : 1;
    return op;
}

static double play_rank(const uint64_t *sorted, uint32_t count, double part, double away,
                        double tick_ns)
{
    uint32_t rank = (uint32_t)((double)(count - 1) * part);
    double ticks = (double)sorted[rank] - away;

    return ticks > 0 ? ticks * tick_ns : 0;
}

/* What one call takes with nobody: the median of a pass. */
static double play_ticks_empty(racer_stage *stage, uint64_t *ticks)
{
    const racer_trace *trace = stage->trace;

    memset(stage->addrs, 0, trace->slots * sizeof *stage->addrs);
    (void)play_ticks(&racer_nobody, NULL, trace, stage->addrs, ticks);
    qsort(ticks, trace->calls, sizeof *ticks, play_compare);
    return (double)ticks[trace->calls / 2];
}

static void play_ranks(const racer_trace *trace, uint64_t *ticks, double away, double tick_ns,
                       racer_latency *latency)
{
    uint32_t worst = 0;

    for (uint32_t i = 1; i < trace->calls; i++)
        if (ticks[i] > ticks[worst]) worst = i;
    latency->worst_op = play_op_of_call(trace, worst);
    qsort(ticks, trace->calls, sizeof *ticks, play_compare);
    latency->p50_ns = play_rank(ticks, trace->calls, 0.5, away, tick_ns);
    latency->p99_ns = play_rank(ticks, trace->calls, 0.99, away, tick_ns);
    latency->p999_ns = play_rank(ticks, trace->calls, 0.999, away, tick_ns);
    latency->worst_ns = play_rank(ticks, trace->calls, 1.0, away, tick_ns);
}

bool racer_play_latency(racer_stage *stage, racer_latency *latency, racer_why *why)
{
    const racer_trace *trace = stage->trace;
    uint64_t *ticks = calloc(trace->calls, sizeof *ticks);

    memset(latency, 0, sizeof *latency);
    if (ticks == NULL) return racer_why_set(why, "not enough memory for %u calls", trace->calls);
    double away = play_ticks_empty(stage, ticks);
    bool good = play_begin(stage, 0, why);
    if (good) {
        uint64_t start_ns = racer_clock_ns(), start = racer_clock_ticks();
        uint32_t ops = play_ticks(stage->contestant, stage->self, trace, stage->addrs, ticks);
        double span_ticks = (double)(racer_clock_ticks() - start);
        double tick_ns = (double)(racer_clock_ns() - start_ns) / span_ticks;
        play_clear(stage, ops);
        good = !play_fault(stage, why) &&
               (ops == trace->count || racer_why_set(why, "out of memory without a cap"));
        if (good) play_ranks(trace, ticks, away, tick_ns, latency);
    }
    free(ticks);
    return good;
}

/* ------------------------------------------------------------------------------------ search -- */

/* A cap that completes, from what a roomy run held upwards. */
static bool play_search_top(racer_stage *stage, racer_search *search, racer_why *why)
{
    uint64_t cap = search->roomy_bytes;
    racer_run run;

    for (int i = 0; i < PLAY_RAISES && racer_clock_ns() < search->deadline_ns; i++) {
        if (!racer_play(stage, cap, &run, why)) return false;
        search->runs++;
        if (run.completed) {
            search->least_bytes = cap;
            return true;
        }
        if (cap > search->below_bytes) search->below_bytes = cap;
        cap += cap / 50;
    }
    return true;
}

bool racer_play_search(racer_stage *stage, racer_search *search, racer_why *why)
{
    racer_run run;

    search->least_bytes = 0;
    search->runs = 0;
    search->below_bytes = stage->trace->peak_requested_bytes - 1;
    if (search->roomy_bytes <= search->below_bytes) search->roomy_bytes = search->below_bytes + 1;
    if (!play_search_top(stage, search, why)) return false;
    while (search->least_bytes > search->below_bytes + search->step_bytes &&
           racer_clock_ns() < search->deadline_ns) {
        uint64_t cap = search->below_bytes + (search->least_bytes - search->below_bytes) / 2;
        if (!racer_play(stage, cap, &run, why)) return false;
        search->runs++;
        if (run.completed) search->least_bytes = cap;
        else search->below_bytes = cap;
    }
    return true;
}
