/* SPDX-License-Identifier: MIT */
/* Who a stream is: handles that come back, default streams of the context and of each thread. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <pthread.h>

#define BLOCK (2 * MIB)
/* One block and no more, so that every allocation gets what the one before it had. */
#define ONE_BLOCK "limit_mb:2,wait_us:1000"

static const weir_cuda_pool_config stream_told = {.streams_told = true, .captures_told = true};

/* Allocates on one stream behind work that is held, frees there, and writes on another. What the
 * first still has to do must not show in the second's memory. */
static void stream_hand_over(cuda_rig *rig, weir_cu_stream from, weir_cu_stream to)
{
    weir_addr a = rig_alloc(rig, from, BLOCK);
    RUN(weir_fakecuda_hold(from));
    rig_fill(rig, from, a, BLOCK, 1);
    rig_free(rig, a, from);
    weir_addr b = rig_alloc(rig, to, BLOCK);
    cr_expect_eq(a, b, "there is no other memory");
    rig_fill(rig, to, b, BLOCK, 2);
    weir_fakecuda_go();
    rig_verify(rig, to, b, BLOCK, 2);
    rig_free(rig, b, to);
    rig_sync(rig);
}

Test(cuda_stream, memory_goes_from_stream_to_stream_behind_its_work)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, ONE_BLOCK, NULL);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    stream_hand_over(&rig, a, b);
    stream_hand_over(&rig, b, a);
    cr_expect_gt(rig_stats(&rig).stream_waits, 0);
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

/* --------------------------------------------------------------------------- recycled handles -- */

static void stream_recycle(cuda_rig *rig)
{
    weir_cu_stream first = rig_stream(rig);
    weir_addr a = rig_alloc(rig, first, BLOCK);
    RUN(weir_fakecuda_hold(first));
    rig_fill(rig, first, a, BLOCK, 1);
    rig_free(rig, a, first);
    RUN(rig->driver.stream_destroy(first));
    weir_cu_stream second = rig_stream(rig);
    cr_assert_eq(second, first, "the stand-in gives handles again");
    weir_addr b = rig_alloc(rig, second, BLOCK);
    rig_fill(rig, second, b, BLOCK, 2);
    weir_fakecuda_go();
    rig_verify(rig, second, b, BLOCK, 2);
    rig_sync(rig);
    rig_verify(rig, second, b, BLOCK, 2);
    rig_free(rig, b, second);
    RUN(rig->driver.stream_destroy(second));
}

Test(cuda_stream, a_handle_that_comes_back_is_another_stream)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", NULL);
    stream_recycle(&rig);
    rig_drop_pool(&rig);
    rig_pool(&rig, ONE_BLOCK, NULL);
    stream_recycle(&rig);
    rig_close(&rig);
}

/* What is live of a stream that has ended can be used and freed all the same. */
Test(cuda_stream, a_live_block_outlives_its_stream)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", NULL);
    weir_cu_stream first = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    weir_addr a = rig_alloc(&rig, first, BLOCK);
    rig_fill(&rig, first, a, BLOCK, 1);
    RUN(rig.driver.stream_sync(first));
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, first));
    RUN(rig.driver.stream_destroy(first));
    rig_verify(&rig, other, a, BLOCK, 1);
    rig_free(&rig, a, other);
    rig_sync(&rig);
    rig_check(&rig);
    uint64_t released = 0;
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, &released));
    cr_expect_gt(released, 0);
    cr_expect_eq(rig_stats(&rig).reserved.current, 0);
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* Nobody said that the stream ended, and nothing of it runs any more: its dead handle is refused by
 * the driver, and the memory comes back all the same. */
