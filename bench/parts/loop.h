/* SPDX-License-Identifier: MIT */
/* Runs a script on a pool and measures its rounds. */
#ifndef WEIR_BENCH_LOOP_H
#define WEIR_BENCH_LOOP_H

#include "rig.h"
#include "script.h"

typedef struct weir_bench_result {
    char name[64];
    uint32_t threads;
    uint64_t live_blocks;  /* at the end of a round; of a trace: the most at once */
    uint64_t ops;          /* allocations and frees that were measured, of all rounds */
    double ns_per_op;      /* the pool's own, device calls and loop taken away; of a thread */
    double pairs_per_s;    /* of all threads together; 0: not measured */
    uint64_t device_calls; /* that the measured ops made */
} weir_bench_result;

/* A thread's place in a script: its stream and the addresses of its slots. */
typedef struct weir_bench_player {
    weir_pool *pool; /* NULL: the loop alone */
    weir_stream stream;
    weir_addr *addrs;
    weir_status status; /* the first that was not OK */
} weir_bench_player;

/* Plays steps [first, end) until a call fails. */
void weir_bench_play(weir_bench_player *player, const weir_bench_script *script, uint64_t first,
                     uint64_t end);

/* Frees what is live. */
void weir_bench_clear(weir_bench_player *player, uint32_t slots);

/* One thread. With `probed` no time is taken and a profiler sees the rounds as one part, `name`.
 * False: *fault says what failed. */
bool weir_bench_loop(const char *name, const weir_bench_script *script, bool probed,
                     weir_bench_result *result, weir_fault *fault);

#endif
