/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory from several threads: which calls the driver takes side by side, and which not.
 *
 * Each thread moves a group of handles through slots of one reservation, next to the slots of the
 * others. A move maps all of the group at a new place, gives access, lets kernels check the old
 * contents and write new ones there, and unmaps the old place once its stream has come so far. What
 * differs is how the threads keep out of each other's way.
 * Each case wants a process of its own: the context does not survive those that go wrong.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define THREADS_MOST 4u
#define THREADS_GROUP 4u  /* handles that move together */
#define THREADS_PLACES 8u /* of each thread, in turn */
#define THREADS_BYTES (THREADS_GROUP * PROBE_PIECE)

typedef enum threads_lock {
    THREADS_FREE, /* no lock */
    THREADS_CALL, /* one call at a time */
    THREADS_PAIR  /* one call at a time, and a map with its access as one */
} threads_lock;

typedef struct threads_case {
    const char *name;
    unsigned threads;
    threads_lock lock;
    bool alias; /* the new place is mapped before the old one goes */
    bool wide;  /* one access for the group */
    bool bulk;  /* one unmap for the group */
    bool work;  /* kernels use the memory */
    bool plain; /* handles that can't be exported */
    bool needed;
} threads_case;

#define ONE 1, THREADS_FREE
#define FREE 4, THREADS_FREE
#define CALL 4, THREADS_CALL
#define PAIR 4, THREADS_PAIR

static const threads_case threads_cases[] = {
    /* name, threads, lock, alias, wide, bulk, work, plain, needed */
    {"one thread", ONE, true, false, true, true, false, true},
    {"one thread, one access for all", ONE, true, true, true, true, false, false},
    {"no lock, one place at a time", FREE, false, false, true, true, false, false},
    {"no lock", FREE, true, false, true, true, false, false},
    {"no lock, no kernels", FREE, true, false, true, false, false, false},
    {"no lock, plain handles", FREE, true, false, true, true, true, false},
    {"a lock for each call", CALL, true, false, true, true, false, false},
    {"a lock for each call, one access for all", CALL, true, true, true, true, false, false},
    {"a lock for map and access", PAIR, true, false, true, true, false, true},
    {"a lock for map and access, one access for all", PAIR, true, true, true, true, false, false},
    {"a lock for map and access, unmapped one by one", PAIR, true, false, false, true, false,
     false},
    {"a lock for map and access, plain handles", PAIR, true, false, true, true, true, false},
};

#undef ONE
#undef FREE
#undef CALL
#undef PAIR

const size_t probe_thread_cases = sizeof(threads_cases) / sizeof(threads_cases[0]);

typedef struct threads_rig {
    probe_rig *rig;
    const threads_case *how;
    weir_cu_handle_prop prop;
    uint64_t base;
    uint64_t end_us;
    pthread_mutex_t lock;
    atomic_ullong moves;
    atomic_int error; /* the first */
    atomic_uintptr_t error_call;
} threads_rig;

typedef struct threads_one {
    threads_rig *in;
    unsigned number;
    pthread_t thread;
    weir_cu_stream stream;
    uint64_t handle[THREADS_GROUP];
    bool mapped[THREADS_PLACES];
    unsigned place;
    uint64_t tag; /* of what the group holds; 0: nothing yet */
} threads_one;

/* ------------------------------------------------------------------------------------- calls -- */

static bool threads_good(threads_rig *in, const char *call, weir_cu_result result)
{
    int none = WEIR_CU_OK;
    if (result == WEIR_CU_OK) {
        return true;
    }
    if (atomic_compare_exchange_strong(&in->error, &none, result)) {
        atomic_store(&in->error_call, (uintptr_t)call);
    }
    return false;
}

static void threads_hold(threads_rig *in)
{
    if (in->how->lock != THREADS_FREE) {
        pthread_mutex_lock(&in->lock);
    }
}

static void threads_let(threads_rig *in)
{
    if (in->how->lock != THREADS_FREE) {
        pthread_mutex_unlock(&in->lock);
    }
}

static uint64_t threads_place(const threads_one *me, unsigned place)
{
    return me->in->base + (place * (uint64_t)me->in->how->threads + me->number) * THREADS_BYTES;
}

/* Between the calls of one move others may call, unless map and access are one. */
static void threads_between(threads_rig *in)
{
    if (in->how->lock != THREADS_PAIR) {
        threads_let(in);
        threads_hold(in);
    }
}

static bool threads_access(threads_rig *in, uint64_t addr, uint64_t bytes)
{
    return threads_good(in, "cuMemSetAccess",
                        in->rig->driver.set_access(addr, bytes, &in->rig->access, 1));
}

/* All handles of the group, side by side. */
static bool threads_map(threads_one *me, uint64_t addr)
{
    threads_rig *in = me->in;
    bool good = true;
    threads_hold(in);
    for (unsigned i = 0; i < THREADS_GROUP && good; i++) {
        uint64_t to = addr + i * PROBE_PIECE;
        good =
            threads_good(in, "cuMemMap", in->rig->driver.map(to, PROBE_PIECE, 0, me->handle[i], 0));
        threads_between(in);
        if (good && !in->how->wide) {
            good = threads_access(in, to, PROBE_PIECE);
            threads_between(in);
        }
        atomic_fetch_add(&in->moves, good);
    }
    if (good && in->how->wide) {
        good = threads_access(in, addr, THREADS_BYTES);
    }
    threads_let(in);
    return good;
}

static bool threads_unmap(threads_one *me, unsigned place)
{
    threads_rig *in = me->in;
    uint64_t bytes = in->how->bulk ? THREADS_BYTES : PROBE_PIECE;
    uint64_t start = threads_place(me, place);
    bool good = true;
    for (uint64_t at = 0; at < THREADS_BYTES && good; at += bytes) {
        threads_hold(in);
        good = threads_good(in, "cuMemUnmap", in->rig->driver.unmap(start + at, bytes));
        threads_let(in);
    }
    me->mapped[place] = false;
    return good;
}

