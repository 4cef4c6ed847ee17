/* SPDX-License-Identifier: MIT */
/*
 * What a release threshold costs and holds on a trace.
 *
 * The trace is replayed on segments with a weir_finish, where a program would synchronise, every so
 * many microseconds of its time: what is held above the threshold and free then goes back to the
 * device. With source:async the driver's pool keeps nothing above the threshold either, so what
 * Weir gives back reaches the device.
 */
#ifndef WEIR_THRESHOLD_H
#define WEIR_THRESHOLD_H

#include "pass.h"

enum { WEIR_THRESHOLDS = 9 };

/* A finish gives nothing back. */
#define WEIR_THRESHOLD_NONE UINT64_MAX

typedef struct weir_threshold_row {
    const char *name; /* the part of the trace's peak */
    uint64_t bytes;   /* whole MiB, or WEIR_THRESHOLD_NONE */
    weir_pass_result cost;
    double host_ns_per_op;
    double driver_ns_per_op;
} weir_threshold_row;

typedef struct weir_threshold {
    const weir_trace *trace;
    weir_stage_kind kind;
    weir_conf_source source; /* of CUDA memory */
    uint64_t every_us;
    uint64_t finishes;
    weir_threshold_row row[WEIR_THRESHOLDS]; /* by rising threshold */
    unsigned recommended;                    /* one of the rows */
    weir_fault breach; /* the first of all passes; the rest is not to be used then */
} weir_threshold;

/* Measures `setup` (its trace, kind, device and conf; policy is the pool). False: nothing was
 * measured and *fault says why. */
bool weir_threshold_measure(const weir_pass_setup *setup, uint64_t every_us, weir_threshold *result,
                            weir_fault *fault);

/* The least threshold whose cost, host and driver together, is at most 5 % above the cheapest. */
unsigned weir_threshold_recommend(const weir_threshold_row row[WEIR_THRESHOLDS]);

#endif
