/* SPDX-License-Identifier: MIT */
/*
 * The runtime: one pool for each GPU of this process, made when it is first named, that frameworks
 * share. PyTorch's hooks, the preload shim, the Python package and plain C programs call this.
 *
 * Settings   WEIR_CONF, as everywhere; WEIR_TRACE=FILE records all operations for `weir replay`;
 *            WEIR_LEAKS=1 prints what is still live at exit, WEIR_LEAKS=stacks with the stacks that
 *            allocated it. All ignored with raised privileges; docs/integrations.md has the rest.
 * Calls      take plain integers and pointers, so that ctypes and dlsym can make them. A call
 *            answers 0 or the number of a weir_status; weir_runtime_why has the sentence.
 * Streams    are CUstreams: 0 or 1 the legacy default stream, 2 the calling thread's.
 * Devices    are ordinals as the driver counts them, below WEIR_RUNTIME_DEVICES; -1 means every
 *            one that has a pool. A pool works in the device's primary context.
 * Threads    Every call is safe from any thread. Texts that are returned belong to the runtime.
 * fork       Once a pool was started, every call in a child answers LOST (10); nothing blocks and
 *            nothing is freed. Before that a child may use the runtime as if it were the parent.
 * Exit       Nothing of the driver is called. The trace is closed, leaks are printed.
 */
#ifndef WEIR_RUNTIME_H
#define WEIR_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_RUNTIME_ABI 1
#define WEIR_RUNTIME_DEVICES 64

/* WEIR_RUNTIME_ABI of the library; callers that load it at run time compare. */
int weir_runtime_abi(void);

/* The name of a status, "NO_MEMORY", and its sentence. */
const char *weir_runtime_status_name(int status);
const char *weir_runtime_status_text(int status);

/* What went wrong in the calling thread's last call that failed, one sentence. */
const char *weir_runtime_why(void);

/* ----------------------------------------------------------------------------------- lifetime -- */

/* Settings in place of the environment's. INVALID; BUSY once a pool exists. NULL: the environment's
 * again. */
int weir_runtime_configure(const char *conf);

/* Makes the pool of a device now, which every call that names the device does otherwise. INVALID:
 * the settings; UNSUPPORTED: no driver, no such device, no feature. A failure is final for the
 * device: the same answer comes again, at once. */
int weir_runtime_start(int device);

/* 1 while the device has a pool; never makes one. */
int weir_runtime_started(int device);

/* Ends the pools (device -1: all of them), before a context is reset. BUSY while blocks are live.
 * No other thread may be inside a call, or make one that names the device, until it returns. */
int weir_runtime_stop(int device);

/* What the callers promise; each bit once set stays, and counts for pools made later, so say it
 * first. Ends: every stream is told to weir_runtime_stream_end before it is destroyed. */
#define WEIR_RUNTIME_ENDS_TOLD 1u
/* All work on the device is queued by the thread that calls the runtime: allows rescue, which
 * copies live memory together near the limit. */
#define WEIR_RUNTIME_ONE_LAUNCHER 2u
/* Every capture is told to weir_runtime_capture_begin and _end. */
#define WEIR_RUNTIME_CAPTURES_TOLD 4u
void weir_runtime_promise(unsigned promises);

/* ------------------------------------------------------------------------------------- memory -- */

/* NO_MEMORY: the sentence says who holds what, and what would have fitted. `bytes` 0 gives an
 * address all the same. */
int weir_runtime_alloc(int device, uint64_t bytes, uint64_t stream, uint64_t *addr);

/* Frees in the order of `stream`. NOT_FOUND: not the first address of a live block of any pool. */
int weir_runtime_free(uint64_t addr, uint64_t stream);

/* `stream` uses the block too (record_stream). `addr` may lie inside the block. */
int weir_runtime_use(uint64_t addr, uint64_t stream);

/* The live block that holds `addr`; any of the three may be NULL. NOT_FOUND. One lookup for a first
 * address, O(blocks) for one inside. */
int weir_runtime_find(uint64_t addr, int *device, uint64_t *base, uint64_t *bytes);

/* 1 if `addr` is the first address of a live block, else 0; one lookup. Sets no sentence. */
int weir_runtime_owns(uint64_t addr);

/* Pins the block's memory in place until its free, before something outside holds it. */
int weir_runtime_pin(uint64_t addr);

/* Lets work on the device `other` touch the memory of `device`, what is there and what comes.
 * Mapped memory needs this where cudaMalloc's would need cudaDeviceEnablePeerAccess. */
int weir_runtime_peer(int device, int other);

/* Before a stream is destroyed. */
int weir_runtime_stream_end(uint64_t stream);

/* Gives free memory back until `keep` bytes are held, waiting for pending uses. */
int weir_runtime_trim(int device, uint64_t keep, uint64_t *released);

/* Sets the limit: bytes, or a part of the device from above 0 to 1. A part is never more than what
 * the settings allow, so that a program's fraction does not lift its operator's limit. */
int weir_runtime_limit(int device, uint64_t bytes);
int weir_runtime_limit_part(int device, double part);

