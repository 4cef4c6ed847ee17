/* SPDX-License-Identifier: MIT */
/*
 * The storm.
 *
 * Invariants  A block belongs to one thread. What another stream does with it is ordered by the
 *             program's own events, which go past the planted wrapper.
 * Cost        A round is a few kernel launches: some ten microseconds.
 */
#define _GNU_SOURCE
#include "hw_storm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORM_PAGE_SHIFT 9 /* the pool's unit */
#define STORM_PAGES (UINT32_C(1) << 24)
#define STORM_LIVE_MAX 64u

typedef struct storm_block {
    weir_addr addr;
    uint64_t bytes;
    uint64_t tag;
    unsigned stream;
} storm_block;

typedef struct storm {
    const storm_plan *plan;
    weir_cuda *cuda;
    weir_cuda_work *work;
    weir_platform *platform;
    weir_pool *pool;
    weir_device_ops ops; /* what the pool calls */
    const weir_device_ops *true_ops;
    uint64_t native[STORM_STREAMS];
    weir_stream name[STORM_STREAMS];
    atomic_uchar *freed_by; /* by hashed page: the stream that freed it last, from 1 */
    atomic_ullong tag, rounds, reuses, crossings, refused;
    atomic_bool over;
    uint64_t start_us;
} storm;

typedef struct storm_thread {
    storm *in;
    pthread_t thread;
    uint32_t random;
    storm_block live[STORM_LIVE_MAX];
    uint32_t count;
    weir_event event;
} storm_thread;

/* ------------------------------------------------------------------------------------ planted -- */

static weir_status storm_pass(void *self, weir_event event, bool *passed)
{
    (void)self;
    (void)event;
    *passed = true;
    return WEIR_OK;
}

static weir_status storm_drop(void *self, uint64_t stream, weir_event event)
{
    (void)self;
    (void)stream;
    (void)event;
    return WEIR_OK;
}

static void storm_plant(storm *in)
{
    in->ops = *in->true_ops;
    if (in->plan->planted) {
        in->ops.event_query = storm_pass;
        in->ops.stream_wait = storm_drop;
    }
}

/* ------------------------------------------------------------------------------------- rounds -- */

static atomic_uchar *storm_page(storm *in, weir_addr addr)
{
    uint64_t page = addr >> STORM_PAGE_SHIFT;
    return &in->freed_by[(page * UINT64_C(0x9e3779b97f4a7c15)) >> 40 & (STORM_PAGES - 1)];
}

static void storm_note(storm *in, weir_addr addr, unsigned stream)
{
    unsigned before = atomic_exchange(storm_page(in, addr), (unsigned char)0);
    if (before != 0) {
        atomic_fetch_add(&in->reuses, 1);
        atomic_fetch_add(&in->crossings, before != stream + 1);
    }
}

static void storm_take(storm_thread *me)
{
    storm *in = me->in;
    const storm_plan *plan = in->plan;
    storm_block block;
    uint64_t span = (plan->block_max - plan->block_min) / 512 + 1;
    block.bytes = plan->block_min + hw_random(&me->random) % span * 512;
    block.stream = hw_random(&me->random) % STORM_STREAMS;
    block.tag = atomic_fetch_add(&in->tag, 1);
    weir_status status = weir_alloc_on(in->pool, in->name[block.stream], block.bytes, &block.addr);
    if (status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT ||
        (plan->planted && status != WEIR_OK)) {
        atomic_fetch_add(&in->refused, 1);
        return;
    }
    hw_must(status, "an allocation of the storm");
    storm_note(in, block.addr, block.stream);
    if (plan->spin_us > 0 && hw_random(&me->random) % 16 == 0) {
        weir_cuda_work_spin(in->work, in->native[block.stream],
                            hw_random(&me->random) % plan->spin_us);
    }
    weir_cuda_work_fill(in->work, in->native[block.stream], block.addr, block.bytes, block.tag);
    me->live[me->count++] = block;
}

/* Another stream reads the block behind its own, and the pool hears of it. */
static void storm_use(storm_thread *me, const storm_block *block)
{
    storm *in = me->in;
    unsigned side = hw_random(&me->random) % STORM_STREAMS;
    const weir_device_ops *ops = in->true_ops;
    hw_must(ops->event_record(in->cuda, me->event, in->native[block->stream]), "a record");
    hw_must(ops->stream_wait(in->cuda, in->native[side], me->event), "a wait");
    weir_cuda_work_verify(in->work, in->native[side], block->addr, block->bytes, block->tag);
    hw_must(weir_use(in->pool, block->addr, in->name[side]), "a use");
}

