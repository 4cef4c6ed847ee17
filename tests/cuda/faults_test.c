/* SPDX-License-Identifier: MIT */
/*
 * Every call of the driver fails at its k-th time, for every k that a small life of a pool reaches:
 * whatever that does to the call in hand, the pool stays whole, what was live is live, a second try
 * works, and in the end all is given back.
 */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define BLOCK (2 * MIB)
#define SLOTS 6u
#define FAULT_LAST 5000u /* more than any life below makes calls */

typedef struct fault_life {
    cuda_rig rig;
    weir_cu_stream stream[2];
    weir_addr addr[SLOTS];
    uint64_t bytes[SLOTS];
    unsigned by[SLOTS];
    const char *settings;
    weir_cuda_pool_config config;
} fault_life;

static bool fault_is_fair(weir_status status)
{
    return status == WEIR_OK || status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT ||
           status == WEIR_DEVICE || status == WEIR_NO_METADATA;
}

static void fault_take(fault_life *life, unsigned slot, unsigned by, uint64_t bytes)
{
    weir_addr addr = 0;
    weir_status status = weir_cuda_pool_alloc(life->rig.pool, bytes, life->stream[by], &addr);
    cr_expect(fault_is_fair(status), "alloc: %s", weir_status_name(status));
    if (status == WEIR_OK) {
        life->addr[slot] = addr;
        life->bytes[slot] = bytes;
        life->by[slot] = by;
    } else {
        cr_expect_eq(addr, 0, "a result was written on failure");
    }
}

/* A free that fails leaves the block live; the next try is the test's. */
static void fault_give(fault_life *life, unsigned slot, unsigned by)
{
    if (!life->addr[slot]) {
        return;
    }
    weir_status status = weir_cuda_pool_free(life->rig.pool, life->addr[slot], life->stream[by]);
    cr_expect(fault_is_fair(status), "free: %s", weir_status_name(status));
    if (status != WEIR_OK) {
        status = weir_cuda_pool_free(life->rig.pool, life->addr[slot], life->stream[by]);
        cr_expect_eq(status, WEIR_OK, "the second try of a free: %s", weir_status_name(status));
    }
    life->addr[slot] = 0;
}

/* Grows, frees on the same and on another stream, moves or reuses, trims. */
static void fault_live(fault_life *life)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        fault_take(life, i, i % 2, BLOCK);
    }
    fault_give(life, 0, 0);
    fault_give(life, 2, 0);
    fault_give(life, 3, 0);
    fault_take(life, 0, 0, 2 * BLOCK);
    fault_take(life, 2, 1, 100);
    fault_give(life, 1, 1);
    fault_take(life, 3, 0, BLOCK);
    weir_status status = weir_trim(life->rig.core, 0, 1000, NULL);
    cr_expect(fault_is_fair(status), "trim: %s", weir_status_name(status));
    status = weir_cuda_pool_stream_end(life->rig.pool, life->stream[1]);
    cr_expect(fault_is_fair(status) || status == WEIR_BUSY, "end: %s", weir_status_name(status));
}

/* What is live can be written and read, and be freed; then nothing is left. */
static void fault_end(fault_life *life)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (life->addr[i]) {
            rig_fill(&life->rig, life->stream[0], life->addr[i], life->bytes[i], i);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (life->addr[i]) {
            rig_verify(&life->rig, life->stream[0], life->addr[i], life->bytes[i], i);
        }
        fault_give(life, i, 0);
    }
    rig_sync(&life->rig);
    fault_take(life, 0, 0, BLOCK);
    cr_expect_neq(life->addr[0], 0, "the pool is of no use any more");
    fault_give(life, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        (void)weir_cuda_pool_stream_end(life->rig.pool, life->stream[i]);
        RUN(life->rig.driver.stream_destroy(life->stream[i]));
    }
}

