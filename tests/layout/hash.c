/* SPDX-License-Identifier: MIT */
/*
 * Prints one number for the layout that a fixed series of calls leaves behind: every block and every
 * piece of physical memory at many moments, and the counters at the end. The same calls and the same
 * answers of the device give the same layout (invariant 8), so two builds for different machines
 * must print the same number.
 */
#include "platform.h"
#include "sim.h"
#include "weir.h"

#include <inttypes.h>
#include <stdio.h>

#define LIVE_MOST 400
#define STEPS 20000
#define STREAMS 3
#define LIMIT_BYTES (UINT64_C(1) << 28)

struct layout {
    weir_pool *pool;
    uint64_t hash;
    uint64_t seed;
    weir_stream streams[STREAMS];
    weir_addr live[LIVE_MOST];
    unsigned live_count;
    uint64_t refused;
};

static uint64_t layout_random(struct layout *layout)
{
    layout->seed ^= layout->seed << 13;
    layout->seed ^= layout->seed >> 7;
    layout->seed ^= layout->seed << 17;
    return layout->seed;
}

static void layout_mix(struct layout *layout, uint64_t word)
{
    layout->hash = (layout->hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    layout->hash ^= layout->hash >> 29;
}

static bool layout_block(void *self, const weir_block *block)
{
    struct layout *layout = (struct layout *)self;
    layout_mix(layout, block->addr);
    layout_mix(layout, block->bytes);
    layout_mix(layout, block->stream * 8u + block->live * 4u + block->mapped * 2u + block->pending);
    return true;
}

static bool layout_segment(void *self, const weir_segment *segment)
{
    struct layout *layout = (struct layout *)self;
    layout_mix(layout, segment->addr);
    layout_mix(layout, segment->bytes);
    return true;
}

static void layout_look(struct layout *layout)
{
    weir_walk_blocks(layout->pool, layout_block, layout);
    weir_walk_segments(layout->pool, layout_segment, layout);
}

/* Sizes from 1 byte to 16 MiB, small ones as often as large ones. */
static bool layout_alloc(struct layout *layout)
{
    uint64_t shift = 40 + layout_random(layout) % 24;
    uint64_t bytes = 1 + (layout_random(layout) >> shift);
    weir_stream stream = layout->streams[layout_random(layout) % STREAMS];
    weir_addr addr;
    weir_status status = weir_alloc_on(layout->pool, stream, bytes, &addr);
    if (status == WEIR_NO_MEMORY) {
        layout->refused++;
        return true;
    }
    layout->live[layout->live_count++] = addr;
    layout_mix(layout, addr);
    return status == WEIR_OK;
}

static bool layout_free(struct layout *layout)
{
    unsigned which = (unsigned)(layout_random(layout) % layout->live_count);
    bool other = layout_random(layout) % 8 == 0;
    weir_stream stream = other ? layout->streams[layout_random(layout) % STREAMS] : 0;
    weir_addr addr = layout->live[which];
    layout->live[which] = layout->live[--layout->live_count];
    return weir_free(layout->pool, addr, stream) == WEIR_OK;
}

/* The number of live blocks swings between few and many. */
static bool layout_step(struct layout *layout, unsigned step)
{
    unsigned goal = step / 1000 % 2 == 0 ? LIVE_MOST : LIVE_MOST / 8;
    bool grow = layout->live_count < goal && layout_random(layout) % 4 != 0;
    if (step % 500 == 499) layout_look(layout);
    if (layout->live_count == 0 || grow) return layout_alloc(layout);
    return layout_free(layout);
}

static bool layout_attach(struct layout *layout, weir_sim *sim)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        uint64_t native = weir_sim_stream_create(sim);
        weir_stream_desc desc = {sizeof desc, native, weir_sim_stream_unique(sim, native), true};
        if (weir_stream_attach(layout->pool, &desc, &layout->streams[i]) != WEIR_OK) return false;
    }
    return true;
}

static bool layout_run(struct layout *layout, weir_sim *sim)
{
    for (unsigned step = 0; step < STEPS; step++) {
        weir_sim_time_set(sim, step * UINT64_C(10));
        if (!layout_step(layout, step)) return false;
    }
    while (layout->live_count > 0) {
        if (!layout_free(layout)) return false;
    }
    layout_look(layout);
    return true;
}

static void layout_count(struct layout *layout)
{
    weir_stats stats = {.size = sizeof stats};
    weir_stats_read(layout->pool, &stats);
    layout_mix(layout, stats.reserved.peak);
    layout_mix(layout, stats.moved_handles);
    layout_mix(layout, stats.creates);
    layout_mix(layout, stats.event_records);
    layout_mix(layout, layout->refused);
}

/* What went wrong, or NULL. */
static const char *layout_of(struct layout *layout, weir_sim *sim, const weir_platform *platform)
{
    weir_config config = {.size = sizeof config,
                          .ops = weir_sim_ops(sim),
                          .device_self = sim,
                          .platform = platform,
                          .limit_bytes = LIMIT_BYTES};
    if (weir_pool_create(&config, &layout->pool) != WEIR_OK) return "weir_pool_create";
    if (!layout_attach(layout, sim)) return "weir_stream_attach";
    if (!layout_run(layout, sim)) return "a call of the series";
    layout_count(layout);
    return weir_pool_destroy(layout->pool) == WEIR_OK ? NULL : "weir_pool_destroy";
}

int main(void)
{
    struct layout layout = {.hash = 1, .seed = 88172645463325252u};
    weir_sim *sim = weir_sim_create(&(weir_sim_config){.lag_us = 100});
    weir_platform *platform = weir_platform_create(false);
    if (sim == NULL || platform == NULL) return 1;
    const char *failed = layout_of(&layout, sim, platform);
    if (failed != NULL) {
        fprintf(stderr, "layout: %s failed\n", failed);
        return 1;
    }
    weir_platform_destroy(platform);
    weir_sim_destroy(sim);
    printf("%016" PRIx64 "\n", layout.hash);
    return 0;
}
