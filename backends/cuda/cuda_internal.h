/* SPDX-License-Identifier: MIT */
/*
 * What the files of the CUDA device share.
 *
 *   driver.c        the library and its functions
 *   cuda_device.c   making, falling back, the table of calls, balance, errors
 *   cuda_probe.c    what a device can
 *   cuda_handle.c   virtual memory: addresses, handles, mappings
 *   cuda_segment.c  segments: async and malloc
 *   cuda_order.c    events, streams, quiet
 *   cuda_extent.c   which addresses are mapped or taken, and by what
 *   cuda_share.c    peers and exports
 *
 * And, on top of it:
 *   cuda_pool.c     the pool that speaks CUDA
 *   cuda_name.c     CUstream to weir_stream
 *   cuda_capture.c  domains of captures
 *   cuda_work.c     kernels for tests and replays
 *
 * One lock guards the extents, the peers and the driver's pool; it is never held while a call of
 * the pool runs, and the driver is called with it held only for segments and peers.
 */
#ifndef WEIR_CUDA_INTERNAL_H
#define WEIR_CUDA_INTERNAL_H

#include "cuda_device.h"
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>

#define WEIR_CUDA_PEERS_MAX 64u

/* A range of addresses and what is under it. */
typedef struct weir_cuda_extent {
    weir_addr addr;
    uint64_t bytes;
    uint64_t under; /* a handle, or the address that the driver gave for a segment */
} weir_cuda_extent;

/* Sorted by address, never overlapping. */
typedef struct weir_cuda_extents {
    weir_cuda_extent *at;
    size_t count;
    size_t room;
} weir_cuda_extents;

/* What one device can, as the driver says and as was tried. */
typedef struct weir_cuda_probe {
    int major, minor;
    uint64_t memory_bytes;
    uint64_t granule_bytes; /* 0: no virtual memory */
    bool vmm, pools, posix_fd, fabric, rdma, dma_buf, host_handles;
    bool exports; /* handles are made with POSIX_FD: tried, and it works */
    bool rdma_handles;
} weir_cuda_probe;

struct weir_cuda {
    weir_cuda_config config;
    weir_driver driver;
    weir_device_ops ops;
    weir_cu_device device;
    weir_cu_context context;
    bool retained; /* the primary context, by us */
    weir_conf_source source;
    weir_cuda_probe probe;
    weir_cu_handle_prop prop; /* of every handle made */

    weir_cu_stream
        carrier;           /* of copies and of the driver's pool; nothing of a program runs on it */
    weir_cu_event carried; /* recorded on it, with the lock held */
    weir_cu_pool pool;     /* async only */

    atomic_int native_error;
    atomic_int captures; /* being recorded, as far as the pool on top knows */
    atomic_size_t events;
    atomic_size_t handles;
    atomic_size_t ranges;

    pthread_mutex_t mapper; /* held around each call of the driver's virtual memory */
    pthread_mutex_t lock;
    weir_cuda_extents extents;                      /* mappings, or segments */
    weir_cu_access access[WEIR_CUDA_PEERS_MAX + 1]; /* the device itself, then its peers */
    size_t access_count;
    char balance[256];
};

/* ---------------------------------------------------------------------------------- driver -- */

/* A thread's state while it works for us: in our context, in relaxed capture mode. */
typedef struct weir_cuda_scope {
    bool pushed;
    bool relaxed;
    int mode;
} weir_cuda_scope;

/* leave only after an enter that said OK. The plain one leaves the capture mode as it is: for calls
 * that every capture survives, since changing the mode costs more than they do. */
weir_cu_result weir_cuda_enter(weir_cuda *cuda, weir_cuda_scope *scope);
weir_cu_result weir_cuda_enter_plain(weir_cuda *cuda, weir_cuda_scope *scope);
void weir_cuda_leave(weir_cuda *cuda, const weir_cuda_scope *scope);

/* Notes an error and says what it means to a pool. */
weir_status weir_cuda_answer(weir_cuda *cuda, weir_cu_result result);

