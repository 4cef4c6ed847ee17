/* SPDX-License-Identifier: MIT */
/* The stand-in alone: captures and graphs, by what was measured and what the driver documents. */
#include "rig.h"

#include <stdatomic.h>
#include <string.h>

static uint64_t fakecapt_breaches(void)
{
    uint64_t breaches = weir_fakecuda_breaches();
    weir_fakecuda_forgive();
    return breaches;
}

static int fakecapt_status(const cuda_rig *rig, weir_cu_stream stream)
{
    int status = -1;
    RUN(rig->driver.stream_capturing(stream, &status));
    return status;
}

static weir_cu_event fakecapt_event(const cuda_rig *rig)
{
    weir_cu_event event = NULL;
    RUN(rig->driver.event_create(&event, WEIR_CU_EVENT_NO_TIMING));
    return event;
}

/* What virtual memory needs, and an event on another stream, in every mode. */
static void fakecapt_allowed(const cuda_rig *rig, weir_cu_stream other, weir_cu_event event)
{
    const weir_driver *driver = &rig->driver;
    const weir_cu_handle_prop prop = {.type = WEIR_CU_ALLOCATION_PINNED,
                                      .location = {WEIR_CU_LOCATION_DEVICE, 0}};
    const weir_cu_access access = {{WEIR_CU_LOCATION_DEVICE, 0}, WEIR_CU_ACCESS_READWRITE};
    uint64_t range = 0;
    uint64_t handle = 0;
    size_t unread = 0;
    RUN(driver->va_reserve(&range, 2 * MIB, 0, 0, 0));
    RUN(driver->handle_create(&handle, 2 * MIB, &prop, 0));
    RUN(driver->map(range, 2 * MIB, 0, handle, 0));
    RUN(driver->set_access(range, 2 * MIB, &access, 1));
    RUN(driver->unmap(range, 2 * MIB));
    RUN(driver->handle_release(handle));
    RUN(driver->va_free(range, 2 * MIB));
    RUN(driver->memory_info(&unread, &unread));
    RUN(driver->event_record(event, other));
}

Test(fake_capture, virtual_memory_and_records_elsewhere_are_allowed_in_every_mode)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream other = rig_stream(&rig);
    weir_cu_event event = fakecapt_event(&rig);
    for (int mode = WEIR_CU_MODE_GLOBAL; mode <= WEIR_CU_MODE_RELAXED; mode++) {
        rig_capture_begin(stream, mode);
        fakecapt_allowed(&rig, other, event);
        cr_expect_eq(fakecapt_status(&rig, stream), WEIR_CU_CAPTURE_ACTIVE);
        RUN(cuGraphDestroy(rig_capture_end(stream)));
    }
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(other));
    rig_close(&rig);
}

Test(fake_capture, an_unsafe_call_breaks_a_capture_that_is_not_relaxed)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t addr = 0;
    weir_cu_graph graph = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_event event = fakecapt_event(&rig);
    for (int mode = WEIR_CU_MODE_GLOBAL; mode < WEIR_CU_MODE_RELAXED; mode++) {
        rig_capture_begin(stream, mode);
        cr_expect_eq(rig.driver.event_query(event), WEIR_CU_CAPTURE_UNSUPPORTED);
        cr_expect_eq(rig.driver.alloc(&addr, 1), WEIR_CU_CAPTURE_UNSUPPORTED);
        cr_expect_eq(fakecapt_breaches(), 1, "it breaks once");
        cr_expect_eq(fakecapt_status(&rig, stream), WEIR_CU_CAPTURE_BROKEN);
        cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
        cr_expect_null(graph);
        cr_expect_eq(fakecapt_status(&rig, stream), WEIR_CU_CAPTURE_NONE);
    }
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    RUN(rig.driver.alloc(&addr, 1));
    RUN(rig.driver.free(addr));
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

typedef struct fakecapt_other {
    const cuda_rig *rig;
    int mode;
    weir_cu_result expected;
} fakecapt_other;

static void *fakecapt_alloc(void *self)
{
    const fakecapt_other *other = (const fakecapt_other *)self;
    const weir_driver *driver = &other->rig->driver;
    weir_cu_context popped = NULL;
    uint64_t addr = 0;
    int mode = other->mode;
    RUN(driver->context_push(other->rig->context));
    RUN(driver->capture_mode(&mode));
    weir_cu_result result = driver->alloc(&addr, 1);
    cr_expect_eq(result, other->expected);
    if (result == WEIR_CU_OK) {
        RUN(driver->free(addr));
    }
    RUN(driver->context_pop(&popped));
    return NULL;
}

