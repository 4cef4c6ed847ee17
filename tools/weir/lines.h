/* SPDX-License-Identifier: MIT */
/* Lines of a trace that are being made from another program's record. */
#ifndef WEIR_LINES_H
#define WEIR_LINES_H

#include <stdint.h>

#include "idmap.h"
#include "text.h"

/* Zero is no line yet. Failures stay until weir_lines_end. */
typedef struct weir_lines {
    char *data;
    size_t bytes, room;
    uint64_t time_us;               /* of the last line */
    uint32_t ids;                   /* given so far */
    weir_idmap live;                /* a block's number by its address */
    struct weir_lines_block *block; /* by number */
    size_t block_room;
    bool failed;
} weir_lines;

/* A block comes to be at `addr`; one that is there already has gone unseen. Time never goes back:
 * records of several threads are in no strict order. */
void weir_lines_alloc(weir_lines *lines, uint64_t addr, uint64_t bytes, uint64_t stream,
                      uint64_t time_us);

/* Its owner lets go of it; false: no such block is live. */
bool weir_lines_free(weir_lines *lines, uint64_t addr, uint64_t time_us);

/* Its last use has ended, some time after its owner let go of it. */
void weir_lines_done(weir_lines *lines, uint64_t addr, uint64_t time_us);

/* Hands the lines over; false where memory was short. Frees everything else. */
bool weir_lines_end(weir_lines *lines, weir_text *text);

#endif
