/* SPDX-License-Identifier: MIT */
/* Contexts: whatever is current where Weir is called, it works in its own and leaves all as found. */
#include "rig.h"

#include <string.h>

#define BLOCK (2 * MIB)

/* A small life of a pool: grows, hands over, trims. */
static void context_use(const cuda_rig *rig, weir_cu_stream a, weir_cu_stream b)
{
    unsigned depth = weir_fakecuda_depth();
    weir_cu_context before = NULL;
    weir_cu_context after = NULL;
    RUN(rig->driver.context_get(&before));
    weir_addr one = rig_alloc(rig, a, BLOCK);
    rig_fill(rig, a, one, BLOCK, 1);
    rig_verify(rig, a, one, BLOCK, 1);
    rig_free(rig, one, a);
    weir_addr two = rig_alloc(rig, b, 3 * BLOCK);
    rig_fill(rig, b, two, 3 * BLOCK, 2);
    rig_verify(rig, b, two, 3 * BLOCK, 2);
    rig_free(rig, two, b);
    rig_sync(rig);
    EXPECT_OK(weir_trim(rig->core, 0, WEIR_FOREVER, NULL));
    RUN(rig->driver.context_get(&after));
    cr_expect_eq(before, after);
    cr_expect_eq(weir_fakecuda_depth(), depth);
}

Test(cuda_context, a_call_works_with_no_context_current)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context context = NULL;
    rig_pool(&rig, "", NULL);
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    RUN(rig.driver.context_pop(&context));
    context_use(&rig, a, b);
    cr_expect_eq(weir_fakecuda_depth(), 0);
    rig_drop_pool(&rig);
    rig_pool(&rig, "", NULL);
    RUN(rig.driver.context_push(context));
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

Test(cuda_context, a_call_works_with_another_devices_context_current)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context second = NULL;
    rig_pool(&rig, "", NULL);
    weir_cu_stream a = rig_stream(&rig);
    RUN(rig.driver.primary_retain(&second, 1));
    RUN(rig.driver.context_push(second));
    context_use(&rig, a, NULL); /* NULL: the legacy stream of the pool's context */
    weir_stream_desc desc = {.size = sizeof(desc)};
    EXPECT_OK(weir_cuda_stream(rig.device, NULL, &desc));
    cr_expect_eq(weir_fakecuda_held(1), 0);
    RUN(rig.driver.context_pop(&second));
    RUN(rig.driver.primary_release(1));
    RUN(rig.driver.stream_destroy(a));
    rig_close(&rig);
}

static void context_on_second_device(const char *settings)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context second = NULL;
    rig_pool(&rig, settings, &(weir_cuda_pool_config){.device.device = 1});
    RUN(rig.driver.primary_retain(&second, 1));
    RUN(rig.driver.context_push(second));
    weir_cu_stream stream = rig_stream(&rig);
    RUN(rig.driver.context_pop(&second));
    weir_addr addr = rig_alloc(&rig, stream, BLOCK);
    cr_expect_geq(weir_fakecuda_held(1), BLOCK);
    cr_expect_eq(weir_fakecuda_held(0), 0);
    rig_fill(&rig, stream, addr, BLOCK, 1);
    rig_verify(&rig, stream, addr, BLOCK, 1);
    rig_free(&rig, addr, stream);
    rig_drop_pool(&rig);
    RUN(rig.driver.context_push(second));
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.context_pop(&second));
    RUN(rig.driver.primary_release(1));
    rig_close(&rig);
}

Test(cuda_context, a_pool_of_the_second_device_takes_its_memory_alone)
{
    context_on_second_device("source:vmm");
    context_on_second_device("source:async");
    context_on_second_device("source:malloc");
}

Test(cuda_context, a_pool_works_in_the_context_it_is_given)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context own = NULL;
    weir_cu_context of = NULL;
    uint64_t retains = weir_fakecuda_calls("cuDevicePrimaryCtxRetain");
    RUN(cuCtxCreate_v2(&own, 0, 1));
    RUN(rig.driver.context_pop(&of));
    rig_pool(&rig, "", &(weir_cuda_pool_config){.device.context = own});
    cr_expect_eq(weir_fakecuda_calls("cuDevicePrimaryCtxRetain"), retains);
    weir_stream name = 0;
    weir_cu_stream foreign = rig_stream(&rig);
    cr_expect_eq(weir_cuda_pool_stream(rig.pool, foreign, &name), WEIR_INVALID);
    RUN(rig.driver.context_push(own));
    weir_cu_stream stream = rig_stream(&rig);
    context_use(&rig, stream, NULL);
    weir_addr addr = rig_alloc(&rig, stream, BLOCK);
    cr_expect_geq(weir_fakecuda_held(1), BLOCK, "the device is the context's");
    rig_free(&rig, addr, stream);
    RUN(rig.driver.context_pop(&of));
    rig_drop_pool(&rig);
    RUN(rig.driver.stream_destroy(foreign));
    RUN(cuCtxDestroy_v2(own));
    rig_close(&rig);
}

Test(cuda_context, a_context_that_is_none_is_refused)
{
    cuda_rig rig = rig_open(NULL);
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda_pool *pool = NULL;
    weir_cu_context own = NULL;
    RUN(cuCtxCreate_v2(&own, 0, 0));
    RUN(cuCtxDestroy_v2(own));
    weir_cuda_pool_config config = {.device.context = own};
    cr_expect_neq(rig_try_pool("", &config, &pool, why), WEIR_OK);
    cr_expect_neq(strlen(why), 0);
    cr_expect_gt(weir_fakecuda_breaches(), 0, "it was the driver who refused it");
    weir_fakecuda_forgive();
    rig_close(&rig);
}

static void *context_bare_thread(void *self)
{
    context_use((const cuda_rig *)self, NULL, WEIR_CU_STREAM_PER_THREAD);
    cr_expect_eq(weir_fakecuda_depth(), 0);
    cr_expect_eq(weir_fakecuda_mode(), WEIR_CU_MODE_GLOBAL);
    return NULL;
}

Test(cuda_context, a_thread_that_never_called_the_driver_can_call_weir)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", NULL);
    rig_on_thread(context_bare_thread, &rig);
    rig_close(&rig);
}

/* The mode that a thread set itself is its own again after each call. */
Test(cuda_context, a_threads_capture_mode_is_left_as_it_was)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", NULL);
    weir_cu_stream a = rig_stream(&rig);
    int mode = WEIR_CU_MODE_THREAD_LOCAL;
    RUN(rig.driver.capture_mode(&mode));
    context_use(&rig, a, NULL);
    cr_expect_eq(weir_fakecuda_mode(), WEIR_CU_MODE_THREAD_LOCAL);
    RUN(rig.driver.capture_mode(&mode));
    RUN(rig.driver.stream_destroy(a));
    rig_close(&rig);
}
