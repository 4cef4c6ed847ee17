/* SPDX-License-Identifier: MIT */
/* The stand-in alone: streams, events and contexts. */
#include "rig.h"

static weir_cu_event fakeord_event(const cuda_rig *rig)
{
    weir_cu_event event = NULL;
    RUN(rig->driver.event_create(&event, WEIR_CU_EVENT_NO_TIMING));
    return event;
}

static unsigned long long fakeord_id(const cuda_rig *rig, weir_cu_stream stream)
{
    unsigned long long id = 0;
    RUN(rig->driver.stream_id(stream, &id));
    return id;
}

static uint64_t fakeord_breaches(void)
{
    uint64_t breaches = weir_fakecuda_breaches();
    weir_fakecuda_forgive();
    return breaches;
}

Test(fake_order, an_event_passes_with_the_work_before_it)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_event event = fakeord_event(&rig);
    RUN(rig.driver.event_query(event)); /* never recorded */
    RUN(weir_fakecuda_hold(stream));
    RUN(rig.driver.event_record(event, stream));
    cr_expect_eq(rig.driver.event_query(event), WEIR_CU_NOT_READY);
    weir_fakecuda_go();
    RUN(rig.driver.event_sync(event));
    RUN(rig.driver.event_query(event));
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(fake_order, a_handle_comes_back_and_an_id_never)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_stream first = rig_stream(&rig);
    unsigned long long id = fakeord_id(&rig, first);
    RUN(rig.driver.stream_destroy(first));
    unsigned long long none = 0;
    cr_expect_eq(rig.driver.stream_id(first, &none), WEIR_CU_INVALID_HANDLE);
    cr_expect_eq(fakeord_breaches(), 1, "use of a destroyed stream");
    weir_cu_stream second = rig_stream(&rig);
    cr_expect_eq(second, first);
    cr_expect_neq(fakeord_id(&rig, second), id);
    RUN(rig.driver.stream_destroy(second));
    rig_close(&rig);
}

Test(fake_order, a_destroyed_stream_finishes_its_work)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_event event = fakeord_event(&rig);
    RUN(weir_fakecuda_hold(stream));
    RUN(rig.driver.event_record(event, stream));
    RUN(rig.driver.stream_destroy(stream));
    weir_cu_stream next = rig_stream(&rig);
    cr_expect_eq(next, stream);
    RUN(rig.driver.stream_sync(next)); /* it has no work of the one before */
    cr_expect_eq(rig.driver.event_query(event), WEIR_CU_NOT_READY);
    weir_fakecuda_go();
    RUN(rig.driver.event_sync(event));
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(next));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------ default streams -- */

/* An event on the legacy stream covers blocking streams, and they wait for it; others don't. */
Test(fake_order, the_legacy_stream_goes_with_all_blocking_ones)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_stream blocking = rig_stream_blocking(&rig);
    weir_cu_stream apart = rig_stream(&rig);
    weir_cu_event event = fakeord_event(&rig);
    RUN(weir_fakecuda_hold(blocking));
    RUN(rig.driver.event_record(event, NULL));
    cr_expect_eq(rig.driver.event_query(event), WEIR_CU_NOT_READY);
    weir_fakecuda_go();
    RUN(rig.driver.event_sync(event));
    RUN(weir_fakecuda_hold(WEIR_CU_STREAM_LEGACY));
    RUN(rig.driver.event_record(event, blocking));
    cr_expect_eq(rig.driver.event_query(event), WEIR_CU_NOT_READY);
    RUN(rig.driver.event_record(event, apart));
    RUN(rig.driver.event_sync(event));
    RUN(weir_fakecuda_hold(apart));
    RUN(rig.driver.event_record(event, apart));
    weir_fakecuda_go();
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(blocking));
    RUN(rig.driver.stream_destroy(apart));
    rig_close(&rig);
}

typedef struct fakeord_other {
    const cuda_rig *rig;
    weir_cu_event event;
    unsigned long long id;
} fakeord_other;

static void *fakeord_hold_own(void *self)
{
    fakeord_other *other = (fakeord_other *)self;
    const weir_driver *driver = &other->rig->driver;
    weir_cu_context popped = NULL;
    RUN(driver->context_push(other->rig->context));
    other->id = fakeord_id(other->rig, WEIR_CU_STREAM_PER_THREAD);
    cr_expect_eq(fakeord_id(other->rig, WEIR_CU_STREAM_PER_THREAD), other->id);
    RUN(weir_fakecuda_hold(WEIR_CU_STREAM_PER_THREAD));
    RUN(driver->context_pop(&popped));
    return NULL;
}

Test(fake_order, every_thread_has_a_default_stream_of_its_own)
{
    cuda_rig rig = rig_open(NULL);
    fakeord_other other = {&rig, fakeord_event(&rig), 0};
    rig_on_thread(fakeord_hold_own, &other); /* its work goes on without it */
    cr_expect_neq(fakeord_id(&rig, WEIR_CU_STREAM_PER_THREAD), other.id);
    cr_expect_neq(fakeord_id(&rig, WEIR_CU_STREAM_LEGACY), other.id);
    RUN(rig.driver.event_record(other.event, WEIR_CU_STREAM_PER_THREAD));
    RUN(rig.driver.event_sync(other.event));
    RUN(rig.driver.event_record(other.event, WEIR_CU_STREAM_LEGACY));
    cr_expect_eq(rig.driver.event_query(other.event), WEIR_CU_NOT_READY);
    weir_fakecuda_go();
    RUN(rig.driver.event_sync(other.event));
    RUN(rig.driver.event_destroy(other.event));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------------- contexts -- */

Test(fake_order, a_thread_without_a_context_can_do_little)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context context = NULL;
    weir_cu_event event = NULL;
    uint64_t addr = 0;
    RUN(rig.driver.context_pop(&context));
    cr_expect_eq(rig.driver.event_create(&event, 0), WEIR_CU_INVALID_CONTEXT);
    cr_expect_eq(rig.driver.alloc(&addr, 1), WEIR_CU_INVALID_CONTEXT);
    cr_expect_eq(rig.driver.context_sync(), WEIR_CU_INVALID_CONTEXT);
    cr_expect_eq(fakeord_breaches(), 3);
    RUN(rig.driver.context_push(context));
    rig_close(&rig);
}

