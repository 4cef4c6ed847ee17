/* SPDX-License-Identifier: MIT */
/* Device calls and host memory fail at random: nothing that lives is lost, and all goes back. */
#include "drive.h"

static drive_options faults_options(const char *name, uint64_t seed)
{
    return (drive_options){
        .name = name,
        .seed = seed,
        .steps = 5000,
        .size_bits = 22,
        .limits = true,
        .faults = true,
        .rig = {.sim = {.memory_bytes = GIB, .granule_bytes = 64 * KIB, .lag_us = 30},
                .streams = 3,
                .short_lived = 4,
                .pool = {.limit_bytes = 64 * MIB, .wait_us = 500}}};
}

Test(property_faults, the_device_fails)
{
    static drive of;
    drive_options options = faults_options("the device fails", 31);
    weir_drive_run(&options, &of);
}

Test(property_faults, the_device_fails_under_stalls_with_large_handles)
{
    static drive of;
    drive_options options = faults_options("the device fails under stalls", 32);
    options.stalls = true;
    options.size_bits = 24;
    options.rig.pool.limit_bytes = 128 * MIB;
    options.rig.pool.growth_bytes = 8 * MIB;
    weir_drive_run(&options, &of);
}

Test(property_faults, host_memory_fails)
{
    static drive of;
    drive_options options = faults_options("host memory fails", 33);
    options.faults = false;
    options.short_of_host = true;
    weir_drive_run(&options, &of);
}
