/* SPDX-License-Identifier: MIT */
/* What `weir replay` and `weir bench release-threshold` were asked for. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "pass.h"

typedef enum weir_options_verb { WEIR_OPTIONS_REPLAY, WEIR_OPTIONS_THRESHOLD } weir_options_verb;

typedef struct weir_options {
    weir_options_verb verb;
    weir_stage_kind kind;
    int device; /* CUDA: the ordinal */
    weir_pass_policy policy;
    weir_conf conf;
    uint64_t capacity_bytes;      /* 0: none */
    uint64_t capacity_millionths; /* of the trace's peak, 0: none */
    uint64_t lag_us;
    uint64_t scale;
    uint64_t every_us; /* of the trace's time between two finishes */
    const char *peers; /* a path, or NULL */
    bool find_capacity, json, summary, verify;
    char **paths; /* of the traces */
    int paths_count;
} weir_options;

/* Reads the arguments (argv[0] is the verb) and, where --conf is not given, WEIR_CONF. False:
 * *fault says what is wrong and what to do. */
bool weir_options_read(weir_options *options, weir_options_verb verb, int argc, char **argv,
                       weir_fault *fault);

/* The capacity for one trace, 0: none; a multiple of the trace's peak that passes 64 bits is their
 * most. */
uint64_t weir_options_capacity(const weir_options *options, const weir_trace *trace);

/* What --device says: an ordinal of up to nine digits. */
bool weir_options_device(const char *word, int *device, weir_fault *fault);

#endif
