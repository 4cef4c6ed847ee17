/* SPDX-License-Identifier: MIT */
/* Makes scripts. What does not fit the room that was counted out for it ends the program. */
#include "script.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_KIB (UINT64_C(1) << 10)
#define SCRIPT_BYTES_LOW 512.0
#define SCRIPT_BYTES_SPAN 131072.0 /* from 512 bytes to 64 MiB */

enum {
    SCRIPT_WARM_PAIRS_LEAST = 10000,
    SCRIPT_STAY = 600,
    SCRIPT_LAYERS = 48,
    SCRIPT_LAYER_SLOTS = 3,  /* what a layer keeps from forward to backward */
    SCRIPT_LAYER_STEPS = 14, /* allocations and frees of a layer in one iteration */
    SCRIPT_WARM_ITERATIONS = 30
};

typedef struct script_maker {
    weir_bench_script *script;
    uint64_t room;
    uint64_t random;
    uint64_t live_bytes;
    uint64_t *bytes; /* by slot; 0: not live */
} script_maker;

/* ------------------------------------------------------------------------------------- parts -- */

/* The generator of Steele, Lea and Flood: a counter put through a mixing function. */
static uint64_t script_random(script_maker *maker)
{
    uint64_t word = maker->random += UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static uint64_t script_pick(script_maker *maker, uint64_t low, uint64_t high)
{
    return low + script_random(maker) % (high - low + 1);
}

static uint64_t script_size(script_maker *maker)
{
    double part = (double)(script_random(maker) >> 11) / (double)(UINT64_C(1) << 53);
    return (uint64_t)(SCRIPT_BYTES_LOW * pow(SCRIPT_BYTES_SPAN, part));
}

static bool script_begin(script_maker *maker, weir_bench_script *script, uint64_t room,
                         uint32_t slots, uint64_t seed)
{
    memset(script, 0, sizeof *script);
    memset(maker, 0, sizeof *maker);
    script->slots = slots;
    script->steps = malloc(room * sizeof *script->steps);
    maker->script = script;
    maker->room = room;
    maker->random = seed;
    maker->bytes = calloc(slots, sizeof *maker->bytes);
    if (script->steps != NULL && maker->bytes != NULL) return true;
    weir_bench_script_free(script);
    free(maker->bytes);
    return false;
}

static void script_end(script_maker *maker)
{
    const weir_bench_script *script = maker->script;

    if (script->count != maker->room) abort();
    if ((script->count - script->warm) % WEIR_BENCH_ROUNDS != 0) abort();
    free(maker->bytes);
}

static void script_put(script_maker *maker, uint32_t slot, uint64_t bytes)
{
    weir_bench_script *script = maker->script;

    if (script->count == maker->room || slot >= script->slots) abort();
    script->steps[script->count].bytes = bytes;
    script->steps[script->count++].slot = slot;
}

static void script_alloc(script_maker *maker, uint32_t slot, uint64_t bytes)
{
    script_put(maker, slot, bytes);
    maker->bytes[slot] = bytes;
    maker->live_bytes += bytes;
    if (maker->live_bytes > maker->script->peak_bytes)
        maker->script->peak_bytes = maker->live_bytes;
}

static void script_free(script_maker *maker, uint32_t slot)
{
    script_put(maker, slot, WEIR_BENCH_FREE);
    maker->live_bytes -= maker->bytes[slot];
    maker->bytes[slot] = 0;
}

/* ------------------------------------------------------------------------------------ random -- */

static void script_pairs(script_maker *maker, uint64_t pairs)
{
    while (pairs-- > 0) {
        uint32_t slot = (uint32_t)script_pick(maker, 0, maker->script->slots - 1);
        script_free(maker, slot);
        script_alloc(maker, slot, script_size(maker));
    }
}

bool weir_bench_script_random(weir_bench_script *script, uint32_t live, uint32_t pairs,
                              uint64_t seed)
{
    uint64_t warm_pairs = 2 * (uint64_t)live;
    script_maker maker;

    if (warm_pairs < SCRIPT_WARM_PAIRS_LEAST) warm_pairs = SCRIPT_WARM_PAIRS_LEAST;
    uint64_t warm = live + 2 * warm_pairs;
    if (!script_begin(&maker, script, warm + UINT64_C(2) * pairs * WEIR_BENCH_ROUNDS, live, seed))
        return false;
    for (uint32_t slot = 0; slot < live; slot++) script_alloc(&maker, slot, script_size(&maker));
    script_pairs(&maker, warm_pairs);
    script->warm = script->count;
    script_pairs(&maker, (uint64_t)pairs * WEIR_BENCH_ROUNDS);
    script_end(&maker);
    return true;
}

/* ---------------------------------------------------------------------------------- training -- */

static void script_layer_forward(script_maker *maker, uint32_t slot, uint32_t scratch,
                                 uint64_t unit)
{
    script_alloc(maker, slot, unit);
    script_alloc(maker, scratch, unit * 3);
    script_alloc(maker, slot + 1, unit / 2);
    script_free(maker, scratch);
    script_alloc(maker, slot + 2, script_pick(maker, 1, 64) * SCRIPT_KIB);
}

static void script_layer_backward(script_maker *maker, uint32_t slot, uint32_t scratch,
                                  uint64_t unit)
{
    script_alloc(maker, scratch, unit);
    script_free(maker, slot + 2);
    script_alloc(maker, scratch + 1, unit * 2);
    script_free(maker, slot + 1);
    script_free(maker, scratch + 1);
    script_free(maker, slot);
    script_free(maker, scratch);
    script_alloc(maker, scratch, script_size(maker));
    script_free(maker, scratch);
}

static void script_iterations(script_maker *maker, uint32_t iterations)
{
    uint32_t scratch = SCRIPT_STAY + SCRIPT_LAYERS * SCRIPT_LAYER_SLOTS;

    for (; iterations > 0; iterations--) {
        uint64_t unit = script_pick(maker, 1, 16) * script_pick(maker, 24, 512) * SCRIPT_KIB;
        for (uint32_t layer = 0; layer < SCRIPT_LAYERS; layer++)
            script_layer_forward(maker, SCRIPT_STAY + layer * SCRIPT_LAYER_SLOTS, scratch, unit);
        for (uint32_t layer = SCRIPT_LAYERS; layer-- > 0;)
            script_layer_backward(maker, SCRIPT_STAY + layer * SCRIPT_LAYER_SLOTS, scratch, unit);
    }
}

bool weir_bench_script_training(weir_bench_script *script, uint32_t iterations, uint64_t seed)
{
    const uint64_t steps = SCRIPT_LAYERS * SCRIPT_LAYER_STEPS;
    const uint32_t slots = SCRIPT_STAY + SCRIPT_LAYERS * SCRIPT_LAYER_SLOTS + 2;
    uint64_t runs = SCRIPT_WARM_ITERATIONS + (uint64_t)iterations * WEIR_BENCH_ROUNDS;
    script_maker maker;

    if (!script_begin(&maker, script, SCRIPT_STAY + runs * steps, slots, seed)) return false;
    for (uint32_t slot = 0; slot < SCRIPT_STAY; slot++)
        script_alloc(&maker, slot, script_size(&maker));
    script_iterations(&maker, SCRIPT_WARM_ITERATIONS);
    script->warm = script->count;
    script_iterations(&maker, iterations * WEIR_BENCH_ROUNDS);
    script_end(&maker);
    return true;
}

void weir_bench_script_free(weir_bench_script *script)
{
    free(script->steps);
    memset(script, 0, sizeof *script);
}
