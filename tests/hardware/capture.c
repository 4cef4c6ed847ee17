/* SPDX-License-Identifier: MIT */
/*
 * Graphs: what is allocated while a stream is captured is the graph's until the graph is gone, while
 * other threads allocate, free, trim and are short of memory outside.
 */
#define _GNU_SOURCE
#include "hw.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define CAPTURE_BLOCK (8 * HW_MIB)
#define CAPTURE_OUTSIDERS 3u

typedef struct capture_rig {
    weir_driver driver;
    weir_cu_context context;
    hw_graphs calls;
    weir_cuda_pool *pool;
    weir_cuda_work *work;
    uint64_t stream;
    atomic_bool over;
    atomic_ullong outside; /* blocks that the outsiders had */
} capture_rig;

static void capture_open(capture_rig *rig)
{
    weir_cu_device device = 0;
    rig->driver = hw_driver();
    rig->calls = hw_graph_calls(&rig->driver);
    hw_must(weir_driver_status(rig->driver.device_get(&device, 0)), "the device");
    hw_must(weir_driver_status(rig->driver.primary_retain(&rig->context, device)), "the context");
    hw_must(weir_driver_status(rig->driver.context_push(rig->context)), "the context");
    rig->pool = hw_pool("limit_mb:128,growth_mb:8", false);
    rig->work = hw_work(weir_cuda_pool_device(rig->pool));
    rig->stream = weir_cuda_work_stream_create(rig->work);
}

static void capture_close(capture_rig *rig)
{
    weir_cu_context old = NULL;
    weir_cuda_work_destroy(rig->work);
    hw_result("the pool ends", weir_cuda_pool_destroy(rig->pool) == WEIR_OK, "");
    rig->driver.context_pop(&old);
    rig->driver.primary_release(0);
    weir_driver_close(&rig->driver);
}

static weir_addr capture_take(capture_rig *rig, uint64_t tag)
{
    weir_addr addr = 0;
    void *stream = (void *)(uintptr_t)rig->stream;
    weir_status status = WEIR_NO_MEMORY;
    for (unsigned i = 0; i < 5000 && status == WEIR_NO_MEMORY; i++) { /* a capture can't wait */
        status = weir_cuda_pool_alloc(rig->pool, CAPTURE_BLOCK, stream, &addr);
        if (status == WEIR_NO_MEMORY) {
            usleep(1000);
        }
    }
    hw_must(status, "a captured block");
    weir_cuda_work_fill(rig->work, rig->stream, addr, CAPTURE_BLOCK, tag);
    weir_cuda_work_verify(rig->work, rig->stream, addr, CAPTURE_BLOCK, tag);
    return addr;
}

static void capture_give(capture_rig *rig, weir_addr addr)
{
    hw_must(weir_cuda_pool_free(rig->pool, addr, (void *)(uintptr_t)rig->stream), "a free");
}

/* Two blocks at once, one of them in the place of a third that the capture freed. */
static bool capture_record(capture_rig *rig, int mode, void **exec)
{
    weir_cu_graph graph = NULL;
    void *stream = (void *)(uintptr_t)rig->stream;
    weir_addr outer = capture_take(rig, 1);
    if (rig->calls.begin(stream, mode) != WEIR_CU_OK) {
        return false;
    }
    weir_addr first = capture_take(rig, 11);
    capture_give(rig, first);
    weir_addr again = capture_take(rig, 12);
    weir_addr other = capture_take(rig, 13);
    weir_cuda_work_verify(rig->work, rig->stream, again, CAPTURE_BLOCK, 12);
    capture_give(rig, again);
    capture_give(rig, other);
    capture_give(rig, outer);
    bool made = rig->calls.end(stream, &graph) == WEIR_CU_OK &&
                rig->calls.instantiate(exec, graph, 0) == WEIR_CU_OK;
    hw_result("a stream reuses what it freed inside the capture", first == again, "");
    return rig->calls.graph_destroy(graph) == WEIR_CU_OK && made;
}

/* Waits for the outsider's own work, in a way that captures survive: an outsider that queues work
 * far ahead would hold all memory for longer than a capture can try again. */
static void capture_catch_up(capture_rig *rig, weir_event event, uint64_t native)
{
    weir_cuda *cuda = weir_cuda_pool_device(rig->pool);
    const weir_device_ops *ops = weir_cuda_ops(cuda);
    bool passed = false;
    hw_must(ops->event_record(cuda, event, native), "an outsider's record");
    hw_must(ops->event_wait(cuda, event, WEIR_FOREVER, &passed), "an outsider's wait");
}

