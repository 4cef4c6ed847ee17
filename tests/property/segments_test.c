/* SPDX-License-Identifier: MIT */
/* The same calls on a device without virtual memory. */
#include "drive.h"

static drive_options segments_options(const char *name, uint64_t seed)
{
    return (drive_options){.name = name,
                           .seed = seed,
                           .steps = 5000,
                           .size_bits = 22,
                           .limits = true,
                           .rig = {.sim = {.memory_bytes = GIB,
                                           .granule_bytes = 64 * KIB,
                                           .lag_us = 30,
                                           .no_virtual = true},
                                   .streams = 3,
                                   .short_lived = 2,
                                   .pool = {.limit_bytes = 64 * MIB, .wait_us = 500}}};
}

Test(property_segments, three_streams)
{
    static drive of;
    drive_options options = segments_options("three streams on segments", 21);
    options.stalls = true;
    weir_drive_run(&options, &of);
}

Test(property_segments, small_segments_that_fail)
{
    static drive of;
    drive_options options = segments_options("small segments that fail", 22);
    options.rig.sim.handle_bytes_max = 2 * MIB;
    options.faults = true;
    weir_drive_run(&options, &of);
}
