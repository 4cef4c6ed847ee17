/* SPDX-License-Identifier: MIT */
/*
 * A second reader of trace text, slow and without shared code: what tools/weir must say too.
 * Every block ever allocated stays in a list that is searched from end to end.
 */
#ifndef WEIR_FUZZ_TRACE_SECOND_H
#define WEIR_FUZZ_TRACE_SECOND_H

#include "trace.h"

#include <stddef.h>

#define SECOND_OPS 512u

typedef struct second_op {
    uint64_t id, bytes, stream, time_us;
    char kind;
    uint32_t block; /* the op that allocated it */
} second_op;

typedef struct trace_second {
    second_op op[SECOND_OPS];
    uint32_t count;
    uint32_t line; /* where it stopped being a trace */
    bool good;
    uint64_t peak;
} trace_second;

void weir_second_read(trace_second *of, const uint8_t *text, size_t size);
/* Ends the process where the trace is not what this reader has read. */
void weir_second_compare(const trace_second *of, const weir_trace *trace);
/* Ends the process where a trace contradicts itself. */
void weir_second_sound(const weir_trace *trace);

#endif