Test(cuda_stream, a_live_block_outlives_a_stream_that_ended_untold)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t released = 0;
    rig_pool(&rig, "", NULL);
    weir_cu_stream first = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    weir_addr a = rig_alloc(&rig, first, BLOCK);
    rig_fill(&rig, first, a, BLOCK, 1);
    RUN(rig.driver.stream_sync(first));
    RUN(rig.driver.stream_destroy(first));
    rig_verify(&rig, other, a, BLOCK, 1);
    rig_free(&rig, a, other);
    rig_sync(&rig);
    rig_check(&rig);
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, &released));
    cr_expect_geq(released, BLOCK);
    weir_fakecuda_forgive();
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* Only the other stream's work has to have passed: the one that frees is behind its own. */
Test(cuda_stream, a_stream_takes_back_what_it_freed_for_another)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, ONE_BLOCK, NULL);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    weir_addr one = rig_alloc(&rig, a, BLOCK);
    rig_fill(&rig, a, one, BLOCK, 1);
    rig_sync(&rig);
    RUN(weir_fakecuda_hold(b));
    rig_verify(&rig, b, one, BLOCK, 1);
    rig_free(&rig, one, b);
    weir_addr two = rig_alloc(&rig, b, BLOCK);
    rig_fill(&rig, b, two, BLOCK, 2);
    cr_expect_eq(rig_stats(&rig).host_waits, 0);
    weir_fakecuda_go();
    rig_verify(&rig, b, two, BLOCK, 2);
    rig_free(&rig, two, b);
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

Test(cuda_stream, a_stream_whose_end_is_told_may_be_destroyed_at_once)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, ONE_BLOCK, &stream_told);
    weir_cu_stream first = rig_stream(&rig);
    weir_addr a = rig_alloc(&rig, first, BLOCK);
    RUN(weir_fakecuda_hold(first));
    rig_fill(&rig, first, a, BLOCK, 1);
    rig_free(&rig, a, first);
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, first));
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, first)); /* it knows none by this name now */
    RUN(rig.driver.stream_destroy(first));
    weir_cu_stream second = rig_stream(&rig);
    cr_assert_eq(second, first);
    weir_addr b = rig_alloc(&rig, second, BLOCK);
    rig_fill(&rig, second, b, BLOCK, 2);
    weir_fakecuda_go();
    rig_verify(&rig, second, b, BLOCK, 2);
    rig_free(&rig, b, second);
    rig_sync(&rig);
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, second));
    RUN(rig.driver.stream_destroy(second));
    rig_close(&rig);
}

/* 300 streams that live one after another and two that stay: no record of theirs is mixed up. */
Test(cuda_stream, many_short_lived_streams_leave_nothing)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "limit_mb:16", NULL);
    weir_cu_stream stay = rig_stream(&rig);
    for (uint64_t i = 1; i <= 300; i++) {
        weir_cu_stream stream = rig_stream(&rig);
        weir_addr a = rig_alloc(&rig, stream, 100 * KIB);
        rig_fill(&rig, stream, a, 100 * KIB, i);
        rig_verify(&rig, stream, a, 100 * KIB, i);
        rig_free(&rig, a, stream);
        RUN(rig.driver.stream_destroy(stream));
        weir_addr b = rig_alloc(&rig, stay, 100 * KIB);
        rig_fill(&rig, stay, b, 100 * KIB, 1000 + i);
        rig_verify(&rig, stay, b, 100 * KIB, 1000 + i);
        rig_free(&rig, b, stay);
    }
    rig_check(&rig);
    RUN(rig.driver.stream_destroy(stay));
    rig_close(&rig);
}

/* -------------------------------------------------------------------------------- no driver call -- */

Test(cuda_stream, with_all_told_a_cached_block_costs_no_driver_call)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", &stream_told);
    weir_cu_stream stream = rig_stream(&rig);
    rig_free(&rig, rig_alloc(&rig, stream, BLOCK), stream);
    uint64_t before = weir_fakecuda_calls(NULL);
    for (unsigned i = 0; i < 100; i++) {
        rig_free(&rig, rig_alloc(&rig, stream, BLOCK), stream);
        rig_free(&rig, rig_alloc(&rig, stream, 1000), stream);
    }
    cr_expect_leq(weir_fakecuda_calls(NULL) - before, 20,
                  "only the first small block asks for memory");
    before = weir_fakecuda_calls(NULL);
    for (unsigned i = 0; i < 100; i++) {
        rig_free(&rig, rig_alloc(&rig, stream, BLOCK), stream);
        rig_free(&rig, rig_alloc(&rig, stream, 1000), stream);
    }
    cr_expect_eq(weir_fakecuda_calls(NULL), before);
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, stream));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------ default streams -- */

