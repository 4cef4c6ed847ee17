/* SPDX-License-Identifier: MIT */
/*
 * The device on which a trace is played: its streams, its time, and the work that a program would
 * have queued on them. What the program itself asks of the device goes past the meter, since no
 * pool caused it.
 *
 *   stage.c        what all kinds have in common
 *   stage_sim.c    the simulated device
 *   stage_host.c   real memory, real threads
 *   stage_cuda.c   a CUDA device
 */
#ifndef WEIR_STAGE_H
#define WEIR_STAGE_H

#include "conf.h"
#include "fault.h"
#include "sim.h"

typedef enum weir_stage_kind { WEIR_STAGE_SIM, WEIR_STAGE_HOST, WEIR_STAGE_CUDA } weir_stage_kind;

/* The kind as --backend and JSON name it. */
const char *weir_stage_name(weir_stage_kind kind);
/* The source of CUDA memory as WEIR_CONF names it. */
const char *weir_stage_source(weir_conf_source source);

typedef struct weir_stage_setup {
    weir_stage_kind kind;
    uint32_t streams;
    uint64_t memory_bytes; /* 0: the device's default; a CUDA device has what it has */
    uint64_t lag_us;       /* simulator only */
    bool segments;         /* no virtual memory; a CUDA device goes by conf->source */
    bool oracle;           /* check all work; on real memory, do it */
    int device;            /* CUDA: the ordinal */
    const weir_conf *conf; /* CUDA: source and release threshold, unresolved; NULL: the defaults */
} weir_stage_setup;

typedef struct weir_stage weir_stage;

/*
 * What a kind of device does for the stage. `real` is its own part, which open sets and shut frees;
 * shut is also called after an open that failed half way.
 */
typedef struct weir_stage_calls {
    bool (*open)(weir_stage *stage, weir_fault *fault); /* ops, self, and all streams */
    bool (*write)(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes, uint64_t tag);
    bool (*read)(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes, uint64_t tag);
    void (*settle)(weir_stage *stage);         /* all work ends; what it found is a breach */
    const char *(*balance)(weir_stage *stage); /* NULL: all is given back */
    void (*shut)(weir_stage *stage);
} weir_stage_calls;

extern const weir_stage_calls weir_stage_sim, weir_stage_host, weir_stage_cuda;

struct weir_stage {
    weir_stage_setup setup;
    const weir_stage_calls *calls;
    const weir_device_ops *ops;
    void *self;
    weir_sim *sim;     /* of the simulated kind, whose time is set and whose table counts */
    void *real;        /* of the others */
    uint64_t *natives; /* by stream */
    uint64_t *uniques;
    weir_event event;  /* the program's own, for its waits between streams */
    uint64_t set_us;   /* the trace's time last set */
    weir_fault breach; /* the first breach of the device's contract */
};

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
