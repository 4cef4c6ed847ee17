/* SPDX-License-Identifier: MIT */
/*
 * Eight threads on streams of their own, that come and go, on one pool: blocks with tags, trims,
 * finishes and a limit that moves, with streams that are told of and streams that are not.
 */
#define _GNU_SOURCE
#include "hw.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 8u
#define THREADS_ROUNDS_A_STREAM 200u

typedef struct threads_rig {
    weir_cuda_pool *pool;
    weir_cuda_work *work;
    bool told;
    uint32_t block_max;
    uint64_t end_us;
    atomic_ullong rounds, refused, streams;
} threads_rig;

typedef struct threads_one {
    threads_rig *rig;
    pthread_t thread;
    uint32_t random;
} threads_one;

static void threads_round(threads_one *me, uint64_t native, uint64_t tag)
{
    threads_rig *rig = me->rig;
    weir_addr addr[4];
    uint64_t bytes[4];
    unsigned count = 0;
    void *stream = (void *)(uintptr_t)native;
    while (count < 4) {
        bytes[count] = (hw_random(&me->random) % rig->block_max) + 1;
        weir_status status = weir_cuda_pool_alloc(rig->pool, bytes[count], stream, &addr[count]);
        if (status != WEIR_OK) {
            atomic_fetch_add(&rig->refused, 1);
            break;
        }
        weir_cuda_work_fill(rig->work, native, addr[count], bytes[count], tag + count);
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        weir_cuda_work_verify(rig->work, native, addr[i], bytes[i], tag + i);
        hw_must(weir_cuda_pool_free(rig->pool, addr[i], stream), "a free");
    }
    atomic_fetch_add(&rig->rounds, 1);
}

static void threads_upset(threads_one *me)
{
    weir_pool *core = weir_cuda_pool_core(me->rig->pool);
    switch (hw_random(&me->random) % 3) {
    case 0:
        (void)weir_trim(core, 0, 1000, NULL);
        break;
    case 1:
        (void)weir_finish(core, 1000);
        break;
    default:
        (void)weir_limit_set(core, (64 + hw_random(&me->random) % 128) * HW_MIB);
        break;
    }
}

static void *threads_run(void *self)
{
    threads_one *me = (threads_one *)self;
    threads_rig *rig = me->rig;
    uint64_t tag = ((uint64_t)me->random << 32) + 1;
    while (hw_now_us() < rig->end_us) {
        uint64_t native = weir_cuda_work_stream_create(rig->work);
        atomic_fetch_add(&rig->streams, 1);
        for (unsigned i = 0; i < THREADS_ROUNDS_A_STREAM && hw_now_us() < rig->end_us; i++) {
            threads_round(me, native, tag);
            tag += 4;
            if (hw_random(&me->random) % 64 == 0) {
                threads_upset(me);
            }
        }
        if (rig->told) {
            hw_must(weir_cuda_pool_stream_end(rig->pool, (void *)(uintptr_t)native), "an end");
        }
        weir_cuda_work_stream_destroy(rig->work, native);
    }
    return NULL;
}

static void threads_all(const char *name, bool told, uint64_t time_us, uint64_t block_max)
{
    const char *why = NULL;
    threads_one one[THREADS];
    threads_rig rig = {.told = told, .block_max = (uint32_t)block_max};
    rig.pool = hw_pool("limit_mb:128", told);
    rig.work = hw_work(weir_cuda_pool_device(rig.pool));
    rig.end_us = hw_now_us() + time_us;
    for (unsigned i = 0; i < THREADS; i++) {
        one[i].rig = &rig;
        one[i].random = i + 1;
        pthread_create(&one[i].thread, NULL, threads_run, &one[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(one[i].thread, NULL);
    }
    uint64_t wrong = weir_cuda_work_errors(rig.work);
    bool whole = weir_check(weir_cuda_pool_core(rig.pool), &why) == WEIR_OK;
    weir_cuda_work_destroy(rig.work);
    bool ended = weir_cuda_pool_destroy(rig.pool) == WEIR_OK;
    hw_result(
        name, wrong == 0 && whole && ended && atomic_load(&rig.rounds) > 0,
        "%llu rounds on %llu streams, %llu refused, %" PRIu64 " wrong words%s%s",
        (unsigned long long)atomic_load(&rig.rounds), (unsigned long long)atomic_load(&rig.streams),
        (unsigned long long)atomic_load(&rig.refused), wrong, why ? ", " : "", why ? why : "");
}

int main(int argc, char **argv)
{
    bool quick = hw_quick(argc, argv);
    uint64_t time_us = quick ? 2000000 : 10000000;
    uint64_t block_max = quick ? HW_MIB / 4 : 6 * HW_MIB;
    threads_all("threads, streams that nobody tells of", false, time_us, block_max);
    threads_all("threads, streams that are told of", true, time_us, block_max);
    return hw_end();
}
