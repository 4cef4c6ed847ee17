/* SPDX-License-Identifier: MIT */
/*
 * libcuda.so.1 for the tests of the preload library: the stand-in of tests/fakecuda, under the name
 * by which programs load it, and on top of it what programs call and that one lacks: the twins whose
 * stream 0 is the thread's, the device's default pool, pitched memory, sharing, a reset.
 */
#ifndef WEIR_STANDIN_H
#define WEIR_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#include "fakecuda.h"

/* How often one of the functions below was called, by its exported name. */
uint64_t standin_calls(const char *name);

weir_cu_result cuMemAllocAsync(uint64_t *addr, size_t bytes, weir_cu_stream stream);
weir_cu_result cuMemAllocAsync_ptsz(uint64_t *addr, size_t bytes, weir_cu_stream stream);
weir_cu_result cuMemFreeAsync_ptsz(uint64_t addr, weir_cu_stream stream);
weir_cu_result cuMemAllocPitch_v2(uint64_t *addr, size_t *pitch, size_t width, size_t height,
                                  unsigned element);
weir_cu_result cuMemAllocManaged(uint64_t *addr, size_t bytes, unsigned flags);
weir_cu_result cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t addr);
weir_cu_result cuIpcGetMemHandle(void *handle, uint64_t addr);
weir_cu_result cuMemRetainAllocationHandle(uint64_t *handle, void *addr);
weir_cu_result cuDeviceGetDefaultMemPool(weir_cu_pool *pool, int device);
weir_cu_result cuDeviceSetMemPool(int device, weir_cu_pool pool);
weir_cu_result cuDevicePrimaryCtxReset_v2(int device);

#endif
