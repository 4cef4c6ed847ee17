/* SPDX-License-Identifier: MIT */
/*
 * Threads that share a pool: each has a stream of its own, hands blocks to the others, and one more
 * trims, changes the limit, walks and checks all the while. On the simulated device, which watches
 * over every byte, and on the host's, whose bytes are real and whose streams are threads too.
 */
#include "host.h"
#include "platform.h"
#include "random.h"
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CREW_MAX 4u
#define CREW_BLOCKS 24u
#define CREW_SLOTS 4u
#define CREW_LIMIT (32 * MIB)

typedef struct crew_block {
    weir_addr addr;
    uint64_t bytes, tag;
} crew_block;

/* A block on its way to another thread, behind `event` of the giver's stream. */
typedef struct crew_gift {
    crew_block block;
    weir_event event;
    bool full;
} crew_gift;

typedef struct crew {
    weir_pool *pool;
    weir_platform *platform;
    const weir_device_ops *ops;
    void *device;
    bool (*write)(void *device, uint64_t stream, const crew_block *block);
    bool (*read)(void *device, uint64_t stream, const crew_block *block);
    uint64_t steps;
    pthread_mutex_t mail;
    crew_gift slot[CREW_SLOTS];
    atomic_uint wrong; /* answers that no pool may give */
    atomic_uint served;
    atomic_bool over;
} crew;

typedef struct crew_member {
    crew *of;
    pthread_t thread;
    uint64_t native, state;
    weir_stream stream;
    crew_block block[CREW_BLOCKS];
    uint32_t count;
} crew_member;

static void crew_expect(crew *of, bool good)
{
    if (!good) atomic_fetch_add(&of->wrong, 1);
}

static void crew_alloc(crew_member *me)
{
    crew *of = me->of;
    crew_block block = {.bytes = 1 + random_size(&me->state, 22),
                        .tag = random_next(&me->state) | 1};
    if (me->count == CREW_BLOCKS) return;
    weir_status status = weir_alloc_on(of->pool, me->stream, block.bytes, &block.addr);
    crew_expect(of, status == WEIR_OK || status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT);
    if (status != WEIR_OK) return;
    atomic_fetch_add(&of->served, 1);
    crew_expect(of, of->write(of->device, me->native, &block));
    me->block[me->count++] = block;
}

static void crew_free(crew_member *me)
{
    crew *of = me->of;
    if (me->count == 0) return;
    uint32_t index = (uint32_t)random_below(&me->state, me->count);
    crew_block block = me->block[index];
    me->block[index] = me->block[--me->count];
    crew_expect(of, of->read(of->device, me->native, &block));
    crew_expect(of, weir_free(of->pool, block.addr, me->stream) == WEIR_OK);
}

static void crew_give(crew_member *me)
{
    crew *of = me->of;
    if (me->count == 0) return;
    pthread_mutex_lock(&of->mail);
    crew_gift *gift = &of->slot[random_below(&me->state, CREW_SLOTS)];
    if (!gift->full && of->ops->event_create(of->device, &gift->event) == WEIR_OK) {
        crew_expect(of, of->ops->event_record(of->device, gift->event, me->native) == WEIR_OK);
        gift->block = me->block[--me->count];
        gift->full = true;
    }
    pthread_mutex_unlock(&of->mail);
}

static void crew_take(crew_member *me)
{
    crew *of = me->of;
    if (me->count == CREW_BLOCKS) return;
    pthread_mutex_lock(&of->mail);
    crew_gift *gift = &of->slot[random_below(&me->state, CREW_SLOTS)];
    if (gift->full) {
        crew_expect(of, of->ops->stream_wait(of->device, me->native, gift->event) == WEIR_OK);
        of->ops->event_destroy(of->device, gift->event);
        crew_expect(of, weir_use(of->pool, gift->block.addr, me->stream) == WEIR_OK);
        me->block[me->count++] = gift->block;
        gift->full = false;
    }
    pthread_mutex_unlock(&of->mail);
}

