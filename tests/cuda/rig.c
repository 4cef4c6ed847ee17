/* SPDX-License-Identifier: MIT */
/* What the tests on the stand-in share; see rig.h. */
#include "rig.h"

#include <pthread.h>
#include <string.h>

cuda_rig rig_open(const weir_fakecuda_config *fake)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    cuda_rig rig;
    memset(&rig, 0, sizeof(rig));
    weir_fakecuda_reset(fake);
    weir_status status = weir_driver_open(&rig.driver, weir_fakecuda_path(), why);
    cr_assert_eq(status, WEIR_OK, "%s", why);
    RUN(rig.driver.primary_retain(&rig.context, 0));
    RUN(rig.driver.context_push(rig.context));
    return rig;
}

weir_status rig_try_pool(const char *settings, const weir_cuda_pool_config *config,
                         weir_cuda_pool **pool, char *why)
{
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_conf conf;
    weir_cuda_pool_config full;
    memset(&full, 0, sizeof(full));
    if (config) {
        full = *config;
    }
    weir_conf_init(&conf);
    cr_assert_eq(weir_conf_parse(&conf, settings, error), WEIR_OK, "%s", error);
    full.size = sizeof(full);
    full.conf = &conf;
    full.device.size = sizeof(full.device);
    full.device.libcuda = weir_fakecuda_path();
    return weir_cuda_pool_create(&full, pool, why);
}

void rig_pool(cuda_rig *rig, const char *settings, const weir_cuda_pool_config *config)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_status status = rig_try_pool(settings, config, &rig->pool, why);
    cr_assert_eq(status, WEIR_OK, "%s", why);
    rig->core = weir_cuda_pool_core(rig->pool);
    rig->device = weir_cuda_pool_device(rig->pool);
    rig->work = weir_cuda_work_create(rig->device);
    cr_assert_not_null(rig->work, "%s", weir_cuda_error(rig->device));
}

void rig_drop_pool(cuda_rig *rig)
{
    rig_sync(rig);
    rig_check(rig);
    weir_cuda_work_destroy(rig->work);
    weir_status status = weir_cuda_pool_destroy(rig->pool);
    cr_assert_eq(status, WEIR_OK, "%s%s", rig->note, weir_status_name(status));
    rig->pool = NULL;
}

/* Streams that a test leaves are destroyed here; handles of streams are few and small. */
void rig_close(cuda_rig *rig)
{
    weir_cu_context context = NULL;
    if (rig->pool) {
        rig_drop_pool(rig);
    }
    weir_fakecuda_settle();
    cr_expect_eq(weir_fakecuda_mode(), WEIR_CU_MODE_GLOBAL,
                 "the thread's capture mode was changed");
    RUN(rig->driver.context_pop(&context));
    cr_expect_eq(context, rig->context, "the thread's stack of contexts was changed");
    cr_expect_eq(weir_fakecuda_depth(), 0);
    RUN(rig->driver.primary_release(0));
    const char *breach = weir_fakecuda_breach();
    cr_expect_null(breach, "%s%s", rig->note, breach ? breach : "");
    const char *left = weir_fakecuda_balance();
    cr_expect_null(left, "%s%s", rig->note, left ? left : "");
    weir_driver_close(&rig->driver);
}

weir_cu_stream rig_stream(const cuda_rig *rig)
{
    weir_cu_stream stream = NULL;
    RUN(rig->driver.stream_create(&stream, WEIR_CU_STREAM_NON_BLOCKING));
    return stream;
}

weir_cu_stream rig_stream_blocking(const cuda_rig *rig)
{
    weir_cu_stream stream = NULL;
    RUN(rig->driver.stream_create(&stream, 0));
    return stream;
}

weir_addr rig_alloc(const cuda_rig *rig, weir_cu_stream stream, uint64_t bytes)
{
    weir_addr addr = 0;
    weir_status status = weir_cuda_pool_alloc(rig->pool, bytes, stream, &addr);
    cr_assert_eq(status, WEIR_OK, "alloc of %llu bytes: %s, %s", (unsigned long long)bytes,
                 weir_status_name(status), weir_cuda_error(rig->device));
    return addr;
}

void rig_free(const cuda_rig *rig, weir_addr addr, weir_cu_stream stream)
{
    weir_status status = weir_cuda_pool_free(rig->pool, addr, stream);
    cr_assert_eq(status, WEIR_OK, "free: %s, %s", weir_status_name(status),
                 weir_cuda_error(rig->device));
}

void rig_fill(const cuda_rig *rig, weir_cu_stream stream, weir_addr addr, uint64_t bytes,
              uint64_t tag)
{
    cr_assert(weir_cuda_work_fill(rig->work, (uintptr_t)stream, addr, bytes, tag), "%s",
              weir_cuda_error(rig->device));
}

void rig_verify(const cuda_rig *rig, weir_cu_stream stream, weir_addr addr, uint64_t bytes,
                uint64_t tag)
{
    cr_assert(weir_cuda_work_verify(rig->work, (uintptr_t)stream, addr, bytes, tag), "%s",
              weir_cuda_error(rig->device));
}

void rig_sync(const cuda_rig *rig)
{
    cr_expect_eq(weir_cuda_work_errors(rig->work), 0, "words were found that somebody else wrote");
}

weir_stats rig_stats(const cuda_rig *rig)
{
    weir_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.size = sizeof(stats);
    weir_stats_read(rig->core, &stats);
    return stats;
}

void rig_check(const cuda_rig *rig)
{
    const char *why = "";
    weir_status status = weir_check(rig->core, &why);
    cr_expect_eq(status, WEIR_OK, "%s%s", rig->note, why);
}

void rig_capture_begin(weir_cu_stream stream, int mode)
{
    RUN(cuStreamBeginCapture_v2(stream, mode));
}

weir_cu_graph rig_capture_end(weir_cu_stream stream)
{
    weir_cu_graph graph = NULL;
    RUN(cuStreamEndCapture(stream, &graph));
    cr_assert_not_null(graph);
    return graph;
}

void *rig_instantiate(weir_cu_graph graph)
{
    void *exec = NULL;
    RUN(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

void rig_on_thread(void *(*body)(void *self), void *self)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, body, self), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}
