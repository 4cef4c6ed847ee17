/* SPDX-License-Identifier: MIT */
/* Several devices, several pools and several threads at once. */
#include "random.h"
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define CREW 4u
#define CREW_BLOCKS 12u
#define CREW_STEPS 300u

typedef struct crew_block {
    weir_addr addr;
    uint64_t bytes, tag;
} crew_block;

/* A block on its way to another thread, behind the giver's work. Where streams end untold none is
 * given: no block may outlive its stream then. */
typedef struct crew_gift {
    crew_block block;
    weir_cu_event event;
} crew_gift;

typedef struct crew {
    const cuda_rig *rig;
    pthread_mutex_t mail;
    crew_gift gift; /* addr 0: none */
    bool told;      /* of the ends of streams */
    atomic_uint wrong, served;
} crew;

typedef struct crew_member {
    crew *of;
    pthread_t thread;
    uint64_t state;
    unsigned number;
    weir_cu_stream stream;
    crew_block block[CREW_BLOCKS];
    unsigned count;
} crew_member;

static void crew_expect(crew_member *me, bool good)
{
    atomic_fetch_add(&me->of->wrong, good ? 0 : 1);
}

static void crew_alloc(crew_member *me)
{
    crew_block block = {0, 1 + random_size(&me->state, 21), random_next(&me->state)};
    if (me->count == CREW_BLOCKS) {
        return;
    }
    weir_status status =
        weir_cuda_pool_alloc(me->of->rig->pool, block.bytes, me->stream, &block.addr);
    crew_expect(me, status == WEIR_OK || status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT);
    if (status == WEIR_OK) {
        crew_expect(me, weir_cuda_work_fill(me->of->rig->work, (uintptr_t)me->stream, block.addr,
                                            block.bytes, block.tag));
        atomic_fetch_add(&me->of->served, 1);
        me->block[me->count++] = block;
    }
}

static void crew_free(crew_member *me)
{
    if (me->count == 0) {
        return;
    }
    crew_block block = me->block[--me->count];
    crew_expect(me, weir_cuda_work_verify(me->of->rig->work, (uintptr_t)me->stream, block.addr,
                                          block.bytes, block.tag));
    crew_expect(me, weir_cuda_pool_free(me->of->rig->pool, block.addr, me->stream) == WEIR_OK);
}

static void crew_give(crew_member *me)
{
    crew *of = me->of;
    const weir_driver *driver = &of->rig->driver;
    pthread_mutex_lock(&of->mail);
    if (of->told && me->count > 0 && of->gift.block.addr == 0) {
        crew_expect(me, driver->event_create(&of->gift.event, WEIR_CU_EVENT_NO_TIMING) == 0);
        crew_expect(me, driver->event_record(of->gift.event, me->stream) == 0);
        of->gift.block = me->block[--me->count];
    }
    pthread_mutex_unlock(&of->mail);
}

static void crew_take(crew_member *me)
{
    crew *of = me->of;
    const weir_driver *driver = &of->rig->driver;
    pthread_mutex_lock(&of->mail);
    if (me->count < CREW_BLOCKS && of->gift.block.addr != 0) {
        crew_expect(me, driver->stream_wait(me->stream, of->gift.event, 0) == 0);
        crew_expect(me, driver->event_destroy(of->gift.event) == 0);
        crew_expect(me, weir_cuda_pool_use(of->rig->pool, of->gift.block.addr, me->stream) == 0);
        me->block[me->count++] = of->gift.block;
        of->gift.block.addr = 0;
    }
    pthread_mutex_unlock(&of->mail);
}

/* What it still holds is known to be done, and is the next stream's; or, where nobody is told, it
 * holds nothing, and its work goes on without it. */
static void crew_end_stream(crew_member *me)
{
    const weir_driver *driver = &me->of->rig->driver;
    if (me->of->told) {
        crew_expect(me, driver->stream_sync(me->stream) == 0);
        crew_expect(me, weir_cuda_pool_stream_end(me->of->rig->pool, me->stream) == WEIR_OK);
    }
    while (!me->of->told && me->count > 0) {
        crew_free(me);
    }
    crew_expect(me, driver->stream_destroy(me->stream) == 0);
}

