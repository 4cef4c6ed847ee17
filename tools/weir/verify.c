/* SPDX-License-Identifier: MIT */
/*
 * The model: live blocks as intervals in a tree, and counters kept from the trace alone.
 *
 * Invariant  The intervals in the tree are disjoint. Two intervals compare as equal when they share
 *            a byte, which orders disjoint ones and makes an insertion find the one it would
 *            overlap.
 */
#define _POSIX_C_SOURCE 200809L

#include "verify.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { VERIFY_CHECK_OPS = 1024, VERIFY_UNIT_BYTES = 512 };

/* No device has this much, so a pool may call such a size invalid rather than too large for now. */
#define VERIFY_ABSURD_BYTES (UINT64_C(1) << 48)

typedef struct verify_block {
    uint64_t start;
    uint64_t end;
} verify_block;

typedef struct verify_model {
    const weir_trace *trace;
    weir_pool *pool; /* NULL with another policy */
    uint64_t unit_bytes;
    void *tree;           /* of the blocks below that are live */
    verify_block *blocks; /* by slot; start 0: not live */
    uint64_t requested, requested_peak, count;
    uint64_t allocs, frees, fails;
    uint64_t by_class[WEIR_SIZE_CLASSES];
    uint32_t unchecked; /* ops since the pool was last looked at as a whole */
    weir_fault fault;
} verify_model;

static int verify_compare(const void *a, const void *b)
{
    const verify_block *left = a, *right = b;

    if (left->end <= right->start) return -1;
    return left->start >= right->end ? 1 : 0;
}

static unsigned verify_class(uint64_t bytes)
{
    unsigned class_index = 0;

    while (class_index + 1 < WEIR_SIZE_CLASSES && bytes >> (class_index + 10) != 0) class_index++;
    return class_index;
}

/* ------------------------------------------------------------------------------------ blocks -- */

/* What the pool itself says of the block; *bytes is what it occupies. */
static void verify_find(verify_model *model, uint32_t index, weir_addr addr, uint64_t asked,
                        uint64_t *bytes)
{
    weir_block block;
    weir_status status = weir_block_find(model->pool, addr, &block);

    if (status != WEIR_OK || !block.live || block.addr != addr)
        (void)weir_fault_set(&model->fault, "op %u: the pool does not know its block at %#" PRIx64,
                             index + 1, addr);
    else if (block.requested_bytes != asked || block.bytes < asked)
        (void)weir_fault_set(&model->fault,
                             "op %u: the block of %" PRIu64 " bytes is kept as %" PRIu64
                             " requested and %" PRIu64 " occupied",
                             index + 1, asked, block.requested_bytes, block.bytes);
    else *bytes = block.bytes > asked ? block.bytes : asked;
}

static void verify_insert(verify_model *model, uint32_t index, uint32_t slot, weir_addr addr,
                          uint64_t bytes)
{
    verify_block *block = &model->blocks[slot];
    verify_block *const *place;

    block->start = addr;
    block->end = addr + bytes;
    if (block->end <= block->start) {
        (void)weir_fault_set(&model->fault,
                             "op %u: a block of %" PRIu64 " bytes at %#" PRIx64
                             " passes the end of all addresses",
                             index + 1, bytes, addr);
        block->end = block->start + 1;
    }
    place = tsearch(block, &model->tree, verify_compare);
    if (place == NULL) (void)weir_fault_set(&model->fault, "not enough memory to verify");
    else if (*place != block)
        (void)weir_fault_set(&model->fault,
                             "op %u: block [%#" PRIx64 ", %#" PRIx64
                             ") overlaps live block [%#" PRIx64 ", %#" PRIx64 ")",
                             index + 1, block->start, block->end, (*place)->start, (*place)->end);
    if (place == NULL || *place != block) block->start = 0;
}

static void verify_refused(verify_model *model, uint32_t index, weir_status status)
{
    uint64_t asked = model->trace->ops[index].bytes;

    if (status == WEIR_INVALID && asked >= VERIFY_ABSURD_BYTES) return; /* and nothing changed */
    model->fails++;
    if (status == WEIR_NO_MEMORY) return;
    (void)weir_fault_set(&model->fault, "op %u: an allocation of %" PRIu64 " bytes answered %s: %s",
                         index + 1, asked, weir_status_name(status), weir_status_text(status));
}

static void verify_allocated(void *self, uint32_t index, weir_status status, weir_addr addr)
{
    verify_model *model = self;
    const weir_trace_op *op = &model->trace->ops[index];
    uint64_t bytes = op->bytes > 0 ? op->bytes : 1;

    if (status != WEIR_OK) {
        verify_refused(model, index, status);
        return;
    }
    if (addr == 0 || addr % model->unit_bytes != 0)
        (void)weir_fault_set(&model->fault,
                             "op %u: address %#" PRIx64 " is not aligned to %" PRIu64, index + 1,
                             addr, model->unit_bytes);
    if (model->pool != NULL) verify_find(model, index, addr, op->bytes, &bytes);
    verify_insert(model, index, op->slot, addr, bytes);
    model->allocs++;
    model->count++;
    model->requested += op->bytes;
    if (model->requested > model->requested_peak) model->requested_peak = model->requested;
    model->by_class[verify_class(op->bytes)]++;
}

