/* SPDX-License-Identifier: MIT */
/*
 * Graph capture: what is allocated in a capture stays the graph's until nothing can run it any
 * more, and nothing that the pool does breaks a capture, in whatever mode.
 */
#include "rig_graph.h"

#include <pthread.h>
#include <stdatomic.h>

#define BLOCK (2 * MIB)

static void capt_life_of_a_graph(int mode)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr mine = 0;
    weir_addr none = 0;
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    void *exec = rig_graph(&rig, stream, mode, &mine);
    for (unsigned i = 0; i < 3; i++) {
        weir_cu_stream user = i == 1 ? other : stream;
        weir_addr a = rig_alloc(&rig, user, BLOCK);
        cr_expect_not(rig_overlap(a, mine, BLOCK), "the graph's memory was given away");
        rig_fill(&rig, user, a, BLOCK, 100 + i);
        RUN(cuGraphLaunch(exec, stream));
        rig_verify(&rig, user, a, BLOCK, 100 + i);
        rig_sync(&rig);
        rig_verify(&rig, user, a, BLOCK, 100 + i);
        rig_free(&rig, a, user);
    }
    rig_sync(&rig);
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, 2 * BLOCK, stream, &none), WEIR_NO_MEMORY);
    cr_expect_eq(weir_cuda_pool_destroy(rig.pool), WEIR_BUSY, "a graph exists");
    RUN(cuGraphExecDestroy(exec));
    rig_expect_given_back(&rig, 2 * BLOCK);
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

Test(cuda_capture, memory_of_a_graph_is_its_own_until_it_is_destroyed)
{
    capt_life_of_a_graph(WEIR_CU_MODE_GLOBAL);
    capt_life_of_a_graph(WEIR_CU_MODE_THREAD_LOCAL);
    capt_life_of_a_graph(WEIR_CU_MODE_RELAXED);
}

