/* SPDX-License-Identifier: MIT */
/*
 * Stalls: what allocator calls do while a kernel runs, on the host and to the kernel's stream.
 *
 * Each case is played three times: on an idle device; beside one kernel of 100 ms, where a call
 * that waits for it shows by its length and by the kernel being over when the calls are; and beside
 * a chain of kernels of half a millisecond, queued back to back on one stream, where whatever holds
 * up the device shows as a gap between two of them.
 *
 * Invariant  What a case allocates is freed before the next one: `block` holds what is live.
 */
#define _POSIX_C_SOURCE 200809L

#include "racer_events.h"

#include <string.h>

#include "racer_clock.h"
#include "racer_out.h"

enum {
    STALLS_KERNEL = 0, /* the stream with the kernel */
    STALLS_OTHER = 1,
    STALLS_BLOCKS = 8,
    STALLS_PAIRS = 200,
    STALLS_CHAIN = 100
};

#define STALLS_MIB (UINT64_C(1) << 20)
#define STALLS_LONG_NS UINT64_C(100000000)
#define STALLS_LINK_NS UINT64_C(500000)
#define STALLS_BEGUN_NS UINT64_C(2000000) /* until the kernel surely runs */

typedef enum stalls_load { STALLS_IDLE, STALLS_ONE_LONG, STALLS_CHAINED } stalls_load;

typedef struct stalls_block {
    uint64_t addr, bytes;
    uint32_t stream;
} stalls_block;

typedef struct stalls_scene {
    const racer_entry *entry;
    stalls_block block[STALLS_BLOCKS];
    bool met;            /* no allocation failed */
    uint64_t longest_ns; /* of the calls since the kernel was queued */
    uint64_t total_ns;
} stalls_scene;

typedef struct stalls_case {
    const char *name;
    uint64_t cap_bytes;
    void (*prepare)(stalls_scene *scene); /* the device is idle */
    void (*act)(stalls_scene *scene);     /* the kernel runs */
} stalls_case;

typedef struct stalls_shown {
    uint64_t longest_ns, total_ns, gap_ns;
    bool met, over; /* over: the kernels had ended when the calls had */
} stalls_shown;

/* ------------------------------------------------------------------------------------- calls -- */

static void stalls_note(stalls_scene *scene, uint64_t start_ns)
{
    uint64_t ns = racer_clock_ns() - start_ns;

    scene->total_ns += ns;
    if (ns > scene->longest_ns) scene->longest_ns = ns;
}

static void stalls_take(stalls_scene *scene, uint32_t i, uint32_t stream, uint64_t bytes)
{
    stalls_block *block = &scene->block[i];
    uint64_t start_ns = racer_clock_ns();

    block->addr = scene->entry->contestant->alloc(scene->entry->self, stream, bytes);
    stalls_note(scene, start_ns);
    block->bytes = bytes;
    block->stream = stream;
    scene->met = scene->met && block->addr != 0;
}

static void stalls_give(stalls_scene *scene, uint32_t i)
{
    stalls_block *block = &scene->block[i];
    uint64_t start_ns = racer_clock_ns();

    if (block->addr == 0) return;
    scene->entry->contestant->free(scene->entry->self, block->addr, block->bytes, block->stream);
    stalls_note(scene, start_ns);
    block->addr = 0;
}

static void stalls_pairs(stalls_scene *scene, uint32_t stream, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        stalls_take(scene, 0, stream, STALLS_MIB);
        stalls_give(scene, 0);
    }
}

/* ------------------------------------------------------------------------------------- cases -- */

static void stalls_warm(stalls_scene *scene)
{
    stalls_pairs(scene, STALLS_KERNEL, 2);
    stalls_pairs(scene, STALLS_OTHER, 2);
}

static void stalls_nothing(stalls_scene *scene)
{
    (void)scene;
}

static void stalls_pairs_other(stalls_scene *scene)
{
    stalls_pairs(scene, STALLS_OTHER, STALLS_PAIRS);
}

static void stalls_pairs_same(stalls_scene *scene)
{
    stalls_pairs(scene, STALLS_KERNEL, STALLS_PAIRS);
}

