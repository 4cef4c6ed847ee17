/* SPDX-License-Identifier: MIT */
/*
 * What the driver refuses at rare places: inside captures, to threads on their way in and out, to
 * drivers that lack a call, and to programs that ask for nonsense.
 */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK (2 * MIB)

/* ------------------------------------------------------------------------------ inside captures -- */

/* The first allocation of a capture fails at `name`; the capture lives, a second try works, and the
 * end leaves nothing. */
static void refusal_in_capture(const char *name, uint64_t kth)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr addr = 0;
    int active = 0;
    rig_pool(&rig, "", NULL);
    snprintf(rig.note, sizeof(rig.note), "%s, call %u: ", name, (unsigned)kth);
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    weir_fakecuda_fail(name, kth, WEIR_CU_INVALID_VALUE, false);
    weir_status status = weir_cuda_pool_alloc(rig.pool, BLOCK, stream, &addr);
    const char *failed = weir_fakecuda_failed();
    cr_expect(status == WEIR_OK || failed, "%s%s", rig.note, weir_status_name(status));
    RUN(rig.driver.stream_capturing(stream, &active));
    cr_expect_eq(active, WEIR_CU_CAPTURE_ACTIVE, "%sthe capture was broken", rig.note);
    if (status != WEIR_OK) {
        addr = rig_alloc(&rig, stream, BLOCK);
    }
    rig_free(&rig, addr, stream);
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    weir_fakecuda_settle();
    status = weir_cuda_pool_settle(rig.pool);
    cr_expect_eq(status, WEIR_OK, "%ssettle: %s", rig.note, weir_status_name(status));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_refusal, a_capture_survives_every_refusal_of_the_driver)
{
    static const char *const names[] = {"cuUserObjectCreate",  "cuGraphRetainUserObject",
                                        "cuStreamIsCapturing", "cuStreamGetCaptureInfo_v2",
                                        "cuMemCreate",         "cuMemMap",
                                        "cuMemSetAccess",      "cuCtxGetCurrent"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        refusal_in_capture(names[i], 1);
        refusal_in_capture(names[i], 2);
    }
}

