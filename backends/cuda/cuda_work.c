/* SPDX-License-Identifier: MIT */
/* Work on streams: three kernels, launched through the driver. Each launch is one driver call. */
#include "cuda_work.h"

#include "cuda_internal.h"
#include "cuda_kernel.h"

#include <stdlib.h>

#define WORK_THREADS 256u     /* of a block */
#define WORK_BLOCKS_MAX 1056u /* eight for each multiprocessor of a large device */

struct weir_cuda_work {
    weir_cuda *cuda;
    weir_cu_module module;
    weir_cu_function fill, verify, spin;
    weir_addr counter; /* words found wrong */
    pthread_mutex_t lock;
    weir_cu_stream *streams; /* made here and not destroyed yet */
    size_t count, room;
};

static weir_cu_result work_load(weir_cuda_work *work)
{
    weir_driver *driver = &work->cuda->driver;
    weir_cu_result result = driver->module_load(&work->module, weir_cuda_kernels);
    if (result != WEIR_CU_OK) {
        return result;
    }
    result = driver->module_function(&work->fill, work->module, "weir_fill");
    if (result == WEIR_CU_OK) {
        result = driver->module_function(&work->verify, work->module, "weir_verify");
    }
    if (result == WEIR_CU_OK) {
        result = driver->module_function(&work->spin, work->module, "weir_spin");
    }
    if (result == WEIR_CU_OK) {
        result = driver->alloc(&work->counter, sizeof(uint64_t));
    }
    if (result == WEIR_CU_OK) {
        result = driver->set_words(work->counter, 0, sizeof(uint64_t) / 4);
    }
    if (result == WEIR_CU_OK) { /* streams that do not block come after it by nothing else */
        result = driver->stream_sync(WEIR_CU_STREAM_LEGACY);
    }
    return result;
}

weir_cuda_work *weir_cuda_work_create(weir_cuda *cuda)
{
    weir_cuda_scope scope;
    weir_cuda_work *work = (weir_cuda_work *)calloc(1, sizeof(*work));
    if (!work || pthread_mutex_init(&work->lock, NULL) != 0) {
        free(work);
        return NULL;
    }
    work->cuda = cuda;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result == WEIR_CU_OK) {
        result = work_load(work);
        weir_cuda_leave(cuda, &scope);
    }
    if (weir_cuda_answer(cuda, result) == WEIR_OK) {
        return work;
    }
    weir_cuda_work_destroy(work);
    return NULL;
}

void weir_cuda_work_destroy(weir_cuda_work *work)
{
    weir_cuda_scope scope;
    if (!work) {
        return;
    }
    weir_driver *driver = &work->cuda->driver;
    if (weir_cuda_enter(work->cuda, &scope) == WEIR_CU_OK) {
        driver->context_sync();
        for (size_t i = 0; i < work->count; i++) {
            driver->stream_destroy(work->streams[i]);
        }
        if (work->counter) {
            driver->free(work->counter);
        }
        if (work->module) {
            driver->module_unload(work->module);
        }
        weir_cuda_leave(work->cuda, &scope);
    }
    pthread_mutex_destroy(&work->lock);
    free(work->streams);
    free(work);
}

/* ----------------------------------------------------------------------------------- streams -- */

/* The lock is held. */
static bool work_room(weir_cuda_work *work)
{
    if (work->count < work->room) {
        return true;
    }
    size_t room = work->room ? work->room * 2 : 16;
    weir_cu_stream *streams =
        (weir_cu_stream *)realloc(work->streams, room * sizeof(*work->streams));
    if (!streams) {
        return false;
    }
    work->streams = streams;
    work->room = room;
    return true;
}

