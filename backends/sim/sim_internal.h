/* SPDX-License-Identifier: MIT */
/*
 * What the files of the simulated device share.
 *
 *   sim.c         making, faults, totals, breaches and their history
 *   sim_ops.c     the calls of weir_device_ops, each counted, charged and made to fail
 *   sim_cost.c    what a call costs on the measured card
 *   sim_memory.c  handles, address ranges, mappings, segments
 *   sim_stream.c  streams, events and the two clocks
 *   sim_shadow.c  what was last done to every physical byte
 *   sim_work.c    work: checks against all of the above
 *
 * Slots of every table are numbered from 1; 0 is none. Freed slots are given again last in, first
 * out, and nothing is iterated in the order of host pointers: the same calls give the same answers.
 * All functions here expect the lock to be held, where there is one.
 */
#ifndef WEIR_SIM_INTERNAL_H
#define WEIR_SIM_INTERNAL_H

#include "sim.h"

#include <pthread.h>

#define WEIR_SIM_NEVER UINT64_MAX
#define WEIR_SIM_BASE UINT64_C(0x700000000000)
#define WEIR_SIM_RADIX_BITS 12u
#define WEIR_SIM_RADIX (1u << WEIR_SIM_RADIX_BITS)
#define WEIR_SIM_HISTORY 64u
#define WEIR_SIM_TEXT_BYTES 8192u

/* A piece of a stream's queue: all its works up to `seq` end together. */
typedef struct weir_sim_item {
    uint64_t seq;
    uint64_t floor_us; /* ends not before */
    uint64_t end_us;   /* NEVER while something it needs is stalled */
    uint64_t dep_seq;  /* nor before this work of `dep_lane`, unless that is 0 */
    uint32_t dep_lane;
} weir_sim_item;

/* A queue. A lane is given to another stream only when all its work has ended, and its numbers go
 * on, so (lane, seq) names a piece of work for ever. */
typedef struct weir_sim_lane {
    bool live;
    bool stalled;
    uint64_t native;
    uint64_t unique;
    uint64_t seq;         /* last queued */
    uint64_t done;        /* known to have ended: this and all before */
    uint64_t busy_until;  /* later work ends not before */
    weir_sim_item *items; /* a ring of what may not have ended; ends never decrease along it */
    uint32_t capacity;    /* power of two or 0 */
    uint32_t head;
    uint32_t count;
    uint32_t settled; /* while settling: items whose end is known */
    uint64_t *vector; /* [lane]: up to which work of that lane this one is ordered after */
} weir_sim_lane;

typedef struct weir_sim_event {
    bool live;
    bool recorded;
    uint32_t generation;
    uint32_t next_free;
    uint32_t lane;
    uint64_t seq;
    uint64_t *vector;
    uint32_t vector_count;
} weir_sim_event;

typedef struct weir_sim_piece {
    bool live;
    uint32_t generation;
    uint32_t next_free;
    uint32_t maps; /* mappings now */
    uint32_t root; /* of its shadow */
    uint64_t bytes;
} weir_sim_piece; /* physical memory: a handle or a segment */

typedef struct weir_sim_mapping {
    weir_addr addr;
    uint64_t bytes;
    uint32_t piece;
    uint32_t next_free;
    bool access;
    bool segment;
    uint32_t used_count;
    uint64_t *used; /* [lane]: the last work through this mapping */
} weir_sim_mapping;

typedef struct weir_sim_range {
    weir_addr base;
    uint64_t bytes;
    uint64_t mapped_bytes;
    uint32_t segment; /* its mapping, or 0 for a reservation */
} weir_sim_range;

typedef struct weir_sim_leaf {
    uint32_t mapping[WEIR_SIM_RADIX];
} weir_sim_leaf;

typedef struct weir_sim_branch {
    weir_sim_leaf *leaf[WEIR_SIM_RADIX];
} weir_sim_branch;

/* Bytes [start, end) of one piece, last touched by work `seq` of `lane` (0: ended long ago). A
 * treap by start; `priority` is drawn from a generator of the simulator's own. */
