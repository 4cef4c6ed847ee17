/* SPDX-License-Identifier: MIT */
/*
 * A simulated device: deterministic, without threads, and strict.
 *
 * Owns     physical memory as numbered handles (or segments), address ranges with their mappings
 *          and access rights, streams with their own queues and clocks, events, one virtual host
 *          clock, and, with `oracle`, a shadow of every physical byte: the last work on it and its
 *          tag.
 * Strict   Any breach of the contract in docs/backend.md by its caller, and any breach of the
 *          pool's invariants 1 to 7 that memory can show (work on unmapped bytes, work on bytes
 *          that unfinished work of an unordered stream still uses, an unmap under unfinished work,
 *          a handle released while mapped, a wrong tag), calls `breach` with the history of the
 *          bytes; without one it prints the text to stderr and aborts. The callback may not call
 *          the simulator; when it returns, the call in breach has had no effect and answers
 *          INVALID.
 * Time     The host clock moves by weir_sim_time_set and by waits only (event_wait, quiesce and
 *          weir_sim_sync). Work queued at host time t on a stream ends at t + lag_us, not before
 *          the stream's earlier work and not while stalled. What driver calls would cost is summed
 *          apart, in nanoseconds, from the table measured on one H200 (docs/backend.md), and does
 *          not move the host clock.
 * Threads  None of its own; every call takes an internal lock only if `locked`.
 */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_sim weir_sim;

/* The calls that are counted, charged and made to fail. X(name) */
/* clang-format off */
#define WEIR_SIM_CALL_MAP(X) \
    X(describe) X(va_reserve) X(va_free) X(handle_create) X(handle_release) X(map) \
    X(set_access) X(unmap) X(segment_alloc) X(segment_free) X(event_create) X(event_destroy) \
    X(event_record) X(event_query) X(stream_wait) X(event_wait) X(quiesce) X(copy) X(resume) \
    X(memory_info)
/* clang-format on */

typedef enum weir_sim_call {
#define WEIR_SIM_CALL_ENUM(name) WEIR_SIM_##name,
    WEIR_SIM_CALL_MAP(WEIR_SIM_CALL_ENUM)
#undef WEIR_SIM_CALL_ENUM
        WEIR_SIM_CALLS
} weir_sim_call;

const char *weir_sim_call_name(weir_sim_call call);

typedef struct weir_sim_config {
    uint64_t memory_bytes;     /* 0: 1 TiB */
    uint64_t granule_bytes;    /* 0: 2 MiB */
    uint64_t va_bytes;         /* what va_reserve can give in all; 0: 64 TiB */
    uint64_t handle_bytes_max; /* larger creates are refused with INVALID; 0: no bound */
    uint64_t lag_us;           /* how long after its queueing a piece of work ends */
    bool no_virtual;           /* segments instead of virtual memory */
    bool no_event_wait;        /* the optional calls are NULL */
    bool no_rescue;
    bool no_memory_info;
    bool lies;   /* describe reports twice the true memory and 16 EiB of va */
    bool oracle; /* keep the shadow and check work against it */
    bool locked; /* callable from several threads */
    void (*breach)(void *self, const char *text);
    void *breach_self;
} weir_sim_config;

/* NULL where host memory is short, or granule_bytes is no power of two of at least 4096. `config`
 * NULL: all defaults, with the oracle. */
weir_sim *weir_sim_create(const weir_sim_config *config);

/* Frees the simulator; never a breach. Ask weir_sim_balance first. */
void weir_sim_destroy(weir_sim *sim);

/* The calls to put into weir_config.ops, with `sim` as device_self; optional calls that the config
 * turned off are NULL. Owned by `sim`. */
const weir_device_ops *weir_sim_ops(weir_sim *sim);

/* NULL when nothing is left over: handles, ranges, mappings and events all given back, or the
 * device is lost and they are gone; else a text that says what remains. Owned by `sim`, until the
 * next call. */
const char *weir_sim_balance(weir_sim *sim);

/* Streams. The number is weir_stream_desc.native; a destroyed stream's number is given again, the
 * unique id never. Work on, or a wait through, a destroyed stream is a breach. */
uint64_t weir_sim_stream_create(weir_sim *sim);
uint64_t weir_sim_stream_unique(weir_sim *sim, uint64_t stream);
void weir_sim_stream_destroy(weir_sim *sim, uint64_t stream);

/* Time. time_set moves the host clock to `now_us` plus waited_us of the totals; never back. What a
 * stream has not finished when it is stalled stays unfinished until it goes on. */
void weir_sim_time_set(weir_sim *sim, uint64_t now_us);
uint64_t weir_sim_time(const weir_sim *sim);
void weir_sim_stall(weir_sim *sim, uint64_t stream);
void weir_sim_go(weir_sim *sim, uint64_t stream);
/* Work queued on `stream` from now on ends not before `until_us` on the host clock. */
void weir_sim_busy_until(weir_sim *sim, uint64_t stream, uint64_t until_us);
/* Lets the host wait for everything on a stream (0: on all); stalled streams are set going. */
void weir_sim_sync(weir_sim *sim, uint64_t stream);

/* Work. write: all of [addr, addr+bytes) gets `tag` when the work ends. read: a breach unless all
 * of it has `tag` then. Both check, at queueing, that every byte is mapped with access and that the
 * stream is ordered after all unfinished work on the same physical bytes. Without `oracle` they
 * only lengthen the stream's queue. bytes may be 0. Returns false after a breach whose callback
 * came back. */
bool weir_sim_write(weir_sim *sim, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag);
bool weir_sim_read(weir_sim *sim, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag);
/* True if every byte of the range is mapped with access. */
bool weir_sim_mapped(weir_sim *sim, weir_addr addr, uint64_t bytes);

/* Faults. The k-th (from 1, counted from now) call of this kind answers `status` and has no effect;
 * with `on` all later ones too. One fault a kind at a time; k 0 clears it. event_destroy, which
 * cannot answer, never fails. */
void weir_sim_fail(weir_sim *sim, weir_sim_call call, uint64_t k, bool on, weir_status status);
/* Another process holds this much of the device. */
void weir_sim_tenant(weir_sim *sim, uint64_t bytes);
/* From now on every call but event_destroy answers LOST. */
void weir_sim_lose(weir_sim *sim);

/* What was done. */
typedef struct weir_sim_totals {
    uint64_t count[WEIR_SIM_CALLS];   /* calls, failed ones included */
    uint64_t cost_ns[WEIR_SIM_CALLS]; /* what they would have cost on the measured card */
    uint64_t host_waits;              /* event_wait and quiesce that really had to wait */
    uint64_t waited_us;               /* how long */
    uint64_t held_bytes;              /* physical memory of live handles and segments */
    uint64_t held_peak_bytes;
    uint64_t breaches;
} weir_sim_totals;

void weir_sim_totals_read(const weir_sim *sim, weir_sim_totals *totals);

#ifdef __cplusplus
}
#endif

#endif