Test(fake_capture, a_global_capture_restricts_threads_whose_mode_is_global)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_graph graph = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    fakecapt_other free_thread = {&rig, WEIR_CU_MODE_THREAD_LOCAL, WEIR_CU_OK};
    fakecapt_other bound_thread = {&rig, WEIR_CU_MODE_GLOBAL, WEIR_CU_OK};
    rig_capture_begin(stream, WEIR_CU_MODE_THREAD_LOCAL);
    rig_on_thread(fakecapt_alloc, &bound_thread);
    RUN(cuGraphDestroy(rig_capture_end(stream)));
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    rig_on_thread(fakecapt_alloc, &free_thread);
    cr_expect_eq(fakecapt_status(&rig, stream), WEIR_CU_CAPTURE_ACTIVE);
    bound_thread.expected = WEIR_CU_CAPTURE_UNSUPPORTED;
    rig_on_thread(fakecapt_alloc, &bound_thread);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    cr_expect_eq(fakecapt_breaches(), 1);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(fake_capture, nothing_crosses_into_a_capture_or_out_of_it)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_graph graph = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_stream outside = rig_stream(&rig);
    weir_cu_event event = fakecapt_event(&rig);
    int mode = WEIR_CU_MODE_RELAXED;
    RUN(rig.driver.capture_mode(&mode));
    RUN(rig.driver.event_record(event, outside));
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    cr_expect_eq(rig.driver.stream_wait(stream, event, 0), WEIR_CU_CAPTURE_ISOLATION);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    RUN(rig.driver.event_record(event, stream));
    cr_expect_eq(rig.driver.event_query(event), WEIR_CU_CAPTURED_EVENT);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    cr_expect_eq(rig.driver.stream_wait(outside, event, 0), WEIR_CU_CAPTURED_EVENT);
    cr_expect_eq(fakecapt_breaches(), 2);
    RUN(rig.driver.capture_mode(&mode));
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(stream));
    RUN(rig.driver.stream_destroy(outside));
    rig_close(&rig);
}

