/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime as a contestant.
 *
 *   cudaMallocAsync   without a cap the device's default pool, with a release threshold that keeps
 *                     everything; with a cap a pool of its own with that maxSize. Where the pool
 *                     has no room, what is free goes back to the device and it is asked again; if
 *                     that fails, all streams are waited for and it is asked a last time. A user
 *                     can do no better.
 *   cudaMalloc        no pool: the reference for stalls
 *
 * A use on another stream becomes a wait of the owner's stream, since a free names one stream only.
 */
#include "entrants.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entrant_runtime {
    cudaMemPool_t pool; /* the one in use */
    bool own;           /* made for a cap */
    cudaStream_t streams[RACER_STREAMS];
    cudaEvent_t events[RACER_STREAMS];
    uint64_t held, held_peak; /* of cudaMalloc */
    char fault[160];
} entrant_runtime;

static bool runtime_fault(entrant_runtime *me, const char *call, cudaError_t error)
{
    if (error == cudaSuccess) return true;
    (void)cudaGetLastError();
    if (me->fault[0] == '\0')
        (void)snprintf(me->fault, sizeof me->fault, "%s: %s", call, cudaGetErrorString(error));
    return false;
}

/* ------------------------------------------------------------------------------ open and end -- */

static void runtime_close(void *self)
{
    entrant_runtime *me = self;

    (void)cudaDeviceSynchronize();
    if (me->own) (void)cudaMemPoolDestroy(me->pool);
    for (uint32_t i = 0; i < RACER_STREAMS; i++) {
        if (me->events[i] != NULL) (void)cudaEventDestroy(me->events[i]);
        if (me->streams[i] != NULL) (void)cudaStreamDestroy(me->streams[i]);
    }
    free(me);
}

static void *runtime_open(const racer_contestant *entry, racer_gpu *gpu, racer_why *why)
{
    entrant_runtime *me = calloc(1, sizeof *me);
    cudaError_t error = cudaSetDevice(0);

    (void)entry, (void)gpu;
    if (me == NULL) return NULL;
    for (uint32_t i = 0; i < RACER_STREAMS && error == cudaSuccess; i++) {
        error = cudaStreamCreateWithFlags(&me->streams[i], cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&me->events[i], cudaEventDisableTiming);
    }
    if (error == cudaSuccess) return me;
    (void)racer_why_set(why, "the CUDA runtime: %s", cudaGetErrorString(error));
    runtime_close(me);
    return NULL;
}

static void *runtime_stream(void *self, uint32_t stream)
{
    entrant_runtime *me = self;
    return me->streams[stream];
}

static const char *runtime_fault_text(void *self)
{
    entrant_runtime *me = self;
    return me->fault[0] != '\0' ? me->fault : NULL;
}

/* --------------------------------------------------------------------------- cudaMallocAsync -- */

static cudaError_t async_pool_own(entrant_runtime *me, uint64_t cap_bytes)
{
    struct cudaMemPoolProps props;

    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.maxSize = cap_bytes;
    cudaError_t error = cudaMemPoolCreate(&me->pool, &props);
    me->own = error == cudaSuccess;
    return error;
}

static bool async_reset(void *self, uint64_t cap_bytes, uint32_t streams, racer_why *why)
{
    entrant_runtime *me = self;
    uint64_t keep = UINT64_MAX, zero = 0;
    cudaError_t error = cudaDeviceSynchronize();

    (void)streams;
    if (error == cudaSuccess && me->own) error = cudaMemPoolDestroy(me->pool);
    me->own = false;
    me->fault[0] = '\0';
    if (error == cudaSuccess)
        error = cap_bytes != 0 ? async_pool_own(me, cap_bytes)
                               : cudaDeviceGetDefaultMemPool(&me->pool, 0);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(me->pool, cudaMemPoolAttrReleaseThreshold, &keep);
    if (error == cudaSuccess) error = cudaMemPoolTrimTo(me->pool, 0);
    if (error == cudaSuccess)
        error = cudaMemPoolSetAttribute(me->pool, cudaMemPoolAttrReservedMemHigh, &zero);
    if (error == cudaSuccess) return true;
    (void)cudaGetLastError();
    return racer_why_set(why, "the pool: %s", cudaGetErrorString(error));
}

static cudaError_t async_take(entrant_runtime *me, void **addr, uint64_t bytes, uint32_t stream)
{
    if (!me->own) return cudaMallocAsync(addr, bytes, me->streams[stream]);
    return cudaMallocFromPoolAsync(addr, bytes, me->pool, me->streams[stream]);
}

/* What is free goes back to the device, and the pool is asked again. */
static cudaError_t async_retry(entrant_runtime *me, void **addr, uint64_t bytes, uint32_t stream)
{
    cudaError_t error = cudaMemPoolTrimTo(me->pool, 0);

    (void)cudaGetLastError();
    return error == cudaSuccess ? async_take(me, addr, bytes, stream) : error;
}

