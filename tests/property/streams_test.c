/* SPDX-License-Identifier: MIT */
/* Four streams that stall, lag and end, with uses, foreign frees, domains and changing limits. */
#include "drive.h"

static drive_options streams_options(const char *name, uint64_t seed)
{
    return (drive_options){
        .name = name,
        .seed = seed,
        .steps = 5000,
        .size_bits = 22,
        .stalls = true,
        .limits = true,
        .rig = {.sim = {.memory_bytes = GIB, .granule_bytes = 64 * KIB, .lag_us = 30},
                .streams = 4,
                .short_lived = 10,
                .pool = {.limit_bytes = 64 * MIB, .wait_us = 500}}};
}

Test(property_streams, four_streams)
{
    static drive of;
    drive_options options = streams_options("four streams", 11);
    weir_drive_run(&options, &of);
    if (of.options.steps < options.steps) return;
    cr_expect_gt(of.oom + of.waits, 0);
    cr_expect_gt(of.stats.stream_waits, 0);
    cr_expect_gt(of.stats.pending.peak, 0);
}

Test(property_streams, without_stream_reuse)
{
    static drive of;
    drive_options options = streams_options("without stream reuse", 12);
    options.rig.pool.no_stream_reuse = true;
    weir_drive_run(&options, &of);
}

Test(property_streams, large_handles_and_rescues)
{
    static drive of;
    drive_options options = streams_options("large handles and rescues", 13);
    options.rig.pool.limit_bytes = 256 * MIB;
    options.rig.pool.growth_bytes = 16 * MIB;
    options.size_bits = 25;
    options.stalls = false;
    weir_drive_run(&options, &of);
    if (of.options.steps < options.steps) return;
    cr_expect_gt(of.stats.rescues, 0);
    cr_expect_gt(of.stats.rescued_bytes, 0);
}

Test(property_streams, a_device_that_never_waits)
{
    static drive of;
    drive_options options = streams_options("a device that never waits", 14);
    options.rig.sim.no_event_wait = true;
    options.rig.sim.no_rescue = true;
    options.rig.pool.keep_bytes = 16 * MIB;
    weir_drive_run(&options, &of);
}
