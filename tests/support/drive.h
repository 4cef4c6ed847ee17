/* SPDX-License-Identifier: MIT */
/*
 * Random calls on a pool, each checked: by the device's own watch over every byte, by the list of
 * live blocks, and by weir_check.
 *
 * What an application must do is done here too: a stream that touches another's block waits for the
 * work before, and a stream's work has ended before the stream does.
 */
#ifndef WEIR_TEST_DRIVE_H
#define WEIR_TEST_DRIVE_H

#include "model.h"
#include "random.h"

#define DRIVE_DOMAINS 3u

typedef struct drive_options {
    const char *name;
    uint64_t seed;
    uint64_t steps;
    rig_options rig;
    uint32_t size_bits;   /* of the largest requests */
    bool stalls;          /* streams stop and go on */
    bool faults;          /* device calls fail now and then */
    bool short_of_host;   /* host memory too */
    bool limits;          /* the limit changes */
    bool no_resize, no_pins, no_domains, no_retire;
} drive_options;

typedef struct drive {
    drive_options options;
    sim_rig *rig;
    model model;
    uint64_t state;
    uint64_t step;
    uint64_t tag;
    weir_event event; /* of the driver's own, for the order between streams */
    weir_domain domain[DRIVE_DOMAINS];
    uint32_t stalled;
    uint64_t oom, allocs, waits; /* how often calls failed for want of memory, or worked */
    weir_stats stats;            /* before the end */
} drive;

/* Runs all steps from WEIR_TEST_SEED or the options' seed and ends the pool. Prints what is needed
 * to run it again. */
void weir_drive_run(const drive_options *options, drive *of);

#endif
