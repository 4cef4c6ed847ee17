/* SPDX-License-Identifier: MIT */
/*
 * Six programs that never were, each with the allocations typical of one way to use streams:
 *
 *   pipeline   four stages on a stream each; micro-batches go forward and back through them, and a
 *              stage's output is still read by the next stage when its owner lets go of it
 *   prefetch   batches are brought in on stream 1 and used on stream 0, which also computes with
 *              short-lived blocks of its own
 *   reduction  gradients of stream 0 are gathered in buckets that stream 1 reduces after the owner
 *              has let go of them
 *   producer   three producers on streams 0 to 2 hand messages of all sizes to consumers that
 *              finish in any order
 *   training   one stream: weights, then forward and backward passes whose blocks are freed last
 *              in, first out, with another batch size each time
 *   serving    one stream: sequences come and go, and each step replaces a cache by a longer one
 */
#include "kinds.h"

#include <string.h>

#define KINDS_KIB (UINT64_C(1) << 10)
#define KINDS_MIB (UINT64_C(1) << 20)

#define KINDS_COUNT(array) (sizeof(array) / sizeof(array)[0])

static void kinds_weights(weir_workload *load, int count)
{
    for (int i = 0; i < count && !weir_workload_full(load); i++)
        (void)weir_workload_alloc(load, weir_workload_size(load, KINDS_KIB, 64 * KINDS_MIB), 0);
}

/* A short-lived block beside what lives longer. */
static void kinds_scratch(weir_workload *load, uint64_t high_bytes, uint32_t stream)
{
    weir_workload_block scratch =
        weir_workload_alloc(load, weir_workload_size(load, 512, high_bytes), stream);

    weir_workload_free(load, &scratch);
}

/* ---------------------------------------------------------------------------------- pipeline -- */

enum { KINDS_STAGES = 4, KINDS_MICRO_BATCHES = 6 };

static void kinds_pipeline_forward(weir_workload *load, uint64_t unit,
                                   weir_workload_block kept[KINDS_STAGES])
{
    for (uint32_t stage = 0; stage < KINDS_STAGES; stage++) {
        weir_workload_block out = weir_workload_alloc(load, unit * 4, stage);
        kept[stage] = weir_workload_alloc(load, unit * weir_workload_pick(load, 2, 9), stage);
        kinds_scratch(load, unit * 8, stage);
        weir_workload_free_late(load, &out, weir_workload_pick(load, 50, 900));
    }
}

static void kinds_pipeline(weir_workload *load)
{
    weir_workload_block kept[KINDS_MICRO_BATCHES][KINDS_STAGES];

    kinds_weights(load, 40);
    while (!weir_workload_full(load)) {
        uint64_t unit = weir_workload_size(load, 256 * KINDS_KIB, 4 * KINDS_MIB);
        for (int micro = 0; micro < KINDS_MICRO_BATCHES; micro++)
            kinds_pipeline_forward(load, unit, kept[micro]);
        for (int micro = 0; micro < KINDS_MICRO_BATCHES; micro++) {
            for (uint32_t stage = KINDS_STAGES; stage-- > 0;) {
                weir_workload_block gradient = weir_workload_alloc(load, unit * 4, stage);
                weir_workload_free(load, &kept[micro][stage]);
                weir_workload_free_late(load, &gradient, weir_workload_pick(load, 50, 900));
            }
        }
        weir_workload_pass(load, weir_workload_pick(load, 200, 2000));
    }
}

/* ---------------------------------------------------------------------------------- prefetch -- */

enum { KINDS_BATCHES = 3, KINDS_LAYERS = 12 };

static void kinds_prefetch(weir_workload *load)
{
    weir_workload_block batches[KINDS_BATCHES] = {{0, 0, 0}};
    size_t at = 0;

    kinds_weights(load, 60);
    while (!weir_workload_full(load)) {
        weir_workload_free_late(load, &batches[at], weir_workload_pick(load, 100, 4000));
        batches[at] =
            weir_workload_alloc(load, weir_workload_size(load, 8 * KINDS_MIB, 128 * KINDS_MIB), 1);
        at = (at + 1) % KINDS_BATCHES;
        for (int layer = 0; layer < KINDS_LAYERS; layer++) kinds_scratch(load, 96 * KINDS_MIB, 0);
    }
}

/* --------------------------------------------------------------------------------- reduction -- */

enum { KINDS_GRADIENTS = 24, KINDS_BUCKET = 6 };

