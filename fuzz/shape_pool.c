/* SPDX-License-Identifier: MIT */
/* Shape of the pool target: operations that come in pairs. */
#include "shapes.h"

/* Pairs of operations: the first byte of each lies in the middle of its weight. */
enum {
    OP_ALLOC = 25,
    OP_ALLOC_ON = 62,
    OP_FREE = 100,
    OP_USE = 148,
    OP_RESIZE = 170,
    OP_STALL = 184,
    OP_TRIM = 199,
    OP_LIMIT = 211,
    OP_END = 216,
    OP_FAULT = 232,
    OP_NEST = 248
};

static const uint8_t pool_idioms[] = {
    OP_ALLOC,    0,   128, 0, 0,   OP_FREE,     255, 0,   0,    0, /* a block and its end */
    OP_STALL,    0,   0,   0, 0,   OP_ALLOC,    0,   160, 0,    0, /* behind a stream that stands */
    OP_USE,      255, 200, 0, 0,   OP_FREE,     255, 0,   0,    0, /* freed with two uses */
    OP_FAULT,    64,  0,   0, 0,   OP_ALLOC,    0,   192, 0,    0, /* growth that fails */
    OP_FAULT,    90,  0,   0, 0,   OP_FAULT,    112, 0,   0,    0, /* and cannot be undone */
    OP_NEST,     0,   1,   0, 0,   OP_ALLOC,    0,   192, 0,    0, /* another thread gets in */
    OP_FREE,     255, 0,   0, 128, OP_ALLOC_ON, 128, 128, 0,    0, /* freed last, asked for again */
    OP_TRIM,     0,   0,   0, 0,   OP_ALLOC,    0,   192, 0,    0, /* from nothing again */
    OP_LIMIT,    12,  0,   0, 0,   OP_ALLOC,    0,   192, 0,    0, /* under pressure */
    OP_END,      128, 2,   0, 0,   OP_FREE,     255, 128, 0,    0, /* a block without an owner */
    OP_RESIZE,   255, 200, 0, 0,   OP_RESIZE,   255, 64,  0,    0, /* longer and shorter */
    OP_ALLOC_ON, 128, 128, 0, 0,   OP_FREE,     255, 255, 0xC0, 0, /* freed elsewhere */
};

const fuzz_shape weir_fuzz_shape = {.head = WORLD_HEAD,
                                    .record = POOL_RECORD,
                                    .words = "",
                                    .idioms = pool_idioms,
                                    .idioms_count = sizeof pool_idioms / (2 * POOL_RECORD),
                                    .idiom_records = 2};
