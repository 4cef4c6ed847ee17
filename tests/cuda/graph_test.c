/* SPDX-License-Identifier: MIT */
/*
 * Graphs and what else a pool does: moves, copies live memory together, is told of captures, meets
 * broken ones and drivers that lack what it needs.
 */
#include "rig_graph.h"

#define BLOCK (2 * MIB)

/* ----------------------------------------------------------------------------------- moving, saving -- */

/* The limit is reached and the holes lie around a graph's memory: what moves is not the graph's. */
Test(cuda_graph, nothing_moves_under_a_graph)
{
    enum { BLOCKS = 6 };
    cuda_rig rig = rig_open(NULL);
    weir_addr addr[BLOCKS];
    weir_addr mine = 0;
    rig_pool(&rig, "limit_mb:14,growth_mb:2,wait_us:20000",
             &(weir_cuda_pool_config){.device.one_launcher = true});
    weir_cu_stream stream = rig_stream(&rig);
    for (unsigned i = 0; i < BLOCKS / 2; i++) {
        addr[i] = rig_alloc(&rig, stream, BLOCK);
    }
    void *exec = rig_graph(&rig, stream, WEIR_CU_MODE_GLOBAL, &mine);
    for (unsigned i = BLOCKS / 2; i < BLOCKS; i++) {
        addr[i] = rig_alloc(&rig, stream, BLOCK);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        rig_fill(&rig, stream, addr[i], BLOCK, i);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        rig_free(&rig, addr[i], stream);
    }
    weir_addr big = rig_alloc(&rig, stream, 3 * BLOCK);
    cr_expect_gt(rig_stats(&rig).moved_handles, 0, "there was no other way");
    rig_fill(&rig, stream, big, 3 * BLOCK, 50);
    RUN(cuGraphLaunch(exec, stream));
    rig_verify(&rig, stream, big, 3 * BLOCK, 50);
    for (unsigned i = 1; i < BLOCKS; i += 2) {
        rig_verify(&rig, stream, addr[i], BLOCK, i);
        rig_free(&rig, addr[i], stream);
    }
    rig_free(&rig, big, stream);
    rig_sync(&rig);
    RUN(cuGraphExecDestroy(exec));
    rig_expect_given_back(&rig, 7 * BLOCK);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

#define SLIVER (64 * KIB)
#define SLIVERS_MAX 100u
#define SLIVERS_ASK (14 * MIB)

/* Uses up the limit by handles that each hold a little that lives; how many of these there are. */
static unsigned graph_slivers(const cuda_rig *rig, weir_cu_stream stream, uint64_t limit,
                              weir_addr keep[SLIVERS_MAX])
{
    weir_addr rest[SLIVERS_MAX];
    unsigned count = 0;
    while (count < SLIVERS_MAX && rig_stats(rig).allocated.current + 8 * SLIVER < limit) {
        keep[count] = rig_alloc(rig, stream, SLIVER);
        rest[count] = rig_alloc(rig, stream, (count % 3 == 0 ? 7u : 3u) * SLIVER);
        rig_fill(rig, stream, keep[count], SLIVER, count);
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        rig_free(rig, rest[i], stream);
    }
    rig_sync(rig);
    return count;
}

/* With the promise that makes it possible, live memory is copied together where all else fails; but
 * not while a graph that it might move under exists, nor in a way that breaks a capture. */
Test(cuda_graph, nothing_is_copied_together_while_a_capture_is_known)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.small_granule = true});
    weir_addr keep[SLIVERS_MAX];
    weir_addr mine = 0;
    weir_addr none = 0;
    rig_pool(&rig, "limit_mb:18,wait_us:100000",
             &(weir_cuda_pool_config){.device.one_launcher = true});
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    void *exec = rig_graph(&rig, other, WEIR_CU_MODE_GLOBAL, &mine);
    unsigned count = graph_slivers(&rig, stream, 16 * MIB, keep);
    rig_capture_begin(other, WEIR_CU_MODE_GLOBAL);
    cr_expect_neq(weir_cuda_pool_alloc(rig.pool, SLIVERS_ASK, stream, &none), WEIR_OK);
    rig_expect_active(&rig, other);
    RUN(cuGraphDestroy(rig_capture_end(other)));
    cr_expect_neq(weir_cuda_pool_alloc(rig.pool, SLIVERS_ASK, stream, &none), WEIR_OK);
    cr_expect_eq(rig_stats(&rig).rescues, 0);
    RUN(cuGraphLaunch(exec, other));
    rig_sync(&rig);
    RUN(cuGraphExecDestroy(exec));
    weir_fakecuda_settle();
    EXPECT_OK(weir_cuda_pool_settle(rig.pool));
    weir_addr large = rig_alloc(&rig, stream, SLIVERS_ASK);
    cr_expect_gt(rig_stats(&rig).rescues, 0, "there was no other way");
    rig_free(&rig, large, stream);
    for (unsigned i = 0; i < count; i++) {
        rig_verify(&rig, stream, keep[i], SLIVER, i);
        rig_free(&rig, keep[i], stream);
    }
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------- told and broken -- */

