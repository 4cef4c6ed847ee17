/* SPDX-License-Identifier: MIT */
/* What the tests of the runtime share; see runtime_rig.h. */
#define _GNU_SOURCE
#include "runtime_rig.h"

#include <stdlib.h>

static weir_driver rig_driver; /* for streams; the runtime opens its own */
static weir_cu_context rig_context;

void runtime_rig_open(const char *settings, const weir_fakecuda_config *fake)
{
    unsetenv("WEIR_CONF");
    setenv("WEIR_CUDA_LIBRARY", weir_fakecuda_path(), 1);
    weir_fakecuda_reset(fake);
    ASSERT_OK(weir_runtime_configure(settings));
}

void runtime_rig_close(void)
{
    weir_cu_context context = NULL;
    ASSERT_OK(weir_runtime_stop(-1));
    weir_fakecuda_settle();
    if (rig_context) {
        cr_assert_eq(rig_driver.context_pop(&context), WEIR_CU_OK);
        cr_assert_eq(rig_driver.primary_release(0), WEIR_CU_OK);
        rig_context = NULL;
        weir_driver_close(&rig_driver);
    }
    const char *breach = weir_fakecuda_breach();
    cr_expect_null(breach, "%s", breach ? breach : "");
    const char *left = weir_fakecuda_balance();
    cr_expect_null(left, "%s", left ? left : "");
}

uint64_t runtime_rig_alloc(uint64_t bytes)
{
    uint64_t addr = 0;
    ASSERT_OK(weir_runtime_alloc(0, bytes, 0, &addr));
    cr_assert_neq(addr, 0);
    return addr;
}

void runtime_rig_free(uint64_t addr)
{
    ASSERT_OK(weir_runtime_free(addr, 0));
}

weir_runtime_stats runtime_rig_stats(void)
{
    weir_runtime_stats stats = {.size = sizeof(stats)};
    ASSERT_OK(weir_runtime_stats_read(0, &stats));
    return stats;
}

uint64_t runtime_rig_stream(void)
{
    weir_cu_stream stream = NULL;
    if (!rig_context) {
        char why[WEIR_DRIVER_WHY_BYTES] = "";
        cr_assert_eq(weir_driver_open(&rig_driver, weir_fakecuda_path(), why), WEIR_OK, "%s", why);
        cr_assert_eq(rig_driver.primary_retain(&rig_context, 0), WEIR_CU_OK);
        cr_assert_eq(rig_driver.context_push(rig_context), WEIR_CU_OK);
    }
    cr_assert_eq(rig_driver.stream_create(&stream, WEIR_CU_STREAM_NON_BLOCKING), WEIR_CU_OK);
    return (uint64_t)(uintptr_t)stream;
}

void runtime_rig_stream_destroy(uint64_t stream)
{
    cr_assert_eq(rig_driver.stream_destroy((weir_cu_stream)(uintptr_t)stream), WEIR_CU_OK);
}
