/* SPDX-License-Identifier: MIT */
/*
 * A CUDA device under a pool: memory by one of three sources, order by the driver's events.
 *
 *   vmm      handles of cuMemCreate mapped into reserved addresses; the pool grows, moves and trims
 *            by handles. Handles can be exported (POSIX file descriptor) and, where the device can,
 *            registered for RDMA.
 *   async    segments from a driver pool of our own (cuMemAllocFromPoolAsync); what the Weir pool
 *            gives back stays in the driver's pool up to release_threshold_bytes.
 *   malloc   segments of cuMemAlloc, for tools and old devices.
 *
 * Use        cuda_pool.h has the whole pool for programs that speak in CUstream; this is the device
 *            alone, for weir_pool_create. docs/cuda.md is its contract and its limits.
 * Context    Works in one context, the device's primary one or the caller's. A call made on a thread
 *            with another current context makes ours current and puts the other back.
 * Threads    Every call is safe from any thread.
 * Capture    Driver calls that a capture of this or another thread would not survive are made in
 *            relaxed capture mode; no event is recorded on a stream that is being captured.
 * Exit       Nothing is called at process exit by itself. A destroy after the driver has shut down
 *            frees host memory only.
 */
#ifndef WEIR_CUDA_DEVICE_H
#define WEIR_CUDA_DEVICE_H

#include "conf.h"
#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CUDA_WHY_BYTES 256

typedef struct weir_cuda weir_cuda;

typedef struct weir_cuda_config {
    size_t size;
    int device;    /* ordinal, after CUDA_VISIBLE_DEVICES; counts without `context` */
    void *context; /* a CUcontext to work in; NULL: the primary one of `device`, retained until
                      destroy. Must outlive the device */
    weir_conf_source source;          /* vmm falls back to async, and that to malloc, where the
                                         device lacks it, unless `strict` */
    bool strict;                      /* UNSUPPORTED instead of falling back */
    uint64_t release_threshold_bytes; /* async: what the driver's pool may keep of what is free */
    bool one_launcher;   /* all work on this memory is queued by the thread that calls the pool, so
                            the pool may count on quiet while it waits: allows rescue. No capture
                            may run then in the context but those that cuda_pool.h knows */
    const char *libcuda; /* NULL: "libcuda.so.1" */
} weir_cuda_config;

/* UNSUPPORTED (no driver, no such device or feature), INVALID, NO_METADATA, DEVICE. On error
 * nothing is left behind and `why` says in one sentence what is missing and what to do. `config`
 * NULL: all defaults. Initialises the driver and, without `context`, the primary context. */
weir_status weir_cuda_create(const weir_cuda_config *config, weir_cuda **cuda,
                             char why[WEIR_CUDA_WHY_BYTES]);

/* Gives back what the device holds itself. Only after every pool on it is destroyed. */
void weir_cuda_destroy(weir_cuda *cuda);

/* The calls to put into weir_config.ops, with `cuda` as device_self. Owned by `cuda`. */
const weir_device_ops *weir_cuda_ops(weir_cuda *cuda);

/* The source in use, after any falling back. */
weir_conf_source weir_cuda_source(const weir_cuda *cuda);

/* NULL when handles, ranges, mappings, segments and events are all given back; else a text that
 * says what remains. Owned by `cuda`, until the next call. */
const char *weir_cuda_balance(weir_cuda *cuda);

/* The name of the last native error ("CUDA_ERROR_OUT_OF_MEMORY"), never NULL. */
const char *weir_cuda_error(weir_cuda *cuda);

/* What weir_stream_attach needs for a CUstream: NULL or CU_STREAM_LEGACY for the legacy default
 * stream, CU_STREAM_PER_THREAD for the calling thread's. The id is cuStreamGetId's (the legacy stream
 * has one of Weir's own), so a handle that the driver gives again is another stream. `outlives` is
 * set for the legacy stream only; set it for others where the program retires the stream before it
 * destroys it. INVALID: a stream of another context, or one that is being captured. */
weir_status weir_cuda_stream(weir_cuda *cuda, void *stream, weir_stream_desc *desc);

/* ----------------------------------------------------------------------------------- sharing -- */

/* Lets another device read and write all memory of this one, now and later; the first call also
 * opens what is mapped already. OK again for a device that has access. UNSUPPORTED: the two have no
 * link, or the source is malloc (cuCtxEnablePeerAccess is for that). */
weir_status weir_cuda_peer(weir_cuda *cuda, int device);

typedef enum weir_cuda_share {
    WEIR_CUDA_FD,     /* a POSIX file descriptor of the whole handle, for cuMemImport... */
    WEIR_CUDA_DMA_BUF /* a dma-buf file descriptor of the range alone */
} weir_cuda_share;

typedef struct weir_cuda_shared {
    int fd;                /* the caller's to close */
    uint64_t handle_bytes; /* of what the descriptor stands for */
    uint64_t offset;       /* of `addr` in it */
} weir_cuda_shared;

/* Exports the memory under a range. Pin its block first (weir_pin): memory that moves is no use to
 * others. UNSUPPORTED: the device or the source can't; INVALID: the range lies in several handles
 * (allocate with WEIR_ONE_HANDLE) or is not of this device. dma-buf ranges are whole host pages. */
weir_status weir_cuda_export(weir_cuda *cuda, weir_addr addr, uint64_t bytes, weir_cuda_share as,
                             weir_cuda_shared *shared);

#ifdef __cplusplus
}
#endif

#endif