static void storm_drop_one(storm_thread *me)
{
    storm *in = me->in;
    uint32_t at = hw_random(&me->random) % me->count;
    storm_block block = me->live[at];
    me->live[at] = me->live[--me->count];
    if (hw_random(&me->random) % 8 == 0) {
        storm_use(me, &block);
    }
    weir_cuda_work_verify(in->work, in->native[block.stream], block.addr, block.bytes, block.tag);
    atomic_store(storm_page(in, block.addr), (unsigned char)(block.stream + 1));
    hw_must(weir_free(in->pool, block.addr, in->name[block.stream]), "a free of the storm");
}

static bool storm_enough(storm *in)
{
    const storm_plan *plan = in->plan;
    if (hw_now_us() - in->start_us >= plan->time_us) {
        return true;
    }
    if (plan->moves == 0 && plan->crossings == 0) {
        return false;
    }
    return hw_stats(in->pool).moved_handles >= plan->moves &&
           atomic_load(&in->crossings) >= plan->crossings;
}

static void *storm_run(void *self)
{
    storm_thread *me = (storm_thread *)self;
    storm *in = me->in;
    for (uint64_t i = 0; i < in->plan->rounds && !atomic_load(&in->over); i++) {
        if (me->count < in->plan->live && (me->count == 0 || hw_random(&me->random) % 2 == 0)) {
            storm_take(me);
        } else if (me->count > 0) {
            storm_drop_one(me);
        }
        atomic_fetch_add(&in->rounds, 1);
        if (i % 256 == 255 && storm_enough(in)) {
            atomic_store(&in->over, true);
        }
    }
    while (me->count > 0) {
        storm_drop_one(me);
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------- making -- */

static void storm_open(storm *in)
{
    weir_config config;
    memset(&config, 0, sizeof(config));
    in->cuda = hw_device(in->plan->source, false);
    in->work = hw_work(in->cuda);
    in->true_ops = weir_cuda_ops(in->cuda);
    storm_plant(in);
    in->platform = weir_platform_create(true);
    config.size = sizeof(config);
    config.ops = &in->ops;
    config.device_self = in->cuda;
    config.platform = in->platform;
    config.limit_bytes = in->plan->limit_bytes;
    config.growth_bytes = in->plan->growth_bytes;
    hw_must(weir_pool_create(&config, &in->pool), "a pool");
    for (unsigned i = 0; i < STORM_STREAMS; i++) {
        weir_stream_desc desc;
        in->native[i] = weir_cuda_work_stream_create(in->work);
        hw_must(weir_cuda_stream(in->cuda, (void *)(uintptr_t)in->native[i], &desc), "a stream");
        desc.outlives = i % 2 == 0;
        hw_must(weir_stream_attach(in->pool, &desc, &in->name[i]), "a stream's name");
    }
    in->freed_by = (atomic_uchar *)calloc(STORM_PAGES, sizeof(*in->freed_by));
    in->start_us = hw_now_us();
}

static void storm_close(storm *in, storm_result *result)
{
    const char *why = NULL;
    result->wrong_words = weir_cuda_work_errors(in->work);
    if (weir_check(in->pool, &why) != WEIR_OK) {
        result->broken = why;
    }
    if (weir_pool_destroy(in->pool) != WEIR_OK) {
        result->broken = "the pool can't be destroyed";
    } else if (weir_cuda_balance(in->cuda)) {
        result->broken = "not all was given back to the device";
    }
    weir_cuda_work_destroy(in->work);
    weir_cuda_destroy(in->cuda);
    weir_platform_destroy(in->platform);
    free(in->freed_by);
}

static void storm_threads(storm *in)
{
    storm_thread *threads = (storm_thread *)calloc(in->plan->threads, sizeof(*threads));
    for (unsigned i = 0; threads && i < in->plan->threads; i++) {
        threads[i].in = in;
        threads[i].random = in->plan->seed * 1000 + i;
        hw_must(in->true_ops->event_create(in->cuda, &threads[i].event), "an event");
        pthread_create(&threads[i].thread, NULL, storm_run, &threads[i]);
    }
    for (unsigned i = 0; threads && i < in->plan->threads; i++) {
        pthread_join(threads[i].thread, NULL);
        in->true_ops->event_destroy(in->cuda, threads[i].event);
    }
    free(threads);
}

storm_result hw_storm(const storm_plan *plan)
{
    storm in;
    storm_result result;
    memset(&in, 0, sizeof(in));
    memset(&result, 0, sizeof(result));
    in.plan = plan;
    atomic_store(&in.tag, 1);
    storm_open(&in);
    storm_threads(&in);
    weir_stats stats = hw_stats(in.pool);
    result.rounds = atomic_load(&in.rounds);
    result.reuses = atomic_load(&in.reuses);
    result.crossings = atomic_load(&in.crossings);
    result.refused = atomic_load(&in.refused);
    result.moves = stats.moved_handles;
    result.rescues = stats.rescues;
    result.stream_waits = stats.stream_waits;
    storm_close(&in, &result);
    return result;
}