/* Neither a trim nor a lower limit takes what the graph was captured with, though it is free. */
Test(cuda_capture, a_trim_leaves_a_graph_its_memory)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr mine = 0;
    uint64_t released = 0;
    rig_pool(&rig, "growth_mb:2", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    void *exec = rig_graph(&rig, stream, WEIR_CU_MODE_GLOBAL, &mine);
    rig_free(&rig, rig_alloc(&rig, stream, 4 * BLOCK), stream);
    rig_sync(&rig);
    EXPECT_OK(weir_trim(rig.core, 0, 1000, &released));
    cr_expect_geq(released, 4 * BLOCK);
    (void)weir_finish(rig.core, 1000);
    EXPECT_OK(weir_limit_set(rig.core, 2 * MIB));
    cr_expect_geq(rig_stats(&rig).reserved.current, BLOCK);
    RUN(cuGraphLaunch(exec, stream));
    rig_sync(&rig);
    RUN(cuGraphExecDestroy(exec));
    weir_fakecuda_settle();
    EXPECT_OK(weir_cuda_pool_settle(rig.pool));
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, &released));
    cr_expect_eq(rig_stats(&rig).reserved.current, 0);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_capture, a_graph_destroyed_while_it_runs_keeps_its_memory_until_it_has_run)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr mine = 0;
    weir_addr none = 0;
    rig_pool(&rig, "limit_mb:2,wait_us:1000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    void *exec = rig_graph(&rig, stream, WEIR_CU_MODE_GLOBAL, &mine);
    RUN(weir_fakecuda_hold(stream));
    RUN(cuGraphLaunch(exec, stream));
    RUN(cuGraphExecDestroy(exec));
    cr_expect_neq(weir_cuda_pool_alloc(rig.pool, BLOCK, other, &none), WEIR_OK);
    weir_fakecuda_go();
    rig_sync(&rig);
    rig_expect_given_back(&rig, BLOCK);
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------ inside a capture -- */

Test(cuda_capture, a_stream_reuses_inside_what_it_freed_itself)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr first = 0;
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    for (uint64_t i = 0; i < 8; i++) {
        weir_addr a = rig_alloc(&rig, stream, BLOCK);
        first = first ? first : a;
        cr_expect_eq(a, first);
        rig_fill(&rig, stream, a, BLOCK, i);
        rig_verify(&rig, stream, a, BLOCK, i);
        rig_free(&rig, a, stream);
    }
    rig_expect_active(&rig, stream);
    weir_cu_graph graph = rig_capture_end(stream);
    void *exec = rig_instantiate(graph);
    RUN(cuGraphLaunch(exec, stream));
    rig_sync(&rig);
    RUN(cuGraphExecDestroy(exec));
    RUN(cuGraphDestroy(graph));
    rig_expect_given_back(&rig, 2 * BLOCK);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* The edges of the graph do not tell in which order two of its streams run. */
Test(cuda_capture, two_streams_of_a_capture_share_nothing)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_event event = NULL;
    rig_pool(&rig, "", NULL);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    RUN(rig.driver.event_create(&event, WEIR_CU_EVENT_NO_TIMING));
    rig_capture_begin(a, WEIR_CU_MODE_GLOBAL);
    RUN(rig.driver.event_record(event, a));
    RUN(rig.driver.stream_wait(b, event, 0));
    weir_addr on_a = rig_alloc(&rig, a, BLOCK);
    rig_fill(&rig, a, on_a, BLOCK, 1);
    rig_free(&rig, on_a, a);
    cr_expect_eq(weir_finish(rig.core, 1000), WEIR_WOULD_WAIT, "a capture's work never passes");
    weir_addr on_b = rig_alloc(&rig, b, BLOCK);
    cr_expect_not(rig_overlap(on_a, on_b, BLOCK));
    rig_fill(&rig, b, on_b, BLOCK, 2);
    rig_free(&rig, on_b, b);
    RUN(rig.driver.event_record(event, b));
    RUN(rig.driver.stream_wait(a, event, 0));
    rig_expect_active(&rig, a);
    RUN(cuGraphDestroy(rig_capture_end(a)));
    rig_expect_given_back(&rig, 2 * BLOCK);
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

/* It holds what the graph computes, is read after a launch, and freed like any other. */
Test(cuda_capture, a_block_of_a_capture_may_outlive_it)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    weir_addr a = rig_alloc(&rig, stream, BLOCK);
    rig_fill(&rig, stream, a, BLOCK, 7);
    weir_cu_graph graph = rig_capture_end(stream);
    void *exec = rig_instantiate(graph);
    RUN(cuGraphLaunch(exec, stream));
    rig_verify(&rig, stream, a, BLOCK, 7);
    RUN(cuGraphDestroy(graph));
    RUN(cuGraphExecDestroy(exec));
    weir_fakecuda_settle();
    cr_expect_eq(weir_cuda_pool_settle(rig.pool), WEIR_BUSY, "the block is live");
    rig_verify(&rig, stream, a, BLOCK, 7);
    rig_free(&rig, a, stream);
    rig_sync(&rig);
    rig_expect_given_back(&rig, 2 * BLOCK);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------ beside a capture -- */

/* Memory from before, freed on the capturing stream: its earlier work is still waited for. */
Test(cuda_capture, memory_from_outside_freed_inside_is_not_reused_too_early)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr b = 0;
    rig_pool(&rig, "limit_mb:2,wait_us:1000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    weir_addr a = rig_alloc(&rig, stream, BLOCK);
    RUN(weir_fakecuda_hold(stream));
    rig_fill(&rig, stream, a, BLOCK, 1);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    rig_free(&rig, a, stream);
    rig_expect_active(&rig, stream);
    weir_status status = weir_cuda_pool_alloc(rig.pool, BLOCK, other, &b);
    cr_expect_neq(status, WEIR_OK, "nothing can say when the stream's work has passed");
    rig_expect_active(&rig, stream);
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    status = weir_cuda_pool_alloc(rig.pool, BLOCK, other, &b);
    if (status == WEIR_OK) {
        rig_fill(&rig, other, b, BLOCK, 2);
    }
    weir_fakecuda_go();
    if (status != WEIR_OK) {
        rig_sync(&rig);
        b = rig_alloc(&rig, other, BLOCK);
        rig_fill(&rig, other, b, BLOCK, 2);
    }
    rig_sync(&rig);
    rig_verify(&rig, other, b, BLOCK, 2);
    rig_free(&rig, b, other);
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* All that a pool does: grows, hands over, moves, waits, trims, from the capturing thread itself. */
static void capt_busy_life(const cuda_rig *rig, weir_cu_stream a, weir_cu_stream b)
{
    weir_addr addr[8];
    for (unsigned i = 0; i < 8; i++) {
        addr[i] = rig_alloc(rig, i % 2 ? a : b, BLOCK);
        rig_fill(rig, i % 2 ? a : b, addr[i], BLOCK, i);
    }
    for (unsigned i = 0; i < 8; i += 2) {
        rig_verify(rig, b, addr[i], BLOCK, i);
        rig_free(rig, addr[i], b);
    }
    weir_addr big = 0;
    weir_status status = weir_cuda_pool_alloc(rig->pool, 4 * BLOCK, a, &big);
    cr_expect(status == WEIR_OK || status == WEIR_WOULD_WAIT, "%s", weir_status_name(status));
    for (unsigned i = 1; i < 8; i += 2) {
        rig_verify(rig, a, addr[i], BLOCK, i);
        rig_free(rig, addr[i], a);
    }
    if (status == WEIR_OK) {
        rig_fill(rig, a, big, 4 * BLOCK, 9);
        rig_verify(rig, a, big, 4 * BLOCK, 9);
        rig_free(rig, big, a);
    }
    status = weir_trim(rig->core, 0, 100000, NULL);
    cr_expect_eq(status, WEIR_OK, "%s", weir_status_name(status));
}

static void capt_beside(const char *settings)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, settings, NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    weir_cu_stream blocking = rig_stream_blocking(&rig);
    for (int mode = WEIR_CU_MODE_GLOBAL; mode <= WEIR_CU_MODE_RELAXED; mode++) {
        rig_capture_begin(stream, mode);
        capt_busy_life(&rig, a, b);
        capt_busy_life(&rig, NULL, blocking);
        rig_expect_active(&rig, stream);
        RUN(cuGraphDestroy(rig_capture_end(stream)));
        rig_sync(&rig);
    }
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    RUN(rig.driver.stream_destroy(blocking));
    rig_close(&rig);
}

Test(cuda_capture, nothing_that_a_pool_does_breaks_a_capture)
{
    capt_beside("source:vmm,limit_mb:16,wait_us:2000000");
    capt_beside("source:vmm,wait_us:2000000");
}

Test(cuda_capture, nor_with_segments)
{
    capt_beside("source:async,limit_mb:32,wait_us:2000000");
    capt_beside("source:malloc,limit_mb:32,wait_us:2000000");
}

/* While a blocking stream is captured the legacy stream is shut: the driver refuses all of it. */
Test(cuda_capture, the_legacy_stream_can_be_named_while_it_is_shut)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr a = 0;
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    weir_cu_stream blocking = rig_stream_blocking(&rig);
    weir_addr before = rig_alloc(&rig, NULL, BLOCK);
    rig_capture_begin(blocking, WEIR_CU_MODE_GLOBAL);
    rig_free(&rig, before, NULL);
    weir_status status = weir_cuda_pool_alloc(rig.pool, BLOCK, NULL, &a);
    rig_expect_active(&rig, blocking);
    RUN(cuGraphDestroy(rig_capture_end(blocking)));
    if (status == WEIR_OK) {
        rig_fill(&rig, NULL, a, BLOCK, 1);
        rig_verify(&rig, NULL, a, BLOCK, 1);
        rig_free(&rig, a, NULL);
    }
    RUN(rig.driver.stream_destroy(blocking));
    rig_close(&rig);
}