static bool threads_sync(threads_one *me)
{
    return threads_good(me->in, "a kernel", me->in->rig->driver.stream_sync(me->stream));
}

/* ------------------------------------------------------------------------------------- moves -- */

/* All places but the one in use, whose work has passed. */
static bool threads_clear(threads_one *me)
{
    bool good = threads_sync(me);
    for (unsigned i = 0; i < THREADS_PLACES && good; i++) {
        if (me->mapped[i] && i != me->place) {
            good = threads_unmap(me, i);
        }
    }
    return good;
}

static bool threads_work(threads_one *me, uint64_t addr)
{
    weir_cuda_work *work = me->in->rig->work;
    uint64_t stream = (uint64_t)(uintptr_t)me->stream;
    bool good = true;
    if (!me->in->how->work) {
        return true;
    }
    if (me->tag != 0) {
        good = weir_cuda_work_verify(work, stream, addr, THREADS_BYTES, me->tag);
    }
    me->tag = me->tag + THREADS_MOST + (me->tag == 0 ? me->number + 1 : 0);
    good = good && weir_cuda_work_fill(work, stream, addr, THREADS_BYTES, me->tag);
    return threads_good(me->in, "a launch", good ? WEIR_CU_OK : WEIR_CU_LAUNCH_FAILED);
}

static bool threads_move(threads_one *me)
{
    unsigned to = (me->place + 1) % THREADS_PLACES;
    bool good = true;
    if (!me->in->how->alias && me->mapped[me->place]) {
        good = threads_sync(me) && threads_unmap(me, me->place);
    }
    if (good && me->mapped[to]) {
        good = threads_clear(me);
    }
    if (!good || !threads_map(me, threads_place(me, to))) {
        return false;
    }
    me->mapped[to] = true;
    me->place = to;
    return threads_work(me, threads_place(me, to));
}

static void *threads_run(void *self)
{
    threads_one *me = (threads_one *)self;
    threads_rig *in = me->in;
    weir_cu_context old = NULL;
    bool good =
        threads_good(in, "cuCtxPushCurrent", in->rig->driver.context_push(in->rig->context));
    for (unsigned i = 0; i < THREADS_GROUP && good; i++) {
        threads_hold(in);
        good =
            threads_good(in, "cuMemCreate",
                         in->rig->driver.handle_create(&me->handle[i], PROBE_PIECE, &in->prop, 0));
        threads_let(in);
    }
    while (good && atomic_load(&in->error) == WEIR_CU_OK && hw_now_us() < in->end_us) {
        good = threads_move(me);
    }
    good = good && threads_clear(me) && threads_unmap(me, me->place);
    for (unsigned i = 0; i < THREADS_GROUP && good; i++) {
        threads_hold(in);
        good = threads_good(in, "cuMemRelease", in->rig->driver.handle_release(me->handle[i]));
        threads_let(in);
    }
    in->rig->driver.context_pop(&old);
    return NULL;
}

/* -------------------------------------------------------------------------------------- case -- */

static void threads_say(threads_rig *in, uint64_t wrong)
{
    const threads_case *how = in->how;
    weir_cu_result error = atomic_load(&in->error);
    const char *call = (const char *)atomic_load(&in->error_call);
    unsigned long long moves = (unsigned long long)atomic_load(&in->moves);
    probe_fact("threads",
               "\"case\":\"%s\",\"threads\":%u,\"moves\":%llu,\"wrong_words\":%" PRId64
               ",\"first_error\":\"%s\",\"of\":\"%s\"",
               how->name, how->threads, moves, wrong == UINT64_MAX ? -1 : (int64_t)wrong,
               probe_error(in->rig, error), call ? call : "");
    if (how->needed) {
        char name[128];
        snprintf(name, sizeof(name), "moves side by side: %s", how->name);
        hw_result(name, error == WEIR_CU_OK && wrong == 0 && moves > 0, "%llu moves, %s%s%s", moves,
                  probe_error(in->rig, error), call ? " of " : "", call ? call : "");
    }
}

void probe_threads(probe_rig *rig, size_t which)
{
    threads_one one[THREADS_MOST];
    threads_rig in;
    memset(one, 0, sizeof(one));
    memset(&in, 0, sizeof(in));
    in.rig = rig;
    in.how = &threads_cases[which];
    in.prop = rig->prop;
    if (in.how->plain) {
        in.prop.handle_types = WEIR_CU_HANDLE_NONE;
        in.prop.flags.rdma = 0;
    }
    pthread_mutex_init(&in.lock, NULL);
    uint64_t bytes = THREADS_PLACES * THREADS_BYTES * in.how->threads;
    probe_must(rig, rig->driver.va_reserve(&in.base, bytes, 0, 0, 0), "a reservation");
    for (unsigned i = 0; i < in.how->threads; i++) {
        one[i].in = &in;
        one[i].number = i;
        one[i].stream = probe_stream(rig);
    }
    in.end_us = hw_now_us() + (rig->quick ? 200000u : 1200000u);
    for (unsigned i = 0; i < in.how->threads; i++) {
        pthread_create(&one[i].thread, NULL, threads_run, &one[i]);
    }
    for (unsigned i = 0; i < in.how->threads; i++) {
        pthread_join(one[i].thread, NULL);
    }
    threads_say(&in, weir_cuda_work_errors(rig->work));
    if (atomic_load(&in.error) == WEIR_CU_OK) {
        probe_must(rig, rig->driver.va_free(in.base, bytes), "the end of a reservation");
    }
    pthread_mutex_destroy(&in.lock);
}
