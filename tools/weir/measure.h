/* SPDX-License-Identifier: MIT */
/* Measures one trace: what `weir replay` reports of it. */
#ifndef WEIR_MEASURE_H
#define WEIR_MEASURE_H

#include "pass.h"

typedef enum weir_verdict { WEIR_NOT_VERIFIED, WEIR_VERIFIED, WEIR_BREACHED } weir_verdict;

/* The passes' own fields (clocked, oracle, hashed, stop_on_failure, hooks, pool) are not read. */
typedef struct weir_measure_setup {
    weir_pass_setup pass;
    bool verify;
    uint64_t predict_bytes; /* memory of the simulated device that shall say beforehand what a real
                               one costs; 0: none */
} weir_measure_setup;

typedef struct weir_result {
    const weir_trace *trace;
    weir_stage_kind kind;
    weir_conf_source source; /* of CUDA memory */
    weir_pass_policy policy;
    char conf[512];            /* the settings in force */
    weir_pass_result cost;     /* of the pass that counts device calls */
    bool predicted;            /* the next is known: */
    weir_pass_result foreseen; /* what the simulator said of the same settings */
    double host_ns_per_op;     /* what the pool itself took */
    bool searched;             /* least_capacity_bytes is known */
    uint64_t least_capacity_bytes;
    weir_verdict verdict;
    weir_fault breach; /* with WEIR_BREACHED */
} weir_result;

/* False: nothing was measured and *fault says why. A breach is a result, not a fault. */
bool weir_measure(const weir_measure_setup *setup, weir_result *result, weir_fault *fault);

#endif
