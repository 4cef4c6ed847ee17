/* SPDX-License-Identifier: MIT */
/*
 * A small trace in memory: waves of blocks that are allocated one after the other and then freed,
 * with a pause behind each, as steps of a program that ends them with a synchronisation. Blocks go
 * round the streams; on more than one stream each wave's last block is still used elsewhere when it
 * is freed.
 */
#ifndef WEIR_WAVES_H
#define WEIR_WAVES_H

#include "trace.h"

#include <string.h>

#define WAVES 6u
#define WAVES_BLOCKS 8u
#define WAVES_OPS (WAVES * WAVES_BLOCKS * 2)
#define WAVES_BLOCK_BYTES (UINT64_C(4) << 20)
#define WAVES_PEAK_BYTES (WAVES_BLOCKS * WAVES_BLOCK_BYTES)
#define WAVES_PAUSE_US UINT64_C(200000)

typedef struct waves {
    weir_trace trace; /* not to be freed */
    weir_trace_op ops[WAVES_OPS];
    char name[8];
} waves;

static inline void waves_fill(waves *self, uint16_t streams)
{
    uint64_t time_us = 1000;

    memset(self, 0, sizeof *self);
    memcpy(self->name, "waves", sizeof "waves");
    for (uint32_t i = 0; i < WAVES_OPS; i++) {
        weir_trace_op *op = &self->ops[i];
        uint32_t step = i % (2 * WAVES_BLOCKS), block = step % WAVES_BLOCKS;
        time_us += i > 0 && step == 0 ? WAVES_PAUSE_US : 100;
        op->kind = step < WAVES_BLOCKS ? WEIR_TRACE_ALLOC : WEIR_TRACE_FREE;
        op->bytes = WAVES_BLOCK_BYTES;
        op->time_us = time_us;
        op->slot = block;
        op->stream = (uint16_t)(block % streams);
        op->side = streams > 1 && step == 2 * WAVES_BLOCKS - 1;
        op->until_us = op->side ? time_us + 50 : 0;
    }
    self->trace = (weir_trace){.name = self->name,
                               .ops = self->ops,
                               .count = WAVES_OPS,
                               .slots = WAVES_BLOCKS,
                               .streams = streams,
                               .side_uses = streams > 1,
                               .peak_requested_bytes = WAVES_PEAK_BYTES};
}

#endif
