/* SPDX-License-Identifier: MIT */
/*
 * Writes a synthetic trace: hands out block numbers, lets time pass, and puts each line where its
 * time is. Everything follows from the seed by integer arithmetic, so every machine writes the same
 * bytes.
 */
#ifndef WEIR_WORKLOAD_H
#define WEIR_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fault.h"

typedef struct weir_workload_block {
    uint64_t id; /* 0: none */
    uint64_t bytes;
    uint32_t stream;
} weir_workload_block;

typedef struct weir_workload_late {
    weir_workload_block block;
    uint64_t time_us;
} weir_workload_late;

typedef struct weir_workload {
    FILE *out;
    uint64_t random;
    uint64_t time_us;
    uint64_t last_id;
    uint64_t lines; /* a, f and c */
    uint64_t lines_wanted;
    weir_workload_late *late; /* c lines to come, by time */
    size_t late_count, late_room;
    weir_fault fault;
} weir_workload;

/* Puts the heading; `kind` is named in it. */
void weir_workload_init(weir_workload *load, FILE *out, const char *kind, uint64_t seed,
                        uint64_t lines_wanted);
/* Writes the c lines still to come. False: *load holds the fault. */
bool weir_workload_fini(weir_workload *load);

/* Whether enough is written, or writing has failed. */
bool weir_workload_full(const weir_workload *load);

/* A number from `low` to `high`, each as likely. */
uint64_t weir_workload_pick(weir_workload *load, uint64_t low, uint64_t high);
/* A size of `low_bytes` to `high_bytes`, each doubling about as likely, in steps of 64 or finer. */
uint64_t weir_workload_size(weir_workload *load, uint64_t low_bytes, uint64_t high_bytes);

void weir_workload_pass(weir_workload *load, uint64_t us);

/* Each lets a few microseconds pass first. A block of a failed workload may be used all the
 * same. */
weir_workload_block weir_workload_alloc(weir_workload *load, uint64_t bytes, uint32_t stream);
void weir_workload_free(weir_workload *load, weir_workload_block *block);
/* As above; a use on another stream ends `more_us` later. */
void weir_workload_free_late(weir_workload *load, weir_workload_block *block, uint64_t more_us);

#endif
