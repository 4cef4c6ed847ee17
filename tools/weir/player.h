/* SPDX-License-Identifier: MIT */
/*
 * Plays a trace on a stage, op by op: an allocation is an allocation and, if work counts, a write
 * on its stream; a free has a read before it; a block that the trace shows in use elsewhere after
 * its free is used by a neighbouring stream up to that time. DONE lines only let time pass.
 *
 * With neither pool nor plain policy nothing is allocated but all else is done: what that takes is
 * the replay's own time.
 */
#ifndef WEIR_PLAYER_H
#define WEIR_PLAYER_H

#include "meter.h"
#include "plain.h"
#include "stage.h"
#include "trace.h"

/* Who looks on. All three are called. */
typedef struct weir_player_hooks {
    void *self;
    void (*allocated)(void *self, uint32_t index, weir_status status, weir_addr addr);
    void (*freeing)(void *self, uint32_t index, weir_addr addr);
    void (*played)(void *self, uint32_t index); /* after every op */
} weir_player_hooks;

typedef struct weir_player {
    /* Set by the user. */
    const weir_trace *trace;
    weir_stage *stage;
    weir_meter *meter;
    weir_pool *pool;
    weir_plain *plain;
    const weir_stream *names; /* by stream; with a pool */
    const weir_player_hooks *hooks;
    bool works;           /* queue the work of allocations and frees */
    bool hashed;          /* keep layout_hash */
    bool stop_on_failure; /* end at the first failed allocation */

    /* The player's own. */
    weir_addr *addrs; /* by slot; 0: not live */
    uint32_t *births; /* by slot: the op that allocated it, from 1: its tag */
    weir_addr first;  /* the first address given out */
    uint64_t layout_hash;
    uint64_t failed;    /* allocations */
    uint64_t growth_ns; /* device time up to the end of the op that last raised the peak */
    weir_fault wrong;   /* a free or a use that was refused */

    /* Memory held, over the trace's time. */
    uint64_t held_bytes; /* since the trace's time `since_us` */
    uint64_t held_peak_bytes;
    uint64_t since_us;
    double held_byte_us; /* bytes times microseconds up to then */
} weir_player;

/* The streams a trace needs: one more than it has where a lone stream has side uses. */
uint32_t weir_player_streams(const weir_trace *trace);

/* Makes the player's own part; false where memory is short. */
bool weir_player_init(weir_player *player);

/* Plays all ops. */
void weir_player_play(weir_player *player);

/* The memory held on the average of the trace's time, up to the last op played. */
double weir_player_mean_bytes(const weir_player *player);

/* Frees what the trace left live. */
void weir_player_clear(weir_player *player);

void weir_player_fini(weir_player *player);

#endif