static uint64_t async_alloc(void *self, uint32_t stream, uint64_t bytes)
{
    entrant_runtime *me = self;
    void *addr = NULL;
    cudaError_t error = async_take(me, &addr, bytes, stream);

    if (error == cudaErrorMemoryAllocation) error = async_retry(me, &addr, bytes, stream);
    if (error == cudaErrorMemoryAllocation) {
        error = cudaDeviceSynchronize();
        if (error == cudaSuccess) error = async_retry(me, &addr, bytes, stream);
    }
    if (error == cudaSuccess) return (uint64_t)(uintptr_t)addr;
    if (error == cudaErrorMemoryAllocation) (void)cudaGetLastError();
    else (void)runtime_fault(me, "cudaMallocAsync", error);
    return 0;
}

static void async_free(void *self, uint64_t addr, uint64_t bytes, uint32_t stream)
{
    entrant_runtime *me = self;

    (void)bytes;
    (void)runtime_fault(me, "cudaFreeAsync",
                        cudaFreeAsync((void *)(uintptr_t)addr, me->streams[stream]));
}

static void async_use(void *self, uint64_t addr, uint32_t owner, uint32_t side)
{
    entrant_runtime *me = self;

    (void)addr;
    if (runtime_fault(me, "cudaEventRecord", cudaEventRecord(me->events[side], me->streams[side])))
        (void)runtime_fault(me, "cudaStreamWaitEvent",
                            cudaStreamWaitEvent(me->streams[owner], me->events[side], 0));
}

static uint64_t async_attribute(entrant_runtime *me, enum cudaMemPoolAttr attribute)
{
    uint64_t bytes = 0;

    (void)runtime_fault(me, "cudaMemPoolGetAttribute",
                        cudaMemPoolGetAttribute(me->pool, attribute, &bytes));
    return bytes;
}

static uint64_t async_reserved(void *self)
{
    return async_attribute(self, cudaMemPoolAttrReservedMemCurrent);
}

static uint64_t async_reserved_peak(void *self)
{
    return async_attribute(self, cudaMemPoolAttrReservedMemHigh);
}

static void async_trim(void *self)
{
    entrant_runtime *me = self;
    (void)runtime_fault(me, "cudaMemPoolTrimTo", cudaMemPoolTrimTo(me->pool, 0));
}

const racer_contestant racer_malloc_async = {.key = "cudaMallocAsync",
                                             .name = "cudaMallocAsync",
                                             .traits = RACER_CAPS,
                                             .open = runtime_open,
                                             .close = runtime_close,
                                             .reset = async_reset,
                                             .alloc = async_alloc,
                                             .free = async_free,
                                             .use = async_use,
                                             .reserved = async_reserved,
                                             .reserved_peak = async_reserved_peak,
                                             .trim = async_trim,
                                             .stream = runtime_stream,
                                             .fault = runtime_fault_text};

/* -------------------------------------------------------------------------------- cudaMalloc -- */

static bool bare_reset(void *self, uint64_t cap_bytes, uint32_t streams, racer_why *why)
{
    entrant_runtime *me = self;

    (void)streams;
    me->fault[0] = '\0';
    me->held_peak = me->held;
    return cap_bytes == 0 || racer_why_set(why, "cudaMalloc has no cap");
}

static uint64_t bare_alloc(void *self, uint32_t stream, uint64_t bytes)
{
    entrant_runtime *me = self;
    void *addr = NULL;
    cudaError_t error = cudaMalloc(&addr, bytes);

    (void)stream;
    if (error == cudaErrorMemoryAllocation) (void)cudaGetLastError();
    else (void)runtime_fault(me, "cudaMalloc", error);
    if (error != cudaSuccess) return 0;
    me->held += bytes;
    if (me->held > me->held_peak) me->held_peak = me->held;
    return (uint64_t)(uintptr_t)addr;
}

static void bare_free(void *self, uint64_t addr, uint64_t bytes, uint32_t stream)
{
    entrant_runtime *me = self;

    (void)stream;
    if (runtime_fault(me, "cudaFree", cudaFree((void *)(uintptr_t)addr))) me->held -= bytes;
}

/* cudaFree waits for every stream by itself. */
static void bare_use(void *self, uint64_t addr, uint32_t owner, uint32_t side)
{
    (void)self, (void)addr, (void)owner, (void)side;
}

static uint64_t bare_reserved(void *self)
{
    entrant_runtime *me = self;
    return me->held;
}

static uint64_t bare_reserved_peak(void *self)
{
    entrant_runtime *me = self;
    return me->held_peak;
}

static void bare_trim(void *self)
{
    (void)self;
}

const racer_contestant racer_malloc_plain = {.key = "cudaMalloc",
                                             .name = "cudaMalloc, no pool",
                                             .traits = RACER_SLOW,
                                             .open = runtime_open,
                                             .close = runtime_close,
                                             .reset = bare_reset,
                                             .alloc = bare_alloc,
                                             .free = bare_free,
                                             .use = bare_use,
                                             .reserved = bare_reserved,
                                             .reserved_peak = bare_reserved_peak,
                                             .trim = bare_trim,
                                             .stream = runtime_stream,
                                             .fault = runtime_fault_text};
