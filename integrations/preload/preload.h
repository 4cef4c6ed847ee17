/* SPDX-License-Identifier: MIT */
/*
 * What the files of libweir_preload.so share.
 *
 *   preload_entry.c     dlsym and dlvsym, which programs and CUDA runtimes ask for the driver
 *   preload_real.c      libc's own dlsym; the driver's own functions
 *   preload_lookup.c    which look-ups are answered with a function of ours
 *   preload_runtime.c   Weir's runtime, loaded when a program first wants memory
 *   preload_device.c    devices, their contexts, what ends them
 *   preload_block.c     the blocks that were given, and those that rest after a free
 *   preload_memory.c    the memory calls
 *   preload_around.c    the other calls: streams, captures, sharing, what is left
 *
 * The driver's interface alone is caught. Every CUDA runtime, old or new, shared or linked into the
 * program, asks the driver for memory by functions that it looks up at run time: what is answered
 * there serves cudaMalloc, cudaMallocAsync, cudaMallocPitch, cudaMalloc3D, cudaFree and all their
 * twins, and the runtime itself turns the driver's error codes into its own and keeps
 * cudaGetLastError.
 *
 * Links neither the driver nor the CUDA runtime. Declares what it needs of the driver itself.
 */
#ifndef WEIR_PRELOAD_H
#define WEIR_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir.h" /* the numbers of weir_status */
#include "weir_runtime.h"

/* -------------------------------------------------------------------------- the driver's words -- */

typedef int preload_result;

enum {
    PRELOAD_OK = 0,
    PRELOAD_INVALID_VALUE = 1,
    PRELOAD_OUT_OF_MEMORY = 2,
    PRELOAD_NO_DRIVER = 303, /* CUDA_ERROR_SHARED_OBJECT_INIT_FAILED */
    PRELOAD_INVALID_HANDLE = 400,
    PRELOAD_ILLEGAL_STATE = 401,
    PRELOAD_NOT_READY = 600,
    PRELOAD_NOT_PERMITTED = 800,
    PRELOAD_NOT_SUPPORTED = 801,
    PRELOAD_CAPTURE_UNSUPPORTED = 900,
    PRELOAD_WRONG_THREAD = 908 /* of a capture */
};

enum {
    PRELOAD_NON_BLOCKING = 1,
    PRELOAD_NO_TIMING = 2,
    PRELOAD_RELAXED = 2,
    PRELOAD_SYNC_MEMOPS = 6
};

#define PRELOAD_PER_THREAD ((void *)2)

/* X(exported name, name for cuGetProcAddress, version whose signature this is, its flags there: 2
 * for the twin whose stream 0 is the thread's, parameters, arguments) */
#define PRELOAD_HOOKS(X) \
    X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0, \
      (const char *symbol, void **function, int version, uint64_t flags, int *presence), \
      (symbol, function, version, flags, presence)) \
    X(cuGetProcAddress, "cuGetProcAddress", 11030, 0, \
      (const char *symbol, void **function, int version, uint64_t flags), \
      (symbol, function, version, flags)) \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, (uint64_t * addr, size_t bytes), (addr, bytes)) \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0, \
      (uint64_t * addr, size_t * pitch, size_t width, size_t height, unsigned element), \
      (addr, pitch, width, height, element)) \
    X(cuMemFree_v2, "cuMemFree", 3020, 0, (uint64_t addr), (addr)) \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0, (uint64_t * addr, size_t bytes, void *stream), \
      (addr, bytes, stream)) \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 2, \
      (uint64_t * addr, size_t bytes, void *stream), (addr, bytes, stream)) \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0, \
      (uint64_t * addr, size_t bytes, void *pool, void *stream), (addr, bytes, pool, stream)) \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 2, \
      (uint64_t * addr, size_t bytes, void *pool, void *stream), (addr, bytes, pool, stream)) \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0, (uint64_t addr, void *stream), (addr, stream)) \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 2, (uint64_t addr, void *stream), \
      (addr, stream)) \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0, (size_t * free_bytes, size_t * total_bytes), \
      (free_bytes, total_bytes)) \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0, (size_t * bytes, int device), \
      (bytes, device)) \
    X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0, \
      (uint64_t * base, size_t * bytes, uint64_t addr), (base, bytes, addr)) \
    X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, (int device, void *pool), \
      (device, pool)) \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, 0, (void *handle, uint64_t addr), \
      (handle, addr)) \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0, \
      (uint64_t * handle, void *addr), (handle, addr)) \
    X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, 0, \
      (void *handle, uint64_t addr, size_t bytes, int type, unsigned long long flags), \
      (handle, addr, bytes, type, flags)) \
    X(cuPointerSetAttribute, "cuPointerSetAttribute", 6000, 0, \
      (const void *value, int attribute, uint64_t addr), (value, attribute, addr)) \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0, (void *stream), (stream)) \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0, (void *stream, int mode), \
      (stream, mode)) \
    X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, 2, (void *stream, int mode), \
      (stream, mode)) \
    X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, 0, \
      (void *stream, void *graph, const void *after, const void *edges, size_t count, int mode), \
      (stream, graph, after, edges, count, mode)) \
    X(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030, 2, \
      (void *stream, void *graph, const void *after, const void *edges, size_t count, int mode), \
      (stream, graph, after, edges, count, mode)) \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0, (void *stream, void **graph), \
      (stream, graph)) \
    X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, 2, (void *stream, void **graph), \
      (stream, graph)) \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, (int device), (device)) \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, (int device), (device))