typedef struct weir_sim_node {
    uint64_t start;
    uint64_t end;
    uint64_t tag;
    uint64_t seq;
    uint32_t lane;
    uint32_t left;
    uint32_t right;
    uint32_t priority;
} weir_sim_node;

typedef struct weir_sim_note {
    const char *verb;
    weir_addr addr;
    uint64_t bytes;
    uint64_t time_us;
    uint64_t stream;    /* of work */
    uint64_t tag;       /* of work */
    weir_handle handle; /* the piece under `addr`, and where in it; 0: none */
    uint64_t offset;
} weir_sim_note;

typedef struct weir_sim_fault {
    uint64_t left; /* calls until it fails; 0: no fault */
    bool on;
    weir_status status;
} weir_sim_fault;

typedef struct weir_sim_table {
    uint32_t count; /* slots ever used, slot 0 included */
    uint32_t capacity;
    uint32_t free_head;
    uint32_t live;
} weir_sim_table;

struct weir_sim {
    weir_sim_config config;
    weir_device_ops ops;
    pthread_mutex_t *mutex; /* NULL unless config.locked */
    uint32_t granule_shift;

    uint64_t now_us;
    uint64_t tenant_bytes;
    int64_t native_error;
    bool lost;
    bool quiesced;
    weir_sim_fault faults[WEIR_SIM_CALLS];
    weir_sim_totals totals;

    weir_sim_piece *pieces;
    weir_sim_table piece_table;
    weir_sim_mapping *mappings;
    weir_sim_table mapping_table;
    weir_sim_event *events;
    weir_sim_table event_table;
    weir_sim_range *ranges; /* sorted by base */
    uint32_t range_count;
    uint32_t range_capacity;
    weir_sim_branch *radix[WEIR_SIM_RADIX];

    weir_sim_lane *lanes;
    uint32_t lane_count; /* lane 0 included */
    uint32_t lane_capacity;
    uint32_t *natives; /* [native]: lane, or 0 */
    uint32_t native_count;
    uint32_t native_capacity;
    uint64_t *native_free; /* stack of numbers to give again */
    uint32_t native_free_count;
    uint32_t native_free_capacity;
    uint64_t unique_next;

    weir_sim_node *nodes;
    weir_sim_table node_table; /* free_head chains through `left` */
    uint32_t random;

    weir_sim_note notes[WEIR_SIM_HISTORY];
    uint64_t note_count;
    char text[WEIR_SIM_TEXT_BYTES];
    char balance[256];
};

/* ------------------------------------------------------------------------------------- sim.c -- */

void weir_sim_lock(const weir_sim *sim);
void weir_sim_unlock(const weir_sim *sim);

/* Makes an array hold `need` elements, the new ones zero. False where host memory is short. */
bool weir_sim_grow(void **array, uint32_t *capacity, uint32_t need, size_t element_bytes);

