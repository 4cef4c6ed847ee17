/* SPDX-License-Identifier: MIT */
/*
 * The rule of cuMemAlloc and cuMemFree: a block may be touched by any stream at once, and the memory
 * of a freed one is given again only when no work queued before the free can touch it, on whatever
 * stream. The stand-in holds work back until it is told to go on.
 */
#define _GNU_SOURCE /* usleep */
#include "linked.h"

#include <pthread.h>
#include <unistd.h>

static weir_cu_stream order_stream(unsigned flags)
{
    weir_cu_stream stream = NULL;
    CHECK_OK(cuStreamCreate(&stream, flags));
    return stream;
}

/* The legacy stream does not wait for a non-blocking one, so an event there would not do. */
static void check_a_free_under_work_of(unsigned flags)
{
    weir_cu_stream busy = order_stream(flags);
    uint64_t freed = 0;
    uint64_t next = 0;
    uint64_t again = 0;
    CHECK_OK(cuMemAlloc_v2(&freed, 8 * MIB));
    CHECK_OK(weir_fakecuda_hold(busy));
    CHECK_OK(cuMemFree_v2(freed));            /* and does not wait */
    CHECK_OK(cuMemAlloc_v2(&next, 16 * MIB)); /* nor does this: not as much rests */
    CHECK(next + 16 * MIB <= freed || freed + 8 * MIB <= next);
    weir_fakecuda_go();
    weir_fakecuda_settle();
    CHECK_OK(cuMemAlloc_v2(&again, 8 * MIB));
    CHECK(again == freed);
    CHECK_OK(cuMemFree_v2(next));
    CHECK_OK(cuMemFree_v2(again));
    CHECK_OK(cuStreamDestroy_v2(busy));
}

static int order_gone; /* the work that was held back may go on */

static void *order_go_later(void *unused)
{
    (void)unused;
    usleep(50000);
    __atomic_store_n(&order_gone, 1, __ATOMIC_SEQ_CST);
    weir_fakecuda_go();
    return NULL;
}

/* As much rests as is asked for: it is waited for, and the pool does not grow. */
static void check_that_rest_is_awaited_before_growth(void)
{
    weir_cu_stream busy = order_stream(WEIR_CU_STREAM_NON_BLOCKING);
    pthread_t later;
    uint64_t addr = 0;
    CHECK_OK(cuMemAlloc_v2(&addr, 64 * MIB));
    uint64_t held = weir_fakecuda_held(0);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weir_fakecuda_hold(busy));
        CHECK_OK(cuMemFree_v2(addr));
        CHECK(pthread_create(&later, NULL, order_go_later, NULL) == 0);
        CHECK_OK(cuMemAlloc_v2(&addr, 64 * MIB));
        CHECK(__atomic_exchange_n(&order_gone, 0, __ATOMIC_SEQ_CST) == 1);
        CHECK(pthread_join(later, NULL) == 0);
        CHECK(weir_fakecuda_held(0) == held);
    }
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_OK(cuStreamDestroy_v2(busy));
}

/* Less rests than is asked for, but without it the limit would be passed. */
static void check_that_rest_is_awaited_at_the_limit(void)
{
    weir_cu_stream busy = order_stream(WEIR_CU_STREAM_NON_BLOCKING);
    pthread_t later;
    uint64_t addr = 0;
    CHECK_OK(cuMemAlloc_v2(&addr, 80 * MIB));
    CHECK_OK(weir_fakecuda_hold(busy));
    CHECK_OK(cuMemFree_v2(addr));
    CHECK(pthread_create(&later, NULL, order_go_later, NULL) == 0);
    CHECK_OK(cuMemAlloc_v2(&addr, 120 * MIB));
    CHECK(__atomic_exchange_n(&order_gone, 0, __ATOMIC_SEQ_CST) == 1);
    CHECK(pthread_join(later, NULL) == 0);
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_OK(cuStreamDestroy_v2(busy));
}

/* Memory that a stream freed and still works on is not given to all streams before that work ends. */
static void check_memory_lent_by_a_stream(void)
{
    weir_cu_stream busy = order_stream(WEIR_CU_STREAM_NON_BLOCKING);
    pthread_t later;
    uint64_t lent = 0;
    uint64_t addr = 0;
    CHECK_OK(cuMemAllocAsync(&lent, 100 * MIB, busy));
    CHECK_OK(weir_fakecuda_hold(busy));
    CHECK_OK(cuMemFreeAsync(lent, busy));
    CHECK(pthread_create(&later, NULL, order_go_later, NULL) == 0);
    CHECK_OK(cuMemAlloc_v2(&addr, 100 * MIB)); /* more than the limit has left beside it */
    CHECK(__atomic_exchange_n(&order_gone, 0, __ATOMIC_SEQ_CST) == 1);
    CHECK(pthread_join(later, NULL) == 0);
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_OK(cuStreamDestroy_v2(busy));
}

/* An event of the whole context would break a capture, so memory rests until it has ended. */
static void check_that_a_capture_survives_frees(void)
{
    weir_cu_stream stream = order_stream(WEIR_CU_STREAM_NON_BLOCKING);
    weir_cu_graph graph = NULL;
    uint64_t addr = 0;
    uint64_t other = 0;
    CHECK_OK(cuMemAlloc_v2(&addr, MIB));
    CHECK_OK(cuStreamBeginCapture_v2(stream, WEIR_CU_MODE_RELAXED));
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_OK(cuMemAlloc_v2(&other, 2 * MIB));
    CHECK_OK(cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL);
    CHECK_OK(cuGraphDestroy(graph));
    CHECK_OK(cuMemFree_v2(other));
    CHECK_OK(cuStreamDestroy_v2(stream));
}

int main(void)
{
    check_start();
    check_a_free_under_work_of(0);
    check_a_free_under_work_of(WEIR_CU_STREAM_NON_BLOCKING);
    check_that_rest_is_awaited_before_growth();
    check_that_rest_is_awaited_at_the_limit();
    check_memory_lent_by_a_stream();
    check_that_a_capture_survives_frees();
    return check_end();
}
