/* SPDX-License-Identifier: MIT */
/*
 * A pool whose limit is used up by handles that each hold a little that lives: what only a rescue
 * can put right. Granules of 64 KiB; three of sixteen live.
 */
#ifndef WEIR_TEST_SLIVERS_H
#define WEIR_TEST_SLIVERS_H

#include "rig.h"

#define SLIVERS_LIMIT (128 * MIB)
#define SLIVERS_ASK (SLIVERS_LIMIT / 4 * 3)
#define SLIVER (64 * KIB)
#define SLIVERS_MAX 400u

typedef struct slivers {
    sim_rig *rig;
    weir_addr keep[SLIVERS_MAX];
    unsigned count;
} slivers;

/* The limit, the granule and the number of streams of `options` are filled in. */
void weir_slivers_open(slivers *of, rig_options options);
/* Expects that the pool is sound and that every sliver reads as it was written. */
void weir_slivers_verify(slivers *of);
void weir_slivers_close(slivers *of);
/* The same where something may be quarantined. */
void weir_slivers_close_loose(slivers *of);

#endif