/* What the legacy stream freed is wanted elsewhere, and no event can be put on it now. */
Test(cuda_capture, the_legacy_stream_takes_no_event_while_it_is_shut)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr a = 0;
    rig_pool(&rig, "limit_mb:2,wait_us:1000", NULL);
    weir_cu_stream blocking = rig_stream_blocking(&rig);
    weir_cu_stream apart = rig_stream(&rig);
    weir_addr before = rig_alloc(&rig, NULL, BLOCK);
    rig_fill(&rig, NULL, before, BLOCK, 1);
    rig_capture_begin(blocking, WEIR_CU_MODE_GLOBAL);
    rig_free(&rig, before, NULL);
    weir_status status = weir_cuda_pool_alloc(rig.pool, BLOCK, apart, &a);
    cr_expect_neq(status, WEIR_OK, "nothing can say that the legacy stream's work has passed");
    rig_expect_active(&rig, blocking);
    RUN(cuGraphDestroy(rig_capture_end(blocking)));
    a = rig_alloc(&rig, apart, BLOCK);
    rig_fill(&rig, apart, a, BLOCK, 2);
    rig_verify(&rig, apart, a, BLOCK, 2);
    rig_free(&rig, a, apart);
    RUN(rig.driver.stream_destroy(blocking));
    RUN(rig.driver.stream_destroy(apart));
    rig_close(&rig);
}