/* Functions of the driver that are called and not caught; NULL where this driver has none. */
#define PRELOAD_NEEDS(X) \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, (void **context)) \
    X(cuCtxGetDevice, "cuCtxGetDevice", 2000, (int *device)) \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, (void)) \
    X(cuCtxRecordEvent, "cuCtxRecordEvent", 12050, (void *context, void *event)) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, (void **context, int device)) \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, (int device)) \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, (void **pool, int device)) \
    X(cuStreamCreate, "cuStreamCreate", 2000, (void **stream, unsigned flags)) \
    X(cuStreamSynchronize, "cuStreamSynchronize", 2000, (void *stream)) \
    X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", 10010, (int *mode)) \
    X(cuEventCreate, "cuEventCreate", 2000, (void **event, unsigned flags)) \
    X(cuEventQuery, "cuEventQuery", 2000, (void *event)) \
    X(cuEventSynchronize, "cuEventSynchronize", 2000, (void *event)) \
    X(cuEventDestroy_v2, "cuEventDestroy", 4000, (void *event))

/* The driver's own functions. */
typedef struct preload_driver {
#define PRELOAD_FIELD(name, symbol, version, flags, parameters, arguments) \
    preload_result(*name) parameters;
    PRELOAD_HOOKS(PRELOAD_FIELD)
#undef PRELOAD_FIELD
#define PRELOAD_FIELD(name, symbol, version, parameters) preload_result(*name) parameters;
    PRELOAD_NEEDS(PRELOAD_FIELD)
#undef PRELOAD_FIELD
} preload_driver;

/* Ours, under the driver's names: the only names that the library exports, with dlsym and dlvsym. */
#define PRELOAD_DECLARE(name, symbol, version, flags, parameters, arguments) \
    preload_result name parameters;
PRELOAD_HOOKS(PRELOAD_DECLARE)
#undef PRELOAD_DECLARE

/* ---------------------------------------------------------------------------------------- real -- */

/* libc's, or those of the next library that catches them. */
typedef void *(*preload_dlsym)(void *handle, const char *name);
typedef void *(*preload_dlvsym)(void *handle, const char *name, const char *version);
preload_dlsym weir_preload_dlsym(void);
preload_dlvsym weir_preload_dlvsym(void);

/* The driver's functions once its library is loaded, by whomever; NULL before that. */
const preload_driver *weir_preload_driver(void);
/* The same; where no library is loaded, the usual one is. */
const preload_driver *weir_preload_driver_needed(void);
/* What the driver's library exports under a name; NULL: nothing. */
void *weir_preload_driver_symbol(const char *name);

/* The driver's own answer to a call. */
#define PRELOAD_REAL(name, arguments) \
    (weir_preload_driver_needed() == NULL  ? PRELOAD_NO_DRIVER \
     : weir_preload_driver()->name == NULL ? PRELOAD_NOT_SUPPORTED \
                                           : weir_preload_driver()->name arguments)