static void kinds_reduction(weir_workload *load)
{
    uint64_t sizes[KINDS_GRADIENTS];

    kinds_weights(load, 60);
    for (size_t i = 0; i < KINDS_COUNT(sizes); i++)
        sizes[i] = weir_workload_size(load, 4 * KINDS_KIB, 24 * KINDS_MIB);
    while (!weir_workload_full(load)) {
        weir_workload_block gradients[KINDS_BUCKET];
        for (size_t i = 0; i < KINDS_COUNT(sizes); i++) {
            uint64_t sum = 0;
            gradients[i % KINDS_BUCKET] = weir_workload_alloc(load, sizes[i], 0);
            kinds_scratch(load, 32 * KINDS_MIB, 0);
            if ((i + 1) % KINDS_BUCKET != 0) continue;
            for (size_t j = 0; j < KINDS_BUCKET; j++) sum += gradients[j].bytes;
            weir_workload_block bucket = weir_workload_alloc(load, sum, 0);
            for (size_t j = 0; j < KINDS_BUCKET; j++) weir_workload_free(load, &gradients[j]);
            weir_workload_free_late(load, &bucket, weir_workload_pick(load, 500, 6000));
        }
        weir_workload_pass(load, weir_workload_pick(load, 500, 3000));
        /* The reducing stream's own staging buffer. */
        kinds_scratch(load, 8 * KINDS_MIB, 1);
    }
}

/* ---------------------------------------------------------------------------------- producer -- */

enum { KINDS_PRODUCERS = 3, KINDS_MESSAGES = 96 };

static void kinds_producer(weir_workload *load)
{
    weir_workload_block messages[KINDS_MESSAGES] = {{0, 0, 0}};

    while (!weir_workload_full(load)) {
        size_t at = (size_t)weir_workload_pick(load, 0, KINDS_MESSAGES - 1);
        uint32_t stream = (uint32_t)weir_workload_pick(load, 0, KINDS_PRODUCERS - 1);
        if (weir_workload_pick(load, 0, 3) == 0) weir_workload_free(load, &messages[at]);
        else weir_workload_free_late(load, &messages[at], weir_workload_pick(load, 10, 5000));
        messages[at] =
            weir_workload_alloc(load, weir_workload_size(load, 256, 48 * KINDS_MIB), stream);
    }
}

/* ---------------------------------------------------------------------------------- training -- */

enum { KINDS_DEPTH = 32 };

static void kinds_training(weir_workload *load)
{
    kinds_weights(load, 120);
    while (!weir_workload_full(load)) {
        weir_workload_block kept[KINDS_DEPTH][2];
        uint64_t batch = weir_workload_pick(load, 3, 16);
        uint64_t length = weir_workload_pick(load, 24, 512);
        uint64_t unit = batch * length * KINDS_KIB;
        for (int layer = 0; layer < KINDS_DEPTH; layer++) {
            kept[layer][0] = weir_workload_alloc(load, unit, 0);
            kinds_scratch(load, unit * 3, 0);
            kept[layer][1] =
                weir_workload_alloc(load, layer % 4 == 0 ? batch * length * length : unit / 2, 0);
        }
        for (int layer = KINDS_DEPTH; layer-- > 0;) {
            weir_workload_block gradient = weir_workload_alloc(load, unit, 0);
            weir_workload_free(load, &kept[layer][1]);
            kinds_scratch(load, 16 * KINDS_MIB, 0);
            weir_workload_free(load, &kept[layer][0]);
            weir_workload_free(load, &gradient);
        }
        weir_workload_pass(load, weir_workload_pick(load, 500, 5000));
    }
}

/* ----------------------------------------------------------------------------------- serving -- */

enum { KINDS_SEQUENCES = 12, KINDS_CACHES = 8 };

typedef struct kinds_sequence {
    weir_workload_block caches[KINDS_CACHES];
    uint64_t tokens;
    uint64_t tokens_end;
} kinds_sequence;

static void kinds_sequence_step(weir_workload *load, kinds_sequence *sequence)
{
    const uint64_t token_bytes = 2 * KINDS_KIB;
    bool ends = sequence->tokens >= sequence->tokens_end;

    if (ends) {
        sequence->tokens = weir_workload_pick(load, 16, 700);
        sequence->tokens_end = sequence->tokens + weir_workload_pick(load, 8, 160);
    }
    sequence->tokens++;
    for (int i = 0; i < KINDS_CACHES; i++) {
        weir_workload_block longer;
        if (ends) weir_workload_free(load, &sequence->caches[i]);
        longer = weir_workload_alloc(load, sequence->tokens * token_bytes, 0);
        weir_workload_free(load, &sequence->caches[i]);
        sequence->caches[i] = longer;
    }
}

static void kinds_serving(weir_workload *load)
{
    kinds_sequence sequences[KINDS_SEQUENCES];

    memset(sequences, 0, sizeof sequences);
    kinds_weights(load, 80);
    while (!weir_workload_full(load)) {
        uint64_t at = weir_workload_pick(load, 0, KINDS_SEQUENCES - 1);
        kinds_sequence_step(load, &sequences[at]);
        kinds_scratch(load, 4 * KINDS_MIB, 0);
    }
}

const weir_kind *weir_kind_find(const char *name)
{
    static const weir_kind kinds[] = {{"pipeline", kinds_pipeline},   {"prefetch", kinds_prefetch},
                                      {"reduction", kinds_reduction}, {"producer", kinds_producer},
                                      {"training", kinds_training},   {"serving", kinds_serving}};

    for (size_t i = 0; i < KINDS_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}
