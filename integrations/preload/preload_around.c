/* SPDX-License-Identifier: MIT */
/*
 * The calls around memory.
 *
 *   what is left   cuMemGetInfo tells what the program may still allocate and the limit; the size of
 *                  the device is the limit too, so that what a program reckons from it fits
 *   streams        Weir is told before one is destroyed: its name will be another's
 *   captures       are counted, as the events that frees need would break them
 *   sharing        memory that leaves the process is pinned first. cuIpcGetMemHandle is refused: the
 *                  driver has such handles for cuMemAlloc's memory only, and Weir's is mapped
 *   ends           before a primary context is reset, the pool and all that is live in it end. What
 *                  cuCtxDestroy destroys is never a primary context, so it holds nothing of Weir's
 */
#include "preload.h"

#include "conf.h"

#include <pthread.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------ what is left -- */

preload_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    uint64_t left = 0;
    uint64_t total = 0;
    preload_device *device = free_bytes && total_bytes ? weir_preload_device() : NULL;
    const preload_runtime *runtime = weir_preload_runtime_if();
    if (!device || device->state != PRELOAD_ON ||
        runtime->memory(device->ordinal, &left, &total) != WEIR_OK) {
        return PRELOAD_REAL(cuMemGetInfo_v2, (free_bytes, total_bytes));
    }
    left += weir_preload_resting(device);
    *free_bytes = (size_t)(left < total ? left : total);
    *total_bytes = (size_t)total;
    return PRELOAD_OK;
}

/* What the settings allow before there is a pool; the device's own size where they say nothing, or
 * are wrong, which the first allocation will tell. */
static size_t around_limit(size_t device_bytes)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf conf;
    weir_conf_init(&conf);
    if (weir_conf_environment(&conf, error) != WEIR_OK ||
        weir_conf_resolve(&conf, device_bytes, error) != WEIR_OK || conf.pool.limit_bytes == 0 ||
        conf.pool.limit_bytes > device_bytes) {
        return device_bytes;
    }
    return (size_t)conf.pool.limit_bytes;
}

/* Makes no pool: programs ask every device there is. */
preload_result cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    preload_result result = PRELOAD_REAL(cuDeviceTotalMem_v2, (bytes, device));
    uint64_t left = 0;
    uint64_t total = 0;
    if (result != PRELOAD_OK || weir_preload_is_off() || device < 0 ||
        device >= WEIR_RUNTIME_DEVICES) {
        return result;
    }
    const preload_device *known = weir_preload_device_at(device);
    if (known->state != PRELOAD_ON) {
        *bytes = around_limit(*bytes);
    } else if (weir_preload_runtime_if()->memory(device, &left, &total) == WEIR_OK) {
        *bytes = (size_t)total;
    }
    return result;
}

/* -------------------------------------------------------------------------------------- streams -- */

static pthread_mutex_t around_lock = PTHREAD_MUTEX_INITIALIZER;
static void **around_captured; /* streams, once for each capture begun on them */
static size_t around_count, around_room;

static void around_capture_begun(void *stream)
{
    pthread_mutex_lock(&around_lock);
    if (around_count == around_room) {
        size_t room = around_room ? around_room * 2 : 8;
        void **grown = (void **)realloc((void *)around_captured, room * sizeof(void *));
        if (!grown) {
            abort(); /* to forget a capture would be to break it */
        }
        around_captured = grown;
        around_room = room;
    }
    around_captured[around_count++] = stream;
    pthread_mutex_unlock(&around_lock);
}

static void around_capture_ended(const void *stream)
{
    pthread_mutex_lock(&around_lock);
    for (size_t i = 0; i < around_count; i++) {
        if (around_captured[i] == stream) {
            around_captured[i] = around_captured[--around_count];
            break;
        }
    }
    pthread_mutex_unlock(&around_lock);
}

bool weir_preload_is_captured(void)
{
    pthread_mutex_lock(&around_lock);
    bool captured = around_count > 0;
    pthread_mutex_unlock(&around_lock);
    return captured;
}

preload_result cuStreamDestroy_v2(void *stream)
{
    const preload_runtime *runtime = weir_preload_runtime_if();
    if (runtime && stream && !weir_preload_is_off()) {
        around_capture_ended(stream);
        (void)runtime->stream_end((uint64_t)(uintptr_t)stream);
    }
    return PRELOAD_REAL(cuStreamDestroy_v2, (stream));
}

/* ------------------------------------------------------------------------------------- captures -- */

static preload_result around_begun(preload_result result, void *stream)
{
    if (result == PRELOAD_OK && !weir_preload_is_off()) {
        around_capture_begun(stream);
    }
    return result;
}

/* A capture that was broken ends by an error of this call; one that goes on, or never was, by
 * another. */