Test(fake_capture, the_legacy_stream_is_shut_while_a_blocking_stream_is_captured)
{
    cuda_rig rig = rig_open(NULL);
    int status = 0;
    weir_cu_graph graph = NULL;
    weir_cu_stream stream = rig_stream_blocking(&rig);
    weir_cu_event event = fakecapt_event(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    cr_expect_eq(rig.driver.stream_capturing(NULL, &status), WEIR_CU_CAPTURE_IMPLICIT);
    cr_expect_eq(fakecapt_status(&rig, stream), WEIR_CU_CAPTURE_ACTIVE, "a look breaks nothing");
    cr_expect_eq(rig.driver.event_record(event, NULL), WEIR_CU_CAPTURE_IMPLICIT);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    cr_expect_eq(fakecapt_breaches(), 1);
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    cr_expect_eq(rig.driver.context_record(rig.context, event), WEIR_CU_CAPTURE_UNSUPPORTED);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    cr_expect_eq(fakecapt_breaches(), 1);
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(fake_capture, a_stream_that_is_captured_does_not_say_who_it_is)
{
    cuda_rig rig = rig_open(NULL);
    unsigned long long id = 0;
    weir_cu_graph graph = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_RELAXED);
    cr_expect_eq(rig.driver.stream_id(stream, &id), WEIR_CU_CAPTURE_UNSUPPORTED);
    cr_expect_eq(cuStreamEndCapture(stream, &graph), WEIR_CU_CAPTURE_INVALIDATED);
    cr_expect_eq(fakecapt_breaches(), 1);
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

/* -------------------------------------------------------------------------------------- graphs -- */

static unsigned fakecapt_word(const cuda_rig *rig, uint64_t addr)
{
    unsigned word = 0;
    RUN(rig->driver.copy_to_host(&word, addr, sizeof(word)));
    return word;
}

/* Two streams, forked and joined by events, and copies that show in which order it ran. */
Test(fake_capture, a_graph_runs_what_was_captured_whenever_it_is_launched)
{
    cuda_rig rig = rig_open(NULL);
    const weir_driver *driver = &rig.driver;
    uint64_t addr = 0;
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    weir_cu_event event = fakecapt_event(&rig);
    RUN(driver->alloc(&addr, 12));
    RUN(driver->set_words(addr, 1, 3));
    RUN(driver->context_sync());
    rig_capture_begin(a, WEIR_CU_MODE_GLOBAL);
    RUN(driver->copy_async(addr + 4, addr, 4, a));
    RUN(driver->event_record(event, a));
    RUN(driver->stream_wait(b, event, 0));
    cr_expect_eq(fakecapt_status(&rig, b), WEIR_CU_CAPTURE_ACTIVE);
    RUN(driver->copy_async(addr + 8, addr + 4, 4, b));
    RUN(driver->event_record(event, b));
    RUN(driver->stream_wait(a, event, 0));
    void *exec = rig_instantiate(rig_capture_end(a));
    RUN(driver->set_words(addr, 5, 1));
    RUN(driver->context_sync());
    cr_expect_eq(fakecapt_word(&rig, addr + 8), 1, "a capture runs nothing");
    RUN(cuGraphLaunch(exec, b));
    RUN(driver->stream_sync(b));
    cr_expect_eq(fakecapt_word(&rig, addr + 8), 5);
    RUN(cuGraphExecDestroy(exec));
    const char *left = weir_fakecuda_balance();
    cr_expect_not_null(strstr(left, " 1 graphs, 0 executable graphs"), "%s", left);
}

Test(fake_capture, a_stream_that_is_not_joined_again_fails_the_capture)
{
    cuda_rig rig = rig_open(NULL);
    uint64_t addr = 0;
    weir_cu_graph graph = NULL;
    weir_cu_stream a = rig_stream(&rig);
    weir_cu_stream b = rig_stream(&rig);
    weir_cu_event event = fakecapt_event(&rig);
    RUN(rig.driver.alloc(&addr, 8));
    rig_capture_begin(a, WEIR_CU_MODE_GLOBAL);
    RUN(rig.driver.event_record(event, a));
    RUN(rig.driver.stream_wait(b, event, 0));
    RUN(rig.driver.copy_async(addr, addr + 4, 4, b));
    cr_expect_eq(cuStreamEndCapture(b, &graph), 903, "not the stream that began it");
    cr_expect_eq(cuStreamEndCapture(a, &graph), 904);
    cr_expect_eq(fakecapt_status(&rig, b), WEIR_CU_CAPTURE_NONE);
    RUN(rig.driver.free(addr));
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(a));
    RUN(rig.driver.stream_destroy(b));
    rig_close(&rig);
}

static void fakecapt_count(void *self)
{
    atomic_fetch_add((atomic_int *)self, 1);
}

Test(fake_capture, a_user_object_ends_with_the_last_graph_and_launch)
{
    cuda_rig rig = rig_open(NULL);
    const weir_driver *driver = &rig.driver;
    atomic_int ended = 0;
    int status = 0;
    uint64_t id = 0;
    weir_cu_object object = NULL;
    weir_cu_graph graph = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    rig_capture_begin(stream, WEIR_CU_MODE_GLOBAL);
    RUN(driver->stream_capture(stream, &status, &id, &graph, NULL, NULL));
    cr_expect_eq(status, WEIR_CU_CAPTURE_ACTIVE);
    cr_expect_neq(id, 0);
    RUN(driver->object_create(&object, &ended, fakecapt_count, 1, WEIR_CU_OBJECT_NO_SYNC));
    RUN(driver->graph_retain(graph, object, 1, WEIR_CU_GRAPH_MOVE_OBJECT));
    cr_expect_eq(rig_capture_end(stream), graph);
    void *exec = rig_instantiate(graph);
    RUN(cuGraphDestroy(graph));
    RUN(weir_fakecuda_hold(stream));
    RUN(cuGraphLaunch(exec, stream));
    RUN(cuGraphExecDestroy(exec));
    cr_expect_eq(atomic_load(&ended), 0, "a launch still runs");
    weir_fakecuda_go();
    RUN(driver->stream_sync(stream));
    weir_fakecuda_settle();
    cr_expect_eq(atomic_load(&ended), 1);
    RUN(driver->stream_destroy(stream));
    rig_close(&rig);
}

static const weir_driver *fakecapt_driver;

static void fakecapt_call(void *self)
{
    (void)self;
    (void)fakecapt_driver->context_sync();
}

Test(fake_capture, a_destructor_may_not_call_the_driver)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_object object = NULL;
    fakecapt_driver = &rig.driver;
    RUN(rig.driver.object_create(&object, NULL, fakecapt_call, 1, WEIR_CU_OBJECT_NO_SYNC));
    RUN(rig.driver.object_release(object, 1));
    weir_fakecuda_settle();
    cr_expect_eq(fakecapt_breaches(), 1);
    rig_close(&rig);
}
