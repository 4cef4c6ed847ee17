/* SPDX-License-Identifier: MIT */
/*
 * A tiny CUDA runtime that works as the real one does: linked with no driver, it opens libcuda.so.1,
 * looks cuGetProcAddress_v2 up, asks that for itself and for all else, and turns the driver's errors
 * into its own. The real one refuses every driver but NVIDIA's, so it can't stand here.
 */
#include "fakecudart.h"

#include <dlfcn.h>
#include <string.h>

typedef int (*fakecudart_lookup)(const char *, void **, int, uint64_t, int *);

/* A runtime is one for a process. */
static struct {
    fakecudart_lookup lookup;
    int (*alloc)(uint64_t *addr, size_t bytes);
    int (*alloc_async)(uint64_t *addr, size_t bytes, void *stream);
    int (*free)(uint64_t addr);
    int (*free_async)(uint64_t addr, void *stream);
    int (*info)(size_t *left, size_t *total);
    int (*reset)(int device);
    int started;
} fakecudart_one;

static _Thread_local int fakecudart_last;

static int fakecudart_keep(int result)
{
    if (result != 0) {
        fakecudart_last = result;
    }
    return result;
}

static void fakecudart_find(const char *symbol, int version, uint64_t flags, void *slot)
{
    void *found = NULL;
    int presence = 0;
    (void)fakecudart_one.lookup(symbol, &found, version, flags, &presence);
    memcpy(slot, &found, sizeof(found));
}

static int fakecudart_context(void)
{
    int (*init)(unsigned) = NULL;
    int (*retain)(void **, int) = NULL;
    int (*set)(void *) = NULL;
    void *context = NULL;
    fakecudart_find("cuInit", 2000, 0, &init);
    fakecudart_find("cuDevicePrimaryCtxRetain", 7000, 0, &retain);
    fakecudart_find("cuCtxSetCurrent", 4000, 0, &set);
    return init(0) != 0 || retain(&context, 0) != 0 ? 999 : set(context);
}

static int fakecudart_start(void)
{
    if (fakecudart_one.started) {
        return 0;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!found) {
        return 35; /* cudaErrorInsufficientDriver */
    }
    memcpy(&fakecudart_one.lookup, &found, sizeof(found));
    fakecudart_find("cuGetProcAddress", 12000, 0, &fakecudart_one.lookup);
    fakecudart_find("cuMemAlloc", 3020, 0, &fakecudart_one.alloc);
    fakecudart_find("cuMemAllocAsync", 11020, FAKECUDART_STREAMS, &fakecudart_one.alloc_async);
    fakecudart_find("cuMemFree", 3020, 0, &fakecudart_one.free);
    fakecudart_find("cuMemFreeAsync", 11020, FAKECUDART_STREAMS, &fakecudart_one.free_async);
    fakecudart_find("cuMemGetInfo", 3020, 0, &fakecudart_one.info);
    fakecudart_find("cuDevicePrimaryCtxReset", 11000, 0, &fakecudart_one.reset);
    fakecudart_one.started = 1;
    return fakecudart_context();
}

#define FAKECUDART_CALL(call) (fakecudart_start() == 0 ? fakecudart_keep(call) : 35)

int cudaMalloc(void **block, size_t bytes)
{
    uint64_t addr = 0;
    int result = FAKECUDART_CALL(fakecudart_one.alloc(&addr, bytes));
    *block = (void *)(uintptr_t)addr;
    return result;
}

int cudaMallocAsync(void **block, size_t bytes, void *stream)
{
    uint64_t addr = 0;
    int result = FAKECUDART_CALL(fakecudart_one.alloc_async(&addr, bytes, stream));
    *block = (void *)(uintptr_t)addr;
    return result;
}

int cudaFree(void *block)
{
    return FAKECUDART_CALL(block ? fakecudart_one.free((uint64_t)(uintptr_t)block) : 0);
}

int cudaFreeAsync(void *block, void *stream)
{
    return FAKECUDART_CALL(fakecudart_one.free_async((uint64_t)(uintptr_t)block, stream));
}

int cudaMemGetInfo(size_t *left, size_t *total)
{
    return FAKECUDART_CALL(fakecudart_one.info(left, total));
}

int cudaDeviceReset(void)
{
    int result = FAKECUDART_CALL(fakecudart_one.reset(0));
    fakecudart_one.started = 0;
    return result;
}

int cudaGetLastError(void)
{
    int last = fakecudart_last;
    fakecudart_last = 0;
    return last;
}
