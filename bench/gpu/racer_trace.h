/* SPDX-License-Identifier: MIT */
/*
 * A trace made ready for a race: everything that can be worked out beforehand is, so that the timed
 * loop makes only the calls.
 *
 * The file is that of `weir replay` (op,id,bytes,stream,time_us), plain, or gzip where the program
 * was built with zlib. Streams count from 0 in the order in which they appear. A block with a c
 * line, which was in use elsewhere when its owner let go of it, is used by the neighbouring stream
 * right before its free, as `weir replay` does it.
 */
#ifndef RACER_TRACE_H
#define RACER_TRACE_H

#include "racer.h"

typedef enum racer_step { RACER_ALLOC, RACER_FREE, RACER_USE_FREE } racer_step;

typedef struct racer_op {
    uint64_t bytes;
    uint32_t slot; /* where the block's address is kept; used again after its free */
    uint8_t step;
    uint8_t stream;
    uint8_t side; /* of RACER_USE_FREE */
    uint8_t spare;
} racer_op;

typedef struct racer_trace {
    char name[64];  /* the file's, without folder and endings */
    racer_op *ops;  /* a and f lines */
    uint32_t count; /* of them */
    uint32_t lines; /* c lines too: what ns per operation are counted by */
    uint32_t calls; /* count and uses */
    uint32_t slots;
    uint32_t streams;
    uint64_t peak_requested_bytes;
} racer_trace;

/* False: *trace is empty and *why names file, line and reason. */
bool racer_trace_read(const char *path, racer_trace *trace, racer_why *why);
void racer_trace_free(racer_trace *trace);

#endif