Test(cuda_stream, null_and_legacy_are_one_stream)
{
    cuda_rig rig = rig_open(NULL);
    weir_stream a = 0;
    weir_stream b = 0;
    rig_pool(&rig, "", NULL);
    EXPECT_OK(weir_cuda_pool_stream(rig.pool, NULL, &a));
    EXPECT_OK(weir_cuda_pool_stream(rig.pool, WEIR_CU_STREAM_LEGACY, &b));
    cr_expect_eq(a, b);
    EXPECT_OK(weir_cuda_pool_stream(rig.pool, WEIR_CU_STREAM_PER_THREAD, &b));
    cr_expect_neq(a, b);
    rig_close(&rig);
}

Test(cuda_stream, the_legacy_stream_orders_like_any_other)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, ONE_BLOCK, NULL);
    weir_cu_stream apart = rig_stream(&rig);
    weir_cu_stream blocking = rig_stream_blocking(&rig);
    stream_hand_over(&rig, NULL, apart);
    stream_hand_over(&rig, apart, NULL);
    stream_hand_over(&rig, NULL, blocking);
    stream_hand_over(&rig, blocking, NULL);
    stream_hand_over(&rig, WEIR_CU_STREAM_PER_THREAD, apart);
    stream_hand_over(&rig, apart, WEIR_CU_STREAM_PER_THREAD);
    stream_hand_over(&rig, NULL, WEIR_CU_STREAM_PER_THREAD);
    RUN(rig.driver.stream_destroy(apart));
    RUN(rig.driver.stream_destroy(blocking));
    rig_close(&rig);
}

typedef struct stream_other {
    cuda_rig *rig;
    weir_addr addr;
    weir_stream name;
    pthread_barrier_t *meet; /* NULL: the thread ends before its memory is freed */
} stream_other;

/* A thread allocates on its default stream and leaves work there. */
static void *stream_own_default(void *self)
{
    stream_other *other = (stream_other *)self;
    weir_cu_context popped = NULL;
    RUN(other->rig->driver.context_push(other->rig->context));
    other->addr = rig_alloc(other->rig, WEIR_CU_STREAM_PER_THREAD, BLOCK);
    EXPECT_OK(weir_cuda_pool_stream(other->rig->pool, WEIR_CU_STREAM_PER_THREAD, &other->name));
    RUN(weir_fakecuda_hold(WEIR_CU_STREAM_PER_THREAD));
    rig_fill(other->rig, WEIR_CU_STREAM_PER_THREAD, other->addr, BLOCK, 1);
    if (other->meet) {
        pthread_barrier_wait(other->meet); /* there is work */
        pthread_barrier_wait(other->meet); /* and it was freed */
    }
    RUN(other->rig->driver.context_pop(&popped));
    return NULL;
}

/* After the other thread's memory was freed here, with its work unfinished. */
static void stream_take_over(cuda_rig *rig, weir_addr addr)
{
    weir_addr b = 0;
    rig_free(rig, addr, WEIR_CU_STREAM_PER_THREAD);
    weir_status status = weir_cuda_pool_alloc(rig->pool, BLOCK, WEIR_CU_STREAM_PER_THREAD, &b);
    if (status == WEIR_OK) { /* behind the other's work, by a wait between the streams */
        rig_fill(rig, WEIR_CU_STREAM_PER_THREAD, b, BLOCK, 2);
    }
    weir_fakecuda_go();
    if (status != WEIR_OK) {
        rig_sync(rig);
        b = rig_alloc(rig, WEIR_CU_STREAM_PER_THREAD, BLOCK);
        rig_fill(rig, WEIR_CU_STREAM_PER_THREAD, b, BLOCK, 2);
    }
    rig_verify(rig, WEIR_CU_STREAM_PER_THREAD, b, BLOCK, 2);
    rig_sync(rig);
    rig_verify(rig, WEIR_CU_STREAM_PER_THREAD, b, BLOCK, 2);
    rig_free(rig, b, WEIR_CU_STREAM_PER_THREAD);
}

