/* SPDX-License-Identifier: MIT */
/* One stream on a small device: placement, moves and rescues under pressure. */
#include "drive.h"

static drive_options single_options(const char *name, uint64_t seed)
{
    return (drive_options){
        .name = name,
        .seed = seed,
        .steps = 5000,
        .size_bits = 23,
        .rig = {.sim = {.memory_bytes = GIB, .granule_bytes = 64 * KIB, .lag_us = 5},
                .pool = {.limit_bytes = 64 * MIB, .wait_us = 1000}}};
}

Test(property_single, a_small_device)
{
    static drive of;
    drive_options options = single_options("a small device", 1);
    weir_drive_run(&options, &of);
    if (of.options.steps < options.steps) return;
    cr_expect_gt(of.allocs, 500);
    cr_expect_gt(of.oom, 0);
    cr_expect_gt(of.stats.moved_handles, 0);
}

Test(property_single, large_growth)
{
    static drive of;
    drive_options options = single_options("large growth", 2);
    options.rig.pool.growth_bytes = 16 * MIB;
    options.rig.pool.limit_bytes = 128 * MIB;
    options.rig.pool.max_split_bytes = 4 * MIB;
    options.rig.pool.roundup_divisions[0] = 4;
    options.rig.pool.roundup_divisions[1] = 8;
    weir_drive_run(&options, &of);
}

Test(property_single, without_moves_and_rescue)
{
    static drive of;
    drive_options options = single_options("without moves and rescue", 3);
    options.rig.pool.no_moves = true;
    options.rig.pool.no_rescue = true;
    weir_drive_run(&options, &of);
}

Test(property_single, small_units_and_arenas)
{
    static drive of;
    drive_options options = single_options("small units and arenas", 4);
    options.rig.pool.unit_bytes = 64;
    options.rig.pool.va_bytes = 8 * MIB;
    options.limits = true;
    weir_drive_run(&options, &of);
}
