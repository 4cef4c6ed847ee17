/* SPDX-License-Identifier: MIT */
/* model: see model.h. */
#include "model.h"

static bool model_apart(const model_block *a, const model_block *b)
{
    return a->addr + a->bytes <= b->addr || b->addr + b->bytes <= a->addr;
}

void weir_model_alone(const model *of, uint32_t index)
{
    const model_block *block = &of->block[index];
    for (uint32_t i = 0; i < of->count; i++)
        cr_assert(i == index || model_apart(&of->block[i], block),
                  "%llx+%llx overlaps %llx+%llx", (unsigned long long)block->addr,
                  (unsigned long long)block->bytes, (unsigned long long)of->block[i].addr,
                  (unsigned long long)of->block[i].bytes);
}

void weir_model_add(model *of, model_block block)
{
    cr_assert_lt(of->count, MODEL_BLOCKS);
    of->block[of->count++] = block;
    weir_model_alone(of, of->count - 1);
}

void weir_model_drop(model *of, uint32_t index)
{
    of->block[index] = of->block[--of->count];
}

void weir_model_compare(const model *of, sim_rig *rig)
{
    uint64_t requested = 0, allocated = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        requested += of->block[i].requested;
        allocated += of->block[i].bytes;
    }
    weir_stats stats = weir_rig_stats(rig);
    cr_assert_eq(stats.requested.current, requested);
    cr_assert_eq(stats.allocated.current, allocated);
    cr_assert_eq(stats.blocks.current, of->count);
    cr_assert_geq(stats.reserved.current, allocated);
}

void weir_model_compare_block(const model_block *block, sim_rig *rig)
{
    weir_block found = weir_rig_find(rig, block->addr + block->bytes / 2);
    cr_assert_eq(found.addr, block->addr);
    cr_assert_eq(found.bytes, block->bytes);
    cr_assert_eq(found.requested_bytes, block->requested);
    cr_assert_eq(found.pins, block->pins);
    cr_assert_eq(found.domain != 0, block->domain != 0);
    cr_assert(found.live && found.mapped && !found.pending);
}
