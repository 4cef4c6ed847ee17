/* SPDX-License-Identifier: MIT */
/* The stand-in alone: memory behaves as it was measured on the card, and mistakes show. */
#include "rig.h"

#include <string.h>
#include <unistd.h>

static const weir_cu_handle_prop fakemem_prop = {
    .type = WEIR_CU_ALLOCATION_PINNED,
    .handle_types = WEIR_CU_HANDLE_POSIX_FD,
    .location = {WEIR_CU_LOCATION_DEVICE, 0},
};
static const weir_cu_access fakemem_access = {{WEIR_CU_LOCATION_DEVICE, 0},
                                              WEIR_CU_ACCESS_READWRITE};

static uint64_t fakemem_range(const cuda_rig *rig, uint64_t bytes)
{
    uint64_t addr = 0;
    RUN(rig->driver.va_reserve(&addr, bytes, 0, 0, 0));
    cr_assert_eq(addr % (2 * MIB), 0);
    return addr;
}

static uint64_t fakemem_handle(const cuda_rig *rig, uint64_t bytes)
{
    uint64_t handle = 0;
    RUN(rig->driver.handle_create(&handle, bytes, &fakemem_prop, 0));
    return handle;
}

/* The number of breaches since the last call, forgiven. */
static uint64_t fakemem_breaches(void)
{
    uint64_t breaches = weir_fakecuda_breaches();
    weir_fakecuda_forgive();
    return breaches;
}

Test(fake_memory, a_handle_is_mapped_whole_or_not_at_all)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t range = fakemem_range(&rig, 8 * MIB);
    uint64_t handle = fakemem_handle(&rig, 4 * MIB);
    cr_expect_eq(rig.driver.map(range, 2 * MIB, 0, handle, 0), WEIR_CU_NOT_SUPPORTED);
    cr_expect_eq(rig.driver.map(range, 2 * MIB, 2 * MIB, handle, 0), WEIR_CU_NOT_SUPPORTED);
    RUN(rig.driver.map(range, 4 * MIB, 0, handle, 0));
    cr_expect_eq(rig.driver.unmap(range, 2 * MIB), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1, "an unmap of a part is a mistake");
    RUN(rig.driver.unmap(range, 4 * MIB));
    RUN(rig.driver.handle_release(handle));
    RUN(rig.driver.va_free(range, 8 * MIB));
    rig_close(&rig);
}

Test(fake_memory, granules_are_2_mib)
{
    cuda_rig rig = rig_open(NULL);
    size_t granule = 0;
    uint64_t none = 0;
    RUN(rig.driver.granularity(&granule, &fakemem_prop, WEIR_CU_GRANULARITY_MINIMUM));
    cr_expect_eq(granule, 2 * MIB);
    cr_expect_eq(rig.driver.handle_create(&none, MIB, &fakemem_prop, 0), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(rig.driver.va_reserve(&none, 3 * MIB, 0, 0, 0), WEIR_CU_INVALID_VALUE);
    rig_close(&rig);
}

Test(fake_memory, a_handle_shows_the_same_bytes_at_two_addresses)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t range = fakemem_range(&rig, 4 * MIB);
    uint64_t handle = fakemem_handle(&rig, 2 * MIB);
    unsigned word = 0;
    RUN(rig.driver.map(range, 2 * MIB, 0, handle, 0));
    RUN(rig.driver.map(range + 2 * MIB, 2 * MIB, 0, handle, 0));
    RUN(rig.driver.set_access(range, 4 * MIB, &fakemem_access, 1));
    RUN(rig.driver.set_words(range, 77, 1024));
    RUN(rig.driver.copy_to_host(&word, range + 2 * MIB + 4092, sizeof(word)));
    cr_expect_eq(word, 77);
    RUN(rig.driver.unmap(range, 4 * MIB));
    RUN(rig.driver.handle_release(handle));
    RUN(rig.driver.va_free(range, 4 * MIB));
    rig_close(&rig);
}

Test(fake_memory, work_on_memory_without_access_loses_the_device)
{
    cuda_rig rig = rig_open(NULL);
    size_t unread = 0;
    uint64_t range = fakemem_range(&rig, 2 * MIB);
    uint64_t handle = fakemem_handle(&rig, 2 * MIB);
    RUN(rig.driver.map(range, 2 * MIB, 0, handle, 0));
    RUN(rig.driver.set_words(range, 77, 1));
    weir_fakecuda_settle();
    cr_expect_eq(rig.driver.context_sync(), WEIR_CU_ILLEGAL_ADDRESS);
    cr_expect_eq(rig.driver.memory_info(&unread, &unread), WEIR_CU_ILLEGAL_ADDRESS);
    cr_expect_not_null(strstr(weir_fakecuda_breach(), "no access"), "%s", weir_fakecuda_breach());
}