uint64_t weir_cuda_work_stream_create(weir_cuda_work *work)
{
    weir_cu_stream stream = NULL;
    weir_cu_result result = WEIR_CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&work->lock);
    if (work_room(work)) {
        WEIR_CUDA_CALL(work->cuda, result, stream_create(&stream, WEIR_CU_STREAM_NON_BLOCKING));
    }
    if (result == WEIR_CU_OK) {
        work->streams[work->count++] = stream;
    }
    pthread_mutex_unlock(&work->lock);
    return weir_cuda_answer(work->cuda, result) == WEIR_OK ? (uint64_t)(uintptr_t)stream : 0;
}

uint64_t weir_cuda_work_stream_unique(weir_cuda_work *work, uint64_t stream)
{
    weir_stream_desc desc = {0, 0, 0, false};
    (void)weir_cuda_stream(work->cuda, (void *)(uintptr_t)stream, &desc);
    return desc.unique;
}

void weir_cuda_work_stream_destroy(weir_cuda_work *work, uint64_t stream)
{
    weir_cu_result result = WEIR_CU_OK;
    weir_cu_stream named = (weir_cu_stream)(uintptr_t)stream;
    pthread_mutex_lock(&work->lock);
    size_t at = 0;
    while (at < work->count && work->streams[at] != named) {
        at++;
    }
    if (at < work->count) {
        work->streams[at] = work->streams[--work->count];
        WEIR_CUDA_CALL(work->cuda, result, stream_destroy(named));
    }
    pthread_mutex_unlock(&work->lock);
    (void)weir_cuda_answer(work->cuda, result);
}

/* -------------------------------------------------------------------------------------- work -- */

static bool work_launch(weir_cuda_work *work, weir_cu_function function, unsigned blocks,
                        unsigned threads, uint64_t stream, void **parameters)
{
    weir_cu_result result;
    WEIR_CUDA_CALL(work->cuda, result,
                   launch(function, blocks, 1, 1, threads, 1, 1, 0,
                          (weir_cu_stream)(uintptr_t)stream, parameters, NULL));
    return weir_cuda_answer(work->cuda, result) == WEIR_OK;
}

static unsigned work_blocks(uint64_t bytes)
{
    uint64_t blocks = bytes / (sizeof(uint64_t) * WORK_THREADS) + 1;
    return blocks < WORK_BLOCKS_MAX ? (unsigned)blocks : WORK_BLOCKS_MAX;
}

bool weir_cuda_work_fill(weir_cuda_work *work, uint64_t stream, weir_addr addr, uint64_t bytes,
                         uint64_t tag)
{
    void *parameters[] = {&addr, &bytes, &tag};
    return work_launch(work, work->fill, work_blocks(bytes), WORK_THREADS, stream, parameters);
}

bool weir_cuda_work_verify(weir_cuda_work *work, uint64_t stream, weir_addr addr, uint64_t bytes,
                           uint64_t tag)
{
    void *parameters[] = {&addr, &bytes, &tag, &work->counter};
    return work_launch(work, work->verify, work_blocks(bytes), WORK_THREADS, stream, parameters);
}

bool weir_cuda_work_spin(weir_cuda_work *work, uint64_t stream, uint64_t spin_us)
{
    uint64_t spin_ns = spin_us * 1000;
    void *parameters[] = {&spin_ns};
    return work_launch(work, work->spin, 1, 1, stream, parameters);
}

bool weir_cuda_work_sync(weir_cuda_work *work)
{
    weir_cu_result result;
    WEIR_CUDA_CALL(work->cuda, result, context_sync());
    return weir_cuda_answer(work->cuda, result) == WEIR_OK;
}

uint64_t weir_cuda_work_errors(weir_cuda_work *work)
{
    uint64_t errors = 0;
    weir_cu_result result = WEIR_CU_OK;
    if (!weir_cuda_work_sync(work)) {
        return UINT64_MAX;
    }
    WEIR_CUDA_CALL(work->cuda, result, copy_to_host(&errors, work->counter, sizeof(errors)));
    return weir_cuda_answer(work->cuda, result) == WEIR_OK ? errors : UINT64_MAX;
}