/* `result` of one call of the driver's table, made inside a scope. */
#define WEIR_CUDA_CALL(cuda, result, call) \
    do { \
        weir_cuda_scope scope_; \
        (result) = weir_cuda_enter((cuda), &scope_); \
        if ((result) == WEIR_CU_OK) { \
            (result) = (cuda)->driver.call; \
            weir_cuda_leave((cuda), &scope_); \
        } \
    } while (0)

/* The same for virtual memory: one such call at a time. */
#define WEIR_CUDA_MAP_CALL(cuda, result, call) \
    do { \
        pthread_mutex_lock(&(cuda)->mapper); \
        WEIR_CUDA_CALL(cuda, result, call); \
        pthread_mutex_unlock(&(cuda)->mapper); \
    } while (0)

/* Fills *probe; the context is current. */
void weir_cuda_probe_device(const weir_driver *driver, weir_cu_device device,
                            weir_cuda_probe *probe);
/* What handles of this device are made with. */
weir_cu_handle_prop weir_cuda_probe_prop(weir_cu_device device, const weir_cuda_probe *probe);

/* --------------------------------------------------------------------------------- extents -- */

/* The lock is held. False where host memory is short. */
bool weir_cuda_extent_room(weir_cuda_extents *extents);
/* After a room that said true. */
void weir_cuda_extent_add(weir_cuda_extents *extents, weir_cuda_extent extent);
/* Drops all that lie inside a range; returns how many. */
size_t weir_cuda_extent_drop(weir_cuda_extents *extents, weir_addr addr, uint64_t bytes);
/* The one that holds an address, or NULL. */
const weir_cuda_extent *weir_cuda_extent_find(const weir_cuda_extents *extents, weir_addr addr);

/* ----------------------------------------------------------------------------------- calls -- */

weir_status weir_cuda_op_va_reserve(void *self, uint64_t bytes, weir_addr *base);
weir_status weir_cuda_op_va_free(void *self, weir_addr base, uint64_t bytes);
weir_status weir_cuda_op_handle_create(void *self, uint64_t bytes, weir_handle *handle);
weir_status weir_cuda_op_handle_release(void *self, weir_handle handle, uint64_t bytes);
weir_status weir_cuda_op_map(void *self, weir_addr addr, uint64_t bytes, weir_handle handle);
weir_status weir_cuda_op_set_access(void *self, weir_addr addr, uint64_t bytes);
weir_status weir_cuda_op_unmap(void *self, weir_addr addr, uint64_t bytes);

weir_status weir_cuda_op_segment_alloc(void *self, uint64_t bytes, weir_addr *addr);
weir_status weir_cuda_op_segment_free(void *self, weir_addr addr, uint64_t bytes);
/* The driver's pool of the async source; the context is current. */
weir_cu_result weir_cuda_segment_open(weir_cuda *cuda);
void weir_cuda_segment_close(weir_cuda *cuda);

weir_status weir_cuda_op_event_create(void *self, weir_event *event);
void weir_cuda_op_event_destroy(void *self, weir_event event);
weir_status weir_cuda_op_event_record(void *self, weir_event event, uint64_t stream);
weir_status weir_cuda_op_event_query(void *self, weir_event event, bool *passed);
weir_status weir_cuda_op_stream_wait(void *self, uint64_t stream, weir_event event);
weir_status weir_cuda_op_event_wait(void *self, weir_event event, uint64_t wait_us, bool *passed);
weir_status weir_cuda_op_quiesce(void *self, uint64_t wait_us);
weir_status weir_cuda_op_copy(void *self, weir_addr to, weir_addr from, uint64_t bytes);
weir_status weir_cuda_op_resume(void *self);

/* ----------------------------------------------------------------------------------- natives -- */

/*
 * weir_stream_desc.native by its two lowest bits, which are 0 in every handle:
 *   0  a CUstream        1  the legacy default stream (1 itself)
 *   2  a thread's default stream: its id, shifted by two
 *   3  a gate: work that is recorded into a graph has no moment at which it has run, until nothing
 *      can run the graph any more
 */
enum { WEIR_CUDA_LEGACY = 1, WEIR_CUDA_THREAD = 2, WEIR_CUDA_GATE = 3, WEIR_CUDA_KIND = 3 };

typedef struct weir_cuda_gate {
    atomic_bool open; /* the work behind it has ended for good */
} weir_cuda_gate;

#endif
