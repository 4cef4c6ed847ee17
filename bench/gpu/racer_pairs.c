/* SPDX-License-Identifier: MIT */
/*
 * Pairs: a block is allocated and freed at once, again and again, so that it comes from the cache
 * each time. With one thread, by size; and with several on one allocator.
 */
#define _GNU_SOURCE /* sched_setaffinity */

#include "racer_events.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "racer_clock.h"
#include "racer_out.h"
#include "racer_play.h"

enum { PAIRS_WARM = 1000, PAIRS_ROUNDS = 10, PAIRS_SLOW_PART = 500 };

#define PAIRS_THREAD_BYTES (UINT64_C(1) << 20)

void racer_pin(void)
{
    cpu_set_t may, one;
    int seen = 0;

    if (sched_getaffinity(0, sizeof may, &may) != 0) return;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && seen < 2; cpu++) {
        if (!CPU_ISSET(cpu, &may)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        seen++;
    }
    (void)sched_setaffinity(0, sizeof one, &one);
}

/* False where an allocation failed. */
static bool pairs_play(const racer_contestant *who, void *self, uint32_t stream, uint64_t bytes,
                       uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        uint64_t addr = who->alloc(self, stream, bytes);
        if (addr == 0) return false;
        who->free(self, addr, bytes, stream);
    }
    return true;
}

static bool pairs_good(const racer_entry *entry, bool played, racer_why *why)
{
    const char *fault = entry->contestant->fault(entry->self);

    if (fault != NULL) return racer_why_set(why, "%s", fault);
    return played || racer_why_set(why, "an allocation failed");
}

static uint32_t pairs_of(const racer_entry *entry, uint32_t pairs)
{
    return (entry->contestant->traits & RACER_SLOW) != 0 ? pairs / PAIRS_SLOW_PART : pairs;
}

/* -------------------------------------------------------------------------------- one thread -- */

static double pairs_empty_ns(uint64_t bytes, uint32_t pairs)
{
    uint64_t start_ns = racer_clock_ns();

    (void)pairs_play(&racer_nobody, NULL, 0, bytes, pairs);
    return (double)(racer_clock_ns() - start_ns) / pairs;
}

static bool pairs_size(const racer_entry *entry, uint64_t bytes, uint32_t pairs, racer_why *why)
{
    uint32_t round = pairs / PAIRS_ROUNDS > 0 ? pairs / PAIRS_ROUNDS : 1;
    double sum_ns = 0, best_ns = 1e18, empty_ns = pairs_empty_ns(bytes, pairs);
    bool played = entry->contestant->reset(entry->self, 0, 1, why);
    racer_out out;

    if (!played) return false;
    played = pairs_play(entry->contestant, entry->self, 0, bytes,
                        PAIRS_WARM < pairs ? PAIRS_WARM : pairs);
    for (int i = 0; played && i < PAIRS_ROUNDS; i++) {
        uint64_t start_ns = racer_clock_ns();
        played = pairs_play(entry->contestant, entry->self, 0, bytes, round);
        double ns = (double)(racer_clock_ns() - start_ns) / round;
        sum_ns += ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    if (!pairs_good(entry, played, why)) return false;
    racer_out_begin(&out, "pairs");
    racer_out_text(&out, "contestant", entry->contestant->name);
    racer_out_count(&out, "bytes", bytes);
    racer_out_count(&out, "pairs", round * PAIRS_ROUNDS);
    racer_out_decimal(&out, "ns_per_pair", sum_ns / PAIRS_ROUNDS - empty_ns, 1);
    racer_out_decimal(&out, "best_ns_per_pair", best_ns - empty_ns, 1);
    racer_out_decimal(&out, "empty_ns_per_pair", empty_ns, 1);
    racer_out_end(&out);
    return true;
}

bool racer_event_pairs(const racer_entry *entry, uint32_t pairs, racer_why *why)
{
    static const uint64_t sizes[] = {512, UINT64_C(64) << 10, UINT64_C(1) << 20, UINT64_C(16) << 20,
                                     UINT64_C(256) << 20};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!pairs_size(entry, sizes[i], pairs_of(entry, pairs), why)) return false;
    return true;
}

/* ------------------------------------------------------------------------------ more threads -- */

typedef struct pairs_thread {
    pthread_t thread;
    const racer_entry *entry;
    pthread_barrier_t *barrier;
    uint32_t stream;
    uint32_t pairs;
    bool played;
    uint64_t start_ns, end_ns;
} pairs_thread;

static void *pairs_main(void *argument)
{
    pairs_thread *me = argument;
    const racer_entry *entry = me->entry;

    me->played = racer_gpu_enter(entry->gpu) &&
                 pairs_play(entry->contestant, entry->self, me->stream, PAIRS_THREAD_BYTES, 10);
    (void)pthread_barrier_wait(me->barrier);
    me->start_ns = racer_clock_ns();
    me->played = me->played && pairs_play(entry->contestant, entry->self, me->stream,
                                          PAIRS_THREAD_BYTES, me->pairs);
    me->end_ns = racer_clock_ns();
    return NULL;
}

/* A thread that cannot be started would leave the others at the barrier for ever. */
static void pairs_start(pairs_thread *threads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&threads[i].thread, NULL, pairs_main, &threads[i]) != 0) abort();
    for (uint32_t i = 0; i < count; i++) (void)pthread_join(threads[i].thread, NULL);
}

static void pairs_write(const racer_entry *entry, const pairs_thread *threads, uint32_t count)
{
    uint64_t start_ns = UINT64_MAX, end_ns = 0, pairs = 0;
    racer_out out;

    for (uint32_t i = 0; i < count; i++) {
        start_ns = threads[i].start_ns < start_ns ? threads[i].start_ns : start_ns;
        end_ns = threads[i].end_ns > end_ns ? threads[i].end_ns : end_ns;
        pairs += threads[i].pairs;
    }
    racer_out_begin(&out, "threads");
    racer_out_text(&out, "contestant", entry->contestant->name);
    racer_out_count(&out, "threads", count);
    racer_out_count(&out, "pairs", pairs);
    racer_out_decimal(&out, "pairs_per_s", (double)pairs * 1e9 / (double)(end_ns - start_ns), 0);
    racer_out_end(&out);
}

static bool pairs_crowd(const racer_entry *entry, uint32_t count, uint32_t pairs, racer_why *why)
{
    pairs_thread threads[RACER_STREAMS];
    pthread_barrier_t barrier;
    bool played = true;

    if (!entry->contestant->reset(entry->self, 0, count, why)) return false;
    if (pthread_barrier_init(&barrier, NULL, count) != 0)
        return racer_why_set(why, "no barrier for the threads");
    for (uint32_t i = 0; i < count; i++)
        threads[i] = (pairs_thread){
            .entry = entry, .barrier = &barrier, .stream = i, .pairs = pairs / count};
    pairs_start(threads, count);
    (void)pthread_barrier_destroy(&barrier);
    for (uint32_t i = 0; i < count; i++) played = played && threads[i].played;
    if (!pairs_good(entry, played, why)) return false;
    pairs_write(entry, threads, count);
    return true;
}

bool racer_event_threads(const racer_entry *entry, uint32_t pairs, racer_why *why)
{
    for (uint32_t count = 1; count <= RACER_STREAMS; count *= 2)
        if (!pairs_crowd(entry, count, pairs_of(entry, pairs), why)) return false;
    return true;
}
