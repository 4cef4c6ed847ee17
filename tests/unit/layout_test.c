/* SPDX-License-Identifier: MIT */
/*
 * The same calls give the same layout (invariant 8), on every machine and in every build: each line
 * of layouts.h is one pool under one series of calls, and the number that all answers, addresses,
 * blocks, handles and counters of it come to.
 *
 * A change that is not meant to place anything elsewhere leaves every number as it is. One that is
 * renews them, in the same commit: tests/unit/layouts.sh.
 */
#include "random.h"
#include "rig.h"

#include <stdio.h>

#define LAYOUT_LIVE 160u
#define LAYOUT_STEPS 3000u
#define LAYOUT_STREAMS 4u
#define LAYOUT_DOMAINS 2u

/* What a series does, beside allocating and freeing on its streams. */
enum {
    LAYOUT_REQUESTS = 1u << 0, /* alignment, flags and bounds on waiting */
    LAYOUT_DOMAIN = 1u << 1,
    LAYOUT_SHARE = 1u << 2, /* uses and frees of other streams */
    LAYOUT_HOLD = 1u << 3,  /* pins and sizes that change */
    LAYOUT_GIVE = 1u << 4,  /* trims, finishes and limits */
    LAYOUT_RETIRE = 1u << 5,
    LAYOUT_FAULTS = 1u << 6,
    LAYOUT_STALL = 1u << 7
};

typedef struct layout_line {
    const char *name;
    uint64_t number;
    uint32_t does;
    uint32_t bits; /* of the largest requests */
    rig_options rig;
} layout_line;

static const layout_line layout_lines[] = {
#include "layouts.h"
};

typedef struct layout {
    const layout_line *line;
    sim_rig *rig;
    uint64_t hash, state;
    weir_addr live[LAYOUT_LIVE];
    unsigned count;
    weir_domain domain[LAYOUT_DOMAINS];
    uint32_t stalled;
} layout;

static uint64_t layout_below(layout *of, uint64_t bound)
{
    return random_below(&of->state, bound);
}

