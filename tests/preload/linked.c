/* SPDX-License-Identifier: MIT */
/* A program that is linked with the driver's library: what Weir serves, and what it leaves alone. */
#include "linked.h"

static void check_that_weir_serves_memory(void)
{
    uint64_t addr[3] = {0, 0, 0};
    size_t pitch = 0;
    CHECK_OK(cuMemAlloc_v2(&addr[0], MIB));
    CHECK_OK(cuMemAllocAsync(&addr[1], MIB, NULL));
    CHECK_OK(cuMemAllocPitch_v2(&addr[2], &pitch, 1000, 100, 4));
    CHECK(pitch >= 1000 && pitch % 512 == 0);
    CHECK(addr[0] && addr[1] && addr[2] && addr[0] != addr[1] && addr[1] != addr[2]);
    CHECK(weir_fakecuda_calls("cuMemAlloc_v2") == 0);
    CHECK(weir_fakecuda_calls("cuMemAllocFromPoolAsync") == 0);
    CHECK(weir_fakecuda_calls("cuMemCreate") > 0);
    CHECK_OK(cuMemFree_v2(addr[0]));
    CHECK_OK(cuMemFreeAsync(addr[1], NULL));
    CHECK_OK(cuMemFree_v2(addr[2]));
    CHECK(weir_fakecuda_calls("cuMemFree_v2") == 0);
}

static void check_that_bad_frees_are_the_drivers_errors(void)
{
    uint64_t addr = 0;
    CHECK_OK(cuMemAlloc_v2(&addr, MIB));
    CHECK_RESULT(cuMemFree_v2(addr + 512), WEIR_CU_INVALID_VALUE);
    CHECK_RESULT(cuMemFreeAsync(addr + 512, NULL), WEIR_CU_INVALID_VALUE);
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_RESULT(cuMemFree_v2(addr), WEIR_CU_INVALID_VALUE);
    CHECK_RESULT(cuMemFreeAsync(addr, NULL), WEIR_CU_INVALID_VALUE);
    CHECK(weir_fakecuda_breaches() == 2); /* addresses inside a block went to the driver */
    weir_fakecuda_forgive();
}

static void check_that_the_driver_keeps_its_own(void)
{
    uint64_t addr = 0;
    size_t pitch = 0;
    weir_cu_pool pool = NULL;
    weir_cu_pool own = NULL;
    weir_cu_pool_prop prop = {.type = WEIR_CU_ALLOCATION_PINNED,
                              .location = {WEIR_CU_LOCATION_DEVICE, 0}};
    uint64_t frees = weir_fakecuda_calls("cuMemFree_v2");
    uint64_t ordered = weir_fakecuda_calls("cuMemFreeAsync");
    CHECK_OK(cuMemAllocManaged(&addr, MIB, 1));
    CHECK_OK(cuMemFree_v2(addr));
    CHECK(weir_fakecuda_calls("cuMemFree_v2") == frees + 1);
    CHECK_RESULT(cuMemAlloc_v2(&addr, 0), WEIR_CU_INVALID_VALUE);
    CHECK_RESULT(cuMemAllocPitch_v2(&addr, &pitch, 1000, 100, 3), WEIR_CU_INVALID_VALUE);

    CHECK_OK(cuMemPoolCreate(&pool, &prop));
    CHECK_OK(cuMemAllocFromPoolAsync(&addr, MIB, pool, NULL));
    CHECK(weir_fakecuda_calls("cuMemAllocFromPoolAsync") == 1);
    CHECK_OK(cuMemFreeAsync(addr, NULL));
    CHECK(weir_fakecuda_calls("cuMemFreeAsync") == ordered + 1);

    CHECK_OK(cuDeviceGetDefaultMemPool(&own, 0));
    CHECK_OK(cuMemAllocFromPoolAsync(&addr, MIB, own, NULL));
    CHECK(weir_fakecuda_calls("cuMemAllocFromPoolAsync") == 1);
    CHECK_OK(cuMemFreeAsync(addr, NULL));

    CHECK_OK(cuDeviceSetMemPool(0, pool));
    CHECK_OK(cuMemAllocAsync(&addr, MIB, NULL));
    CHECK(standin_calls("cuMemAllocAsync") == 1);
    CHECK_OK(cuMemFreeAsync(addr, NULL));
    CHECK_OK(cuDeviceSetMemPool(0, own));
    CHECK_OK(cuMemAllocAsync(&addr, MIB, NULL));
    CHECK(standin_calls("cuMemAllocAsync") == 1);
    CHECK_OK(cuMemFreeAsync(addr, NULL));
}