Test(cuda_capture, a_threads_default_stream_can_be_captured)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr mine = 0;
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    void *exec = rig_graph(&rig, WEIR_CU_STREAM_PER_THREAD, WEIR_CU_MODE_GLOBAL, &mine);
    weir_addr a = rig_alloc(&rig, WEIR_CU_STREAM_PER_THREAD, BLOCK);
    cr_expect_not(rig_overlap(a, mine, BLOCK));
    rig_fill(&rig, WEIR_CU_STREAM_PER_THREAD, a, BLOCK, 1);
    RUN(cuGraphLaunch(exec, WEIR_CU_STREAM_PER_THREAD));
    rig_verify(&rig, WEIR_CU_STREAM_PER_THREAD, a, BLOCK, 1);
    rig_free(&rig, a, WEIR_CU_STREAM_PER_THREAD);
    rig_sync(&rig);
    RUN(cuGraphExecDestroy(exec));
    rig_expect_given_back(&rig, 2 * BLOCK);
    rig_close(&rig);
}

/* A stream that is first named while it is captured, and only later outside. */
Test(cuda_capture, a_stream_may_be_met_inside_its_capture)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    weir_addr before = rig_alloc(&rig, a, BLOCK);
    rig_capture_begin(b, WEIR_CU_MODE_GLOBAL);
    rig_free(&rig, before, b); /* b was never named before */
    rig_expect_active(&rig, b);
    RUN(cuGraphDestroy(rig_capture_end(b)));
    weir_addr next = rig_alloc(&rig, b, BLOCK);
    rig_fill(&rig, b, next, BLOCK, 1);
    rig_verify(&rig, b, next, BLOCK, 1);
    rig_free(&rig, next, b);
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

/* ----------------------------------------------------------------------------------- other threads -- */

typedef struct capt_worker {
    const cuda_rig *rig;
    atomic_bool over;
    unsigned rounds;
} capt_worker;

static void *capt_work(void *self)
{
    capt_worker *worker = (capt_worker *)self;
    const weir_driver *driver = &worker->rig->driver;
    weir_cu_context popped = NULL;
    RUN(driver->context_push(worker->rig->context));
    weir_cu_stream a = rig_stream(worker->rig);
    weir_cu_stream b = rig_stream(worker->rig);
    do {
        capt_busy_life(worker->rig, a, b);
        worker->rounds++;
    } while (!atomic_load(&worker->over));
    EXPECT_OK(weir_cuda_pool_stream_end(worker->rig->pool, a));
    EXPECT_OK(weir_cuda_pool_stream_end(worker->rig->pool, b));
    RUN(driver->stream_destroy(a));
    RUN(driver->stream_destroy(b));
    RUN(driver->context_pop(&popped));
    return NULL;
}

/* The capture is in global mode and the threads' own too: any unsafe call of theirs would break it. */
Test(cuda_capture, other_threads_use_the_pool_while_one_captures)
{
    cuda_rig rig = rig_open(NULL);
    pthread_t thread[2];
    capt_worker worker[2] = {{.rig = &rig}, {.rig = &rig}};
    weir_addr mine = 0;
    rig_pool(&rig, "wait_us:2000000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, capt_work, &worker[i]), 0);
    }
    for (unsigned i = 0; i < 20; i++) {
        void *exec = rig_graph(&rig, stream, WEIR_CU_MODE_GLOBAL, &mine);
        RUN(cuGraphLaunch(exec, stream));
        RUN(cuGraphExecDestroy(exec));
    }
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&worker[i].over, true);
        pthread_join(thread[i], NULL);
        cr_expect_gt(worker[i].rounds, 0);
    }
    rig_sync(&rig);
    weir_fakecuda_settle();
    EXPECT_OK(weir_cuda_pool_settle(rig.pool));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}
