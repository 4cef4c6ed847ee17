/* SPDX-License-Identifier: MIT */
/* Work for the device: the two kernels that the stand-in knows by their names. */
#ifndef WEIR_PRELOAD_KERNELS_H
#define WEIR_PRELOAD_KERNELS_H

#include "linked.h"

weir_cu_result cuModuleLoadData(weir_cu_module *module, const void *image);
weir_cu_result cuModuleGetFunction(weir_cu_function *function, weir_cu_module module,
                                   const char *name);
weir_cu_result cuLaunchKernel(weir_cu_function function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, weir_cu_stream stream, void **parameters,
                              void **extra);
weir_cu_result cuMemsetD32_v2(uint64_t addr, unsigned value, size_t words);
weir_cu_result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);

typedef struct kernels {
    weir_cu_function fill, verify;
} kernels;

static inline kernels kernels_load(void)
{
    kernels made = {NULL, NULL};
    weir_cu_module module = NULL;
    CHECK_OK(cuModuleLoadData(&module, ".entry weir_fill .entry weir_verify"));
    CHECK_OK(cuModuleGetFunction(&made.fill, module, "weir_fill"));
    CHECK_OK(cuModuleGetFunction(&made.verify, module, "weir_verify"));
    return made;
}

static inline void kernels_fill(kernels made, uint64_t addr, uint64_t bytes, uint64_t tag,
                                weir_cu_stream stream)
{
    void *parameters[] = {&addr, &bytes, &tag};
    CHECK_OK(cuLaunchKernel(made.fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* Adds the words that are not as `tag` filled them to the counter. */
static inline void kernels_verify(kernels made, uint64_t addr, uint64_t bytes, uint64_t tag,
                                  uint64_t counter, weir_cu_stream stream)
{
    void *parameters[] = {&addr, &bytes, &tag, &counter};
    CHECK_OK(cuLaunchKernel(made.verify, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

#endif
