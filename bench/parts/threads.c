/* SPDX-License-Identifier: MIT */
/*
 * The threads warm the pool one after the other, so that all find it as every run does, and then
 * play their rounds together. The time is from the first that begins to the last that ends.
 */
#define _POSIX_C_SOURCE 200809L

#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

typedef struct threads_one {
    pthread_t thread;
    pthread_barrier_t *barrier;
    weir_bench_script script;
    weir_bench_player player;
    uint64_t start_ns, end_ns;
} threads_one;

typedef struct threads_all {
    uint32_t count;
    weir_bench_rig rig;
    pthread_barrier_t barrier;
    threads_one one[WEIR_BENCH_STREAMS_MAX];
} threads_all;

static void *threads_main(void *argument)
{
    threads_one *one = argument;

    (void)pthread_barrier_wait(one->barrier);
    one->start_ns = weir_clock_ns();
    weir_bench_play(&one->player, &one->script, one->script.warm, one->script.count);
    one->end_ns = weir_clock_ns();
    return NULL;
}

static bool threads_prepare(threads_all *all, uint32_t live, uint32_t pairs, uint64_t *peak_bytes)
{
    for (uint32_t i = 0; i < all->count; i++) {
        threads_one *one = &all->one[i];
        one->barrier = &all->barrier;
        one->player.addrs = calloc(live, sizeof *one->player.addrs);
        if (one->player.addrs == NULL) return false;
        if (!weir_bench_script_random(&one->script, live, pairs, i + 1)) return false;
        *peak_bytes += one->script.peak_bytes;
    }
    return true;
}

/* A thread that cannot be started would leave the others at the barrier for ever. */
static void threads_start(threads_all *all)
{
    for (uint32_t i = 0; i < all->count; i++) {
        threads_one *one = &all->one[i];
        if (pthread_create(&one->thread, NULL, threads_main, one) == 0) continue;
        fprintf(stderr, "weir: thread %u of %u cannot be started\n", i + 1, all->count);
        abort();
    }
    for (uint32_t i = 0; i < all->count; i++) (void)pthread_join(all->one[i].thread, NULL);
}

static void threads_play(threads_all *all, weir_bench_result *result)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (uint32_t i = 0; i < all->count; i++) {
        threads_one *one = &all->one[i];
        one->player.pool = all->rig.pool;
        one->player.stream = all->rig.stream[i];
        weir_bench_play(&one->player, &one->script, 0, one->script.warm);
        result->live_blocks += one->script.slots;
        result->ops += one->script.count - one->script.warm;
    }
    uint64_t calls = weir_bench_rig_calls(&all->rig);
    threads_start(all);
    result->device_calls = weir_bench_rig_calls(&all->rig) - calls;
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->one[i].start_ns < start) start = all->one[i].start_ns;
        if (all->one[i].end_ns > end) end = all->one[i].end_ns;
    }
    result->ns_per_op = (double)(end - start) * all->count / (double)result->ops;
    result->pairs_per_s = (double)result->ops / 2 * 1e9 / (double)(end - start);
}

static bool threads_close(threads_all *all, const char *name, weir_fault *fault)
{
    for (uint32_t i = 0; i < all->count; i++) {
        threads_one *one = &all->one[i];
        weir_bench_clear(&one->player, one->script.slots);
        if (one->player.status != WEIR_OK)
            return weir_fault_set(fault, "%s: a call of thread %u failed: %s", name, i + 1,
                                  weir_status_text(one->player.status));
    }
    return weir_bench_rig_close(&all->rig, fault);
}

static bool threads_run(threads_all *all, uint64_t peak_bytes, weir_bench_result *result,
                        weir_fault *fault)
{
    if (!weir_bench_rig_open(&all->rig, peak_bytes, all->count, true, fault)) return false;
    if (pthread_barrier_init(&all->barrier, NULL, all->count) != 0)
        return weir_fault_set(fault, "%s: no barrier for the threads", result->name);
    threads_play(all, result);
    (void)pthread_barrier_destroy(&all->barrier);
    return threads_close(all, result->name, fault);
}

bool weir_bench_threads(const char *name, uint32_t threads, uint32_t live, uint32_t pairs,
                        weir_bench_result *result, weir_fault *fault)
{
    threads_all *all = calloc(1, sizeof *all);
    uint64_t peak_bytes = 0;

    memset(result, 0, sizeof *result);
    (void)snprintf(result->name, sizeof result->name, "%s", name);
    result->threads = threads;
    if (all == NULL) return weir_fault_set(fault, "%s: not enough memory", name);
    all->count = threads;
    bool good = threads_prepare(all, live, pairs, &peak_bytes);
    if (good) good = threads_run(all, peak_bytes, result, fault);
    else (void)weir_fault_set(fault, "%s: not enough memory", name);
    for (uint32_t i = 0; i < threads; i++) {
        weir_bench_script_free(&all->one[i].script);
        free(all->one[i].player.addrs);
    }
    free(all);
    return good;
}
