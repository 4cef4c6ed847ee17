/* SPDX-License-Identifier: MIT */
/*
 * A device made of host memory: real pages, real remapping, real threads.
 *
 * Owns     one memory file whose ranges are the handles, address ranges reserved without rights,
 *          and one thread with a queue for each stream. A handle mapped at two addresses shows the
 *          same bytes at both.
 * Use      for tests that want data to look at and races to happen; Linux only. Work on unmapped or
 *          forbidden addresses faults as it would on the device.
 * Threads  Every call is safe from any thread. Queueing blocks between quiesce and resume; so work
 *          that weir_host_call runs may not queue work itself.
 * Cost     A call takes one lock, and O(log mappings) beside the system call.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_host weir_host;

typedef struct weir_host_config {
    uint64_t memory_bytes;  /* 0: 1 GiB */
    uint64_t granule_bytes; /* a power of two of at least 64 KiB; 0: 2 MiB */
    uint64_t va_bytes;      /* what va_reserve can give in all; 0: 256 GiB */
    bool no_virtual;        /* segments instead of virtual memory */
} weir_host_config;

/* NULL where the system refuses memory or the config is out of range. `config` NULL: all
 * defaults. */
weir_host *weir_host_create(const weir_host_config *config);

/* Ends all streams after their work, then gives back everything, balanced or not. */
void weir_host_destroy(weir_host *host);

/* The calls to put into weir_config.ops, with `host` as device_self. Owned by `host`. */
const weir_device_ops *weir_host_ops(weir_host *host);

/* NULL when handles, ranges, mappings, segments and events are all given back; else a text that
 * says what remains. Owned by `host`, until the next call. */
const char *weir_host_balance(weir_host *host);

/* Streams. The number is weir_stream_desc.native, 0 where no thread can be had; a destroyed
 * stream's number is given again, the unique id never. destroy waits for the stream's work. */
uint64_t weir_host_stream_create(weir_host *host);
uint64_t weir_host_stream_unique(weir_host *host, uint64_t stream);
void weir_host_stream_destroy(weir_host *host, uint64_t stream);

/* Work, done by the stream's thread in the order of queueing. fill writes a pattern of 64-bit words
 * made from `tag` and the place in the range; verify counts the words that differ from it. False
 * where the stream does not exist or host memory is short; nothing is queued then. */
bool weir_host_fill(weir_host *host, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag);
bool weir_host_verify(weir_host *host, uint64_t stream, weir_addr addr, uint64_t bytes,
                      uint64_t tag);
bool weir_host_sleep(weir_host *host, uint64_t stream, uint64_t sleep_us);
bool weir_host_call(weir_host *host, uint64_t stream, void (*call)(void *self), void *self);

/* Waits for all that was queued on a stream (0: on all). */
void weir_host_sync(weir_host *host, uint64_t stream);

/* Words that verify found wrong so far. */
uint64_t weir_host_errors(weir_host *host);

#ifdef __cplusplus
}
#endif

#endif
