/* SPDX-License-Identifier: MIT */
/*
 * What the files of the host device share.
 *
 *   host.c          making, the table of calls, balance
 *   host_memory.c   handles, address ranges, mappings, segments
 *   host_stream.c   streams, their threads and queues
 *   host_event.c    events, waits, quiesce
 *
 * One lock guards everything but the work itself, which runs without it.
 */
#ifndef WEIR_HOST_INTERNAL_H
#define WEIR_HOST_INTERNAL_H

#include "host.h"

#include <pthread.h>

typedef enum weir_host_job_kind {
    WEIR_HOST_FILL,
    WEIR_HOST_VERIFY,
    WEIR_HOST_SLEEP,
    WEIR_HOST_CALL,
    WEIR_HOST_WAIT
} weir_host_job_kind;

typedef struct weir_host_job {
    struct weir_host_job *next;
    weir_host_job_kind kind;
    weir_addr addr;
    uint64_t bytes;
    uint64_t tag; /* of fill and verify; microseconds of a sleep; job number of a wait */
    uint32_t dep; /* whose job a wait waits for */
    void (*call)(void *self);
    void *self;
} weir_host_job;

/* Kept for ever once made, for events still name it: a later stream that gets its number goes on
 * counting jobs where it stopped. */
typedef struct weir_host_stream {
    struct weir_host *host;
    pthread_t thread;
    pthread_cond_t work; /* a job was queued, or `stop` was set */
    bool live;
    bool stop;
    uint64_t unique;
    uint64_t queued; /* jobs ever queued */
    uint64_t done;   /* and done */
    weir_host_job *first;
    weir_host_job *last;
} weir_host_stream;

typedef struct weir_host_event {
    bool live;
    bool recorded;
    uint32_t stream;
    uint32_t generation;
    uint64_t job;
} weir_host_event;

/* A range of addresses, of the memory file, or of addresses mapped to it. */
typedef struct weir_host_extent {
    uint64_t start;
    uint64_t bytes;
    uint64_t handle;
} weir_host_extent;

/* Sorted by start, never overlapping. */
typedef struct weir_host_extents {
    weir_host_extent *at;
    size_t count;
    size_t capacity;
} weir_host_extents;

struct weir_host {
    weir_host_config config;
    weir_device_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t passed; /* a job was done */
    pthread_cond_t opened; /* resume was called */
    int file;              /* -1 with no_virtual */
    uint64_t file_end;     /* handles are cut off here; places in the file are never used twice */
    uint64_t held_bytes;
    uint64_t va_held_bytes;
    int64_t native_error;
    uint64_t errors;
    bool quiet;
    weir_host_extents handles;
    weir_host_extents ranges;
    weir_host_extents mappings;
    weir_host_extents segments;
    weir_host_stream **streams; /* number - 1 */
    uint32_t stream_count;
    uint32_t *stream_free; /* stack of numbers to give again */
    uint32_t stream_free_count;
    uint64_t unique_next;
    weir_host_event *events;
    uint32_t event_count;
    uint32_t event_live;
    char balance[256];
};

/* Calls with the prefix weir_host_op_ are those of weir_device_ops and take the lock themselves. */

/* ----------------------------------------------------------------------------------- memory -- */

bool weir_host_memory_open(weir_host *host);
void weir_host_memory_close(weir_host *host);
weir_status weir_host_op_va_reserve(void *self, uint64_t bytes, weir_addr *base);
weir_status weir_host_op_va_free(void *self, weir_addr base, uint64_t bytes);
weir_status weir_host_op_handle_create(void *self, uint64_t bytes, weir_handle *handle);
weir_status weir_host_op_handle_release(void *self, weir_handle handle, uint64_t bytes);
weir_status weir_host_op_map(void *self, weir_addr addr, uint64_t bytes, weir_handle handle);
weir_status weir_host_op_set_access(void *self, weir_addr addr, uint64_t bytes);
weir_status weir_host_op_unmap(void *self, weir_addr addr, uint64_t bytes);
weir_status weir_host_op_segment_alloc(void *self, uint64_t bytes, weir_addr *addr);
weir_status weir_host_op_segment_free(void *self, weir_addr addr, uint64_t bytes);

/* ---------------------------------------------------------------------------------- streams -- */

void weir_host_streams_close(weir_host *host);
/* The stream of a number, or NULL. The lock is held. */
weir_host_stream *weir_host_stream_find(const weir_host *host, uint64_t stream);
/* Queues a copy of `job`, never blocking. False where host memory is short. The lock is held. */
bool weir_host_queue(weir_host_stream *stream, const weir_host_job *job);
/* Waits until job number `job` of a stream is done, or `wait_us` have gone. The lock is held. */
bool weir_host_wait_job(weir_host *host, const weir_host_stream *stream, uint64_t job,
                        uint64_t wait_us);

/* ----------------------------------------------------------------------------------- events -- */

weir_status weir_host_op_event_create(void *self, weir_event *event);
void weir_host_op_event_destroy(void *self, weir_event event);
weir_status weir_host_op_event_record(void *self, weir_event event, uint64_t stream);
weir_status weir_host_op_event_query(void *self, weir_event event, bool *passed);
weir_status weir_host_op_stream_wait(void *self, uint64_t stream, weir_event event);
weir_status weir_host_op_event_wait(void *self, weir_event event, uint64_t wait_us, bool *passed);
weir_status weir_host_op_quiesce(void *self, uint64_t wait_us);
weir_status weir_host_op_copy(void *self, weir_addr to, weir_addr from, uint64_t bytes);
weir_status weir_host_op_resume(void *self);

#endif