Test(cuda_refusal, without_user_objects_a_capture_gets_no_memory)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr none = 0;
    weir_fakecuda_hide("cuGraphRetainUserObject");
    rig_pool(&rig, "", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, BLOCK, stream, &none), WEIR_UNSUPPORTED);
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_refusal, a_captured_stream_has_no_name_outside)
{
    cuda_rig rig = rig_open(NULL);
    weir_stream name = 0;
    weir_stream_desc desc = {.size = sizeof(desc)};
    rig_pool(&rig, "", NULL);
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    cr_expect_eq(weir_cuda_pool_stream(rig.pool, stream, &name), WEIR_INVALID);
    cr_expect_eq(weir_cuda_stream(rig.device, stream, &desc), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_free(rig.pool, 4096, stream), WEIR_NOT_FOUND);
    cr_expect_eq(weir_cuda_pool_use(rig.pool, 4096, stream), WEIR_NOT_FOUND);
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    weir_fakecuda_settle();
    EXPECT_OK(weir_cuda_pool_stream(rig.pool, stream, &name));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* The thread's own default stream is captured, and memory from outside is freed on it. */
Test(cuda_refusal, memory_from_outside_is_freed_on_a_captured_default_stream)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "limit_mb:2,wait_us:1000", NULL);
    weir_cu_stream other = rig_stream(&rig);
    weir_addr addr = rig_alloc(&rig, WEIR_CU_STREAM_PER_THREAD, BLOCK);
    rig_fill(&rig, WEIR_CU_STREAM_PER_THREAD, addr, BLOCK, 1);
    rig_capture_begin(WEIR_CU_STREAM_PER_THREAD, WEIR_CU_MODE_GLOBAL);
    rig_free(&rig, addr, WEIR_CU_STREAM_PER_THREAD);
    RUN(cuGraphDestroy(rig_capture_end(WEIR_CU_STREAM_PER_THREAD)));
    rig_sync(&rig);
    addr = rig_alloc(&rig, other, BLOCK);
    rig_fill(&rig, other, addr, BLOCK, 2);
    rig_verify(&rig, other, addr, BLOCK, 2);
    rig_free(&rig, addr, other);
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* A capture that the program tells of is known even before it allocates. */
Test(cuda_refusal, a_told_capture_is_not_broken_by_a_rescue)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.small_granule = true});
    weir_addr keep[64];
    weir_addr rest[64];
    weir_addr none = 0;
    int active = 0;
    weir_cuda_pool_config told = {
        .streams_told = true, .captures_told = true, .device.one_launcher = true};
    rig_pool(&rig, "limit_mb:16,wait_us:100000", &told);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    unsigned count = 0;
    while (count < 64 && rig_stats(&rig).allocated.current + 512 * KIB < 16 * MIB) {
        keep[count] = rig_alloc(&rig, stream, 64 * KIB);
        rest[count] = rig_alloc(&rig, stream, (count % 3 == 0 ? 7u : 3u) * 64 * KIB);
        count++;
    }
    for (unsigned i = 0; i < count; i++) {
        rig_free(&rig, rest[i], stream);
    }
    rig_sync(&rig);
    rig_capture_begin(other, WEIR_CU_MODE_GLOBAL);
    weir_cuda_pool_capture_begin(rig.pool);
    weir_status status = weir_cuda_pool_alloc(rig.pool, 12 * MIB, stream, &none);
    RUN(rig.driver.stream_capturing(other, &active));
    cr_expect_eq(active, WEIR_CU_CAPTURE_ACTIVE, "a rescue broke it (%s)",
                 weir_status_name(status));
    weir_cuda_pool_capture_end(rig.pool);
    RUN(cuGraphDestroy(rig_capture_end(other)));
    if (status == WEIR_OK) {
        rig_free(&rig, none, stream);
    }
    for (unsigned i = 0; i < count; i++) {
        rig_free(&rig, keep[i], stream);
    }
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, stream));
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

/* ----------------------------------------------------------------------------------- in and out -- */

/* The driver refuses to make a context current, or to put back what was: from a thread that has
 * none. What the refusal leaves on the thread is the driver's; the pool itself is whole. */
static bool refusal_at_the_door(const char *name, uint64_t kth)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context context = NULL;
    weir_addr addr[3] = {0, 0, 0};
    int mode = WEIR_CU_MODE_GLOBAL;
    rig_pool(&rig, "limit_mb:8,growth_mb:2,wait_us:1000", NULL);
    snprintf(rig.note, sizeof(rig.note), "%s, call %u: ", name, (unsigned)kth);
    weir_cu_stream stream[2] = {rig_stream(&rig), rig_stream(&rig)};
    RUN(rig.driver.context_pop(&context));
    weir_fakecuda_fail(name, kth, WEIR_CU_INVALID_VALUE, false);
    for (unsigned i = 0; i < 3; i++) {
        (void)weir_cuda_pool_alloc(rig.pool, BLOCK, stream[i % 2], &addr[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        if (addr[i] && weir_cuda_pool_free(rig.pool, addr[i], stream[0]) != WEIR_OK) {
            rig_free(&rig, addr[i], stream[0]);
        }
    }
    (void)weir_trim(rig.core, 0, 1000, NULL);
    const char *failed = weir_fakecuda_failed();
    RUN(rig.driver.capture_mode(&mode));
    while (weir_fakecuda_depth() > 0) {
        RUN(rig.driver.context_pop(&context));
    }
    RUN(rig.driver.context_push(rig.context));
    rig_check(&rig);
    rig_free(&rig, rig_alloc(&rig, stream[1], BLOCK), stream[1]);
    RUN(rig.driver.stream_destroy(stream[0]));
    RUN(rig.driver.stream_destroy(stream[1]));
    uint64_t quarantined = 0;
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, NULL));
    quarantined = rig_stats(&rig).quarantined_bytes;
    rig_drop_pool(&rig);
    cr_expect_leq(weir_fakecuda_held(0), quarantined);
    weir_driver_close(&rig.driver);
    return failed != NULL;
}

