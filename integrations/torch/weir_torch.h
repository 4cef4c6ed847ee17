/* SPDX-License-Identifier: MIT */
/*
 * The hooks of PyTorch's CUDAPluggableAllocator (2.3 and later), over the runtime. Each is passed to
 * PyTorch by its address; integrations/python does that. Set all of them: without record_stream a
 * tensor that another stream uses is reused too early, without the pool hooks so is a graph's memory.
 *
 * Threads    Any thread.
 * Failure    alloc answers NULL, and weir_runtime_why() of that thread says why. PyTorch makes a
 *            tensor without memory of that, so who sets the hooks has to look. The others have no
 *            answer; weir_runtime_why() has theirs.
 */
#ifndef WEIR_TORCH_H
#define WEIR_TORCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As PyTorch's MempoolId_t, a pair that is passed as a plain struct is. */
typedef struct weir_torch_pool_id {
    uint64_t first, second;
} weir_torch_pool_id;

void *weir_torch_alloc(ssize_t bytes, int device, void *stream);
void weir_torch_free(void *block, ssize_t bytes, int device, void *stream);
void weir_torch_init(int devices);
void weir_torch_empty_cache(void);
void weir_torch_memory_fraction(double fraction, int device);
/* The first address of the block that holds `pointer`; *bytes, if not NULL, is its length. */
void *weir_torch_base(void *pointer, size_t *bytes);
void weir_torch_record_stream(void *pointer, void *stream);
/* `filter` is a std::function that is not called: what a capturing stream allocates is its graph's
 * anyway, and other pools take what the thread allocates that begins them, as PyTorch's filters do. */
void weir_torch_begin_to_pool(int device, weir_torch_pool_id id, void *filter);
void weir_torch_end_to_pool(int device, weir_torch_pool_id id);
void weir_torch_release_pool(int device, weir_torch_pool_id id);

#ifdef __cplusplus
}
#endif

#endif
