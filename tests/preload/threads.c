/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate and free at once, each with a stream of its own, some across streams. Each
 * block is filled on the device and verified before it is freed, so a block that two threads hold
 * shows.
 */
#include <pthread.h>

#include "kernels.h"

#define THREADS 4
#define ROUNDS 150

static void *threads_run(void *self)
{
    uint64_t tag = (uint64_t)(uintptr_t)self;
    weir_cu_stream stream = NULL;
    uint64_t counter = 0;
    uint64_t wrong = 0;
    check_start();
    kernels made = kernels_load();
    CHECK_OK(cuStreamCreate(&stream, WEIR_CU_STREAM_NON_BLOCKING));
    CHECK_OK(cuMemAlloc_v2(&counter, sizeof(wrong)));
    CHECK_OK(cuMemsetD32_v2(counter, 0, sizeof(wrong) / 4));
    for (uint64_t i = 0; i < ROUNDS && !check_failed; i++) {
        uint64_t addr = 0;
        uint64_t bytes = ((i * 37 + tag * 11) % 64 + 1) * 4096;
        bool ordered = i % 3 == 0;
        CHECK_OK(ordered ? cuMemAllocAsync(&addr, bytes, stream) : cuMemAlloc_v2(&addr, bytes));
        kernels_fill(made, addr, bytes, tag + i, stream);
        kernels_verify(made, addr, bytes, tag + i, counter, stream);
        CHECK_OK(ordered ? cuMemFreeAsync(addr, stream) : cuMemFree_v2(addr));
    }
    CHECK_OK(cuStreamSynchronize(stream));
    CHECK_OK(cuMemcpyDtoH_v2(&wrong, counter, sizeof(wrong)));
    CHECK(wrong == 0);
    CHECK_OK(cuMemFree_v2(counter));
    CHECK_OK(cuStreamDestroy_v2(stream));
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    check_start();
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread[i], NULL, threads_run, (void *)(i + 1)) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
    }
    CHECK(weir_fakecuda_calls("cuMemAlloc_v2") == 0);
    return check_end();
}