Test(cuda_refusal, a_thread_that_is_refused_at_the_door_leaves_the_pool_whole)
{
    static const char *const names[] = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                                        "cuThreadExchangeStreamCaptureMode", "cuCtxGetCurrent"};
    for (unsigned i = 0; i < 4; i++) {
        uint64_t kth = 1;
        while (kth < 500 && refusal_at_the_door(names[i], kth)) {
            kth++;
        }
        cr_expect_gt(kth, 3, "%s is hardly called", names[i]);
    }
}

/* --------------------------------------------------------------------------------- older drivers -- */

/* Without cuCtxRecordEvent quiet has no bound: it is waited for, or not had. */
Test(cuda_refusal, an_older_driver_is_quiet_without_a_bound_only)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.driver_version = 12020});
    rig_pool(&rig, "", &(weir_cuda_pool_config){.device.one_launcher = true});
    const weir_device_ops *ops = weir_cuda_ops(rig.device);
    cr_expect_eq(ops->quiesce(rig.device, 1000), WEIR_UNSUPPORTED);
    EXPECT_OK(ops->quiesce(rig.device, WEIR_FOREVER));
    EXPECT_OK(ops->resume(rig.device));
    weir_fakecuda_fail("cuCtxGetCurrent", 1, WEIR_CU_INVALID_VALUE, false);
    cr_expect_eq(ops->quiesce(rig.device, WEIR_FOREVER), WEIR_DEVICE);
    (void)weir_fakecuda_failed();
    rig_close(&rig);
}

/* A stream that ended untold, on a driver that knows no event of a whole context. */
Test(cuda_refusal, an_older_driver_forgets_a_stream_behind_the_legacy_one)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.driver_version = 12020});
    uint64_t released = 0;
    rig_pool(&rig, "", NULL);
    weir_cu_stream first = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    weir_addr addr = rig_alloc(&rig, first, BLOCK);
    rig_fill(&rig, first, addr, BLOCK, 1);
    RUN(rig.driver.stream_sync(first));
    RUN(rig.driver.stream_destroy(first));
    rig_free(&rig, addr, other);
    EXPECT_OK(weir_trim(rig.core, 0, WEIR_FOREVER, &released));
    cr_expect_geq(released, BLOCK);
    weir_fakecuda_forgive(); /* the dead handle was named */
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

Test(cuda_refusal, a_threads_default_stream_needs_an_identity)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.driver_version = 11080});
    weir_addr none = 0;
    rig_pool(&rig, "", &(weir_cuda_pool_config){.streams_told = true});
    cr_expect_eq(weir_cuda_pool_alloc(rig.pool, BLOCK, WEIR_CU_STREAM_PER_THREAD, &none),
                 WEIR_UNSUPPORTED);
    rig_free(&rig, rig_alloc(&rig, NULL, BLOCK), NULL);
    rig_close(&rig);
}

/* ----------------------------------------------------------------------------------------- asking -- */

Test(cuda_refusal, nonsense_is_invalid)
{
    weir_cuda_shared shared;
    weir_stream name = 0;
    weir_addr addr = 0;
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "source:malloc", NULL);
    cr_expect_eq(weir_cuda_pool_alloc(NULL, 1, NULL, &addr), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_use(NULL, 1, NULL), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_stream(NULL, NULL, &name), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_stream(rig.pool, NULL, NULL), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_stream_end(NULL, NULL), WEIR_INVALID);
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, NULL));
    EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, WEIR_CU_STREAM_PER_THREAD));
    cr_expect_eq(weir_cuda_pool_settle(NULL), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_share(rig.pool, 4096, WEIR_CUDA_FD, NULL), WEIR_INVALID);
    cr_expect_eq(weir_cuda_pool_share(rig.pool, 4096, WEIR_CUDA_DMA_BUF, &shared), WEIR_NOT_FOUND);
    const weir_device_ops *ops = weir_cuda_ops(rig.device);
    cr_expect_eq(ops->segment_free(rig.device, 4 * MIB, 2 * MIB), WEIR_INVALID);
    rig_close(&rig);
}