static preload_result around_ended(preload_result result, const void *stream)
{
    bool goes_on = result == PRELOAD_INVALID_VALUE || result == PRELOAD_INVALID_HANDLE ||
                   result == PRELOAD_ILLEGAL_STATE || result == PRELOAD_WRONG_THREAD;
    if (!goes_on && !weir_preload_is_off()) {
        around_capture_ended(stream);
    }
    return result;
}

static void *around_of_thread(void *stream)
{
    return stream ? stream : PRELOAD_PER_THREAD;
}

preload_result cuStreamBeginCapture_v2(void *stream, int mode)
{
    return around_begun(PRELOAD_REAL(cuStreamBeginCapture_v2, (stream, mode)), stream);
}

preload_result cuStreamBeginCapture_v2_ptsz(void *stream, int mode)
{
    return around_begun(PRELOAD_REAL(cuStreamBeginCapture_v2_ptsz, (stream, mode)),
                        around_of_thread(stream));
}

preload_result cuStreamBeginCaptureToGraph(void *stream, void *graph, const void *after,
                                           const void *edges, size_t count, int mode)
{
    return around_begun(
        PRELOAD_REAL(cuStreamBeginCaptureToGraph, (stream, graph, after, edges, count, mode)),
        stream);
}

preload_result cuStreamBeginCaptureToGraph_ptsz(void *stream, void *graph, const void *after,
                                                const void *edges, size_t count, int mode)
{
    return around_begun(
        PRELOAD_REAL(cuStreamBeginCaptureToGraph_ptsz, (stream, graph, after, edges, count, mode)),
        around_of_thread(stream));
}

preload_result cuStreamEndCapture(void *stream, void **graph)
{
    return around_ended(PRELOAD_REAL(cuStreamEndCapture, (stream, graph)), stream);
}

preload_result cuStreamEndCapture_ptsz(void *stream, void **graph)
{
    return around_ended(PRELOAD_REAL(cuStreamEndCapture_ptsz, (stream, graph)),
                        around_of_thread(stream));
}

/* -------------------------------------------------------------------------------------- sharing -- */

/* The block that holds `addr`; false: none of Weir's. */
static bool around_block(uint64_t addr, uint64_t *base, uint64_t *bytes)
{
    const preload_runtime *runtime = weir_preload_runtime_if();
    return runtime && addr && !weir_preload_is_off() &&
           runtime->find(addr, NULL, base, bytes) == WEIR_OK;
}

static void around_pin(uint64_t addr)
{
    uint64_t base = 0;
    if (around_block(addr, &base, NULL)) {
        (void)weir_preload_runtime_if()->pin(base); /* what can't be pinned can't be moved */
    }
}

/* The driver would tell the mapping, which holds blocks of others too. */
preload_result cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t addr)
{
    uint64_t start = 0;
    uint64_t length = 0;
    if (!around_block(addr, &start, &length)) {
        return PRELOAD_REAL(cuMemGetAddressRange_v2, (base, bytes, addr));
    }
    if (base) {
        *base = start;
    }
    if (bytes) {
        *bytes = (size_t)length;
    }
    return PRELOAD_OK;
}

preload_result cuIpcGetMemHandle(void *handle, uint64_t addr)
{
    return around_block(addr, NULL, NULL) ? PRELOAD_NOT_SUPPORTED
                                          : PRELOAD_REAL(cuIpcGetMemHandle, (handle, addr));
}

preload_result cuMemRetainAllocationHandle(uint64_t *handle, void *addr)
{
    around_pin((uint64_t)(uintptr_t)addr);
    return PRELOAD_REAL(cuMemRetainAllocationHandle, (handle, addr));
}

preload_result cuMemGetHandleForAddressRange(void *handle, uint64_t addr, size_t bytes, int type,
                                             unsigned long long flags)
{
    around_pin(addr);
    return PRELOAD_REAL(cuMemGetHandleForAddressRange, (handle, addr, bytes, type, flags));
}

/* Set on memory that a network card is to reach. */
preload_result cuPointerSetAttribute(const void *value, int attribute, uint64_t addr)
{
    if (attribute == PRELOAD_SYNC_MEMOPS) {
        around_pin(addr);
    }
    return PRELOAD_REAL(cuPointerSetAttribute, (value, attribute, addr));
}

/* ----------------------------------------------------------------------------------------- ends -- */

preload_result cuDevicePrimaryCtxReset_v2(int device)
{
    weir_preload_device_end(device);
    return PRELOAD_REAL(cuDevicePrimaryCtxReset_v2, (device));
}

preload_result cuDevicePrimaryCtxReset(int device)
{
    weir_preload_device_end(device);
    return PRELOAD_REAL(cuDevicePrimaryCtxReset, (device));
}
