/* SPDX-License-Identifier: MIT */
/*
 * What a pool should hold, kept without cleverness: a list of live blocks, searched end to end.
 *
 * Owns  one entry for each live block: where it lies, what was asked, who may touch it, and the tag
 *       that all its bytes have. Whether bytes are reused too early is judged by the simulated
 *       device, whose record of the order between pieces of work shares nothing with the pool.
 */
#ifndef WEIR_TEST_MODEL_H
#define WEIR_TEST_MODEL_H

#include "rig.h"

#define MODEL_BLOCKS 512u
#define MODEL_ORPHAN UINT32_MAX /* the owner's stream has ended */

typedef struct model_block {
    weir_addr addr;
    uint64_t bytes, requested, tag;
    uint32_t owner; /* stream that allocated it */
    uint32_t users; /* bit i: stream i uses it too */
    uint32_t domain; /* index + 1; 0: the pool itself */
    uint32_t pins;
    bool shared; /* another stream uses it or did so */
} model_block;

typedef struct model {
    model_block block[MODEL_BLOCKS];
    uint32_t count;
} model;

/* Ends the test if the block overlaps one that lives. */
void weir_model_add(model *of, model_block block);
void weir_model_drop(model *of, uint32_t index);

/* Ends the test if a block grew over another. */
void weir_model_alone(const model *of, uint32_t index);

/* Compares the pool's numbers and what it says of each block with the list. */
void weir_model_compare(const model *of, sim_rig *rig);
void weir_model_compare_block(const model_block *block, sim_rig *rig);

#endif
