/* SPDX-License-Identifier: MIT */
/*
 * A pool on the simulated device, large enough for a script and without the device's checks, and a
 * meter between the two that tells what the device's own work took.
 */
#ifndef WEIR_BENCH_RIG_H
#define WEIR_BENCH_RIG_H

#include "fault.h"
#include "meter.h"
#include "sim.h"

#define WEIR_BENCH_STREAMS_MAX 16u

typedef struct weir_bench_rig {
    weir_sim *sim;
    weir_meter meter;
    weir_platform *platform;
    weir_pool *pool;
    uint32_t streams;
    weir_stream stream[WEIR_BENCH_STREAMS_MAX];
} weir_bench_rig;

/* `locked`: callable from several threads; the meter, which is not, is then left out. False: *fault
 * says why, and nothing is open. */
bool weir_bench_rig_open(weir_bench_rig *rig, uint64_t peak_bytes, uint32_t streams, bool locked,
                         weir_fault *fault);

/* All blocks must be freed. False: the pool did not end, and *fault says why. */
bool weir_bench_rig_close(weir_bench_rig *rig, weir_fault *fault);

/* Calls that reached the device since the rig was opened. */
uint64_t weir_bench_rig_calls(const weir_bench_rig *rig);

#endif