Test(fake_memory, what_is_wrong_is_refused_and_told)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t range = fakemem_range(&rig, 4 * MIB);
    uint64_t handle = fakemem_handle(&rig, 2 * MIB);
    RUN(rig.driver.map(range, 2 * MIB, 0, handle, 0));
    cr_expect_eq(rig.driver.map(range, 2 * MIB, 0, handle, 0), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1, "mapped twice");
    cr_expect_eq(rig.driver.set_access(range, 4 * MIB, &fakemem_access, 1), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1, "access to a gap");
    cr_expect_eq(rig.driver.handle_release(handle), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1, "released while mapped");
    cr_expect_eq(rig.driver.va_free(range, 4 * MIB), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1, "addresses given back while mapped");
    cr_expect_eq(rig.driver.free(range), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1, "freed though it was not allocated");
    const char *left = weir_fakecuda_balance();
    cr_assert_not_null(left);
    cr_expect_not_null(strstr(left, "1 handles, 1 address ranges, 1 mappings"), "%s", left);
    RUN(rig.driver.unmap(range, 2 * MIB));
    RUN(rig.driver.handle_release(handle));
    RUN(rig.driver.va_free(range, 4 * MIB));
    rig_close(&rig);
}

Test(fake_memory, memory_is_not_taken_away_under_work)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t range = fakemem_range(&rig, 2 * MIB);
    uint64_t handle = fakemem_handle(&rig, 2 * MIB);
    RUN(rig.driver.map(range, 2 * MIB, 0, handle, 0));
    RUN(rig.driver.set_access(range, 2 * MIB, &fakemem_access, 1));
    RUN(weir_fakecuda_hold(NULL));
    RUN(rig.driver.set_words(range, 77, 1));
    cr_expect_eq(rig.driver.unmap(range, 2 * MIB), WEIR_CU_INVALID_VALUE);
    cr_expect_eq(fakemem_breaches(), 1);
    weir_fakecuda_go();
    RUN(rig.driver.context_sync());
    RUN(rig.driver.unmap(range, 2 * MIB));
    RUN(rig.driver.handle_release(handle));
    RUN(rig.driver.va_free(range, 2 * MIB));
    rig_close(&rig);
}

Test(fake_memory, a_device_has_no_more_than_its_memory)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.memory_bytes = 8 * MIB});
    size_t free_bytes = 0;
    size_t total = 0;
    uint64_t addr = 0;
    uint64_t none = 0;
    uint64_t handle = fakemem_handle(&rig, 4 * MIB);
    RUN(rig.driver.alloc(&addr, 3 * MIB));
    RUN(rig.driver.memory_info(&free_bytes, &total));
    cr_expect_eq(total, 8 * MIB);
    cr_expect_eq(free_bytes, 0);
    cr_expect_eq(rig.driver.alloc(&none, 1), WEIR_CU_OUT_OF_MEMORY);
    cr_expect_eq(rig.driver.handle_create(&none, 2 * MIB, &fakemem_prop, 0), WEIR_CU_OUT_OF_MEMORY);
    RUN(rig.driver.free(addr));
    RUN(rig.driver.handle_release(handle));
    RUN(rig.driver.memory_info(&free_bytes, &total));
    cr_expect_eq(free_bytes, total);
    rig_close(&rig);
}

Test(fake_memory, an_exported_handle_comes_back_as_the_same_memory)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t range = fakemem_range(&rig, 4 * MIB);
    uint64_t handle = fakemem_handle(&rig, 2 * MIB);
    uint64_t again = 0;
    unsigned word = 0;
    int file = -1;
    RUN(rig.driver.export_handle(&file, handle, WEIR_CU_HANDLE_POSIX_FD, 0));
    RUN(rig.driver.import_handle(&again, (void *)(intptr_t)file, WEIR_CU_HANDLE_POSIX_FD));
    close(file);
    RUN(rig.driver.map(range, 2 * MIB, 0, handle, 0));
    RUN(rig.driver.map(range + 2 * MIB, 2 * MIB, 0, again, 0));
    RUN(rig.driver.set_access(range, 4 * MIB, &fakemem_access, 1));
    RUN(rig.driver.set_words(range, 78, 1));
    RUN(rig.driver.copy_to_host(&word, range + 2 * MIB, sizeof(word)));
    cr_expect_eq(word, 78);
    RUN(rig.driver.handle_release(handle));
    RUN(rig.driver.unmap(range, 4 * MIB));
    RUN(rig.driver.handle_release(again));
    RUN(rig.driver.va_free(range, 4 * MIB));
    rig_close(&rig);
}

