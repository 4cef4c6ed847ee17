/* SPDX-License-Identifier: MIT */
/* Memory that others see: exports of pinned blocks, and other devices. */
#include "rig.h"

#include <unistd.h>

#define BLOCK (2 * MIB)

/* Brings an exported handle back through the driver, as another process would, and maps it. */
static uint64_t share_import(const cuda_rig *rig, weir_cuda_shared shared, uint64_t *handle)
{
    const weir_cu_access access = {{WEIR_CU_LOCATION_DEVICE, 0}, WEIR_CU_ACCESS_READWRITE};
    uint64_t range = 0;
    RUN(rig->driver.import_handle(handle, (void *)(intptr_t)shared.fd, WEIR_CU_HANDLE_POSIX_FD));
    RUN(rig->driver.va_reserve(&range, shared.handle_bytes, 0, 0, 0));
    RUN(rig->driver.map(range, shared.handle_bytes, 0, *handle, 0));
    RUN(rig->driver.set_access(range, shared.handle_bytes, &access, 1));
    return range;
}

static void share_drop(const cuda_rig *rig, weir_cuda_shared shared, uint64_t range,
                       uint64_t handle)
{
    RUN(rig->driver.unmap(range, shared.handle_bytes));
    RUN(rig->driver.va_free(range, shared.handle_bytes));
    RUN(rig->driver.handle_release(handle));
    close(shared.fd);
}

static weir_addr share_one_handle(const cuda_rig *rig, weir_cu_stream stream, uint64_t bytes)
{
    weir_addr addr = 0;
    weir_request request = {.size = sizeof(request), .bytes = bytes, .flags = WEIR_ONE_HANDLE};
    ASSERT_OK(weir_cuda_pool_stream(rig->pool, stream, &request.stream));
    ASSERT_OK(weir_alloc(rig->core, &request, &addr));
    return addr;
}

