/* SPDX-License-Identifier: MIT */
/* The driver's library as a program has it that is not linked with it and loads it itself. */
#ifndef WEIR_PRELOAD_LOADED_H
#define WEIR_PRELOAD_LOADED_H

#include <dlfcn.h>

#include "check.h"

typedef struct loaded {
    void *libcuda;
    weir_cu_result (*init)(unsigned flags);
    weir_cu_result (*retain)(weir_cu_context *context, weir_cu_device device);
    weir_cu_result (*set)(weir_cu_context context);
    weir_cu_result (*alloc)(uint64_t *addr, size_t bytes);
    weir_cu_result (*alloc_async)(uint64_t *addr, size_t bytes, void *stream);
    weir_cu_result (*release)(uint64_t addr);
    weir_cu_result (*info)(size_t *left, size_t *total);
    weir_cu_result (*lookup)(const char *symbol, void **function, int version, uint64_t flags,
                             int *presence);
    uint64_t (*calls)(const char *name);      /* of tests/fakecuda */
    uint64_t (*more_calls)(const char *name); /* of standin.h */
    const char *(*breach)(void);
} loaded;

static inline void loaded_find(void *library, const char *name, void *slot)
{
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(slot, &found, sizeof(found));
}

/* With the primary context of the first device current. */
static inline loaded loaded_open(int flags)
{
    loaded driver;
    weir_cu_context context = NULL;
    driver.libcuda = dlopen("libcuda.so.1", RTLD_NOW | flags);
    loaded_find(driver.libcuda, "cuInit", &driver.init);
    loaded_find(driver.libcuda, "cuDevicePrimaryCtxRetain", &driver.retain);
    loaded_find(driver.libcuda, "cuCtxSetCurrent", &driver.set);
    loaded_find(driver.libcuda, "cuMemAlloc_v2", &driver.alloc);
    loaded_find(driver.libcuda, "cuMemAllocAsync", &driver.alloc_async);
    loaded_find(driver.libcuda, "cuMemFree_v2", &driver.release);
    loaded_find(driver.libcuda, "cuMemGetInfo_v2", &driver.info);
    loaded_find(driver.libcuda, "cuGetProcAddress_v2", &driver.lookup);
    loaded_find(driver.libcuda, "weir_fakecuda_calls", &driver.calls);
    loaded_find(driver.libcuda, "weir_fakecuda_breach", &driver.breach);
    loaded_find(driver.libcuda, "standin_calls", &driver.more_calls);
    CHECK_OK(driver.init(0));
    CHECK_OK(driver.retain(&context, 0));
    CHECK_OK(driver.set(context));
    return driver;
}

#endif