static void crew_touch(crew_member *me)
{
    weir_block found;
    if (me->count == 0) return;
    const crew_block *block = &me->block[random_below(&me->state, me->count)];
    crew_expect(me->of, weir_pin(me->of->pool, block->addr) == WEIR_OK);
    crew_expect(me->of,
                weir_block_find(me->of->pool, block->addr + block->bytes - 1, &found) == WEIR_OK);
    crew_expect(me->of, found.addr == block->addr && found.pins >= 1);
    crew_expect(me->of, weir_unpin(me->of->pool, block->addr) == WEIR_OK);
}

static void *crew_work(void *self)
{
    crew_member *me = (crew_member *)self;
    static void (*const calls[])(crew_member * me) = {
        crew_alloc, crew_alloc, crew_alloc, crew_free, crew_free, crew_give, crew_take, crew_touch};
    for (uint64_t step = 0; step < me->of->steps; step++) calls[random_below(&me->state, 8)](me);
    while (me->count != 0) crew_free(me);
    return NULL;
}

static bool crew_visit(void *self, const weir_block *block)
{
    *(uint64_t *)self += block->live;
    return true;
}

/* What is done from outside while the others work. A check knows of running calls and their
 * claims. */
static void *crew_manage(void *self)
{
    crew *of = (crew *)self;
    weir_stats stats = {.size = sizeof(stats)};
    uint64_t state = 99, live = 0;
    while (!atomic_load(&of->over)) {
        const char *why = "";
        uint64_t released;
        weir_status status = weir_trim(of->pool, random_below(&state, CREW_LIMIT), 0, &released);
        crew_expect(of, status == WEIR_OK);
        crew_expect(of, weir_limit_set(of->pool, CREW_LIMIT - random_below(&state, 4) * MIB) ==
                            WEIR_OK);
        weir_stats_read(of->pool, &stats);
        crew_expect(of, stats.reserved.peak <= CREW_LIMIT);
        weir_walk_blocks(of->pool, crew_visit, &live);
        crew_expect(of, weir_check(of->pool, &why) == WEIR_OK);
        status = weir_finish(of->pool, 100);
        crew_expect(of, status == WEIR_OK || status == WEIR_WOULD_WAIT);
    }
    return NULL;
}

/* Blocks that nobody took are freed on the first stream. */
static void crew_clear(crew *of, const crew_member *first)
{
    for (uint32_t i = 0; i < CREW_SLOTS; i++) {
        if (!of->slot[i].full) continue;
        ASSERT_OK(of->ops->stream_wait(of->device, first->native, of->slot[i].event));
        of->ops->event_destroy(of->device, of->slot[i].event);
        cr_expect(of->read(of->device, first->native, &of->slot[i].block));
        ASSERT_OK(weir_free(of->pool, of->slot[i].block.addr, first->stream));
    }
}

static void crew_open(crew *of, weir_config config)
{
    of->platform = weir_platform_create(true);
    config.size = sizeof(config);
    config.ops = of->ops;
    config.device_self = of->device;
    config.platform = of->platform;
    config.limit_bytes = CREW_LIMIT;
    ASSERT_OK(weir_pool_create(&config, &of->pool));
    cr_assert_eq(pthread_mutex_init(&of->mail, NULL), 0);
}

static void crew_run(crew *of, crew_member *members, unsigned count)
{
    pthread_t manager;
    for (unsigned i = 0; i < count; i++) {
        members[i].of = of;
        members[i].state = random_setting("WEIR_TEST_SEED", 41) * 1000 + i;
        weir_stream_desc desc = {.size = sizeof(desc),
                                 .native = members[i].native,
                                 .unique = 100 + i,
                                 .outlives = i % 2 == 0};
        ASSERT_OK(weir_stream_attach(of->pool, &desc, &members[i].stream));
    }
    cr_assert_eq(pthread_create(&manager, NULL, crew_manage, of), 0);
    for (unsigned i = 0; i < count; i++)
        cr_assert_eq(pthread_create(&members[i].thread, NULL, crew_work, &members[i]), 0);
    for (unsigned i = 0; i < count; i++) pthread_join(members[i].thread, NULL);
    atomic_store(&of->over, true);
    pthread_join(manager, NULL);
    crew_clear(of, &members[0]);
    cr_expect_eq(atomic_load(&of->wrong), 0);
    cr_expect_gt(atomic_load(&of->served), 0);
}

