/* SPDX-License-Identifier: MIT */
/* Shape of the pages target: operations that come in pairs, with patterns of failures. */
#include "shapes.h"

/* Pairs of operations: the first byte of each lies in the middle of its weight. */
enum { OP_ALLOC = 45, OP_FREE = 125, OP_RESIZE = 170, OP_TRIM = 206, OP_LIMIT = 234 };

static const uint8_t pages_idioms[] = {
    OP_ALLOC,  0,   160, 0, 0, 0, OP_FREE,   0,   0,   0, 0,  0, /* made, freed */
    OP_ALLOC,  0,   200, 0, 2, 0, OP_ALLOC,  0,   200, 0, 0,  0, /* the map fails; tried again */
    OP_ALLOC,  0,   200, 0, 4, 0, OP_ALLOC,  0,   200, 0, 12, 0, /* access; and its undoing */
    OP_TRIM,   0,   0,   0, 1, 0, OP_TRIM,   0,   0,   0, 2,  0, /* unmap, then release */
    OP_LIMIT,  20,  0,   0, 0, 0, OP_ALLOC,  0,   200, 0, 0,  0, /* under pressure */
    OP_FREE,   128, 0,   0, 0, 0, OP_ALLOC,  0,   220, 0, 8,  0, /* moves that fail */
    OP_RESIZE, 255, 220, 0, 6, 0, OP_RESIZE, 255, 100, 0, 0,  0, /* longer, shorter */
};

const fuzz_shape weir_fuzz_shape = {.head = WORLD_HEAD,
                                    .record = PAGES_RECORD,
                                    .words = "",
                                    .idioms = pages_idioms,
                                    .idioms_count = sizeof pages_idioms / (2 * PAGES_RECORD),
                                    .idiom_records = 2};
