/* SPDX-License-Identifier: MIT */
/* A device that is full, under a pool without a limit. */
#include "rig.h"

#define FULL_BLOCKS 800u
#define FULL_GRANULE (64 * KIB)

static weir_addr full_addr[FULL_BLOCKS];

/* Slivers of one granule that live, with three behind each that do not. */
static unsigned full_slivers(sim_rig *rig, uint64_t bytes)
{
    unsigned count = 0;
    while (weir_rig_stats(rig).allocated.current < bytes && count + 1 < FULL_BLOCKS) {
        full_addr[count++] = weir_rig_alloc(rig, 0, FULL_GRANULE);
        full_addr[count++] = weir_rig_alloc(rig, 0, 3 * FULL_GRANULE);
        weir_rig_write(rig, 0, full_addr[count - 2], FULL_GRANULE, count);
    }
    for (unsigned i = 1; i < count; i += 2) weir_rig_free(rig, 0, full_addr[i]);
    return count;
}

static void full_close(sim_rig *rig, unsigned count)
{
    for (unsigned i = 0; i < count; i += 2) {
        weir_rig_read(rig, 0, full_addr[i], FULL_GRANULE, i + 2);
        weir_rig_free(rig, 0, full_addr[i]);
    }
    weir_rig_close(rig);
}

/* The device's own end is the bound: what a rescue wins stays with the pool. */
Test(full, a_rescue_without_a_limit)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.granule_bytes = FULL_GRANULE, .memory_bytes = 64 * MIB}});
    unsigned count = full_slivers(rig, 62 * MIB);
    weir_addr large = weir_rig_alloc(rig, 0, 44 * MIB);
    weir_rig_write(rig, 0, large, 44 * MIB, 9);
    cr_expect_gt(weir_rig_stats(rig).rescues, 0);
    cr_expect_eq(weir_rig_stats(rig).limit_bytes, WEIR_NO_LIMIT);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, large);
    full_close(rig, count);
}
