/* SPDX-License-Identifier: MIT */
/*
 * A pool that speaks CUDA: CUstream in, CUdeviceptr out.
 *
 * Joins a CUDA device, a platform and a pool, and knows the streams: each CUstream is attached when
 * it is first named, by the identity that cuStreamGetId tells, so a recycled handle is a new stream.
 *
 * Graphs     What is allocated on a stream that is being captured goes to a domain of that capture.
 *            Its addresses stay mapped, and nothing else gets them, until the last graph and
 *            executable graph made from the capture is destroyed and its last launch has ended.
 *            Inside the capture a stream reuses what it freed itself. Memory from outside that is
 *            freed on a capturing stream is reused after the capture, behind what that stream had
 *            queued before it. While such a graph exists the pool copies no live memory together.
 * Threads    Every call is safe from any thread. A stream may not begin a capture while another
 *            thread names it here, which CUDA forbids too.
 * Exit       As for cuda_device.h: nothing by itself.
 */
#ifndef WEIR_CUDA_POOL_H
#define WEIR_CUDA_POOL_H

#include "cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_cuda_pool weir_cuda_pool;

typedef struct weir_cuda_pool_config {
    size_t size;
    weir_cuda_config device; /* `source` and `release_threshold_bytes` come from the settings */
    const weir_conf *conf;   /* settings; NULL: those of the environment's WEIR_CONF */
    /* The program calls weir_cuda_pool_stream_end before it destroys a stream. Then a free costs no
     * driver call, and an allocation does not ask the driver who the stream is. Without,
     * stream_end is needed only for a stream that a live block was allocated on. */
    bool streams_told;
    /* The program calls weir_cuda_pool_capture_begin and _end around its captures. Then nobody asks
     * the driver whether a stream is capturing while no capture runs. */
    bool captures_told;
} weir_cuda_pool_config;

/* As weir_cuda_create; also INVALID for settings, with the parser's sentence in `why`. */
weir_status weir_cuda_pool_create(const weir_cuda_pool_config *config, weir_cuda_pool **pool,
                                  char why[WEIR_CUDA_WHY_BYTES]);

/* BUSY while blocks are live or graphs captured with the pool exist; the pool stays usable then. */
weir_status weir_cuda_pool_destroy(weir_cuda_pool *pool);

/* The parts, for everything that needs no stream: stats, trim, limit, pin, walk. */
weir_pool *weir_cuda_pool_core(weir_cuda_pool *pool);
weir_cuda *weir_cuda_pool_device(weir_cuda_pool *pool);

/* As weir_alloc_on, weir_free and weir_use, in the order of a CUstream; NULL is the legacy default
 * stream, as everywhere in CUDA. Also INVALID: a stream of another context; DEVICE: a capture that
 * is broken already; UNSUPPORTED: a capture with a driver older than 11.3. */
weir_status weir_cuda_pool_alloc(weir_cuda_pool *pool, uint64_t bytes, void *stream,
                                 weir_addr *addr);
weir_status weir_cuda_pool_free(weir_cuda_pool *pool, weir_addr addr, void *stream);
weir_status weir_cuda_pool_use(weir_cuda_pool *pool, weir_addr addr, void *stream);

/* Pins a live block, until its free, and exports it; see weir_cuda_export. INVALID where the block
 * lies in several handles: allocate it through the core with WEIR_ONE_HANDLE. NOT_FOUND. */
weir_status weir_cuda_pool_share(weir_cuda_pool *pool, weir_addr addr, weir_cuda_share as,
                                 weir_cuda_shared *shared);

/* The weir_stream of a CUstream that is not being captured, attached if need be: for weir_alloc. */
weir_status weir_cuda_pool_stream(weir_cuda_pool *pool, void *stream, weir_stream *name);

/* Before a stream is destroyed. OK too for one that the pool never met. BUSY: it is captured. */
weir_status weir_cuda_pool_stream_end(weir_cuda_pool *pool, void *stream);

/* With captures_told: a capture begins, or has ended, on any stream. Begin before the first call
 * that names a stream of the capture; both count. */
void weir_cuda_pool_capture_begin(weir_cuda_pool *pool);
void weir_cuda_pool_capture_end(weir_cuda_pool *pool);

/* Takes back the memory of captures whose graphs are gone. Every call does this when there is
 * something to do; call it to have it done now. BUSY: some of it is still live. */
weir_status weir_cuda_pool_settle(weir_cuda_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