/* A breach that concerns [addr, addr+bytes); bytes 0: no bytes in particular. Returns INVALID. */
weir_status weir_sim_breach(weir_sim *sim, weir_addr addr, uint64_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Keeps a note with the time of now. */
void weir_sim_note_add(weir_sim *sim, const weir_sim_note *note);

/* ------------------------------------------------------------------------------------ costs -- */

uint64_t weir_sim_cost_create(uint64_t bytes);
uint64_t weir_sim_cost_release(uint64_t bytes);
uint64_t weir_sim_cost_map(uint64_t bytes);
uint64_t weir_sim_cost_access(uint64_t bytes);
uint64_t weir_sim_cost_unmap(uint64_t bytes);
uint64_t weir_sim_cost_reserve(uint64_t bytes);
uint64_t weir_sim_cost_unreserve(uint64_t bytes);
uint64_t weir_sim_cost_segment_alloc(uint64_t bytes);
uint64_t weir_sim_cost_segment_free(uint64_t bytes);
uint64_t weir_sim_cost_copy(uint64_t bytes);
void weir_sim_charge(weir_sim *sim, weir_sim_call call, uint64_t cost_ns);

/* -------------------------------------------------------------------------------------- ops -- */

void weir_sim_ops_fill(weir_sim *sim);

/* ----------------------------------------------------------------------------------- memory -- */

void weir_sim_memory_free(weir_sim *sim);
weir_status weir_sim_va_reserve(weir_sim *sim, uint64_t bytes, weir_addr *base);
weir_status weir_sim_va_free(weir_sim *sim, weir_addr base, uint64_t bytes);
weir_status weir_sim_handle_create(weir_sim *sim, uint64_t bytes, weir_handle *handle);
weir_status weir_sim_handle_release(weir_sim *sim, weir_handle handle, uint64_t bytes);
weir_status weir_sim_map(weir_sim *sim, weir_addr addr, uint64_t bytes, weir_handle handle);
weir_status weir_sim_set_access(weir_sim *sim, weir_addr addr, uint64_t bytes);
weir_status weir_sim_unmap(weir_sim *sim, weir_addr addr, uint64_t bytes);
weir_status weir_sim_segment_alloc(weir_sim *sim, uint64_t bytes, weir_addr *addr);
weir_status weir_sim_segment_free(weir_sim *sim, weir_addr addr, uint64_t bytes);

/* The number by which callers know a piece. */
weir_handle weir_sim_piece_name(const weir_sim *sim, uint32_t slot);

/* The mapping that covers `addr`, or NULL. O(1). */
weir_sim_mapping *weir_sim_mapping_at(const weir_sim *sim, weir_addr addr);

/* ---------------------------------------------------------------------------------- streams -- */

void weir_sim_stream_free(weir_sim *sim);
/* The lane of a live stream, or 0. */
uint32_t weir_sim_lane_find(const weir_sim *sim, uint64_t stream);
/* Queues one piece of work and returns its number, 0 where host memory is short. */
uint64_t weir_sim_queue(weir_sim *sim, uint32_t lane);
bool weir_sim_finished(weir_sim *sim, uint32_t lane, uint64_t seq);
/* Finished, or before anything queued on `lane` from now on. */
bool weir_sim_ordered(weir_sim *sim, uint32_t lane, uint32_t before_lane, uint64_t before_seq);
weir_status weir_sim_event_create(weir_sim *sim, weir_event *event);
weir_status weir_sim_event_destroy(weir_sim *sim, weir_event event);
weir_status weir_sim_event_record(weir_sim *sim, weir_event event, uint64_t stream);
weir_status weir_sim_event_query(weir_sim *sim, weir_event event, bool *passed);
weir_status weir_sim_stream_wait(weir_sim *sim, uint64_t stream, weir_event event);
weir_status weir_sim_event_wait(weir_sim *sim, weir_event event, uint64_t wait_us, bool *passed);
weir_status weir_sim_quiesce(weir_sim *sim, uint64_t wait_us);
weir_status weir_sim_resume(weir_sim *sim);

/* ----------------------------------------------------------------------------------- shadow -- */

/* Gives [start, end) of a piece one tag and one last work. False where host memory is short. */
bool weir_sim_shadow_set(weir_sim *sim, uint32_t *root, const weir_sim_node *value);
/* Forgets [start, end). */
bool weir_sim_shadow_clear(weir_sim *sim, uint32_t *root, uint64_t start, uint64_t end);
void weir_sim_shadow_drop(weir_sim *sim, uint32_t *root);
/* Visits, in order, the nodes that touch [start, end), until `visit` returns false. */
typedef bool (*weir_sim_visit)(weir_sim *sim, const weir_sim_node *node, void *context);
bool weir_sim_shadow_visit(weir_sim *sim, uint32_t root, uint64_t start, uint64_t end,
                           weir_sim_visit visit, void *context);

/* ------------------------------------------------------------------------------------- work -- */

weir_status weir_sim_copy(weir_sim *sim, weir_addr to, weir_addr from, uint64_t bytes);

#endif