/* What a program may still allocate and all it may have: the pool's free memory counts as free, and
 * the limit as the total. */
int weir_runtime_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes);

/* With CAPTURES_TOLD: a capture is about to begin, or has ended, on any stream of the device; they
 * count. Begin makes the pool, since one that is made later would not know of the capture. */
int weir_runtime_capture_begin(int device);
int weir_runtime_capture_end(int device);

/* --------------------------------------------------------------------------- pools of the caller -- */

/* PyTorch's private pools (graphs, MemPool): between begin and end, what is allocated on a stream
 * that `wanted` answers 1 for comes from the pool `hi`.`lo` and is lent to nobody else. `wanted`
 * NULL: on any stream of the calling thread. It is called by the allocating thread, with no lock held.
 * end: no more is taken from it. release: its memory goes back once its blocks are free. */
typedef int (*weir_runtime_wanted)(void *self, uint64_t stream);
int weir_runtime_pool_begin(int device, uint64_t hi, uint64_t lo, weir_runtime_wanted wanted,
                            void *self);
int weir_runtime_pool_end(int device, uint64_t hi, uint64_t lo);
int weir_runtime_pool_release(int device, uint64_t hi, uint64_t lo);

/* ------------------------------------------------------------------------------------ looking -- */

/* One figure: now, at its peak, and all that was ever added and taken away. */
typedef struct weir_runtime_amount {
    uint64_t current, peak, added, taken;
} weir_runtime_amount;

/* [0] all, [1] blocks of 1 MiB requested and more, [2] smaller ones, as PyTorch splits. */
typedef struct weir_runtime_stats {
    uint64_t size; /* sizeof this, set by the caller */
    weir_runtime_amount allocations[3];
    weir_runtime_amount allocated[3]; /* bytes that blocks occupy */
    weir_runtime_amount requested[3]; /* bytes that were asked for */
    weir_runtime_amount reserved;     /* bytes of physical memory */
    weir_runtime_amount segments;     /* handles or driver segments */
    weir_runtime_amount pending;      /* bytes freed whose uses have not passed */
    uint64_t limit;                   /* UINT64_MAX: none */
    uint64_t ooms, retries;
    uint64_t device_allocs, device_frees; /* handles or segments taken and given back */
    uint64_t host_waits, stream_waits, moves, rescues;
} weir_runtime_stats;

/* Fills what both sides know; what only the caller knows reads as zero. INVALID: no size. */
int weir_runtime_stats_read(int device, weir_runtime_stats *stats);
int weir_runtime_stats_reset_peaks(int device);
/* Sets `added`, `taken`, ooms and retries to 0. */
int weir_runtime_stats_reset_totals(int device);

/* Texts. Each returns the length that it needs, like snprintf, and writes at most `room` bytes with
 * the final 0; nothing is written where room is 0. */
size_t weir_runtime_summary(int device, char *text, size_t room); /* PyTorch's table */
size_t weir_runtime_oom(int device, char *text, size_t room);     /* the last failure explained */
size_t weir_runtime_conf(char *text, size_t room);                /* the settings in force */

/* Live blocks, largest sum first, grouped by stack where history recorded one, else by size: at most
 * `top` groups (0: all), with count, bytes, age and stream. */
size_t weir_runtime_leaks(int device, unsigned top, char *text, size_t room);

/* Writes what the pools hold, and the history, to a file: for pytorch.org/memory_viz (a pickle), or
 * as JSON where the name ends in .json. DEVICE: the file can't be written. */
int weir_runtime_snapshot(const char *path);

/* ------------------------------------------------------------------------------------ history -- */

/* Keeps the last `entries` operations, with stacks where a source is set; 0 stops and forgets. Host
 * memory is taken as operations come, 64 bytes each. */
int weir_runtime_history(uint64_t entries);

/* Goes with the operations of the calling thread from now on ("user_metadata" of a snapshot); NULL
 * or "": nothing. Each different text counts as a stack, below. */
int weir_runtime_metadata(const char *text);

/* Interns a stack, innermost frame first, and returns its number, not 0; 0: memory is short or there
 * are 65,536 already. The strings are copied. */
uint32_t weir_runtime_stack(const char *const *file, const int *line, const char *const *name,
                            size_t frames);

/* Asked for the caller's stack at each allocation while history is kept, on the allocating thread
 * with no lock held. NULL takes it away. */
typedef uint32_t (*weir_runtime_stack_source)(void *self);
void weir_runtime_stack_from(weir_runtime_stack_source source, void *self);

/* A source: the machine's frames of the calling thread, as "symbol (library+offset)" for addr2line.
 * It has no use for `self`. 0 where this C library cannot walk a stack. */
uint32_t weir_runtime_stack_native(void *self);

/* Records every operation to a file that `weir replay` reads. NULL ends it. BUSY: it records
 * already. DEVICE: the file can't be written. Where another process is recording to a file of this
 * name, the process's number is added to it: "FILE.1234". */
int weir_runtime_trace(const char *path);

#ifdef __cplusplus
}
#endif

#endif
