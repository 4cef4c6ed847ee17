/* SPDX-License-Identifier: MIT */
/* The driver's functions as a program has them that is linked with its library. */
#ifndef WEIR_PRELOAD_LINKED_H
#define WEIR_PRELOAD_LINKED_H

#include "check.h"

weir_cu_result cuInit(unsigned flags);
weir_cu_result cuDevicePrimaryCtxRetain(weir_cu_context *context, weir_cu_device device);
weir_cu_result cuMemAlloc_v2(uint64_t *addr, size_t bytes);
weir_cu_result cuMemFree_v2(uint64_t addr);
weir_cu_result cuMemFreeAsync(uint64_t addr, weir_cu_stream stream);
weir_cu_result cuMemAllocFromPoolAsync(uint64_t *addr, size_t bytes, weir_cu_pool pool,
                                       weir_cu_stream stream);
weir_cu_result cuMemPoolCreate(weir_cu_pool *pool, const weir_cu_pool_prop *prop);
weir_cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
weir_cu_result cuDeviceTotalMem_v2(size_t *bytes, weir_cu_device device);
weir_cu_result cuStreamCreate(weir_cu_stream *stream, unsigned flags);
weir_cu_result cuStreamDestroy_v2(weir_cu_stream stream);
weir_cu_result cuStreamSynchronize(weir_cu_stream stream);

/* The primary context of the first device, current. */
static inline void check_start(void)
{
    weir_cu_context context = NULL;
    CHECK_OK(cuInit(0));
    CHECK_OK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_OK(cuCtxSetCurrent(context));
}

/* Nothing was done that the driver forbids, by the program or by Weir. */
static inline int check_end(void)
{
    const char *breach = weir_fakecuda_breach();
    if (breach) {
        printf("breach: %s\n", breach);
        check_failed = 1;
    }
    return check_failed;
}

#endif