/* An outsider: blocks with tags of its own, trims, and calls that find no memory. */
static void *capture_outside(void *self)
{
    capture_rig *rig = (capture_rig *)self;
    uint64_t native = weir_cuda_work_stream_create(rig->work);
    weir_cuda *cuda = weir_cuda_pool_device(rig->pool);
    weir_event event = 0;
    hw_must(weir_cuda_ops(cuda)->event_create(cuda, &event), "an event");
    void *stream = (void *)(uintptr_t)native;
    for (uint64_t i = 1; !atomic_load(&rig->over); i++) {
        weir_addr addr = 0;
        uint64_t bytes = (i % 5 + 1) * 7 * HW_MIB;
        weir_status status = weir_cuda_pool_alloc(rig->pool, bytes, stream, &addr);
        if (status == WEIR_OK) {
            weir_cuda_work_fill(rig->work, native, addr, bytes, native + i);
            weir_cuda_work_verify(rig->work, native, addr, bytes, native + i);
            hw_must(weir_cuda_pool_free(rig->pool, addr, stream), "an outsider's free");
            atomic_fetch_add(&rig->outside, 1);
        } else if (status != WEIR_NO_MEMORY && status != WEIR_WOULD_WAIT) {
            hw_must(status, "an outsider's allocation");
        }
        if (i % 4 == 0) {
            capture_catch_up(rig, event, native);
        }
        if (i % 64 == 0) {
            (void)weir_trim(weir_cuda_pool_core(rig->pool), 0, 1000, NULL);
        }
    }
    weir_cuda_ops(cuda)->event_destroy(cuda, event);
    return NULL;
}

static void capture_replay(capture_rig *rig, void *exec, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        if (rig->calls.launch(exec, (void *)(uintptr_t)rig->stream) != WEIR_CU_OK) {
            hw_result("a launch", false, "%u", i);
            return;
        }
        usleep(200);
    }
}

/* The domain is given back once the driver has let go of the graph. */
static bool capture_settled(capture_rig *rig)
{
    for (unsigned i = 0; i < 2000; i++) {
        weir_addr addr = 0;
        (void)weir_cuda_pool_settle(rig->pool);
        weir_status status = weir_cuda_pool_alloc(rig->pool, 120 * HW_MIB, NULL, &addr);
        if (status == WEIR_OK) {
            return weir_cuda_pool_free(rig->pool, addr, NULL) == WEIR_OK;
        }
        usleep(1000);
    }
    return false;
}

static void capture_mode(int mode, const char *name, bool quick)
{
    capture_rig rig = {.pool = NULL};
    pthread_t outsiders[CAPTURE_OUTSIDERS];
    void *exec = NULL;
    capture_open(&rig);
    for (unsigned i = 0; i < CAPTURE_OUTSIDERS; i++) {
        pthread_create(&outsiders[i], NULL, capture_outside, &rig);
    }
    usleep(20000);
    bool made = capture_record(&rig, mode, &exec);
    hw_result(name, made, "%s", made ? "" : "it was broken");
    if (made) {
        capture_replay(&rig, exec, quick ? 40 : 2000);
        weir_cuda_work_spin(rig.work, rig.stream, 20000);
        capture_replay(&rig, exec, 1);
        rig.calls.exec_destroy(exec);
        rig.driver.stream_sync((weir_cu_stream)(uintptr_t)rig.stream); /* outsiders go on */
    }
    usleep(10000);
    atomic_store(&rig.over, true);
    for (unsigned i = 0; i < CAPTURE_OUTSIDERS; i++) {
        pthread_join(outsiders[i], NULL);
    }
    uint64_t wrong = weir_cuda_work_errors(rig.work);
    hw_result("nobody else got the graph's memory, nor it theirs", wrong == 0,
              "%" PRIu64 " wrong words, %llu blocks outside", wrong,
              (unsigned long long)atomic_load(&rig.outside));
    hw_result("all memory comes back when the graph is gone", capture_settled(&rig), "");
    capture_close(&rig);
}

int main(int argc, char **argv)
{
    bool quick = hw_quick(argc, argv);
    capture_mode(WEIR_CU_MODE_GLOBAL, "a capture in global mode", quick);
    capture_mode(WEIR_CU_MODE_THREAD_LOCAL, "a capture in thread-local mode", quick);
    capture_mode(WEIR_CU_MODE_RELAXED, "a capture in relaxed mode", quick);
    return hw_end();
}