static void stalls_growth(stalls_scene *scene)
{
    stalls_take(scene, 0, STALLS_OTHER, 512 * STALLS_MIB);
}

/* A block of the kernel's stream, freed and wanted elsewhere while the kernel runs. */
static void stalls_held(stalls_scene *scene)
{
    stalls_warm(scene);
    stalls_take(scene, 0, STALLS_KERNEL, 384 * STALLS_MIB);
}

static void stalls_wanted(stalls_scene *scene)
{
    stalls_give(scene, 0);
    stalls_take(scene, 1, STALLS_OTHER, 384 * STALLS_MIB);
}

/* A block of another stream that the kernel's stream uses too, freed and wanted again. */
static void stalls_held_other(stalls_scene *scene)
{
    stalls_warm(scene);
    stalls_take(scene, 0, STALLS_OTHER, 384 * STALLS_MIB);
}

static void stalls_used(stalls_scene *scene)
{
    const racer_entry *entry = scene->entry;
    uint64_t start_ns = racer_clock_ns();

    if (scene->block[0].addr == 0) return;
    entry->contestant->use(entry->self, scene->block[0].addr, STALLS_OTHER, STALLS_KERNEL);
    stalls_note(scene, start_ns);
    stalls_give(scene, 0);
    stalls_take(scene, 1, STALLS_OTHER, 384 * STALLS_MIB);
}

/* Half of the limit is free, long passed, in pieces of which none is large enough. */
static void stalls_scatter(stalls_scene *scene)
{
    for (uint32_t i = 0; i < 8; i++) stalls_take(scene, i, STALLS_OTHER, 128 * STALLS_MIB);
    for (uint32_t i = 1; i < 8; i += 2) stalls_give(scene, i);
}

static void stalls_gather(stalls_scene *scene)
{
    stalls_take(scene, 1, STALLS_OTHER, 512 * STALLS_MIB);
}

static void stalls_cache(stalls_scene *scene)
{
    stalls_warm(scene);
    stalls_take(scene, 0, STALLS_OTHER, 1024 * STALLS_MIB);
    stalls_give(scene, 0);
}

static void stalls_trim(stalls_scene *scene)
{
    uint64_t start_ns = racer_clock_ns();

    scene->entry->contestant->trim(scene->entry->self);
    stalls_note(scene, start_ns);
}

static void stalls_large(stalls_scene *scene)
{
    stalls_warm(scene);
    stalls_take(scene, 0, STALLS_OTHER, 1024 * STALLS_MIB);
}

static void stalls_large_free(stalls_scene *scene)
{
    stalls_give(scene, 0);
}

static const stalls_case stalls_cases[] = {
    {"no call", 0, stalls_warm, stalls_nothing},
    {"200 cached pairs, another stream", 0, stalls_warm, stalls_pairs_other},
    {"200 cached pairs, the kernel's stream", 0, stalls_warm, stalls_pairs_same},
    {"growth by 512 MiB", 0, stalls_warm, stalls_growth},
    {"384 MiB freed under the kernel, wanted elsewhere", 0, stalls_held, stalls_wanted},
    {"the same at a limit of 512 MiB", 512 * STALLS_MIB, stalls_held, stalls_wanted},
    {"384 MiB that the kernel's stream uses too, freed, wanted again", 0, stalls_held_other,
     stalls_used},
    {"512 MiB wanted at the limit, free in pieces of 128 MiB", 1056 * STALLS_MIB, stalls_scatter,
     stalls_gather},
    {"trim of 1 GiB", 0, stalls_cache, stalls_trim},
    {"free of 1 GiB", 0, stalls_large, stalls_large_free}};

/* ----------------------------------------------------------------------------------- playing -- */

static uint64_t stalls_load_ns(stalls_load load)
{
    return load == STALLS_ONE_LONG  ? STALLS_LONG_NS
           : load == STALLS_CHAINED ? STALLS_CHAIN * STALLS_LINK_NS
                                    : 0;
}

