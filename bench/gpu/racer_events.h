/* SPDX-License-Identifier: MIT */
/* The events of the race. Each writes its results, and says in *why what kept it from going on. */
#ifndef RACER_EVENTS_H
#define RACER_EVENTS_H

#include "racer_gpu.h"

typedef struct racer_entry {
    racer_gpu *gpu;
    const racer_contestant *contestant;
    void *self; /* opened */
} racer_entry;

typedef struct racer_replays {
    char **traces; /* paths */
    int traces_count;
    int times;             /* runs of which the best counts */
    bool search;           /* find the least capacity, and time the trace at it */
    const char *peer_file; /* least capacities of the peer: read, or written by it; may be NULL */
    uint64_t deadline_ns;  /* on racer_clock_ns: what is optional is left out after it */
} racer_replays;

/* Traces: roomy, call by call, metered, least capacity, and at three caps. A trace that fails is
 * written as a failure, and the next one begins. */
void racer_event_replays(const racer_entry *entry, const racer_replays *replays);

/* Hot pairs: one block allocated and freed `pairs` times, for five sizes. */
bool racer_event_pairs(const racer_entry *entry, uint32_t pairs, racer_why *why);

/* 1, 2, 4, 8 and 16 threads do `pairs` of 1 MiB between them, each on a stream of its own. */
bool racer_event_threads(const racer_entry *entry, uint32_t pairs, racer_why *why);

/* What allocator calls do while a kernel runs, and what they do to it. */
bool racer_event_stalls(const racer_entry *entry, racer_why *why);

/* Keeps this thread on one processor, the second that it may use. */
void racer_pin(void);

#endif