Test(cuda_graph, told_captures_cost_driver_calls_only_while_they_run)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr mine = 0;
    weir_cuda_pool_config told = {.streams_told = true, .captures_told = true};
    rig_pool(&rig, "", &told);
    weir_cu_stream stream = rig_stream(&rig);
    rig_free(&rig, rig_alloc(&rig, stream, BLOCK), stream);
    weir_cuda_pool_capture_begin(rig.pool);
    void *exec = rig_graph(&rig, stream, WEIR_CU_MODE_GLOBAL, &mine);
    weir_cuda_pool_capture_end(rig.pool);
    rig_free(&rig, rig_alloc(&rig, stream, BLOCK), stream); /* in the place of the graph's */
    uint64_t before = weir_fakecuda_calls(NULL);
    weir_addr a = rig_alloc(&rig, stream, BLOCK);
    rig_free(&rig, a, stream);
    cr_expect_eq(weir_fakecuda_calls(NULL), before);
    cr_expect_not(rig_overlap(a, mine, BLOCK));
    RUN(cuGraphExecDestroy(exec));
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, stream));
    RUN(rig.driver.stream_destroy(stream));
    weir_fakecuda_settle();
    rig_close(&rig);
}

/* The program itself breaks its capture: allocations say so, frees work, nothing is lost. */
Test(cuda_graph, a_broken_capture_is_reported_and_its_memory_comes_back)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr none = 0;
    weir_cu_graph graph = NULL;
    rig_pool(&rig, "limit_mb:4,wait_us:1000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_addr before = rig_alloc(&rig, stream, 4096);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    weir_addr inside = rig_alloc(&rig, stream, BLOCK);
    cr_expect_eq(rig.driver.stream_sync(stream), WEIR_CU_CAPTURE_UNSUPPORTED);
    weir_fakecuda_forgive();
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, BLOCK, stream, &none), WEIR_DEVICE);
    EXPECT_OK(weir_cuda_pool_free(rig.pool, inside, stream));
    EXPECT_OK(weir_cuda_pool_free(rig.pool, before, stream));
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    rig_expect_given_back(&rig, BLOCK);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_graph, a_driver_without_user_objects_refuses_memory_inside_captures)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.driver_version = 11020});
    weir_addr none = 0;
    rig_pool(&rig, "", &(weir_cuda_pool_config){.streams_told = true});
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, BLOCK, stream, &none), WEIR_UNSUPPORTED);
    rig_expect_active(&rig, stream);
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    rig_free(&rig, rig_alloc(&rig, stream, BLOCK), stream);
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, stream));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_graph, a_graph_may_outlive_the_pools_end_on_a_lost_device)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr mine = 0;
    rig_pool(&rig, "", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    void *exec = rig_graph(&rig, stream, WEIR_CU_MODE_GLOBAL, &mine);
    weir_fakecuda_lose(0, WEIR_CU_ILLEGAL_ADDRESS);
    weir_addr none = 0;
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, 64 * MIB, stream, &none), WEIR_LOST);
    weir_cuda_work_destroy(rig.work);
    EXPECT_OK(weir_cuda_pool_destroy(rig.pool));
    (void)cuGraphExecDestroy(exec); /* its destructor finds the pool gone */
    weir_fakecuda_settle();
}