/* --------------------------------------------------------------------------------------- pools -- */

static weir_cu_pool fakemem_pool(const cuda_rig *rig, uint64_t threshold)
{
    weir_cu_pool_prop prop;
    weir_cu_pool pool = NULL;
    memset(&prop, 0, sizeof(prop));
    prop.type = WEIR_CU_ALLOCATION_PINNED;
    prop.location.type = WEIR_CU_LOCATION_DEVICE;
    RUN(rig->driver.pool_create(&pool, &prop));
    RUN(rig->driver.pool_set(pool, WEIR_CU_POOL_RELEASE_THRESHOLD, &threshold));
    return pool;
}

static uint64_t fakemem_reserved(const cuda_rig *rig, weir_cu_pool pool)
{
    uint64_t reserved = 0;
    RUN(rig->driver.pool_get(pool, WEIR_CU_POOL_RESERVED, &reserved));
    return reserved;
}

Test(fake_memory, a_synchronisation_trims_a_pool_to_its_threshold)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t addr[3];
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_pool pool = fakemem_pool(&rig, 4 * MIB);
    for (unsigned i = 0; i < 3; i++) {
        RUN(rig.driver.alloc_async(&addr[i], 2 * MIB, pool, stream));
    }
    for (unsigned i = 0; i < 3; i++) {
        RUN(rig.driver.free_async(addr[i], stream));
    }
    weir_fakecuda_settle();
    cr_expect_eq(fakemem_reserved(&rig, pool), 6 * MIB, "only a synchronisation trims");
    RUN(rig.driver.pool_trim(pool, 0));
    cr_expect_eq(fakemem_reserved(&rig, pool), 6 * MIB, "nothing was seen to be free");
    RUN(rig.driver.stream_sync(stream));
    cr_expect_eq(fakemem_reserved(&rig, pool), 4 * MIB);
    RUN(rig.driver.pool_trim(pool, 0));
    cr_expect_eq(fakemem_reserved(&rig, pool), 0);
    RUN(rig.driver.pool_destroy(pool));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(fake_memory, a_pool_gives_and_takes_in_stream_order)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t used = 0;
    uint64_t addr = 0;
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_pool pool = fakemem_pool(&rig, UINT64_MAX);
    RUN(weir_fakecuda_hold(stream));
    RUN(rig.driver.alloc_async(&addr, 2 * MIB, pool, stream));
    RUN(rig.driver.set_words(addr, 1, 1)); /* on another stream, which nothing orders */
    weir_cu_result result = rig.driver.stream_sync(NULL);
    cr_expect_eq(result, WEIR_CU_ILLEGAL_ADDRESS, "touched before its allocation");
    weir_fakecuda_lose(0, WEIR_CU_OK);
    weir_fakecuda_forgive();
    RUN(rig.driver.free_async(addr, stream));
    RUN(rig.driver.pool_get(pool, WEIR_CU_POOL_USED, &used));
    cr_expect_eq(used, 2 * MIB, "the free has not been reached");
    weir_fakecuda_go();
    RUN(rig.driver.stream_sync(stream));
    RUN(rig.driver.pool_get(pool, WEIR_CU_POOL_USED, &used));
    cr_expect_eq(used, 0);
    RUN(rig.driver.pool_destroy(pool));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(fake_memory, a_pool_that_is_destroyed_waits_for_its_frees)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t addr = 0;
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_pool pool = fakemem_pool(&rig, UINT64_MAX);
    RUN(rig.driver.alloc_async(&addr, 2 * MIB, pool, stream));
    RUN(weir_fakecuda_hold(stream));
    RUN(rig.driver.free_async(addr, stream));
    RUN(rig.driver.pool_destroy(pool));
    cr_expect_eq(weir_fakecuda_held(0), 2 * MIB);
    weir_fakecuda_go();
    RUN(rig.driver.stream_sync(stream));
    cr_expect_eq(weir_fakecuda_held(0), 0);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}