/* What could not be given back is quarantined, and that alone may remain. */
static void fault_close(fault_life *life)
{
    cuda_rig *rig = &life->rig;
    weir_status status = weir_trim(rig->core, 0, WEIR_FOREVER, NULL);
    cr_expect_eq(status, WEIR_OK, "%strim at the end: %s", rig->note, weir_status_name(status));
    uint64_t quarantined = rig_stats(rig).quarantined_bytes;
    if (quarantined == 0) {
        rig_close(rig);
        return;
    }
    rig_drop_pool(rig);
    cr_expect_eq(weir_fakecuda_held(0), quarantined, "%s%llu bytes are held", rig->note,
                 (unsigned long long)weir_fakecuda_held(0));
    weir_driver_close(&rig->driver);
}

/* One life with a failure at the k-th call; false where it has fewer. */
static bool fault_one(const char *name, uint64_t k, weir_cu_result result, const char *settings,
                      const weir_cuda_pool_config *config)
{
    fault_life life;
    memset(&life, 0, sizeof(life));
    life.rig = rig_open(NULL);
    rig_pool(&life.rig, settings, config);
    life.stream[0] = rig_stream(&life.rig);
    life.stream[1] = rig_stream(&life.rig);
    snprintf(life.rig.note, sizeof(life.rig.note), "%s, call %u: ", name, (unsigned)k);
    weir_fakecuda_fail(name, k, result, false);
    fault_live(&life);
    bool failed = weir_fakecuda_failed() != NULL;
    rig_check(&life.rig);
    fault_end(&life);
    fault_close(&life);
    return failed;
}

/* Calls that a leave makes: nothing can be done where the driver refuses to put back what it gave.
 * They are tried apart. */
static const char *const fault_names[] = {"cuMemCreate",
                                          "cuMemRelease",
                                          "cuMemMap",
                                          "cuMemUnmap",
                                          "cuMemSetAccess",
                                          "cuEventCreate",
                                          "cuEventRecord",
                                          "cuEventQuery",
                                          "cuStreamWaitEvent",
                                          "cuStreamGetId",
                                          "cuStreamGetCtx",
                                          "cuStreamIsCapturing",
                                          "cuMemAddressReserve",
                                          "cuMemAddressFree",
                                          "cuCtxPushCurrent_v2",
                                          "cuCtxGetCurrent",
                                          "cuMemAlloc_v2",
                                          "cuMemFree_v2",
                                          "cuMemAllocFromPoolAsync",
                                          "cuMemFreeAsync",
                                          "cuMemPoolTrimTo",
                                          "cuMemGetInfo_v2"};

/* Every call of each function in turn. */
static void fault_each(const char *settings, weir_cu_result result,
                       const weir_cuda_pool_config *config)
{
    for (unsigned i = 0; i < sizeof(fault_names) / sizeof(fault_names[0]); i++) {
        uint64_t k = 1;
        while (k < FAULT_LAST && fault_one(fault_names[i], k, result, settings, config)) {
            k++;
        }
        cr_expect_lt(k, FAULT_LAST);
    }
}

static const weir_cuda_pool_config fault_told = {.streams_told = true, .captures_told = true};
static const weir_cuda_pool_config fault_alone = {.device.one_launcher = true};

Test(cuda_faults, any_call_fails_for_want_of_memory)
{
    fault_each("source:vmm,limit_mb:12,growth_mb:2,wait_us:1000", WEIR_CU_OUT_OF_MEMORY, NULL);
}

Test(cuda_faults, any_call_fails_for_another_reason)
{
    fault_each("source:vmm,limit_mb:12,growth_mb:2,wait_us:1000", WEIR_CU_INVALID_VALUE, NULL);
}

Test(cuda_faults, any_call_fails_where_all_is_told)
{
    fault_each("source:vmm,wait_us:1000", WEIR_CU_INVALID_VALUE, &fault_told);
}