Test(cuda_share, an_exported_block_is_the_same_memory_elsewhere)
{
    cuda_rig rig = rig_open(NULL);
    weir_cuda_shared shared;
    uint64_t handle = 0;
    rig_pool(&rig, "", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_addr first = rig_alloc(&rig, stream, 100 * KIB);
    weir_addr addr = share_one_handle(&rig, stream, 300 * KIB);
    ASSERT_OK(weir_cuda_pool_share(rig.pool, addr, WEIR_CUDA_FD, &shared));
    cr_expect_leq(shared.offset + 300 * KIB, shared.handle_bytes);
    uint64_t range = share_import(&rig, shared, &handle);
    rig_fill(&rig, stream, range + shared.offset, 300 * KIB, 5);
    rig_verify(&rig, stream, addr, 300 * KIB, 5);
    rig_sync(&rig);
    share_drop(&rig, shared, range, handle);
    rig_free(&rig, addr, stream);
    rig_free(&rig, first, stream);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* The limit is reached and only by moving is there room: what was exported stays. */
Test(cuda_share, an_exported_block_never_moves)
{
    enum { BLOCKS = 6 };
    cuda_rig rig = rig_open(NULL);
    weir_cuda_shared shared;
    weir_addr addr[BLOCKS];
    uint64_t handle = 0;
    rig_pool(&rig, "limit_mb:12,growth_mb:2,wait_us:20000", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    for (unsigned i = 0; i < BLOCKS; i++) {
        addr[i] = rig_alloc(&rig, stream, BLOCK);
    }
    ASSERT_OK(weir_cuda_pool_share(rig.pool, addr[2], WEIR_CUDA_FD, &shared));
    cr_expect_eq(rig_stats(&rig).pinned_bytes, BLOCK);
    uint64_t range = share_import(&rig, shared, &handle);
    rig_fill(&rig, stream, range + shared.offset, BLOCK, 5);
    rig_free(&rig, addr[0], stream);
    rig_free(&rig, addr[3], stream);
    weir_addr two = rig_alloc(&rig, stream, 2 * BLOCK);
    cr_expect_gt(rig_stats(&rig).moved_handles, 0);
    rig_fill(&rig, stream, two, 2 * BLOCK, 6);
    rig_verify(&rig, stream, addr[2], BLOCK, 5);
    rig_verify(&rig, stream, range + shared.offset, BLOCK, 5);
    rig_sync(&rig);
    share_drop(&rig, shared, range, handle);
    rig_free(&rig, two, stream);
    rig_free(&rig, addr[1], stream);
    rig_free(&rig, addr[2], stream);
    rig_free(&rig, addr[4], stream);
    rig_free(&rig, addr[5], stream);
    cr_expect_eq(rig_stats(&rig).pinned_bytes, 0, "the free unpins");
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_share, a_block_in_several_handles_is_refused_as_one)
{
    cuda_rig rig = rig_open(NULL);
    weir_cuda_shared shared = {-1, 0, 0};
    rig_pool(&rig, "growth_mb:2,limit_mb:8", NULL);
    weir_addr small[4];
    for (unsigned i = 0; i < 4; i++) {
        small[i] = rig_alloc(&rig, NULL, BLOCK);
    }
    for (unsigned i = 0; i < 4; i++) {
        rig_free(&rig, small[i], NULL);
    }
    weir_addr addr = rig_alloc(&rig, NULL, 4 * BLOCK);
    cr_assert_eq(rig_stats(&rig).segments.current, 4);
    cr_expect_eq(weir_cuda_pool_share(rig.pool, addr, WEIR_CUDA_FD, &shared), WEIR_INVALID);
    cr_expect_eq(shared.fd, -1);
    cr_expect_eq(rig_stats(&rig).pinned_bytes, 0, "a refused share leaves a pin");
    cr_expect_eq(weir_cuda_pool_share(rig.pool, addr + 512, WEIR_CUDA_FD, &shared), WEIR_NOT_FOUND);
    cr_expect_eq(weir_cuda_pool_share(NULL, addr, WEIR_CUDA_FD, &shared), WEIR_INVALID);
    cr_expect_eq(weir_cuda_export(rig.device, 4096, 4096, WEIR_CUDA_FD, &shared), WEIR_INVALID);
    cr_expect_eq(weir_cuda_export(rig.device, addr, 0, WEIR_CUDA_FD, &shared), WEIR_INVALID);
    rig_free(&rig, addr, NULL);
    rig_close(&rig);
}

Test(cuda_share, a_dma_buf_is_of_the_block_alone)
{
    cuda_rig rig = rig_open(NULL);
    weir_cuda_shared shared;
    rig_pool(&rig, "source:async", NULL);
    weir_addr addr = rig_alloc(&rig, NULL, BLOCK);
    cr_expect_eq(weir_cuda_pool_share(rig.pool, addr, WEIR_CUDA_FD, &shared), WEIR_UNSUPPORTED);
    weir_status status = weir_cuda_pool_share(rig.pool, addr, WEIR_CUDA_DMA_BUF, &shared);
    cr_expect_eq(status, WEIR_OK, "%s", weir_status_name(status));
    cr_expect_eq(shared.offset, 0);
    cr_expect_geq(shared.handle_bytes, BLOCK);
    close(shared.fd);
    rig_free(&rig, addr, NULL);
    rig_close(&rig);
}

/* Whole host pages: what the driver demands of a range. */
Test(cuda_share, a_dma_buf_of_a_block_that_is_no_whole_pages)
{
    cuda_rig rig = rig_open(NULL);
    weir_cuda_shared shared;
    rig_pool(&rig, "", NULL);
    weir_addr addr = share_one_handle(&rig, NULL, 100 * KIB + 512);
    weir_status status = weir_cuda_pool_share(rig.pool, addr, WEIR_CUDA_DMA_BUF, &shared);
    if (status == WEIR_OK) { /* widened to pages */
        cr_expect_eq(shared.handle_bytes % 4096, 0);
        cr_expect_leq(shared.offset + 100 * KIB + 512, shared.handle_bytes);
        close(shared.fd);
    } else {
        cr_expect(status == WEIR_INVALID || status == WEIR_DEVICE, "%s", weir_status_name(status));
        cr_expect_eq(rig_stats(&rig).pinned_bytes, 0);
    }
    rig_free(&rig, addr, NULL);
    rig_close(&rig);
}

/* --------------------------------------------------------------------------------------- peers -- */

/* Work of the second device on memory of the first. */
static void share_touch_from_second(const cuda_rig *rig, weir_addr addr)
{
    weir_cu_context second = NULL;
    unsigned word = 0;
    RUN(rig->driver.primary_retain(&second, 1));
    RUN(rig->driver.context_push(second));
    RUN(rig->driver.set_words(addr, 123, BLOCK / 4));
    RUN(rig->driver.context_sync());
    RUN(rig->driver.context_pop(&second));
    RUN(rig->driver.primary_release(1));
    cr_expect(weir_fakecuda_peek(addr + BLOCK - 4, &word, sizeof(word)));
    cr_expect_eq(word, 123);
}

static void share_with_peer(const char *settings)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, settings, NULL);
    weir_addr before = rig_alloc(&rig, NULL, BLOCK);
    EXPECT_OK(weir_cuda_peer(rig.device, 0)); /* itself */
    EXPECT_OK(weir_cuda_peer(rig.device, 1));
    EXPECT_OK(weir_cuda_peer(rig.device, 1)); /* again */
    weir_addr after = rig_alloc(&rig, NULL, 16 * MIB);
    share_touch_from_second(&rig, before);
    share_touch_from_second(&rig, after + 14 * MIB);
    rig_free(&rig, before, NULL);
    rig_free(&rig, after, NULL);
    rig_close(&rig);
}

Test(cuda_share, a_peer_may_touch_what_is_there_and_what_comes)
{
    share_with_peer("source:vmm");
    share_with_peer("source:vmm,growth_mb:2");
    share_with_peer("source:async");
}

/* A handle that moves gets access at its new place too. */
Test(cuda_share, a_peer_may_touch_what_has_moved)
{
    enum { BLOCKS = 6 };
    cuda_rig rig = rig_open(NULL);
    weir_addr addr[BLOCKS];
    rig_pool(&rig, "limit_mb:12,growth_mb:2,wait_us:20000", NULL);
    EXPECT_OK(weir_cuda_peer(rig.device, 1));
    for (unsigned i = 0; i < BLOCKS; i++) {
        addr[i] = rig_alloc(&rig, NULL, BLOCK);
    }
    rig_free(&rig, addr[0], NULL);
    rig_free(&rig, addr[3], NULL);
    weir_addr two = rig_alloc(&rig, NULL, 2 * BLOCK);
    cr_expect_gt(rig_stats(&rig).moved_handles, 0);
    share_touch_from_second(&rig, two);
    share_touch_from_second(&rig, two + BLOCK);
    rig_free(&rig, two, NULL);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % 3 != 0) {
            rig_free(&rig, addr[i], NULL);
        }
    }
    rig_close(&rig);
}

