/* SPDX-License-Identifier: MIT */
/*
 * Work to put on the streams of a CUDA device: for tests, replays and the doctor.
 *
 * Owns     a module with three kernels (cuda_kernel.c: PTX for compute capability 7.0 and later,
 *          which the driver compiles), a counter in device memory and the streams it made.
 * Threads  Every call is safe from any thread.
 */
#ifndef WEIR_CUDA_WORK_H
#define WEIR_CUDA_WORK_H

#include "cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_cuda_work weir_cuda_work;

/* NULL where the driver refuses the module or memory is short. `cuda` must outlive it. */
weir_cuda_work *weir_cuda_work_create(weir_cuda *cuda);

/* Waits for the device, destroys the streams that are left. */
void weir_cuda_work_destroy(weir_cuda_work *work);

/* Streams of cuStreamCreate, non-blocking; 0 where the driver refuses. The value is the CUstream.
 * unique is what cuStreamGetId tells. */
uint64_t weir_cuda_work_stream_create(weir_cuda_work *work);
uint64_t weir_cuda_work_stream_unique(weir_cuda_work *work, uint64_t stream);
void weir_cuda_work_stream_destroy(weir_cuda_work *work, uint64_t stream);

/* Queues work on a CUstream. fill writes a pattern of 64-bit words made from `tag` and the place in
 * the range, verify counts the words that differ from it, spin keeps one thread of the device busy.
 * False where the driver refuses. */
bool weir_cuda_work_fill(weir_cuda_work *work, uint64_t stream, weir_addr addr, uint64_t bytes,
                         uint64_t tag);
bool weir_cuda_work_verify(weir_cuda_work *work, uint64_t stream, weir_addr addr, uint64_t bytes,
                           uint64_t tag);
bool weir_cuda_work_spin(weir_cuda_work *work, uint64_t stream, uint64_t spin_us);

/* Waits for all work in the context. False: the device reported an error. */
bool weir_cuda_work_sync(weir_cuda_work *work);

/* Words that verify found wrong so far; syncs. UINT64_MAX where the device can't be asked. */
uint64_t weir_cuda_work_errors(weir_cuda_work *work);

#ifdef __cplusplus
}
#endif

#endif