static void layout_mix(layout *of, uint64_t word)
{
    of->hash = (of->hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    of->hash ^= of->hash >> 29;
}

static unsigned layout_stream(layout *of)
{
    return (unsigned)layout_below(of, of->rig->streams);
}

/* ------------------------------------------------------------------------------------- calls -- */

static weir_request layout_request(layout *of, unsigned stream, uint64_t bytes)
{
    weir_request request = weir_rig_request(of->rig, stream, bytes);
    uint64_t dice = layout_below(of, 16);
    if ((of->line->does & LAYOUT_DOMAIN) != 0 && dice % 3 == 0)
        request.domain = of->domain[layout_below(of, LAYOUT_DOMAINS)];
    if ((of->line->does & LAYOUT_REQUESTS) == 0) return request;
    if (dice < 4) request.flags = 1u << dice;
    if (dice == 4) request.wait_us = 1 + layout_below(of, 100);
    if (dice >= 12) request.align = UINT64_C(1) << layout_below(of, 17);
    return request;
}

/* A block is used as soon as it is there; work of no bytes lengthens the stream's queue. */
static void layout_born(layout *of, unsigned stream, weir_status status, weir_addr addr)
{
    layout_mix(of, (uint64_t)status << 60 | addr);
    if (status != WEIR_OK) return;
    of->live[of->count++] = addr;
    weir_rig_write(of->rig, stream, addr, 0, 0);
}

static void layout_alloc(layout *of)
{
    uint64_t bytes = random_size(&of->state, of->line->bits);
    unsigned stream = layout_stream(of);
    weir_addr addr = 0;
    weir_status status;
    if ((of->line->does & (LAYOUT_REQUESTS | LAYOUT_DOMAIN)) != 0 && layout_below(of, 3) != 0) {
        weir_request request = layout_request(of, stream, bytes);
        status = weir_alloc(of->rig->pool, &request, &addr);
    } else {
        status = weir_alloc_on(of->rig->pool, of->rig->stream[stream], bytes, &addr);
    }
    layout_born(of, stream, status, addr);
}

static weir_addr layout_pick(layout *of, bool take)
{
    unsigned which = (unsigned)layout_below(of, of->count);
    weir_addr addr = of->live[which];
    if (take) of->live[which] = of->live[--of->count];
    return addr;
}

static void layout_free(layout *of)
{
    bool other = (of->line->does & LAYOUT_SHARE) != 0 && layout_below(of, 6) == 0;
    weir_addr addr = layout_pick(of, true);
    weir_stream stream = other ? of->rig->stream[layout_stream(of)] : 0;
    layout_mix(of, (uint64_t)weir_free(of->rig->pool, addr, stream));
}

/* One call of the same size as the one before is what the shortest path is made for. */
static void layout_again(layout *of)
{
    weir_addr addr = layout_pick(of, true);
    uint64_t bytes = weir_rig_find(of->rig, addr).requested_bytes;
    layout_mix(of, (uint64_t)weir_free(of->rig->pool, addr, 0));
    unsigned stream = layout_stream(of);
    bytes -= layout_below(of, 2) * (bytes > 9);
    weir_status status = weir_alloc_on(of->rig->pool, of->rig->stream[stream], bytes, &addr);
    layout_born(of, stream, status, addr);
}

static void layout_use(layout *of)
{
    weir_addr addr = layout_pick(of, false);
    weir_stream stream = of->rig->stream[layout_stream(of)];
    layout_mix(of, (uint64_t)weir_use(of->rig->pool, addr, stream));
}

static void layout_hold(layout *of)
{
    weir_addr addr = layout_pick(of, false);
    uint64_t bytes = weir_rig_find(of->rig, addr).requested_bytes;
    weir_pool *pool = of->rig->pool;
    switch (layout_below(of, 4)) {
    case 0:
        layout_mix(of, (uint64_t)weir_pin(pool, addr));
        break;
    case 1:
        layout_mix(of, (uint64_t)weir_unpin(pool, addr));
        break;
    case 2:
        layout_mix(of, (uint64_t)weir_resize(pool, addr, bytes / 2 + 1));
        break;
    default:
        layout_mix(of, (uint64_t)weir_resize(pool, addr, bytes + bytes / 3));
        break;
    }
}

static void layout_give(layout *of)
{
    uint64_t held = weir_rig_stats(of->rig).reserved.current, released = 0;
    uint64_t limit = of->line->rig.pool.limit_bytes;
    weir_pool *pool = of->rig->pool;
    switch (layout_below(of, 4)) {
    case 0:
        layout_mix(of, (uint64_t)weir_trim(pool, held / 2, 0, &released));
        break;
    case 1:
        layout_mix(of, (uint64_t)weir_trim(pool, held / 4 * 3, 40, &released));
        break;
    case 2:
        layout_mix(of, (uint64_t)weir_finish(pool, layout_below(of, 60)));
        break;
    default:
        if (limit != 0)
            layout_mix(of, (uint64_t)weir_limit_set(pool, limit / 2 + layout_below(of, limit)));
        break;
    }
    layout_mix(of, released);
}

static void layout_stall(layout *of)
{
    unsigned stream = layout_stream(of);
    if ((of->stalled >> stream & 1) != 0) weir_sim_go(of->rig->sim, of->rig->native[stream]);
    else weir_sim_stall(of->rig->sim, of->rig->native[stream]);
    of->stalled ^= 1u << stream;
}

static void layout_retire(layout *of)
{
    unsigned stream = layout_stream(of);
    weir_status status = weir_stream_retire(of->rig->pool, of->rig->stream[stream]);
    layout_mix(of, (uint64_t)status);
    if (status == WEIR_OK) weir_rig_attach(of->rig, stream, layout_below(of, 2) == 0);
    layout_mix(of, of->rig->stream[stream]);
}

static void layout_domain(layout *of)
{
    weir_domain *domain = &of->domain[layout_below(of, LAYOUT_DOMAINS)];
    weir_status status = weir_domain_release(of->rig->pool, *domain);
    if (status == WEIR_OK) status = weir_domain_create(of->rig->pool, domain);
    layout_mix(of, (uint64_t)status << 60 | *domain);
}

static void layout_fault(layout *of)
{
    static const weir_sim_call calls[] = {
        WEIR_SIM_handle_create,  WEIR_SIM_map,         WEIR_SIM_unmap, WEIR_SIM_set_access,
        WEIR_SIM_handle_release, WEIR_SIM_event_query, WEIR_SIM_copy};
    weir_sim_call call = calls[layout_below(of, sizeof(calls) / sizeof(calls[0]))];
    weir_sim_fail(of->rig->sim, call, layout_below(of, 5), false, WEIR_DEVICE);
}

/* ------------------------------------------------------------------------------------- looks -- */

static bool layout_block(void *self, const weir_block *block)
{
    layout *of = (layout *)self;
    layout_mix(of, block->addr);
    layout_mix(of, block->bytes);
    layout_mix(of, block->requested_bytes);
    layout_mix(of, (uint64_t)block->stream << 32 | block->domain);
    layout_mix(of, block->pins * 16u + block->live * 8u + block->mapped * 4u + block->pending * 2u +
                       block->small);
    return true;
}

static bool layout_segment(void *self, const weir_segment *segment)
{
    layout *of = (layout *)self;
    layout_mix(of, segment->addr);
    layout_mix(of, segment->bytes);
    layout_mix(of, segment->handle * 4 + segment->pinned * 2u + segment->quarantined);
    return true;
}

static void layout_look(layout *of)
{
    weir_stats stats = weir_rig_stats(of->rig);
    weir_oom oom = {.size = sizeof(oom)};
    weir_walk_blocks(of->rig->pool, layout_block, of);
    weir_walk_segments(of->rig->pool, layout_segment, of);
    for (const uint64_t *at = &stats.limit_bytes; at < (const uint64_t *)(&stats + 1); at++)
        layout_mix(of, *at);
    if (weir_oom_read(of->rig->pool, &oom) != WEIR_OK) return;
    layout_mix(of, (uint64_t)oom.status << 32 | oom.wait_would_help);
    layout_mix(of, oom.asked_bytes);
    for (const uint64_t *at = &oom.limit_bytes; at <= &oom.short_bytes; at++) layout_mix(of, *at);
}

/* ---------------------------------------------------------------------------------- a series -- */

static void layout_other(layout *of)
{
    uint32_t does = of->line->does;
    uint64_t dice = layout_below(of, 16);
    if (dice < 3 && (does & LAYOUT_SHARE) != 0 && of->count != 0) layout_use(of);
    else if (dice < 7 && (does & LAYOUT_HOLD) != 0 && of->count != 0) layout_hold(of);
    else if (dice < 9 && (does & LAYOUT_GIVE) != 0) layout_give(of);
    else if (dice == 9 && (does & LAYOUT_RETIRE) != 0) layout_retire(of);
    else if (dice == 10 && (does & LAYOUT_FAULTS) != 0) layout_fault(of);
    else if (dice == 11 && (does & LAYOUT_STALL) != 0) layout_stall(of);
    else if (dice == 12 && (does & LAYOUT_DOMAIN) != 0) layout_domain(of);
    else if (of->count != 0) layout_again(of);
}

/* The number of live blocks swings between few and many. */
static void layout_step(layout *of, unsigned step)
{
    unsigned goal = step / 150 % 2 == 0 ? LAYOUT_LIVE - 2 : LAYOUT_LIVE / 8;
    weir_sim_time_set(of->rig->sim, step * UINT64_C(10));
    if (layout_below(of, 4) == 0) layout_other(of);
    else if (of->count == 0 || (of->count < goal && layout_below(of, 4) != 0)) layout_alloc(of);
    else layout_free(of);
    if (step % 50 == 49) layout_look(of);
}

static uint64_t layout_run(const layout_line *line)
{
    layout of = {.line = line, .hash = 1, .state = 7};
    rig_options options = line->rig;
    if (options.sim.granule_bytes == 0) options.sim.granule_bytes = 64 * KIB;
    if (options.sim.memory_bytes == 0) options.sim.memory_bytes = GIB;
    of.rig = weir_rig_open(&options);
    for (unsigned i = 0; i < LAYOUT_DOMAINS && (line->does & LAYOUT_DOMAIN) != 0; i++)
        ASSERT_OK(weir_domain_create(of.rig->pool, &of.domain[i]));
    for (unsigned step = 0; step < LAYOUT_STEPS; step++) layout_step(&of, step);
    for (unsigned i = 0; i < of.rig->streams; i++) weir_sim_go(of.rig->sim, of.rig->native[i]);
    weir_rig_check(of.rig);
    while (of.count != 0) layout_free(&of);
    layout_look(&of);
    weir_rig_close_loose(of.rig);
    return of.hash;
}

Test(layout, is_what_it_was)
{
    bool renew = getenv("WEIR_LAYOUT_RENEW") != NULL;
    for (size_t i = 0; i < sizeof(layout_lines) / sizeof(layout_lines[0]); i++) {
        const layout_line *line = &layout_lines[i];
        uint64_t number = layout_run(line);
        if (renew) printf("layout %s 0x%016llx\n", line->name, (unsigned long long)number);
        else
            cr_expect_eq(number, line->number, "%s: 0x%016llx; see tests/unit/layouts.sh",
                         line->name, (unsigned long long)number);
    }
}