/* A new stream in place of the old one, whose handle it or another thread's may get. */
static void crew_change_stream(crew_member *me)
{
    if ((uintptr_t)me->stream > 2) {
        crew_end_stream(me);
        crew_expect(me, me->of->rig->driver.stream_create(&me->stream, me->number % 2) == 0);
    }
}

static void crew_manage(crew_member *me)
{
    const char *why = "";
    weir_pool *core = me->of->rig->core;
    uint64_t released = 0;
    crew_expect(me, weir_trim(core, random_below(&me->state, 32 * MIB), 0, &released) == WEIR_OK);
    crew_expect(me, weir_check(core, &why) == WEIR_OK);
    crew_expect(me, weir_cuda_pool_settle(me->of->rig->pool) == WEIR_OK);
}

static void *crew_work(void *self)
{
    crew_member *me = (crew_member *)self;
    const weir_driver *driver = &me->of->rig->driver;
    weir_cu_context popped = NULL;
    static void (*const calls[])(crew_member * me) = {crew_alloc, crew_alloc, crew_alloc, crew_free,
                                                      crew_free,  crew_give,  crew_take};
    crew_expect(me, driver->context_push(me->of->rig->context) == 0);
    if (me->number >= 2) { /* the others work on default streams: legacy, and their own */
        crew_expect(me, driver->stream_create(&me->stream, me->number % 2) == 0);
    }
    for (unsigned step = 1; step <= CREW_STEPS; step++) {
        calls[random_below(&me->state, 7)](me);
        if (step % 50 == 0) {
            crew_change_stream(me);
        }
        if (step % 20 == me->number) {
            crew_manage(me);
        }
    }
    while (me->count > 0) {
        crew_free(me);
    }
    if (me->number >= 2) {
        crew_end_stream(me);
    }
    crew_expect(me, driver->context_pop(&popped) == 0);
    return NULL;
}

static void crew_run(const char *settings, const weir_cuda_pool_config *config)
{
    cuda_rig rig = rig_open(NULL);
    crew of = {.rig = &rig, .told = config && config->streams_told};
    static crew_member member[CREW];
    memset(member, 0, sizeof(member));
    rig_pool(&rig, settings, config);
    pthread_mutex_init(&of.mail, NULL);
    for (unsigned i = 0; i < CREW; i++) {
        member[i].of = &of;
        member[i].number = i;
        member[i].state = random_setting("WEIR_TEST_SEED", 5) * 100 + i;
        member[i].stream = i == 1 ? WEIR_CU_STREAM_PER_THREAD : NULL;
        cr_assert_eq(pthread_create(&member[i].thread, NULL, crew_work, &member[i]), 0);
    }
    for (unsigned i = 0; i < CREW; i++) {
        pthread_join(member[i].thread, NULL);
    }
    if (of.gift.block.addr != 0) {
        RUN(rig.driver.event_sync(of.gift.event));
        RUN(rig.driver.event_destroy(of.gift.event));
        rig_free(&rig, of.gift.block.addr, NULL);
    }
    pthread_mutex_destroy(&of.mail);
    cr_expect_eq(atomic_load(&of.wrong), 0, "%u wrong answers", atomic_load(&of.wrong));
    cr_expect_gt(atomic_load(&of.served), CREW_STEPS / 2);
    rig_close(&rig);
}

Test(cuda_many, four_threads_share_a_pool, .timeout = 240)
{
    crew_run("source:vmm,limit_mb:48,growth_mb:4,wait_us:100000", NULL);
}

Test(cuda_many, four_threads_share_a_pool_that_is_told_of_streams, .timeout = 240)
{
    crew_run("source:vmm,limit_mb:48,growth_mb:4,wait_us:100000",
             &(weir_cuda_pool_config){.streams_told = true, .captures_told = true});
}