Test(cuda_stream, memory_of_a_threads_default_stream_is_freed_on_anothers)
{
    cuda_rig rig = rig_open(NULL);
    pthread_t thread;
    pthread_barrier_t meet;
    weir_stream mine = 0;
    rig_pool(&rig, ONE_BLOCK, NULL);
    stream_other other = {&rig, 0, 0, &meet};
    pthread_barrier_init(&meet, NULL, 2);
    cr_assert_eq(pthread_create(&thread, NULL, stream_own_default, &other), 0);
    pthread_barrier_wait(&meet);
    EXPECT_OK(weir_cuda_pool_stream(rig.pool, WEIR_CU_STREAM_PER_THREAD, &mine));
    cr_expect_neq(mine, other.name, "two threads' default streams are two streams");
    stream_take_over(&rig, other.addr);
    pthread_barrier_wait(&meet);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&meet);
    rig_close(&rig);
}

Test(cuda_stream, memory_of_a_thread_that_has_ended_is_not_lost)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, ONE_BLOCK, NULL);
    stream_other other = {&rig, 0, 0, NULL};
    rig_on_thread(stream_own_default, &other);
    stream_take_over(&rig, other.addr);
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(rig_stats(&rig).reserved.current, 0);
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------------ more uses -- */

Test(cuda_stream, a_use_on_another_stream_is_waited_for)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_event event = NULL;
    rig_pool(&rig, ONE_BLOCK, NULL);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    RUN(rig.driver.event_create(&event, WEIR_CU_EVENT_NO_TIMING));
    weir_addr addr = rig_alloc(&rig, a, BLOCK);
    rig_fill(&rig, a, addr, BLOCK, 1);
    RUN(rig.driver.event_record(event, a));
    RUN(rig.driver.stream_wait(b, event, 0));
    EXPECT_OK(weir_cuda_pool_use(rig.pool, addr, b));
    RUN(weir_fakecuda_hold(b));
    rig_verify(&rig, b, addr, BLOCK, 1);
    rig_free(&rig, addr, a);
    weir_addr next = rig_alloc(&rig, a, BLOCK);
    rig_fill(&rig, a, next, BLOCK, 2);
    weir_fakecuda_go();
    rig_free(&rig, next, a);
    RUN(rig.driver.event_destroy(event));
    rig_sync(&rig);
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

Test(cuda_stream, names_that_mean_nothing_are_refused)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr addr = 0;
    weir_cu_context second = NULL;
    rig_pool(&rig, "", NULL);
    RUN(cuCtxCreate_v2(&second, 0, 0));
    weir_cu_stream foreign = rig_stream(&rig);
    RUN(rig.driver.context_pop(&second));
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, 100, foreign, &addr), WEIR_INVALID);
    addr = rig_alloc(&rig, NULL, 100);
    cr_expect_eq(weir_cuda_pool_free(rig.pool, addr, foreign), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_free(rig.pool, addr + 4096, NULL), WEIR_NOT_FOUND);
    cr_expect_eq(weir_cuda_pool_free(NULL, addr, NULL), WEIR_INVALID);
    rig_free(&rig, addr, NULL);
    cr_expect_eq(weir_cuda_pool_free(rig.pool, addr, NULL), WEIR_NOT_FOUND);
    RUN(cuCtxDestroy_v2(second));
    rig_close(&rig);
}
