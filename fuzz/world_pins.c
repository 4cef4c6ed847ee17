/* SPDX-License-Identifier: MIT */
/* What lies under pinned blocks: the same physical memory from the first pin to the last unpin. */
#include "sim_internal.h"
#include "world.h"

/* The physical byte under an address, as the simulated device has it. */
static world_place pins_place(const world *of, weir_addr addr)
{
    const weir_sim_mapping *mapping = weir_sim_mapping_at(of->rig.sim, addr);
    FUZZ_SAY(mapping != NULL, "a pinned block is not mapped");
    return (world_place){weir_sim_piece_name(of->rig.sim, mapping->piece), addr - mapping->addr};
}

static uint32_t pins_find(const world *of, weir_addr addr)
{
    uint32_t index = 0;
    while (index < of->pin_count && of->pin[index].addr != addr) index++;
    return index;
}

static void pins_drop(world *of, uint32_t index)
{
    of->pin[index] = of->pin[--of->pin_count];
}

static bool pins_same(world_place a, world_place b)
{
    return a.handle == b.handle && a.offset == b.offset;
}

void weir_world_pins_check(world *of)
{
    for (uint32_t i = 0; i < of->model.count; i++) {
        const model_block *block = &of->model.block[i];
        uint32_t index = pins_find(of, block->addr);
        if (block->pins == 0) {
            if (index < of->pin_count) pins_drop(of, index);
            continue;
        }
        world_place first = pins_place(of, block->addr);
        world_place last = pins_place(of, block->addr + block->bytes - 1);
        if (index == of->pin_count)
            of->pin[of->pin_count++] = (world_pin){block->addr, first, last};
        FUZZ_SAY(pins_same(first, of->pin[index].first), "memory under a pinned block moved");
        FUZZ_SAY(pins_same(last, of->pin[index].last), "memory under a pinned block moved");
    }
}

void weir_world_pins_forget(world *of, weir_addr addr)
{
    uint32_t index = pins_find(of, addr);
    if (index < of->pin_count) pins_drop(of, index);
}