Test(cuda_many, four_threads_share_segments, .timeout = 240)
{
    const weir_cuda_pool_config told = {.streams_told = true};
    crew_run("source:async,limit_mb:64,wait_us:100000", NULL);
    crew_run("source:async,limit_mb:64,wait_us:100000", &told);
    crew_run("source:malloc,limit_mb:64,wait_us:100000", NULL);
}

/* ------------------------------------------------------------------------------------- devices -- */

typedef struct many_user {
    weir_cuda_pool *pool;
    weir_cuda_work *work;
    pthread_t thread;
    bool good;
} many_user;

static void *many_use(void *self)
{
    many_user *user = (many_user *)self;
    uint64_t stream = weir_cuda_work_stream_create(user->work);
    user->good = stream != 0;
    for (uint64_t i = 1; i <= 60 && user->good; i++) {
        weir_addr addr = 0;
        void *named = (void *)(uintptr_t)stream;
        uint64_t bytes = (1 + i % 5) * MIB;
        user->good = weir_cuda_pool_alloc(user->pool, bytes, named, &addr) == WEIR_OK &&
                     weir_cuda_work_fill(user->work, stream, addr, bytes, i) &&
                     weir_cuda_work_verify(user->work, stream, addr, bytes, i) &&
                     weir_cuda_pool_free(user->pool, addr, named) == WEIR_OK;
        if (i % 16 == 0) {
            user->good = user->good && weir_trim(weir_cuda_pool_core(user->pool), 0, WEIR_FOREVER,
                                                 NULL) == WEIR_OK;
        }
    }
    return NULL;
}

/* Two pools on each of two devices, of different sources, each used by a thread of its own without
 * a context. */
Test(cuda_many, two_devices_with_two_pools_each, .timeout = 120)
{
    static const char *const settings[] = {"source:vmm", "source:async", "source:malloc",
                                           "source:vmm,limit_mb:16"};
    cuda_rig rig = rig_open(NULL);
    many_user user[4];
    char why[WEIR_CUDA_WHY_BYTES] = "";
    memset(user, 0, sizeof(user));
    for (unsigned i = 0; i < 4; i++) {
        weir_cuda_pool_config config = {.device.device = (int)i % 2};
        cr_assert_eq(rig_try_pool(settings[i], &config, &user[i].pool, why), WEIR_OK, "%s", why);
        user[i].work = weir_cuda_work_create(weir_cuda_pool_device(user[i].pool));
        cr_assert_not_null(user[i].work);
    }
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&user[i].thread, NULL, many_use, &user[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(user[i].thread, NULL);
        cr_expect(user[i].good, "pool %u", i);
        cr_expect_eq(weir_cuda_work_errors(user[i].work), 0);
    }
    cr_expect_gt(weir_fakecuda_held(0), 0);
    cr_expect_gt(weir_fakecuda_held(1), 0);
    for (unsigned i = 0; i < 4; i++) {
        weir_cuda_work_destroy(user[i].work);
        EXPECT_OK(weir_cuda_pool_destroy(user[i].pool));
    }
    cr_expect_eq(weir_fakecuda_held(0) + weir_fakecuda_held(1), 0);
    rig_close(&rig);
}

/* What one pool keeps, the other can have when it is trimmed; neither sees the other's memory. */
Test(cuda_many, two_pools_divide_a_device)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.memory_bytes = 64 * MIB});
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda_pool *second = NULL;
    weir_addr none = 0;
    rig_pool(&rig, "source:vmm", NULL);
    cr_assert_eq(rig_try_pool("source:vmm", NULL, &second, why), WEIR_OK, "%s", why);
    weir_addr a = rig_alloc(&rig, NULL, 40 * MIB);
    rig_free(&rig, a, NULL);
    rig_sync(&rig);
    cr_expect_eq(weir_cuda_pool_alloc(second, 40 * MIB, NULL, &none), WEIR_NO_MEMORY);
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, NULL));
    EXPECT_OK(weir_cuda_pool_alloc(second, 40 * MIB, NULL, &none));
    EXPECT_OK(weir_cuda_pool_free(second, none, NULL));
    EXPECT_OK(weir_cuda_pool_destroy(second));
    rig_close(&rig);
}
