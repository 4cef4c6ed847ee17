/* SPDX-License-Identifier: MIT */
/*
 * The device on which a trace is played: its streams, its time, and the work that a program would
 * have queued on them. What the program itself asks of the device goes past the meter, since no
 * pool caused it.
 */
#ifndef WEIR_STAGE_H
#define WEIR_STAGE_H

#include "fault.h"
#include "host.h"
#include "sim.h"

typedef enum weir_stage_kind { WEIR_STAGE_SIM, WEIR_STAGE_HOST } weir_stage_kind;

typedef struct weir_stage_setup {
    weir_stage_kind kind;
    uint32_t streams;
    uint64_t memory_bytes; /* 0: the device's default */
    uint64_t lag_us;       /* simulator only */
    bool segments;         /* no virtual memory */
    bool oracle;           /* check all work; on real memory, do it */
} weir_stage_setup;

typedef struct weir_stage {
    weir_stage_setup setup;
    const weir_device_ops *ops;
    void *self;
    weir_sim *sim;     /* one of the two, */
    weir_host *host;   /* by setup.kind */
    uint64_t *natives; /* by stream */
    uint64_t *uniques;
    weir_event event;  /* the program's own, for its waits between streams */
    uint64_t set_us;   /* the trace's time last set */
    weir_fault breach; /* the first breach of the device's contract */
} weir_stage;

/* False: nothing is left open and *fault says why. The stage may not be copied or moved. */
bool weir_stage_open(weir_stage *stage, const weir_stage_setup *setup, weir_fault *fault);

/* Ends the program's part. A device that is not given back whole becomes the breach, unless there
 * is one. */
void weir_stage_close(weir_stage *stage);

/* Moves to the trace's time `time_us`. */
static inline void weir_stage_time(weir_stage *stage, uint64_t time_us)
{
    stage->set_us = time_us;
    if (stage->sim != NULL) weir_sim_time_set(stage->sim, time_us);
}

/* Queues work that fills the range with `tag`, or that must find it there. Without the oracle the
 * simulator's queues grow all the same, and real memory is left alone. */
void weir_stage_write(weir_stage *stage, uint32_t stream, weir_addr addr, uint64_t bytes,
                      uint64_t tag);
void weir_stage_read(weir_stage *stage, uint32_t stream, weir_addr addr, uint64_t bytes,
                     uint64_t tag);

/* Queues a reading use on `side`, after what `owner` has queued; in simulated time it ends at
 * `until_us` of the trace or later. */
void weir_stage_side(weir_stage *stage, uint32_t owner, uint32_t side, uint64_t until_us,
                     weir_addr addr, uint64_t bytes, uint64_t tag);

#endif