/* Whether an address of code is the driver's, the runtime's or our own: such a caller gets what it
 * asks for. */
bool weir_preload_is_inside(const void *code);

/* True where nothing is caught: in a process with raised privileges, and in a forked child of one
 * that used the driver. */
bool weir_preload_is_off(void);

/* -------------------------------------------------------------------------------------- lookup -- */

/* The function of ours that stands for `name`, looked up in `handle` by `caller`; NULL: none. */
void *weir_preload_stand_in(void *handle, const char *name, const void *caller);

/* ------------------------------------------------------------------------------------- runtime -- */

typedef struct preload_runtime {
    int (*start)(int device);
    int (*stop)(int device);
    void (*promise)(unsigned promises);
    int (*alloc)(int device, uint64_t bytes, uint64_t stream, uint64_t *addr);
    int (*free)(uint64_t addr, uint64_t stream);
    int (*find)(uint64_t addr, int *device, uint64_t *base, uint64_t *bytes);
    int (*owns)(uint64_t addr);
    int (*pin)(uint64_t addr);
    int (*stream_end)(uint64_t stream);
    int (*memory)(int device, uint64_t *free_bytes, uint64_t *total_bytes);
    int (*stats_read)(int device, weir_runtime_stats *stats);
    const char *(*why)(void);
} preload_runtime;

/* Loads it if need be, or takes what is loaded already. NULL: it is not there; after an attempt to
 * load it that has been said. */
const preload_runtime *weir_preload_runtime(bool load);
/* NULL too until one of the above has found it. Cheap. */
const preload_runtime *weir_preload_runtime_if(void);

/* Writes one line to stderr. */
void weir_preload_say(const char *what, const char *why);

/* -------------------------------------------------------------------------------------- device -- */

typedef struct preload_batch preload_batch;
typedef struct preload_block preload_block;

typedef enum preload_state {
    PRELOAD_UNKNOWN, /* no call has asked for memory yet */
    PRELOAD_ON,      /* it has a pool */
    PRELOAD_REFUSED, /* the settings are wrong: no memory is given */
    PRELOAD_PASSED   /* Weir can't work here: the driver serves it */
} preload_state;

typedef struct preload_device {
    void *context; /* the primary one */
    preload_state state;
    int ordinal;
    bool own_pool; /* the program put another pool in place of the default one */
    void *host;    /* a stream of ours that nothing is ever queued on: see preload_block.c */
    preload_block *blocks; /* live and resting ones */
    preload_batch *open, *first, *last, *spare;
    uint64_t resting_bytes;
} preload_device;

/* The device whose primary context is current on the calling thread, its pool made if need be; NULL:
 * the driver serves this call. */
preload_device *weir_preload_device(void);

/* The record of a device, 0 to WEIR_RUNTIME_DEVICES. */
preload_device *weir_preload_device_at(int ordinal);

/* Ends the device's pool, what is live included, before its context is reset. */
void weir_preload_device_end(int ordinal);

/* -------------------------------------------------------------------------------------- blocks -- */

/* Memory for any stream at once, as cuMemAlloc gives it. A status of the runtime. */
int weir_preload_give(preload_device *device, uint64_t bytes, uint64_t *addr);
/* Memory in the order of a stream. */
int weir_preload_give_on(preload_device *device, uint64_t bytes, void *stream, uint64_t *addr);
/* A free by cuMemFree: the block rests until no work that was queued before it can touch it. */
preload_result weir_preload_rest(uint64_t addr);
/* A free in the order of a stream. */
preload_result weir_preload_take(uint64_t addr, void *stream);
/* Bytes of a device that rest. */
uint64_t weir_preload_resting(preload_device *device);
/* Frees what rests, ended or not: nothing is given after it. */
void weir_preload_blocks_wake(preload_device *device);
/* Forgets all of a device, freeing what is live. */
void weir_preload_blocks_end(preload_device *device);

/* What a status of an allocation is to a program; -1: what the driver itself answers. */
preload_result weir_preload_answer(int status);

/* ----------------------------------------------------------------------------------- captures -- */

/* Whether a stream of this process is being captured, as far as was seen. */
bool weir_preload_is_captured(void);

#endif
