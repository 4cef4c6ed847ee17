/* SPDX-License-Identifier: MIT */
/* What the files of the pool that speaks CUDA share; cuda_internal.h lists them. */
#ifndef WEIR_CUDA_POOL_INTERNAL_H
#define WEIR_CUDA_POOL_INTERNAL_H

#include "cuda_internal.h"
#include "cuda_pool.h"
#include "platform.h"

/* ----------------------------------------------------------------------------------- names -- */

/* `key` is a handle, WEIR_CUDA_LEGACY, or a thread's default stream as in a desc's native. Once set
 * it stays; an entry without a name is one whose stream has ended. */
typedef struct weir_cuda_name {
    _Atomic uint64_t key;
    _Atomic weir_stream name;
    _Atomic uint64_t unique; /* changes only while there is no name */
} weir_cuda_name;

typedef struct weir_cuda_names {
    struct weir_cuda_names *older; /* outgrown; a reader may still be in it */
    uint32_t count, room;          /* room is a power of two, at least twice count */
    weir_cuda_name at[];
} weir_cuda_names;

/* The name of a key, 0 if there is none. Safe beside one writer. known: only if it is this stream's,
 * and not one of an earlier stream with the same handle. */
weir_stream weir_cuda_name_find(weir_cuda_names *names, uint64_t key);
weir_stream weir_cuda_name_known(weir_cuda_names *names, uint64_t key, uint64_t unique);
/* The entry of a key, made if need be; NULL where host memory is short. The lock is held. *names
 * may become a larger table. */
weir_cuda_name *weir_cuda_name_take(weir_cuda_names *_Atomic *names, uint64_t key);
void weir_cuda_names_free(weir_cuda_names *names);

/* Identities of streams that the driver can't be asked about; no id of the driver's is as large. */
#define WEIR_CUDA_UNIQUE_OWN (UINT64_C(1) << 63)

/* -------------------------------------------------------------------------------- captures -- */

/* Rung by destructors of graphs, which may come after the pool's end; `refs` keeps it. */
typedef struct weir_cuda_bell {
    atomic_int refs;
    atomic_bool rung;
} weir_cuda_bell;

typedef struct weir_cuda_lane {
    void *stream;
    weir_stream name;
} weir_cuda_lane;

typedef struct weir_cuda_capture {
    weir_cuda_gate gate; /* first: streams of the capture are named by its address */
    atomic_bool dead;    /* no graph made from it exists, and no launch of one runs */
    atomic_int refs;     /* the pool's and the graphs' */
    weir_cuda_bell *bell;
    struct weir_cuda_capture *next;
    uint64_t id;
    weir_domain domain;
    weir_cuda_lane *lanes; /* its streams */
    size_t count, room;
} weir_cuda_capture;

struct weir_cuda_pool {
    weir_cuda *cuda;
    weir_platform *platform;
    weir_pool *core;
    bool streams_told, captures_told;
    atomic_int capturing; /* told captures */
    weir_cuda_bell *bell;
    pthread_mutex_t lock; /* guards what follows; the core is called with it held, never the other
                             way round */
    weir_cuda_names *_Atomic names;
    weir_cuda_capture *captures;
    uint64_t unique_next; /* with WEIR_CUDA_UNIQUE_OWN */
};

/* The capture that a stream is in now, *capture NULL: none. DEVICE: it is broken. */
weir_status weir_cuda_capture_of(weir_cuda_pool *pool, void *stream, weir_cuda_capture **capture);
/* The name of a stream inside a capture. */
weir_status weir_cuda_capture_lane(weir_cuda_pool *pool, weir_cuda_capture *capture, void *stream,
                                   weir_stream *name);
/* Forgets all captures; their records live on while graphs name them. */
void weir_cuda_captures_drop(weir_cuda_pool *pool);
weir_cuda_bell *weir_cuda_bell_create(void);
void weir_cuda_bell_drop(weir_cuda_bell *bell);

#endif
