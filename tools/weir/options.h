/* SPDX-License-Identifier: MIT */
/* What `weir replay` was asked for. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include "pass.h"

typedef struct weir_options {
    weir_stage_kind kind;
    weir_pass_policy policy;
    weir_conf conf;
    uint64_t capacity_bytes;      /* 0: none */
    uint64_t capacity_millionths; /* of the trace's peak, 0: none */
    uint64_t lag_us;
    uint64_t scale;
    const char *peers; /* a path, or NULL */
    bool find_capacity, json, summary, verify;
    char **paths; /* of the traces */
    int paths_count;
} weir_options;

/* Reads the arguments (argv[0] is the verb) and, where --conf is not given, WEIR_CONF. False:
 * *fault says what is wrong and what to do. */
bool weir_options_read(weir_options *options, int argc, char **argv, weir_fault *fault);

#endif
