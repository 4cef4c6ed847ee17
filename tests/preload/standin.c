/* SPDX-License-Identifier: MIT */
/*
 * What is on top of tests/fakecuda: see standin.h.
 *
 * It calls the library below by pointers that it looks up, never by name: a name would lead to what
 * is preloaded, as it would not in the driver.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* X(exported name, name for cuGetProcAddress, flags there) */
#define STANDIN_MAP(X) \
    X(cuMemAllocAsync, "cuMemAllocAsync", 0) \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 2) \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 2) \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 0) \
    X(cuMemAllocManaged, "cuMemAllocManaged", 0) \
    X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 0) \
    X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 0) \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 0) \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 0) \
    X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 0) \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 0)

typedef enum standin_name {
#define STANDIN_NAME(exported, symbol, flags) STANDIN_##exported,
    STANDIN_MAP(STANDIN_NAME)
#undef STANDIN_NAME
        STANDIN_NAMES
} standin_name;

static const char *const standin_exported[] = {
#define STANDIN_EXPORTED(exported, symbol, flags) #exported,
    STANDIN_MAP(STANDIN_EXPORTED)
#undef STANDIN_EXPORTED
};

static uint64_t standin_count[STANDIN_NAMES]; /* a library has no argument to carry it */

static void *standin_below(const char *name)
{
    void *library = dlopen(weir_fakecuda_path(), RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        abort();
    }
    return found;
}

/* Calls the library below; the arguments say what the function is. */
#define STANDIN_BELOW(name, parameters, arguments) \
    ((weir_cu_result(*) parameters)standin_function(standin_below(name))) arguments

typedef void (*standin_any)(void); /* which may be cast to any other */

static standin_any standin_function(void *found)
{
    standin_any function = NULL;
    memcpy(&function, &found, sizeof(function));
    return function;
}

static void standin_counted(standin_name name)
{
    __atomic_fetch_add(&standin_count[name], 1, __ATOMIC_RELAXED);
}

uint64_t standin_calls(const char *name)
{
    for (int i = 0; i < STANDIN_NAMES; i++) {
        if (strcmp(standin_exported[i], name) == 0) {
            return __atomic_load_n(&standin_count[i], __ATOMIC_RELAXED);
        }
    }
    abort(); /* a misspelt name would make a test pass for nothing */
}

/* ---------------------------------------------------------------------------------------- memory -- */

weir_cu_result cuMemAllocPitch_v2(uint64_t *addr, size_t *pitch, size_t width, size_t height,
                                  unsigned element)
{
    standin_counted(STANDIN_cuMemAllocPitch_v2);
    if (element != 4 && element != 8 && element != 16) {
        return WEIR_CU_INVALID_VALUE;
    }
    *pitch = (width + 511) & ~(size_t)511;
    return STANDIN_BELOW("cuMemAlloc_v2", (uint64_t *, size_t), (addr, *pitch * height));
}

weir_cu_result cuMemAllocManaged(uint64_t *addr, size_t bytes, unsigned flags)
{
    standin_counted(STANDIN_cuMemAllocManaged);
    (void)flags;
    return STANDIN_BELOW("cuMemAlloc_v2", (uint64_t *, size_t), (addr, bytes));
}

/* The driver's answer for memory that is mapped is the mapping; here, that it was asked. */
weir_cu_result cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t addr)
{
    standin_counted(STANDIN_cuMemGetAddressRange_v2);
    *base = addr;
    *bytes = 1;
    return WEIR_CU_OK;
}

weir_cu_result cuIpcGetMemHandle(void *handle, uint64_t addr)
{
    standin_counted(STANDIN_cuIpcGetMemHandle);
    memcpy(handle, &addr, sizeof(addr));
    return WEIR_CU_OK;
}

weir_cu_result cuMemRetainAllocationHandle(uint64_t *handle, void *addr)
{
    standin_counted(STANDIN_cuMemRetainAllocationHandle);
    *handle = (uint64_t)(uintptr_t)addr;
    return WEIR_CU_OK;
}

/* ---------------------------------------------------------------------------------------- pools -- */

