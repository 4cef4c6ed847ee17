/* SPDX-License-Identifier: MIT */
/*
 * What the runtime's files share: the process, its devices, and the books of live blocks.
 *
 * Invariants  A block is on the books exactly while its owner has it: from after the pool's alloc to
 *             before the pool's free, so an address is never on them twice.
 *             Order of locks: a device's `lock`, then history's or the trace's. The pool is never
 *             called with any of them held.
 */
#ifndef WEIR_RUNTIME_INTERNAL_H
#define WEIR_RUNTIME_INTERNAL_H

#include "cuda_pool.h"
#include "weir_runtime.h"

#include <pthread.h>
#include <stdatomic.h>

#define WEIR_RT_LARGE (UINT64_C(1) << 20) /* requested bytes that PyTorch calls large */
#define WEIR_RT_WHY_BYTES 1024

/* -------------------------------------------------------------------------------------- books -- */

typedef struct weir_rt_block {
    uint64_t addr; /* 0: an empty slot */
    uint64_t requested, bytes;
    uint64_t stream;
    uint64_t born_us; /* of the clock of records */
    uint64_t id;      /* in the trace */
    uint32_t stack;
    uint32_t pool; /* the caller's pool, 0: none */
} weir_rt_block;

/* Open addressing, a power of two of slots, at most 3/4 full; gaps are closed at removal. */
typedef struct weir_rt_books {
    weir_rt_block *slot;
    size_t room, used;
} weir_rt_books;

bool weir_rt_books_add(weir_rt_books *books, const weir_rt_block *block);
weir_rt_block *weir_rt_books_find(const weir_rt_books *books, uint64_t addr);
bool weir_rt_books_take(weir_rt_books *books, uint64_t addr, weir_rt_block *block);

/* ------------------------------------------------------------------------------------ devices -- */

/* A pool of the caller: a domain of the core's, made when it first gets a block. */
typedef struct weir_rt_pool {
    uint64_t hi, lo;
    weir_domain domain; /* 0: not made yet */
    uint64_t blocks;    /* live ones */
    unsigned begun;
    bool open; /* in use; else the place is free */
    bool released;
    pthread_t thread; /* of the last begin */
    weir_runtime_wanted wanted;
    void *wanted_self;
} weir_rt_pool;

typedef struct weir_rt_device {
    int ordinal;
    _Atomic(weir_cuda_pool *) cuda;
    int status; /* of the start that failed, else 0; under the process's lock, as `why` */
    char why[256];
    pthread_mutex_t lock; /* of all that follows */
    weir_rt_books books;
    weir_runtime_stats stats; /* the parts that the books know */
    weir_stats zero;          /* the core's figures when the totals were last reset */
    uint64_t settings_limit;  /* WEIR_NO_LIMIT: none */
    weir_rt_pool *pools;      /* [0] is never used */
    uint32_t pool_room;
    atomic_uint pools_begun;
} weir_rt_device;

/* The device's pool, made if need be; NULL: *status and the sentence say why. */
weir_rt_device *weir_rt_device_get(int device, int *status);

/* The device if it has a pool; NULL, without a sentence, if not. */
weir_rt_device *weir_rt_device_peek(int device);

static inline weir_cuda_pool *weir_rt_cuda(const weir_rt_device *on)
{
    return atomic_load_explicit(&on->cuda, memory_order_acquire);
}

static inline weir_pool *weir_rt_core(const weir_rt_device *on)
{
    return weir_cuda_pool_core(weir_rt_cuda(on));
}

/* Devices from the first that a call on `device` is about; `device` -1: all that have a pool.
 *     for (weir_rt_device *on = weir_rt_first(device); on; on = weir_rt_next(device, on)) */
weir_rt_device *weir_rt_first(int device);
weir_rt_device *weir_rt_next(int device, const weir_rt_device *on);

/* Sets the calling thread's sentence; gives `status`. Without a format: that of the status. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int weir_rt_fail(int status, const char *format, ...);

/* False in a child of fork, with the sentence set. */
bool weir_rt_alive(void);

uint64_t weir_rt_now_us(void);
uint64_t weir_rt_about_now_us(void); /* some milliseconds off, in a quarter of the time */

/* What a variable says; NULL where it says nothing or the process runs with raised privileges. */
const char *weir_rt_environment(const char *name);

/* --------------------------------------------------------------------------------- other files -- */

/* runtime_pools.c. Allocates in the caller's pool that wants the stream, if one does; *pool is its
 * number, or 0. drop: a block of it has been freed. */
weir_status weir_rt_pool_place(weir_rt_device *on, uint64_t bytes, uint64_t stream, uint32_t *pool,
                               weir_addr *addr);
void weir_rt_pool_drop(weir_rt_device *on, uint32_t pool);
/* The caller's pool that a domain of the core belongs to; 0, 0 for none. */
void weir_rt_pool_of(weir_rt_device *on, weir_domain domain, uint64_t *hi, uint64_t *lo);

/* runtime_stats.c; the lock is held. */
void weir_rt_stats_add(weir_rt_device *on, const weir_rt_block *block);
void weir_rt_stats_take(weir_rt_device *on, const weir_rt_block *block);

/* runtime_history.c */
typedef enum weir_rt_act {
    WEIR_RT_ALLOC,
    WEIR_RT_FREE,
    WEIR_RT_OOM,
    WEIR_RT_MAP,
    WEIR_RT_UNMAP
} weir_rt_act;

typedef struct weir_rt_event {
    weir_rt_act act;
    int device;
    uint64_t addr, bytes, stream, time_us;
    uint64_t hi, lo; /* the caller's pool */
    uint32_t stack, metadata;
} weir_rt_event;

bool weir_rt_history_on(void);
uint32_t weir_rt_history_stack(void); /* of the calling thread; 0 where nobody asks for it */
void weir_rt_history_note(const weir_rt_event *event);
/* The observer of a pool, while history is kept; NULL takes it away. */
void weir_rt_history_watch(weir_rt_device *on, bool watch);
/* Calls `visit` for each event from the oldest on, with history's lock held. */
void weir_rt_history_walk(void (*visit)(void *self, const weir_rt_event *event), void *self);

/* At the first pool, with WEIR_LEAKS=stacks: machine's stacks, unless there is a source already. */
void weir_rt_history_leaks(void);

/* Around a fork, so that no child finds a lock of a thread that it does not have. */
void weir_rt_history_hold(bool hold);
void weir_rt_stack_hold(bool hold);
void weir_rt_trace_hold(bool hold);

/* runtime_stack.c */
typedef struct weir_rt_frame {
    const char *file, *name;
    int line;
} weir_rt_frame;
/* The frames of a stack, innermost first; they stay. */
size_t weir_rt_stack_frames(uint32_t stack, const weir_rt_frame **frames);

/* runtime_trace.c: under the device's lock, so that a block's lines come in order. */
uint64_t weir_rt_trace_alloc(uint64_t bytes, uint64_t stream);
void weir_rt_trace_free(const weir_rt_block *block);
int weir_rt_trace_begin(const char *path);
int weir_rt_trace_end(void);
/* In a child: the file stays its parent's, to which nothing is added. */
void weir_rt_trace_disown(void);

/* runtime_oom.c: the sentence of an allocation that failed. */
void weir_rt_oom_sentence(weir_rt_device *on, int status, uint64_t bytes, char *text, size_t room);

#endif
