/* SPDX-License-Identifier: MIT */
/*
 * Weir: a stream-ordered memory pool for GPUs and other devices with their own memory.
 *
 * A pool takes physical memory from a device in large pieces, cuts blocks out of it, and reuses a
 * freed block in the order of the streams that touched it: at once on the same stream, on another
 * one after its work has passed or a wait has been put between. The pool never reads or writes the
 * memory it manages; all of its own records lie in host memory.
 *
 * Threads.   With lock hooks in weir_platform every call is safe from any thread. Without them the
 *            pool belongs to one thread at a time. Callbacks run with the lock released and may
 *            call the pool again.
 * Lifetime.  A pool keeps the device, the platform and every struct behind them in use until
 *            weir_pool_destroy returns WEIR_OK. Nothing happens at process exit by itself.
 * Units.     All sizes are bytes, all times microseconds. Sizes are 64 bits on every platform.
 * Pointers.  `pool` may be NULL in calls that return a status, which is INVALID then; in the others
 *            it may not.
 * Errors.    A call that returns anything but WEIR_OK leaves live blocks, their contents and the
 *            limit as they were; caches and counters may change. Results are written only on
 *            WEIR_OK.
 * Structs.   Structs that begin with `size` are filled by their writer with sizeof(the struct);
 *            what an older caller does not know reads as zero. Zero always means the default.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/* ------------------------------------------------------------------------------------ status -- */

/* Numbers are fixed: they may be stored and sent. X(name, number, text) */
#define WEIR_STATUS_MAP(X) \
    X(OK, 0, "success") \
    X(INVALID, 1, "bad argument; nothing was changed") \
    X(NO_MEMORY, 2, "the limit or the device has no room for the request") \
    X(WOULD_WAIT, 3, "only a wait that the caller did not allow could satisfy the request") \
    X(NO_METADATA, 4, "no host memory, or no room in max_blocks, for the pool's own records") \
    X(NOT_FOUND, 5, "the address is not a live block of this pool") \
    X(STALE, 6, "the stream or domain was retired or never attached") \
    X(BUSY, 7, "live blocks or running calls forbid this now") \
    X(UNSUPPORTED, 8, "the device or this pool's configuration cannot do this") \
    X(DEVICE, 9, "a device call failed; weir_native_error tells its code") \
    X(LOST, 10, "the device is lost; what needs it fails, frees and destroy still work") \
    X(CORRUPT, 11, "an invariant is broken; weir_check tells which")

