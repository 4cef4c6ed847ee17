/* SPDX-License-Identifier: MIT */
/* The calls of the tiny CUDA runtime of fakecudart.c, as cuda_runtime_api.h has them. Built twice: with
 * FAKECUDART_STREAMS 2, stream 0 is the calling thread's, as with nvcc --default-stream per-thread. */
#ifndef WEIR_FAKECUDART_H
#define WEIR_FAKECUDART_H

#include <stddef.h>
#include <stdint.h>

#ifndef FAKECUDART_STREAMS
#define FAKECUDART_STREAMS 0
#endif

int cudaMalloc(void **block, size_t bytes);
int cudaMallocAsync(void **block, size_t bytes, void *stream);
int cudaFree(void *block);
int cudaFreeAsync(void *block, void *stream);
int cudaMemGetInfo(size_t *left, size_t *total);
int cudaDeviceReset(void);
int cudaGetLastError(void);

#endif