Test(cuda_refusal, the_environment_sets_what_the_program_does_not)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda_pool *pool = NULL;
    weir_fakecuda_reset(NULL);
    weir_cuda_pool_config config = {.size = sizeof(config)};
    config.device.size = sizeof(config.device);
    config.device.libcuda = weir_fakecuda_path();
    cr_assert_eq(setenv("WEIR_CONF", "source:malloc,limit_mb:32", 1), 0);
    ASSERT_OK(weir_cuda_pool_create(&config, &pool, why));
    cr_expect_eq(weir_cuda_source(weir_cuda_pool_device(pool)), WEIR_CONF_MALLOC);
    EXPECT_OK(weir_cuda_pool_destroy(pool));
    cr_assert_eq(setenv("WEIR_CONF", "sauce:malloc", 1), 0);
    cr_expect_eq(weir_cuda_pool_create(&config, &pool, why), WEIR_INVALID);
    cr_expect_not_null(strstr(why, "sauce"), "%s", why);
    cr_assert_eq(unsetenv("WEIR_CONF"), 0);
}

/* ------------------------------------------------------------------------------------------ work -- */

Test(cuda_refusal, work_that_cannot_be_made_leaves_nothing)
{
    static const char *const names[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc_v2",
                                        "cuMemsetD32_v2", "cuCtxGetCurrent"};
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(NULL);
    weir_cuda_config config = {.size = sizeof(config), .libcuda = weir_fakecuda_path()};
    ASSERT_OK(weir_cuda_create(&config, &device, why));
    for (unsigned i = 0; i < 5; i++) {
        weir_fakecuda_fail(names[i], 1, WEIR_CU_INVALID_VALUE, false);
        cr_expect_null(weir_cuda_work_create(device), "%s", names[i]);
        (void)weir_fakecuda_failed();
        cr_expect_eq(weir_fakecuda_held(0), 0, "%s leaves memory", names[i]);
    }
    weir_cuda_work_destroy(NULL);
    weir_cuda_work *work = weir_cuda_work_create(device);
    cr_assert_not_null(work);
    weir_fakecuda_lose(0, WEIR_CU_LAUNCH_FAILED);
    cr_expect_eq(weir_cuda_work_stream_create(work), 0);
    cr_expect_not(weir_cuda_work_spin(work, 1, 1));
    cr_expect_eq(weir_cuda_work_errors(work), UINT64_MAX);
    weir_cuda_work_destroy(work);
    weir_cuda_destroy(device);
}

/* --------------------------------------------------------------------------------- many streams -- */

Test(cuda_refusal, two_hundred_streams_live_at_once)
{
    enum { STREAMS = 200 };
    static weir_cu_stream stream[STREAMS];
    static weir_addr addr[STREAMS];
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", &(weir_cuda_pool_config){.streams_told = true});
    for (unsigned i = 0; i < STREAMS; i++) {
        stream[i] = rig_stream(&rig);
        addr[i] = rig_alloc(&rig, stream[i], 4096);
        rig_fill(&rig, stream[i], addr[i], 4096, i);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        rig_verify(&rig, stream[i], addr[i], 4096, i);
        rig_free(&rig, addr[i], stream[i]);
        if (i % 2 == 0) {
            EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, stream[i]));
            RUN(rig.driver.stream_destroy(stream[i]));
        }
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        if (i % 2 == 0) {
            stream[i] = rig_stream(&rig);
        }
        rig_free(&rig, rig_alloc(&rig, stream[i], 4096), stream[i]);
    }
    rig_check(&rig);
    for (unsigned i = 0; i < STREAMS; i++) {
        EXPECT_OK(weir_cuda_pool_stream_end(rig.pool, stream[i]));
        RUN(rig.driver.stream_destroy(stream[i]));
    }
    rig_close(&rig);
}