Test(fake_order, an_event_and_its_stream_are_of_one_context)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context second = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    RUN(cuCtxCreate_v2(&second, 0, 1));
    weir_cu_event event = fakeord_event(&rig);
    cr_expect_eq(rig.driver.event_record(event, stream), WEIR_CU_INVALID_HANDLE);
    cr_expect_eq(fakeord_breaches(), 1);
    RUN(rig.driver.event_record(event, NULL)); /* the second context's legacy stream */
    RUN(rig.driver.stream_wait(stream, event, 0));
    RUN(rig.driver.event_destroy(event));
    weir_cu_context of = NULL;
    RUN(rig.driver.stream_context(stream, &of));
    cr_expect_eq(of, rig.context);
    RUN(rig.driver.stream_context(NULL, &of));
    cr_expect_eq(of, second);
    RUN(cuCtxDestroy_v2(second));
    RUN(rig.driver.stream_destroy(stream));
    rig_close(&rig);
}

Test(fake_order, an_event_of_a_context_covers_its_streams_alone)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_context second = NULL;
    weir_cu_stream stream = rig_stream(&rig);
    weir_cu_event event = fakeord_event(&rig);
    RUN(cuCtxCreate_v2(&second, 0, 0));
    RUN(weir_fakecuda_hold(NULL));
    RUN(rig.driver.context_record(rig.context, event));
    RUN(rig.driver.event_sync(event));
    RUN(cuCtxSetCurrent(rig.context));
    RUN(weir_fakecuda_hold(stream));
    RUN(rig.driver.context_record(rig.context, event));
    cr_expect_eq(rig.driver.event_query(event), WEIR_CU_NOT_READY);
    weir_fakecuda_go();
    RUN(rig.driver.context_sync());
    RUN(rig.driver.event_query(event));
    RUN(rig.driver.event_destroy(event));
    RUN(rig.driver.stream_destroy(stream));
    RUN(cuCtxDestroy_v2(second));
    weir_cu_context popped = NULL;
    RUN(rig.driver.context_pop(&popped));
    rig_close(&rig);
}

/* ------------------------------------------------------------------------------------- control -- */

Test(fake_order, a_call_fails_when_it_was_asked_to)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_event event = NULL;
    weir_fakecuda_fail("cuEventCreate", 2, WEIR_CU_OUT_OF_MEMORY, false);
    uint64_t calls = weir_fakecuda_calls("cuEventCreate");
    RUN(rig.driver.event_create(&event, 0));
    RUN(rig.driver.event_destroy(event));
    cr_expect_eq(rig.driver.event_create(&event, 0), WEIR_CU_OUT_OF_MEMORY);
    RUN(rig.driver.event_create(&event, 0));
    RUN(rig.driver.event_destroy(event));
    cr_expect_eq(weir_fakecuda_calls("cuEventCreate") - calls, 3);
    cr_expect(weir_fakecuda_failed());
    weir_fakecuda_fail(NULL, 1, WEIR_CU_LAUNCH_FAILED, true);
    cr_expect_eq(rig.driver.context_sync(), WEIR_CU_LAUNCH_FAILED);
    cr_expect_eq(rig.driver.event_create(&event, 0), WEIR_CU_LAUNCH_FAILED);
    const char *name = NULL;
    RUN(rig.driver.error_name(WEIR_CU_OUT_OF_MEMORY, &name));
    cr_expect_str_eq(name, "CUDA_ERROR_OUT_OF_MEMORY");
    cr_expect(weir_fakecuda_failed());
    cr_expect_not(weir_fakecuda_failed());
    rig_close(&rig);
}

Test(fake_order, a_lost_device_answers_for_itself_alone)
{
    cuda_rig rig = rig_open(NULL);
    weir_cu_event event = NULL;
    weir_cu_context second = NULL;
    weir_fakecuda_lose(0, WEIR_CU_ILLEGAL_ADDRESS);
    cr_expect_eq(rig.driver.event_create(&event, 0), WEIR_CU_ILLEGAL_ADDRESS);
    RUN(rig.driver.context_get(&second));
    RUN(rig.driver.primary_retain(&second, 1));
    RUN(rig.driver.context_push(second));
    RUN(rig.driver.event_create(&event, 0));
    weir_fakecuda_end();
    cr_expect_eq(rig.driver.event_destroy(event), WEIR_CU_DEINITIALIZED);
    cr_expect_eq(rig.driver.context_pop(&second), WEIR_CU_DEINITIALIZED);
    cr_expect_null(weir_fakecuda_breach());
}

Test(fake_order, a_look_up_is_answered_by_version)
{
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.driver_version = 12020});
    cr_expect_null(rig.driver.context_record, "came with 12.5");
    cr_expect_not_null(rig.driver.stream_id);
    cr_expect_not_null(rig.driver.stream_capture);
    rig_close(&rig);
}
