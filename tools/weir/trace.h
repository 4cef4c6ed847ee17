/* SPDX-License-Identifier: MIT */
/*
 * A trace: every allocation and free of one run of a program, in order. As a file:
 *
 *     # op,id,bytes,stream,time_us
 *     a,17,1048576,0,5310      block 17 is allocated: bytes asked for, stream, microseconds
 *     f,17,1048576,0,6120      its owner let go of it
 *     c,17,1048576,0,6900      after f only: its last use on another stream has ended
 *
 * plain, or compressed with gzip or zstd. Lines that begin with # are comments. A stream's number
 * is decimal or, behind 0x, hexadecimal. PyTorch's memory snapshots and RMM's logs are read as well
 * (foreign.h). In memory ids are slots (used again after the block's last
 * line) and streams count from 0 in the order in which they appear.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <stdint.h>

#include "fault.h"

#define WEIR_TRACE_STREAMS_MAX 1024u

typedef enum weir_trace_kind { WEIR_TRACE_ALLOC, WEIR_TRACE_FREE, WEIR_TRACE_DONE } weir_trace_kind;

typedef struct weir_trace_op {
    uint64_t bytes;
    uint64_t time_us;
    uint64_t until_us; /* FREE with `side`: when the use on another stream ends */
    uint32_t slot;
    uint16_t stream;
    uint8_t kind;
    bool side; /* FREE: a DONE line follows */
} weir_trace_op;

typedef struct weir_trace {
    char *name; /* the file's name without folder and endings */
    weir_trace_op *ops;
    uint32_t count;
    uint32_t slots;
    uint32_t streams;
    bool side_uses;                /* any FREE has `side` */
    uint64_t peak_requested_bytes; /* UINT64_MAX also where it is more than that */
} weir_trace;

/* Reads a file ("-": standard input). False: *trace is empty and *fault names file, line and
 * reason: wrong fields, an unknown op, an id that is not as the op needs it, bytes or a stream
 * other than those of the block, time that goes back, a cut file, no op at all. O(bytes of the
 * file). */
bool weir_trace_read(const char *path, weir_trace *trace, weir_fault *fault);

/* Divides all sizes by `scale`, rounding up. */
void weir_trace_scale(weir_trace *trace, uint64_t scale);

void weir_trace_free(weir_trace *trace);

#endif