static void verify_freeing(void *self, uint32_t index, weir_addr addr)
{
    verify_model *model = self;
    const weir_trace_op *op = &model->trace->ops[index];
    verify_block *block = &model->blocks[op->slot];

    (void)addr;
    if (block->start != 0) (void)tdelete(block, &model->tree, verify_compare);
    block->start = 0;
    model->frees++;
    model->count--;
    model->requested -= op->bytes;
    model->by_class[verify_class(op->bytes)]--;
}

/* ---------------------------------------------------------------------------------- counters -- */

static void verify_equal(verify_model *model, uint32_t index, const char *name, uint64_t is,
                         uint64_t should)
{
    if (is != should)
        (void)weir_fault_set(&model->fault,
                             "after op %u the pool counts %s as %" PRIu64 ", the model as %" PRIu64,
                             index + 1, name, is, should);
}

static void verify_counters(verify_model *model, uint32_t index)
{
    weir_stats stats = {.size = sizeof stats};

    weir_stats_read(model->pool, &stats);
    verify_equal(model, index, "requested bytes", stats.requested.current, model->requested);
    verify_equal(model, index, "peak requested bytes", stats.requested.peak, model->requested_peak);
    verify_equal(model, index, "live blocks", stats.blocks.current, model->count);
    verify_equal(model, index, "allocations", stats.allocs, model->allocs);
    verify_equal(model, index, "frees", stats.frees, model->frees);
    verify_equal(model, index, "failed allocations", stats.fails, model->fails);
    for (unsigned i = 0; i < WEIR_SIZE_CLASSES; i++)
        verify_equal(model, index, "blocks of a size class", stats.by_class[i].current,
                     model->by_class[i]);
    if (stats.allocated.current < stats.requested.current ||
        stats.reserved.current < stats.allocated.current)
        (void)weir_fault_set(&model->fault,
                             "after op %u the pool counts %" PRIu64 " requested, %" PRIu64
                             " allocated and %" PRIu64 " reserved bytes",
                             index + 1, stats.requested.current, stats.allocated.current,
                             stats.reserved.current);
}

/* Only after an allocation, or at the end: the pool keeps the block that was freed last at hand, and
 * a look at the pool makes it put that away, so that the layout would become another. */
static void verify_played(void *self, uint32_t index)
{
    verify_model *model = self;
    const char *why = "no reason given";
    bool last = index + 1 == model->trace->count;
    bool alloc = model->trace->ops[index].kind == WEIR_TRACE_ALLOC;

    model->unchecked++;
    if (model->pool == NULL || !(last || (alloc && model->unchecked >= VERIFY_CHECK_OPS))) return;
    model->unchecked = 0;
    verify_counters(model, index);
    if (weir_check(model->pool, &why) != WEIR_OK)
        (void)weir_fault_set(&model->fault, "after op %u weir_check says: %s", index + 1, why);
}

/* --------------------------------------------------------------------------------------- run -- */

static void verify_clear(verify_model *model)
{
    for (uint32_t slot = 0; slot < model->trace->slots; slot++)
        if (model->blocks[slot].start != 0)
            (void)tdelete(&model->blocks[slot], &model->tree, verify_compare);
    free(model->blocks);
}

bool weir_verify_run(const weir_pass_setup *setup, weir_pass_result *result, weir_fault *fault)
{
    weir_pass_setup pass = *setup;
    verify_model model = {0};
    weir_player_hooks hooks = {&model, verify_allocated, verify_freeing, verify_played};
    bool begun;

    model.trace = setup->trace;
    model.unit_bytes = VERIFY_UNIT_BYTES;
    if (setup->policy == WEIR_PASS_WEIR && setup->conf->pool.unit_bytes != 0)
        model.unit_bytes = setup->conf->pool.unit_bytes;
    model.blocks = calloc(setup->trace->slots, sizeof *model.blocks);
    if (model.blocks == NULL) return weir_fault_set(fault, "not enough memory to verify");
    pass.hooks = &hooks;
    pass.pool = &model.pool;
    pass.oracle = true;
    pass.hashed = true;
    begun = weir_pass_run(&pass, result, fault);
    if (begun && model.fault.text[0] != '\0') {
        result->breach.text[0] = '\0';
        (void)weir_fault_set(&result->breach, "%s", model.fault.text);
    }
    verify_clear(&model);
    return begun;
}