static void check_that_another_context_is_the_drivers(void)
{
    weir_cu_context other = NULL;
    uint64_t before = weir_fakecuda_calls("cuMemAlloc_v2");
    uint64_t addr = 0;
    CHECK_OK(cuCtxCreate_v2(&other, 0, 0));
    CHECK_OK(cuMemAlloc_v2(&addr, MIB));
    CHECK(weir_fakecuda_calls("cuMemAlloc_v2") == before + 1);
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_OK(cuCtxDestroy_v2(other));
}

static void check_that_the_limit_is_told_and_held(void)
{
    uint64_t addr = 0;
    uint64_t more = 0;
    size_t left = 0;
    size_t total = 0;
    size_t size = 0;
    CHECK_OK(cuMemGetInfo_v2(&left, &total));
    CHECK_OK(cuDeviceTotalMem_v2(&size, 0));
    CHECK(total == 128 * MIB && size == total && left <= total);
    CHECK_OK(cuMemAlloc_v2(&addr, 100 * MIB));
    CHECK_OK(cuMemGetInfo_v2(&left, &total));
    CHECK(left <= 28 * MIB);
    CHECK_RESULT(cuMemAlloc_v2(&more, 64 * MIB), WEIR_CU_OUT_OF_MEMORY);
    CHECK_RESULT(cuMemAllocAsync(&more, 64 * MIB, NULL), WEIR_CU_OUT_OF_MEMORY);
    CHECK(more == 0);
    CHECK_OK(cuMemFree_v2(addr));
    CHECK_OK(cuMemGetInfo_v2(&left, &total));
    CHECK(left >= 100 * MIB);
    CHECK_OK(cuMemAlloc_v2(&more, 100 * MIB));
    CHECK_OK(cuMemFree_v2(more));
}

static void check_that_shared_memory_is_a_block(void)
{
    uint64_t addr[2] = {0, 0};
    uint64_t base = 0;
    uint64_t kept = 0;
    size_t bytes = 0;
    char handle[64];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(cuMemAlloc_v2(&addr[i], 3 * MIB));
    }
    CHECK_OK(cuMemGetAddressRange_v2(&base, &bytes, addr[1] + MIB));
    CHECK(base == addr[1] && bytes >= 3 * MIB && bytes < 4 * MIB);
    CHECK_RESULT(cuIpcGetMemHandle(handle, addr[0]), WEIR_CU_NOT_SUPPORTED);
    CHECK_OK(cuMemRetainAllocationHandle(&kept, (void *)(uintptr_t)addr[0]));
    CHECK(standin_calls("cuMemGetAddressRange_v2") == 0);
    CHECK(standin_calls("cuIpcGetMemHandle") == 0);
    CHECK(standin_calls("cuMemRetainAllocationHandle") == 1);
    CHECK_OK(cuMemFree_v2(addr[0]));
    CHECK_OK(cuMemFree_v2(addr[1]));
}

/* A stream's name is given again at once; its memory must not be taken for the old one's. */
static void check_that_streams_end(void)
{
    weir_cu_stream stream = NULL;
    uint64_t addr = 0;
    for (int i = 0; i < 20; i++) {
        CHECK_OK(cuStreamCreate(&stream, WEIR_CU_STREAM_NON_BLOCKING));
        CHECK_OK(cuMemAllocAsync(&addr, MIB, stream));
        if (i % 2 == 0) {
            CHECK_OK(cuMemFreeAsync(addr, stream));
        }
        CHECK_OK(cuStreamDestroy_v2(stream));
        if (i % 2 == 1) {
            CHECK_OK(cuMemFree_v2(addr));
        }
    }
}

static void check_that_a_reset_ends_all(void)
{
    weir_cu_context context = NULL;
    uint64_t addr = 0;
    uint64_t contexts = weir_fakecuda_calls("cuDevicePrimaryCtxRelease_v2");
    CHECK_OK(cuMemAlloc_v2(&addr, MIB));
    CHECK(weir_fakecuda_held(0) > 0);
    CHECK_OK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(weir_fakecuda_calls("cuDevicePrimaryCtxRelease_v2") > contexts);
    CHECK(weir_fakecuda_held(0) == weir_fakecuda_pool_reserved(0)); /* the program's own pool */
    CHECK_OK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_OK(cuCtxSetCurrent(context));
    CHECK_OK(cuMemAlloc_v2(&addr, MIB));
    CHECK(weir_fakecuda_held(0) > 0);
    CHECK_OK(cuMemFree_v2(addr));
}

int main(void)
{
    check_start();
    check_that_weir_serves_memory();
    check_that_bad_frees_are_the_drivers_errors();
    check_that_the_driver_keeps_its_own();
    check_that_another_context_is_the_drivers();
    check_that_the_limit_is_told_and_held();
    check_that_shared_memory_is_a_block();
    check_that_streams_end();
    check_that_a_reset_ends_all();
    return check_end();
}