weir_cu_result cuDeviceGetDefaultMemPool(weir_cu_pool *pool, int device)
{
    static weir_cu_pool pools[8]; /* made at first use, by one thread */
    standin_counted(STANDIN_cuDeviceGetDefaultMemPool);
    weir_cu_pool_prop prop = {.type = WEIR_CU_ALLOCATION_PINNED,
                              .location = {WEIR_CU_LOCATION_DEVICE, device}};
    weir_cu_result result = WEIR_CU_OK;
    if (!pools[device]) {
        result = STANDIN_BELOW("cuMemPoolCreate", (weir_cu_pool *, const weir_cu_pool_prop *),
                               (&pools[device], &prop));
    }
    *pool = pools[device];
    return result;
}

weir_cu_result cuDeviceSetMemPool(int device, weir_cu_pool pool)
{
    (void)device;
    standin_counted(STANDIN_cuDeviceSetMemPool);
    return pool ? WEIR_CU_OK : WEIR_CU_INVALID_VALUE;
}

weir_cu_result cuMemAllocAsync(uint64_t *addr, size_t bytes, weir_cu_stream stream)
{
    weir_cu_pool pool = NULL;
    standin_counted(STANDIN_cuMemAllocAsync);
    (void)cuDeviceGetDefaultMemPool(&pool, 0);
    return STANDIN_BELOW("cuMemAllocFromPoolAsync",
                         (uint64_t *, size_t, weir_cu_pool, weir_cu_stream),
                         (addr, bytes, pool, stream));
}

weir_cu_result cuMemAllocAsync_ptsz(uint64_t *addr, size_t bytes, weir_cu_stream stream)
{
    standin_counted(STANDIN_cuMemAllocAsync_ptsz);
    return cuMemAllocAsync(addr, bytes, stream ? stream : WEIR_CU_STREAM_PER_THREAD);
}

weir_cu_result cuMemFreeAsync_ptsz(uint64_t addr, weir_cu_stream stream)
{
    standin_counted(STANDIN_cuMemFreeAsync_ptsz);
    return STANDIN_BELOW("cuMemFreeAsync", (uint64_t, weir_cu_stream),
                         (addr, stream ? stream : WEIR_CU_STREAM_PER_THREAD));
}

/* ---------------------------------------------------------------------------------------- reset -- */

/* The one retain of a program is let go: the context ends if nobody else holds it. */
weir_cu_result cuDevicePrimaryCtxReset_v2(int device)
{
    standin_counted(STANDIN_cuDevicePrimaryCtxReset_v2);
    return STANDIN_BELOW("cuDevicePrimaryCtxRelease_v2", (int), (device));
}

/* -------------------------------------------------------------------------------------- look-up -- */

weir_cu_result cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);
weir_cu_result cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                   int *presence);

static void *standin_find(const char *symbol, uint64_t flags)
{
    standin_any function = NULL;
    void *found = NULL;
#define STANDIN_FIND(exported, name, of) \
    if (flags == (of) && strcmp(symbol, name) == 0) { \
        function = (standin_any)exported; \
    }
    STANDIN_MAP(STANDIN_FIND)
#undef STANDIN_FIND
    memcpy(&found, &function, sizeof(found));
    return found;
}

/* As the driver's: each version of itself under the one name. */
static void *standin_self(int version)
{
    standin_any function =
        version < 12000 ? (standin_any)cuGetProcAddress : (standin_any)cuGetProcAddress_v2;
    void *found = NULL;
    memcpy(&found, &function, sizeof(found));
    return found;
}

weir_cu_result cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                   int *presence)
{
    void *found = strcmp(symbol, "cuGetProcAddress") == 0 ? standin_self(version)
                                                          : standin_find(symbol, flags);
    if (found) {
        *function = found;
        if (presence) {
            *presence = 0;
        }
        return WEIR_CU_OK;
    }
    return STANDIN_BELOW("cuGetProcAddress_v2", (const char *, void **, int, uint64_t, int *),
                         (symbol, function, version, 0, presence));
}

weir_cu_result cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    weir_cu_result result = cuGetProcAddress_v2(symbol, function, version, flags, NULL);
    return result == WEIR_CU_OK && !*function ? WEIR_CU_NOT_FOUND : result;
}