Test(cuda_faults, any_call_fails_where_live_memory_may_be_copied)
{
    fault_each("source:vmm,limit_mb:12,growth_mb:4,wait_us:1000", WEIR_CU_INVALID_VALUE,
               &fault_alone);
}

Test(cuda_faults, any_call_fails_with_segments_of_a_pool)
{
    fault_each("source:async,limit_mb:16,growth_mb:2,wait_us:1000", WEIR_CU_INVALID_VALUE, NULL);
    fault_each("source:async,wait_us:1000", WEIR_CU_OUT_OF_MEMORY, NULL);
}

Test(cuda_faults, any_call_fails_with_segments_of_malloc)
{
    fault_each("source:malloc,limit_mb:16,growth_mb:2,wait_us:1000", WEIR_CU_INVALID_VALUE, NULL);
    fault_each("source:malloc,wait_us:1000", WEIR_CU_OUT_OF_MEMORY, NULL);
}

/* ---------------------------------------------------------------------------------------- making -- */

/* Making a pool, with each of its calls failing: nothing is left, and a sentence says why. */
static void fault_making(const char *settings)
{
    for (uint64_t k = 1; k < FAULT_LAST; k++) {
        char why[WEIR_CUDA_WHY_BYTES] = "";
        weir_cuda_pool *pool = NULL;
        weir_fakecuda_reset(NULL);
        weir_fakecuda_fail(NULL, k, WEIR_CU_INVALID_VALUE, false);
        weir_status status = rig_try_pool(settings, NULL, &pool, why);
        const char *failed = weir_fakecuda_failed();
        if (status == WEIR_OK) {
            EXPECT_OK(weir_cuda_pool_destroy(pool));
        } else {
            cr_expect_not_null(failed, "%s", why);
            cr_expect_neq(strlen(why), 0, "%s fails and nothing is said", failed);
            cr_expect_null(pool);
        }
        weir_fakecuda_settle();
        const char *left = weir_fakecuda_balance();
        cr_expect_null(left, "%s fails as call %u: %s", failed ? failed : "none", (unsigned)k,
                       left ? left : "");
        if (!failed) {
            return;
        }
    }
    cr_expect_fail("making a pool never ends");
}

Test(cuda_faults, making_a_pool_fails_with_a_sentence_and_leaves_nothing)
{
    fault_making("source:vmm,initial_pool_size_mb:4");
    fault_making("source:async,initial_pool_size_mb:4");
    fault_making("source:malloc");
}

/* ----------------------------------------------------------------------------------- for ever -- */

/* A device that gives no memory any more: what is live stays, what is asked for is refused, what is
 * given back is taken. */
static void fault_for_ever(const char *name, const char *settings)
{
    cuda_rig rig = rig_open(NULL);
    weir_addr none = 0;
    rig_pool(&rig, settings, NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_addr a = rig_alloc(&rig, stream, BLOCK);
    rig_fill(&rig, stream, a, BLOCK, 1);
    weir_fakecuda_fail(name, 1, WEIR_CU_OUT_OF_MEMORY, true);
    for (unsigned i = 0; i < 3; i++) {
        cr_expect_eq(weir_cuda_pool_alloc(rig.pool, 200 * MIB, stream, &none), WEIR_NO_MEMORY);
        rig_check(&rig);
    }
    rig_verify(&rig, stream, a, BLOCK, 1);
    rig_free(&rig, a, stream);
    a = rig_alloc(&rig, stream, BLOCK);
    rig_free(&rig, a, stream);
    (void)weir_fakecuda_failed();
    rig_free(&rig, rig_alloc(&rig, stream, 200 * MIB), stream);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(cuda_faults, a_device_that_is_full_for_ever_is_told_as_such)
{
    fault_for_ever("cuMemCreate", "source:vmm");
    fault_for_ever("cuMemAllocFromPoolAsync", "source:async");
    fault_for_ever("cuMemAlloc_v2", "source:malloc");
}
