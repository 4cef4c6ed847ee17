/* SPDX-License-Identifier: MIT */
/*
 * Plays a trace through a contestant: timed, call by call, or to see whether it completes under a
 * cap. Every run begins with an empty allocator and an idle device.
 */
#ifndef RACER_PLAY_H
#define RACER_PLAY_H

#include "racer_gpu.h"
#include "racer_trace.h"

typedef struct racer_stage {
    racer_gpu *gpu;
    const racer_contestant *contestant;
    void *self;
    const racer_trace *trace;
    uint64_t *addrs;      /* by slot; 0: not live */
    racer_counts *counts; /* NULL, or where the meter's counts go at the end of the loop */
} racer_stage;

typedef struct racer_run {
    uint64_t loop_ns;
    uint32_t ops;   /* played */
    bool completed; /* all of them, within the cap, and the contestant reports no fault */
    uint64_t reserved_peak_bytes, reserved_end_bytes; /* as the contestant says */
    uint64_t device_end_bytes; /* as the device says, at the end of the loop */
} racer_run;

typedef struct racer_latency {
    double p50_ns, p99_ns, p999_ns, worst_ns;
    uint32_t worst_op; /* from 1 */
} racer_latency;

/* The contestant that does nothing: what the loop itself takes. Needs no open. */
extern const racer_contestant racer_nobody;

/* Makes the table of addresses for a trace. */
bool racer_stage_open(racer_stage *stage, racer_why *why);
void racer_stage_close(racer_stage *stage);

/* Resets, plays, takes the figures, frees what is live. False: the contestant did not reset or
 * showed a fault, and *why tells. A run that ends for want of memory is no fault. */
bool racer_play(racer_stage *stage, uint64_t cap_bytes, racer_run *run, racer_why *why);

/* The shortest of `times` empty loops, in ns. */
uint64_t racer_play_empty(racer_stage *stage, int times);

/* As racer_play without a cap, with a look at the clock before and after each call; from each
 * figure goes what the same costs with nobody. False: see racer_play; or memory is short. */
bool racer_play_latency(racer_stage *stage, racer_latency *latency, racer_why *why);

typedef struct racer_search {
    uint64_t roomy_bytes; /* what a run without a cap held */
    uint64_t step_bytes;  /* how fine */
    uint64_t deadline_ns; /* on racer_clock_ns: no further run begins after it */
    uint64_t least_bytes; /* found: the least cap that completed; 0: none did */
    uint64_t below_bytes; /* found: the largest below it that did not, or cannot */
    uint32_t runs;
} racer_search;

/* Halves between the peak requested, below which nothing completes, and roomy_bytes. */
bool racer_play_search(racer_stage *stage, racer_search *search, racer_why *why);

#endif
