/* SPDX-License-Identifier: MIT */
/* Segments of a driver's pool: what it keeps, when it gives back, and at which addresses. */
#include "rig.h"

#include <string.h>

/* Takes and frees 16 MiB, and waits until the work on them is done. */
static void async_use(const cuda_rig *rig, weir_cu_stream stream)
{
    weir_addr addr = rig_alloc(rig, stream, 16 * MIB);
    rig_fill(rig, stream, addr, 16 * MIB, 1);
    rig_verify(rig, stream, addr, 16 * MIB, 1);
    rig_free(rig, addr, stream);
    rig_sync(rig);
}

static uint64_t async_trim(const cuda_rig *rig)
{
    uint64_t released = 0;
    EXPECT_OK(weir_trim(rig->core, 0, WEIR_FOREVER, &released));
    cr_expect_eq(rig_stats(rig).reserved.current, 0);
    return released;
}

/* The program's own synchronisations; the driver trims its pools at each. */
static void async_synchronise(const cuda_rig *rig, weir_cu_stream stream)
{
    weir_cu_event event = NULL;
    RUN(rig->driver.event_create(&event, 0));
    RUN(rig->driver.event_record(event, stream));
    RUN(rig->driver.event_sync(event));
    RUN(rig->driver.event_destroy(event));
    RUN(rig->driver.stream_sync(stream));
    RUN(rig->driver.context_sync());
}

Test(cuda_async, what_weir_keeps_is_never_trimmed_by_a_synchronisation)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "source:async,release_threshold_mb:0", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    async_use(&rig, stream);
    uint64_t reserved = weir_fakecuda_pool_reserved(0);
    cr_expect_geq(reserved, 16 * MIB);
    async_synchronise(&rig, stream);
    cr_expect_eq(weir_fakecuda_pool_reserved(0), reserved);
    uint64_t allocs = weir_fakecuda_calls("cuMemAllocFromPoolAsync");
    async_use(&rig, stream);
    cr_expect_eq(weir_fakecuda_calls("cuMemAllocFromPoolAsync"), allocs, "it was there already");
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_async, a_trim_gives_back_down_to_the_threshold)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "source:async,release_threshold_mb:8", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    for (unsigned i = 0; i < 4; i++) {
        weir_addr addr[4];
        for (unsigned j = 0; j < 4; j++) {
            addr[j] = rig_alloc(&rig, stream, 4 * MIB);
        }
        for (unsigned j = 0; j < 4; j++) {
            rig_free(&rig, addr[j], stream);
        }
        rig_sync(&rig);
        cr_expect_geq(async_trim(&rig), 16 * MIB);
        cr_expect_leq(weir_fakecuda_pool_reserved(0), 8 * MIB);
        uint64_t kept = weir_fakecuda_pool_reserved(0);
        async_synchronise(&rig, stream);
        cr_expect_eq(weir_fakecuda_pool_reserved(0), kept);
    }
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_async, without_a_threshold_a_trim_gives_back_everything)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "source:async,release_threshold_mb:0", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    async_use(&rig, stream);
    cr_expect_geq(async_trim(&rig), 16 * MIB);
    cr_expect_eq(weir_fakecuda_held(0), 2 * MIB, "only the counter of the test's work is left");
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* The program's own pools are no business of Weir's. */
Test(cuda_async, no_other_pool_is_trimmed)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_pool own = NULL;
    weir_cu_pool_prop prop;
    uint64_t keep = 0;
    uint64_t addr = 0;
    uint64_t reserved = 0;
    memset(&prop, 0, sizeof(prop));
    prop.type = WEIR_CU_ALLOCATION_PINNED;
    prop.location.type = WEIR_CU_LOCATION_DEVICE;
    RUN(rig.driver.pool_create(&own, &prop));
    RUN(rig.driver.pool_set(own, WEIR_CU_POOL_RELEASE_THRESHOLD, &keep));
    rig_pool(&rig, "source:async,limit_mb:32", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    RUN(rig.driver.alloc_async(&addr, 2 * MIB, own, stream));
    RUN(rig.driver.free_async(addr, stream));
    weir_fakecuda_settle();
    weir_addr a = rig_alloc(&rig, stream, 16 * MIB);
    rig_free(&rig, a, stream);
    a = rig_alloc(&rig, stream, 20 * MIB);
    rig_free(&rig, a, stream);
    (void)async_trim(&rig);
    RUN(rig.driver.pool_get(own, WEIR_CU_POOL_RESERVED, &reserved));
    cr_expect_eq(reserved, 2 * MIB, "Weir synchronised, and the driver trimmed the program's pool");
    RUN(rig.driver.pool_destroy(own));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* Segments are taken and given back on a stream of Weir's own: the program's is never waited for. */
Test(cuda_async, memory_comes_while_the_programs_streams_are_busy)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "source:async", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    RUN(weir_fakecuda_hold(stream));
    RUN(weir_fakecuda_hold(NULL));
    weir_addr a = rig_alloc(&rig, stream, 4 * MIB);
    weir_addr b = rig_alloc(&rig, other, 6 * MIB);
    rig_fill(&rig, other, b, 6 * MIB, 2);
    rig_free(&rig, b, other);
    RUN(rig.driver.stream_sync(other));
    cr_expect_eq(rig_stats(&rig).host_waits, 0);
    weir_fakecuda_go();
    rig_free(&rig, a, stream);
    rig_sync(&rig);
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------------- addresses -- */

/* The driver promises 512 bytes only; segments begin at granules all the same. */
static void async_odd(const char *settings)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.odd_segments = true});
    rig_pool(&rig, settings, NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_addr addr[6];
    for (unsigned i = 0; i < 6; i++) {
        weir_request request = {.size = sizeof(request), .bytes = (1 + i) * MIB, .align = 2 * MIB};
        ASSERT_OK(weir_cuda_pool_stream(rig.pool, stream, &request.stream));
        ASSERT_OK(weir_alloc(rig.core, &request, &addr[i]));
        cr_expect_eq(addr[i] % (2 * MIB), 0);
        rig_fill(&rig, stream, addr[i], (1 + i) * MIB, i);
    }
    for (unsigned i = 0; i < 6; i++) {
        rig_verify(&rig, stream, addr[i], (1 + i) * MIB, i);
        rig_free(&rig, addr[i], stream);
    }
    rig_sync(&rig);
    (void)async_trim(&rig);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_async, segments_are_aligned_wherever_the_driver_puts_them)
{
    async_odd("source:async");
    async_odd("source:malloc");
}

Test(cuda_async, a_full_device_is_no_error_and_what_the_driver_keeps_is_used)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.memory_bytes = 64 * MIB});
    weir_addr none = 0;
    rig_pool(&rig, "source:async,release_threshold_mb:64", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    async_use(&rig, stream);
    (void)async_trim(&rig);
    weir_addr addr = rig_alloc(&rig, stream, 56 * MIB);
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, 16 * MIB, stream, &none), WEIR_NO_MEMORY);
    rig_free(&rig, addr, stream);
    rig_sync(&rig);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}