static void crew_close(crew *of)
{
    const char *why = "";
    weir_status status = weir_check(of->pool, &why);
    cr_expect_eq(status, WEIR_OK, "%s", why);
    ASSERT_OK(weir_pool_destroy(of->pool));
    weir_platform_destroy(of->platform);
    pthread_mutex_destroy(&of->mail);
}

/* ---------------------------------------------------------------------------------- devices -- */

static bool crew_sim_write(void *device, uint64_t stream, const crew_block *block)
{
    return weir_sim_write((weir_sim *)device, stream, block->addr, block->bytes, block->tag);
}

static bool crew_sim_read(void *device, uint64_t stream, const crew_block *block)
{
    return weir_sim_read((weir_sim *)device, stream, block->addr, block->bytes, block->tag);
}

/* Without rescue: nothing keeps these threads from queueing work while the device has to rest. */
static void crew_on_sim(unsigned count, bool segments)
{
    weir_sim_config config = {.memory_bytes = 256 * MIB,
                              .granule_bytes = 64 * KIB,
                              .lag_us = 20,
                              .no_virtual = segments,
                              .no_rescue = true,
                              .oracle = true,
                              .locked = true};
    weir_sim *sim = weir_sim_create(&config);
    crew of = {.ops = weir_sim_ops(sim), .device = sim, .write = crew_sim_write,
               .read = crew_sim_read, .steps = random_setting("WEIR_TEST_STEPS", 3000)};
    static crew_member members[CREW_MAX];
    memset(members, 0, sizeof(members));
    crew_open(&of, (weir_config){.wait_us = 1000});
    for (unsigned i = 0; i < count; i++) members[i].native = weir_sim_stream_create(sim);
    crew_run(&of, members, count);
    weir_sim_sync(sim, 0);
    crew_close(&of);
    cr_expect_null(weir_sim_balance(sim), "%s", weir_sim_balance(sim));
    weir_sim_destroy(sim);
}

Test(property_threads, two_on_the_simulated_device)
{
    crew_on_sim(2, false);
}

Test(property_threads, four_on_the_simulated_device)
{
    crew_on_sim(4, false);
}

Test(property_threads, three_on_segments)
{
    crew_on_sim(3, true);
}

static bool crew_host_write(void *device, uint64_t stream, const crew_block *block)
{
    return weir_host_fill((weir_host *)device, stream, block->addr, block->bytes, block->tag);
}

static bool crew_host_read(void *device, uint64_t stream, const crew_block *block)
{
    return weir_host_verify((weir_host *)device, stream, block->addr, block->bytes, block->tag);
}

Test(property_threads, three_on_real_memory)
{
    weir_host *host = weir_host_create(&(weir_host_config){.memory_bytes = 128 * MIB,
                                                           .granule_bytes = 64 * KIB});
    cr_assert_not_null(host);
    crew of = {.ops = weir_host_ops(host), .device = host, .write = crew_host_write,
               .read = crew_host_read, .steps = random_setting("WEIR_TEST_STEPS", 1000)};
    static crew_member members[CREW_MAX];
    memset(members, 0, sizeof(members));
    crew_open(&of, (weir_config){.wait_us = 100000});
    for (unsigned i = 0; i < 3; i++) members[i].native = weir_host_stream_create(host);
    crew_run(&of, members, 3);
    weir_host_sync(host, 0);
    cr_expect_eq(weir_host_errors(host), 0);
    crew_close(&of);
    cr_expect_null(weir_host_balance(host), "%s", weir_host_balance(host));
    weir_host_destroy(host);
}
