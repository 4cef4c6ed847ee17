/* SPDX-License-Identifier: MIT */
/*
 * A program on the stand-in for libcuda: the driver's functions as it would call them, a context,
 * and, where a test wants one, a Weir pool with work to put on its streams.
 *
 * At its end every rig expects that no rule of the driver was broken and nothing is left over.
 */
#ifndef WEIR_CUDA_RIG_H
#define WEIR_CUDA_RIG_H

#include "cuda_pool.h"
#include "cuda_work.h"
#include "driver.h"
#include "fakecuda.h"

#include <criterion/criterion.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

typedef struct cuda_rig {
    weir_driver driver;
    weir_cu_context context; /* the primary one of device 0, current */
    weir_cuda_pool *pool;
    weir_cuda *device;
    weir_pool *core;
    weir_cuda_work *work;
    char note[80]; /* what a test in a loop is at, for messages */
} cuda_rig;

#define ASSERT_OK(call) cr_assert_eq((call), WEIR_OK, "%s", #call)
#define EXPECT_OK(call) cr_expect_eq((call), WEIR_OK, "%s", #call)
/* A call of the driver. */
#define RUN(call) cr_assert_eq((call), WEIR_CU_OK, "%s", #call)

/* The stand-in anew, its driver opened, and the context of device 0 current. */
cuda_rig rig_open(const weir_fakecuda_config *fake);
/* A pool by a line of settings, and work on it. Of `config` only the device's index, context and
 * promises count, and what is told; it may be NULL. */
void rig_pool(cuda_rig *rig, const char *settings, const weir_cuda_pool_config *config);
/* As weir_cuda_pool_create; `why` has room for its sentence. */
weir_status rig_try_pool(const char *settings, const weir_cuda_pool_config *config,
                         weir_cuda_pool **pool, char *why);
/* The pool, if any, and the context are given back; no breach, nothing left. */
void rig_close(cuda_rig *rig);
/* Only the pool and its work. */
void rig_drop_pool(cuda_rig *rig);

/* Streams of the current context. */
weir_cu_stream rig_stream(const cuda_rig *rig);          /* non-blocking */
weir_cu_stream rig_stream_blocking(const cuda_rig *rig); /* follows the legacy stream */

weir_addr rig_alloc(const cuda_rig *rig, weir_cu_stream stream, uint64_t bytes);
void rig_free(const cuda_rig *rig, weir_addr addr, weir_cu_stream stream);
void rig_fill(const cuda_rig *rig, weir_cu_stream stream, weir_addr addr, uint64_t bytes,
              uint64_t tag);
void rig_verify(const cuda_rig *rig, weir_cu_stream stream, weir_addr addr, uint64_t bytes,
                uint64_t tag);
/* Waits for all work, and expects that no verify found a wrong word. */
void rig_sync(const cuda_rig *rig);

weir_stats rig_stats(const cuda_rig *rig);
/* The pool's invariants. */
void rig_check(const cuda_rig *rig);

/* A graph of what is captured on `stream` until rig_capture_end. */
void rig_capture_begin(weir_cu_stream stream, int mode);
weir_cu_graph rig_capture_end(weir_cu_stream stream);
void *rig_instantiate(weir_cu_graph graph);

/* Runs a function on a thread of its own and waits for its end. */
void rig_on_thread(void *(*body)(void *self), void *self);

#endif