Test(cuda_share, a_peer_that_cannot_is_unsupported)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.no_peers = true});
    rig_pool(&rig, "", NULL);
    cr_expect_eq(weir_cuda_peer(rig.device, 1), WEIR_UNSUPPORTED);
    rig_free(&rig, rig_alloc(&rig, NULL, BLOCK), NULL);
    rig_close(&rig);
    rig = rig_open(NULL);
    rig_pool(&rig, "source:malloc", NULL);
    cr_expect_eq(weir_cuda_peer(rig.device, 1), WEIR_UNSUPPORTED);
    cr_expect_neq(weir_cuda_peer(rig.device, 7), WEIR_OK);
    rig_close(&rig);
}

/* A peer that is refused half way has no access, and the pool goes on. */
Test(cuda_share, a_peer_that_the_driver_refuses_leaves_no_trace)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "growth_mb:2,limit_mb:8", NULL);
    weir_addr addr[4];
    for (unsigned i = 0; i < 4; i++) {
        addr[i] = rig_alloc(&rig, NULL, BLOCK);
    }
    weir_fakecuda_fail("cuMemSetAccess", 2, WEIR_CU_INVALID_VALUE, false);
    cr_expect_eq(weir_cuda_peer(rig.device, 1), WEIR_DEVICE);
    cr_expect(weir_fakecuda_failed());
    EXPECT_OK(weir_cuda_peer(rig.device, 1));
    share_touch_from_second(&rig, addr[3]);
    for (unsigned i = 0; i < 4; i++) {
        rig_free(&rig, addr[i], NULL);
    }
    rig_close(&rig);
}