static bool stalls_queue(const racer_entry *entry, stalls_load load, weir_cu_event end)
{
    void *stream = entry->contestant->stream(entry->self, STALLS_KERNEL);
    uint32_t kernels = load == STALLS_ONE_LONG ? 1 : load == STALLS_CHAINED ? STALLS_CHAIN : 0;

    racer_gpu_marks_clear(entry->gpu);
    for (uint32_t i = 0; i < kernels; i++)
        if (!racer_gpu_spin(entry->gpu, stream, stalls_load_ns(load) / kernels)) return false;
    if (entry->gpu->driver.event_record(end, stream) != WEIR_CU_OK) return false;
    for (uint64_t start_ns = racer_clock_ns(); racer_clock_ns() - start_ns < STALLS_BEGUN_NS;) {
    }
    return true;
}

static bool stalls_play(const racer_entry *entry, const stalls_case *this, stalls_load load,
                        weir_cu_event end, stalls_shown *shown, racer_why *why)
{
    stalls_scene scene = {.entry = entry, .met = true};
    racer_spins spins;

    if (!entry->contestant->reset(entry->self, this->cap_bytes, 2, why)) return false;
    this->prepare(&scene);
    if (!racer_gpu_sync(entry->gpu) || !stalls_queue(entry, load, end))
        return racer_why_set(why, "the device took no work");
    scene.longest_ns = scene.total_ns = 0;
    this->act(&scene);
    shown->over = entry->gpu->driver.event_query(end) == WEIR_CU_OK;
    shown->longest_ns = scene.longest_ns;
    shown->total_ns = scene.total_ns;
    shown->met = scene.met;
    bool good = racer_gpu_spins(entry->gpu, 1, &spins);
    shown->gap_ns = spins.gap_ns;
    for (uint32_t i = 0; i < STALLS_BLOCKS; i++) stalls_give(&scene, i);
    if (entry->contestant->fault(entry->self) != NULL)
        return racer_why_set(why, "%s: %s", this->name, entry->contestant->fault(entry->self));
    if (!good) return racer_why_set(why, "%s: the device reports an error", this->name);
    return spins.busy_ns >= stalls_load_ns(load) ||
           racer_why_set(why, "%s: the kernels did not run as long as was asked", this->name);
}

static bool stalls_measure(const racer_entry *entry, const stalls_case *this, weir_cu_event end,
                           racer_why *why)
{
    stalls_shown idle, one, chain;
    racer_out out;

    if (!stalls_play(entry, this, STALLS_IDLE, end, &idle, why) ||
        !stalls_play(entry, this, STALLS_ONE_LONG, end, &one, why) ||
        !stalls_play(entry, this, STALLS_CHAINED, end, &chain, why))
        return false;
    racer_out_begin(&out, "stall");
    racer_out_text(&out, "contestant", entry->contestant->name);
    racer_out_text(&out, "case", this->name);
    racer_out_flag(&out, "met_idle", idle.met);
    racer_out_flag(&out, "met", one.met);
    racer_out_decimal(&out, "idle_longest_us", (double)idle.longest_ns / 1e3, 1);
    racer_out_decimal(&out, "longest_us", (double)one.longest_ns / 1e3, 1);
    racer_out_decimal(&out, "total_us", (double)one.total_ns / 1e3, 1);
    racer_out_flag(&out, "waited", one.over);
    racer_out_decimal(&out, "chain_longest_us", (double)chain.longest_ns / 1e3, 1);
    racer_out_decimal(&out, "gap_us", (double)chain.gap_ns / 1e3, 1);
    racer_out_end(&out);
    return true;
}

bool racer_event_stalls(const racer_entry *entry, racer_why *why)
{
    weir_cu_event end = NULL;
    bool good = racer_gpu_ready(entry->gpu, why);

    if (good && entry->gpu->driver.event_create(&end, WEIR_CU_EVENT_NO_TIMING) != WEIR_CU_OK)
        good = racer_why_set(why, "no event");
    for (size_t i = 0; good && i < sizeof stalls_cases / sizeof stalls_cases[0]; i++) {
        bool caps = (entry->contestant->traits & RACER_CAPS) != 0;
        if (caps || stalls_cases[i].cap_bytes == 0)
            good = stalls_measure(entry, &stalls_cases[i], end, why);
    }
    if (end != NULL) (void)entry->gpu->driver.event_destroy(end);
    return good;
}