typedef enum weir_status {
#define WEIR_STATUS_ENUM(name, number, text) WEIR_##name = number,
    WEIR_STATUS_MAP(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

/* The name ("NO_MEMORY") and the sentence of a status; never NULL. */
const char *weir_status_name(weir_status status);
const char *weir_status_text(weir_status status);

/* ------------------------------------------------------------------------------------- words -- */

typedef uint64_t weir_addr;   /* an address on the device; 0 is no address */
typedef uint64_t weir_handle; /* the device's name for one piece of physical memory */
typedef uint64_t weir_event;  /* the device's name for one reusable event */
typedef uint32_t weir_stream; /* a stream attached to one pool; 0 is no stream */
typedef uint32_t weir_domain; /* a domain of one pool; 0 is the pool itself */
typedef struct weir_pool weir_pool;

/* A time without end, for wait_us. */
#define WEIR_FOREVER UINT64_MAX
/* No limit, for limit_bytes. */
#define WEIR_NO_LIMIT UINT64_MAX

/* ------------------------------------------------------------------------------------ device -- */

typedef struct weir_device_info {
    size_t size;
    uint64_t granule_bytes;    /* smallest mappable unit, a power of two of at least 4096 */
    uint64_t memory_bytes;     /* physical memory of the device; 0: not known */
    uint64_t va_bytes;         /* most that one va_reserve may take; 0: not known */
    uint64_t handle_bytes_max; /* largest single handle or segment; 0: no bound */
} weir_device_info;

/*
 * What a device does for a pool. docs/backend.md is the contract, tests/conformance its check.
 * `self` is weir_config.device_self. Calls may come from any thread that calls the pool; those
 * marked [L] are made with the pool's lock held, the others without it. No call may enter the pool.
 * A status of NO_MEMORY means the device is full, LOST that it will never work again. WOULD_WAIT of
 * event_record and stream_wait means that the stream can't take it now (it is being captured): its
 * memory stays pending, other streams' is looked at.
 */
typedef struct weir_device_ops {
    size_t size; /* sizeof(weir_device_ops) as the backend was compiled */

    /* Once, at create; required. info->size is the pool's; fill no more than that. */
    weir_status (*describe)(void *self, weir_device_info *info);

    /* Virtual memory: all of these or none. */
    weir_status (*va_reserve)(void *self, uint64_t bytes, weir_addr *base);
    weir_status (*va_free)(void *self, weir_addr base, uint64_t bytes);
    weir_status (*handle_create)(void *self, uint64_t bytes, weir_handle *handle);
    weir_status (*handle_release)(void *self, weir_handle handle, uint64_t bytes);
    /* Maps all of `handle` at `addr`; one handle may be mapped at several addresses at once. */
    weir_status (*map)(void *self, weir_addr addr, uint64_t bytes, weir_handle handle);
    /* Lets the device touch a range of whole mappings. */
    weir_status (*set_access)(void *self, weir_addr addr, uint64_t bytes);
    /* Undoes the maps inside a range of whole mappings. Never waits for the device. */
    weir_status (*unmap)(void *self, weir_addr addr, uint64_t bytes);

    /* Plain segments, for devices without virtual memory: both or neither, used if there is no
     * group above. A segment is taken and given back whole, after all its uses have passed. */
    weir_status (*segment_alloc)(void *self, uint64_t bytes, weir_addr *addr);
    weir_status (*segment_free)(void *self, weir_addr addr, uint64_t bytes);

    /* Order: required. `stream` is weir_stream_desc.native. */
    weir_status (*event_create)(void *self, weir_event *event);                 /* [L] */
    void (*event_destroy)(void *self, weir_event event);                        /* [L] */
    weir_status (*event_record)(void *self, weir_event event, uint64_t stream); /* [L] */
    weir_status (*event_query)(void *self, weir_event event, bool *passed);     /* [L] */
    weir_status (*stream_wait)(void *self, uint64_t stream, weir_event event);  /* [L] */

    /* Optional: the host waits for an event, at most `wait_us`. NULL: the pool never waits. */
    weir_status (*event_wait)(void *self, weir_event event, uint64_t wait_us, bool *passed);

    /* Optional, all or none: rescue. After quiesce returned OK all submitted work has ended and no
     * new work that touches this pool's memory starts before resume; the backend answers
     * UNSUPPORTED where it cannot promise this, and WOULD_WAIT, with nothing quiet, where wait_us
     * is too little. copy runs in between, and has ended when it returns. In between, calls of the
     * group above are made with the pool's lock held. A resume that fails twice makes the device lost. */
    weir_status (*quiesce)(void *self, uint64_t wait_us);                          /* [L] */
    weir_status (*copy)(void *self, weir_addr to, weir_addr from, uint64_t bytes); /* [L] */
    weir_status (*resume)(void *self);                                             /* [L] */

    /* Optional: free and total physical memory now, and the last native error code. */
    weir_status (*memory_info)(void *self, uint64_t *free_bytes, uint64_t *total_bytes);
    int64_t (*native_error)(void *self);
} weir_device_ops;

/* ---------------------------------------------------------------------------------- platform -- */

/* What the host does for a pool. lock and unlock: both, or neither for one thread at a time. The
 * lock need not be recursive. Each pool needs a lock of its own. Copied at create. */
typedef struct weir_platform {
    size_t size;
    void *self;
    void *(*mem_alloc)(void *self, size_t bytes);          /* aligned for any type; NULL: refused */
    void (*mem_free)(void *self, void *mem, size_t bytes); /* bytes as they were allocated */
    void (*lock)(void *self);
    void (*unlock)(void *self);
    /* Optional: a clock that never goes back. Without it a bound on waiting holds for each wait of
     * a call, of which there is one a stream at most, instead of for their sum. */
    uint64_t (*now_us)(void *self);
} weir_platform;

/* ------------------------------------------------------------------------------------ events -- */

typedef enum weir_what {
    WEIR_DID_ALLOC = 1,  /* addr, bytes (asked), stream */
    WEIR_DID_FREE = 2,   /* addr, bytes (asked), stream */
    WEIR_DID_MAP = 3,    /* addr, bytes: physical memory came under this range */
    WEIR_WILL_UNMAP = 4, /* addr, bytes: physical memory is about to leave this range */
    WEIR_DID_MOVE = 5,   /* addr (new place), bytes: a handle moved */
    WEIR_DID_FAIL = 6,   /* bytes (asked), stream, status: an alloc failed */
    WEIR_DID_RESCUE = 7  /* bytes copied */
} weir_what;

typedef struct weir_record {
    weir_what what;
    weir_status status;
    weir_stream stream;
    weir_domain domain;
    weir_addr addr;
    uint64_t bytes;
} weir_record;

/* Runs with the lock released, on the thread whose call caused it. With several threads, records of
 * different calls may arrive in another order than their effects. */
typedef void (*weir_observer)(void *self, const weir_record *record);

/* Asked before an allocation fails: free what you can of about `bytes`. Runs unlocked and may call
 * the pool. Returns true if anything was freed, and the allocation is tried once more. */
typedef bool (*weir_reclaimer)(void *self, uint64_t bytes);

/* ------------------------------------------------------------------------------------ config -- */

typedef struct weir_config {
    size_t size;
    const weir_device_ops *ops; /* required */
    void *device_self;
    const weir_platform *platform; /* required */

    uint64_t limit_bytes;   /* most to hold of the device, 0: no limit */
    uint64_t initial_bytes; /* physical memory to take at create; rounded up to granules */
    uint64_t unit_bytes;    /* block sizes are multiples of this power of two, 64 to 4096; 0: 512 */
    uint64_t va_bytes;      /* address range of one arena; 0: by the device's memory */
    uint32_t max_blocks;    /* most live blocks at once, 0: as host memory allows */
    bool no_growth;         /* hold initial_bytes and no more ("expandable_segments:false") */
    bool no_moves;          /* never move a handle */
    bool no_rescue;         /* never copy live memory */
    bool no_stream_reuse;   /* never hand memory freed on one stream to another unless passed */

    uint64_t small_bytes;  /* blocks up to this lie in a region of their own; 0: 64 KiB */
    uint64_t growth_bytes; /* largest handle to grow by, half of it where the whole would take the
                                 pool a tenth above the most ever asked for at once; a power of
                                 two; 0: 128 MiB */
    uint32_t move_above_permille; /* reserved / peak requested above which the pool moves free
                                     handles before it takes new ones, in 1/1000; 0: 1020 */
    uint64_t max_split_bytes; /* free runs of at least this are kept whole for requests of at least
                                 this while there is another way; 0: no such bound */
    uint32_t gc_permille;     /* growth beyond this part of the limit first gives back what is
                                 free and passed, in 1/1000; 0: never */
    uint64_t keep_bytes;      /* weir_finish gives back free memory above this many reserved bytes;
                                 0: 0 with keep_bounded, else never */
    bool keep_bounded;        /* keep_bytes counts even when it is 0 */
    /* Sizes from 2^(20+i) up to the next power of two are rounded up to that many steps per power
     * of two (a power of two; 0 or 1: no rounding); smaller sizes use entry 0, larger the last.
     * Where that would add 4 GiB or more, a size is rounded to unit_bytes only. */
    uint32_t roundup_divisions[16];

    uint64_t wait_us; /* how long weir_alloc may wait for the device, 0: WEIR_FOREVER. See
                                 weir_request.wait_us for a bound per call */
    weir_observer observer;
    void *observer_self;
    weir_reclaimer reclaimer;
    void *reclaimer_self;
} weir_config;

/* ------------------------------------------------------------------------------ pool, limits -- */

/* Makes a pool and, with initial_bytes, takes that memory. INVALID (a field is out of range),
 * UNSUPPORTED (the device lacks a required call), NO_METADATA, NO_MEMORY, DEVICE. On error nothing
 * is left behind. */
weir_status weir_pool_create(const weir_config *config, weir_pool **pool);

/* Waits for pending uses, gives everything back and frees the pool. BUSY: live blocks remain or
 * another call runs; the pool stays usable. After LOST nothing more is asked of the device. */
weir_status weir_pool_destroy(weir_pool *pool);

/* Sets the limit; WEIR_NO_LIMIT takes it away, 0 is INVALID. Where more is reserved, trims what can
 * be trimmed without waiting; if that is not enough the new limit holds all the same: nothing grows
 * until the pool is below it. */
weir_status weir_limit_set(weir_pool *pool, uint64_t limit_bytes);

/* Gives back free physical memory until at most `keep_bytes` are reserved, waiting at most
 * `wait_us` for pending uses. *released (may be NULL) is what went back to the device, WEIR_OK even
 * if less than wished. DEVICE if a device call failed. */
weir_status weir_trim(weir_pool *pool, uint64_t keep_bytes, uint64_t wait_us, uint64_t *released);

/* Finishes pending frees: what has passed becomes free for every stream, at most `wait_us` being
 * spent on the rest. WOULD_WAIT if some remain. */
weir_status weir_finish(weir_pool *pool, uint64_t wait_us);

/* Replaces the callbacks; NULL takes them away. */
void weir_observer_set(weir_pool *pool, weir_observer observer, void *self);
void weir_reclaimer_set(weir_pool *pool, weir_reclaimer reclaimer, void *self);

/* ----------------------------------------------------------------------------------- streams -- */

typedef struct weir_stream_desc {
    size_t size;
    uint64_t native; /* handed to the device's order calls */
    uint64_t unique; /* never given twice: identity is this, not `native`, which gets recycled */
    bool outlives;   /* the stream lives until weir_stream_retire or the pool's end: its points
                         may be taken late, so a free costs no device call. Else it may end without
                         a word, once the calls that name it have returned */
} weir_stream_desc;

/* Makes a stream known. Attaching a `unique` that is known gives the same weir_stream.
 * O(streams). */
weir_status weir_stream_attach(weir_pool *pool, const weir_stream_desc *desc, weir_stream *stream);

/* Ends a stream, before the device's stream is destroyed: a last point covers all its frees, and no
 * device call names it again. Its live blocks stay live; free them on another stream. STALE;
 * WOULD_WAIT: it is being captured, and stays. */
weir_status weir_stream_retire(weir_pool *pool, weir_stream stream);

/* For a stream without `outlives` that has ended unseen: as retire, but the device is not asked, and
 * work that still runs on its live blocks is not waited for: free them on a stream that comes after
 * it. Where something is left that no event covers, this is weir_stream_retire. */
weir_status weir_stream_forget(weir_pool *pool, weir_stream stream);

/* ------------------------------------------------------------------------------------ blocks -- */

enum {
    WEIR_NOWAIT = 1u << 0,     /* the host waits for nothing; WOULD_WAIT where that would help */
    WEIR_ONE_HANDLE = 1u << 1, /* the block lies in one handle: for export and registration */
    WEIR_PINNED = 1u << 2,     /* as if weir_pin followed */
    WEIR_NO_EVENTS = 1u << 3   /* make no event call (the stream is being captured): reuse only
                                  what this stream freed or what is known to have passed */
};

typedef struct weir_request {
    size_t size;
    uint64_t bytes;     /* 0 is valid: a distinct address that must be freed like any other */
    uint64_t align;     /* power of two up to the granule; 0: unit_bytes */
    weir_stream stream; /* where the block's first use is queued */
    weir_domain domain; /* 0: the pool itself */
    uint32_t flags;
    uint64_t wait_us; /* longest wait for the device in this call; 0: the pool's */
} weir_request;

/* Allocates. The block is usable in the order of request->stream from the moment of the call.
 * INVALID, STALE, NO_MEMORY, WOULD_WAIT, NO_METADATA, DEVICE, LOST, UNSUPPORTED (ONE_HANDLE on more
 * than handle_bytes_max). O(1) when a free block fits, else a bounded search and device calls. */
weir_status weir_alloc(weir_pool *pool, const weir_request *request, weir_addr *addr);

/* weir_alloc of `bytes` on `stream` with everything else at its default. */
weir_status weir_alloc_on(weir_pool *pool, weir_stream stream, uint64_t bytes, weir_addr *addr);

/* Frees in the order of `stream`. The memory is reused only after the work queued so far on it, on
 * the stream that allocated the block and on those of weir_use. `stream` 0 means the allocating
 * stream. NOT_FOUND (foreign pointer, interior pointer, double free), STALE. No device call if all
 * of these are one stream that outlives the pool; else a record each. O(1). */
weir_status weir_free(weir_pool *pool, weir_addr addr, weir_stream stream);

/* Records that `stream` uses the block too. NOT_FOUND, STALE, NO_METADATA. */
weir_status weir_use(weir_pool *pool, weir_addr addr, weir_stream stream);

/* Makes the block at `addr` `bytes` long in place, longer or shorter. NO_MEMORY where what follows
 * it is taken; BUSY for a pinned block and for shrinking one that other streams use; never moves
 * the block and never waits. Blocks of up to small_bytes lie in a region that grows downwards and
 * have seldom room. */
weir_status weir_resize(weir_pool *pool, weir_addr addr, uint64_t bytes);

/* While pinned, the physical memory under a block never moves. Counts; unpin as often as pinned.
 * A block is unpinned by its free. */
weir_status weir_pin(weir_pool *pool, weir_addr addr);
weir_status weir_unpin(weir_pool *pool, weir_addr addr);

typedef struct weir_block {
    weir_addr addr;
    uint64_t bytes;           /* what the block occupies */
    uint64_t requested_bytes; /* what was asked for */
    weir_stream stream;       /* that allocated it or, when free, last freed it; 0: none */
    weir_domain domain;
    uint32_t pins;
    bool live;
    bool mapped;  /* false: address space without memory */
    bool pending; /* free, but its uses may not have passed */
    bool small;   /* in the region of small blocks */
} weir_block;

/* The live block that holds `addr`, which may lie inside it. NOT_FOUND. O(1) for a block's first
 * address, else O(blocks). */
weir_status weir_block_find(weir_pool *pool, weir_addr addr, weir_block *block);

/* ----------------------------------------------------------------------------------- domains -- */

/* A domain is a part of the arena from which nothing is lent outside until it is released: for a
 * captured graph's memory, a tenant, a tag. */
weir_status weir_domain_create(weir_pool *pool, weir_domain *domain);

/* Gives the domain's free memory back to the pool. BUSY while it holds live blocks, or while another
 * call is at the device. STALE. */
weir_status weir_domain_release(weir_pool *pool, weir_domain domain);

/* ------------------------------------------------------------------------------------- stats -- */

typedef struct weir_amount {
    uint64_t current;
    uint64_t peak;  /* since create or weir_stats_reset_peaks */
    uint64_t total; /* all that was ever added */
} weir_amount;

#define WEIR_SIZE_CLASSES 40 /* class i: blocks of 2^(i+9) and more requested bytes, 0 takes less */

typedef struct weir_stats {
    size_t size;
    uint64_t limit_bytes;
    weir_amount requested; /* bytes asked for, of live blocks */
    weir_amount allocated; /* bytes of live blocks */
    weir_amount reserved;  /* physical memory held, pending release included */
    weir_amount pending;   /* bytes freed whose uses on other streams have not passed */
    weir_amount blocks;    /* live blocks */
    weir_amount segments;  /* handles, or segments, held */
    weir_amount by_class[WEIR_SIZE_CLASSES]; /* live blocks, counted by requested size */
    uint64_t pinned_bytes;                   /* of handles that may not move */
    uint64_t quarantined_bytes;              /* that could not be given back to the device */
    uint64_t idle_bytes;                     /* held but mapped nowhere */
    uint64_t shadowed_bytes;       /* address ranges of moved handles still to be unmapped */
    uint64_t largest_free_bytes;   /* longest free mapped run in the pool itself */
    uint64_t allocs, frees, fails; /* calls that succeeded, and allocations that failed for want of
                                       memory, records or a wait */
    uint64_t retries;              /* allocations that gave memory back and tried again */
    uint64_t reclaims;             /* times the reclaimer was asked */
    uint64_t host_waits;           /* times the host waited for the device */
    uint64_t stream_waits;         /* waits put between two streams */
    uint64_t moved_handles;        /* handles moved by aliasing */
    uint64_t rescues;              /* times live memory was copied together */
    uint64_t rescued_bytes;        /* copied by them */
    /* Device calls, failed ones included. */
    uint64_t va_reserves, va_frees, creates, releases, maps, accesses, unmaps;
    uint64_t event_creates, event_destroys, event_records, event_queries, copies;
} weir_stats;

/* Fills *stats up to stats->size. O(1) but for largest_free_bytes, a bounded look. */
void weir_stats_read(weir_pool *pool, weir_stats *stats);

/* Sets every peak to its current value. */
void weir_stats_reset_peaks(weir_pool *pool);

/* Why the last allocation failed: where the bytes are, and what would have helped. */
typedef struct weir_oom {
    size_t size;
    weir_status status;
    uint64_t asked_bytes;
    weir_stream stream;
    weir_domain domain;
    uint64_t limit_bytes; /* WEIR_NO_LIMIT: none */
    uint64_t reserved_bytes;
    uint64_t allocated_bytes;    /* live blocks */
    uint64_t free_bytes;         /* free and usable by this stream now */
    uint64_t largest_free_bytes; /* longest run of those */
    uint64_t other_stream_bytes; /* free, waiting for other streams */
    uint64_t domain_bytes;       /* free inside other domains */
    uint64_t pinned_bytes;       /* free, in handles that may not move */
    uint64_t stranded_bytes;     /* free, in handles that also hold live blocks */
    uint64_t quarantined_bytes;
    uint64_t device_free_bytes; /* 0 if the device does not say */
    uint64_t short_bytes;       /* by how much limit or device fell short; 0: not the cause */
    bool wait_would_help;       /* the caller forbade a wait that had to be made */
} weir_oom;

/* NOT_FOUND if no allocation has failed yet. */
weir_status weir_oom_read(weir_pool *pool, weir_oom *oom);

/* The device's code of the last call that failed, 0 if none did or it has no codes. */
int64_t weir_native_error(weir_pool *pool);

/* -------------------------------------------------------------------------------------- walk -- */

typedef struct weir_segment {
    weir_addr addr; /* 0: idle, mapped nowhere */
    uint64_t bytes;
    weir_handle handle;
    bool pinned;
    bool quarantined;
} weir_segment;

/* Calls `visit` for every block (live, free and unmapped) in the order of addresses, or for every
 * handle in the order of creation, until it returns false. The lock is held throughout: `visit` may
 * not call the pool. */
void weir_walk_blocks(weir_pool *pool, bool (*visit)(void *self, const weir_block *block),
                      void *self);
void weir_walk_segments(weir_pool *pool, bool (*visit)(void *self, const weir_segment *segment),
                        void *self);

/* Checks every invariant that can be seen from inside. CORRUPT: *why (may be NULL) names the first
 * that is broken. O(blocks + handles). */
weir_status weir_check(weir_pool *pool, const char **why);

#ifdef __cplusplus
}
#endif

#endif
