/* SPDX-License-Identifier: MIT */
/*
 * Order: events, waits between streams, and quiet.
 *
 * Invariants  No event is recorded on, and no wait put into, a stream that is being captured: both
 *             would become part of the graph. WOULD_WAIT says so, and the pool passes it over.
 *             A thread's default stream can be named by that thread alone. What others ask of it is
 *             asked of the legacy stream, which comes after all of them.
 * Cost        One driver call of about 0.2 us, and four cheap ones around it.
 */
#define _GNU_SOURCE /* clock_gettime, nanosleep */
#include "cuda_internal.h"

#include <sched.h>
#include <time.h>

#define ORDER_LEGACY_UNIQUE (UINT64_C(1) << 62) /* no id of the driver's is as large */

/* ----------------------------------------------------------------------------------- streams -- */

/* Whether work on the stream would be captured now; of the legacy stream, whether naming it would
 * break a capture. */
static bool order_is_captured(weir_cuda *cuda, weir_cu_stream stream)
{
    int status = WEIR_CU_CAPTURE_NONE;
    weir_cu_result result = cuda->driver.stream_capturing(stream, &status);
    return result == WEIR_CU_CAPTURE_IMPLICIT || result == WEIR_CU_CAPTURE_INVALIDATED ||
           (result == WEIR_CU_OK && status != WEIR_CU_CAPTURE_NONE);
}

/* Asking for the id of a stream that is being captured would break the capture. */
static bool order_is_mine(weir_cuda *cuda, uint64_t native)
{
    unsigned long long id = 0;
    return cuda->driver.stream_id && !order_is_captured(cuda, WEIR_CU_STREAM_PER_THREAD) &&
           cuda->driver.stream_id(WEIR_CU_STREAM_PER_THREAD, &id) == WEIR_CU_OK &&
           id == native >> 2;
}

/* The handle by which this thread can name a stream. */
static weir_cu_stream order_stream(weir_cuda *cuda, uint64_t native)
{
    switch (native & WEIR_CUDA_KIND) {
    case WEIR_CUDA_LEGACY:
        return WEIR_CU_STREAM_LEGACY;
    case WEIR_CUDA_THREAD:
        return order_is_mine(cuda, native) ? WEIR_CU_STREAM_PER_THREAD : WEIR_CU_STREAM_LEGACY;
    case WEIR_CUDA_GATE:
        return cuda->carrier;
    default:
        return (weir_cu_stream)(uintptr_t)native;
    }
}

static bool order_is_shut(uint64_t native)
{
    if ((native & WEIR_CUDA_KIND) != WEIR_CUDA_GATE) {
        return false;
    }
    weir_cuda_gate *gate = (weir_cuda_gate *)(uintptr_t)(native - WEIR_CUDA_GATE);
    return !atomic_load(&gate->open);
}

/* An identity for drivers without cuStreamGetId: the handle itself, which they give again. */
static weir_cu_result order_unique(weir_cuda *cuda, weir_cu_stream stream, uint64_t *unique)
{
    unsigned long long id = (uintptr_t)stream;
    weir_cu_result result = WEIR_CU_OK;
    if (cuda->driver.stream_id) {
        result = cuda->driver.stream_id(stream, &id);
    } else if (stream == WEIR_CU_STREAM_PER_THREAD) {
        result = WEIR_CU_NOT_SUPPORTED;
    }
    *unique = id;
    return result;
}

/* The id of a stream of our context; INVALID for another one, or one that is captured. */
static weir_status order_identify(weir_cuda *cuda, weir_cu_stream stream, uint64_t *unique)
{
    weir_cu_context context = NULL;
    weir_cu_result result = cuda->driver.stream_context(stream, &context);
    if (result == WEIR_CU_OK && (context != cuda->context || order_is_captured(cuda, stream))) {
        return WEIR_INVALID;
    }
    if (result == WEIR_CU_OK) {
        result = order_unique(cuda, stream, unique);
    }
    return weir_cuda_answer(cuda, result);
}

/* A context has one legacy stream, and no capture of another stream allows to ask about it. */
static weir_status order_describe(weir_cuda *cuda, weir_cu_stream stream, weir_stream_desc *desc)
{
    uint64_t unique = ORDER_LEGACY_UNIQUE;
    if (stream != WEIR_CU_STREAM_LEGACY) {
        weir_status status = order_identify(cuda, stream, &unique);
        if (status != WEIR_OK) {
            return status;
        }
    }
    desc->size = sizeof(*desc);
    desc->unique = unique;
    desc->outlives = stream == WEIR_CU_STREAM_LEGACY;
    desc->native = stream == WEIR_CU_STREAM_PER_THREAD ? unique << 2 | WEIR_CUDA_THREAD
                                                       : (uint64_t)(uintptr_t)stream;
    return WEIR_OK;
}

weir_status weir_cuda_stream(weir_cuda *cuda, void *stream, weir_stream_desc *desc)
{
    weir_cuda_scope scope;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    weir_status status = order_describe(cuda, stream ? stream : WEIR_CU_STREAM_LEGACY, desc);
    weir_cuda_leave(cuda, &scope);
    return status;
}

/* ------------------------------------------------------------------------------------ events -- */

weir_status weir_cuda_op_event_create(void *self, weir_event *event)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_event made = NULL;
    weir_cu_result result;
    WEIR_CUDA_CALL(cuda, result, event_create(&made, WEIR_CU_EVENT_NO_TIMING));
    if (result == WEIR_CU_OK) {
        atomic_fetch_add(&cuda->events, 1);
        *event = (weir_event)(uintptr_t)made;
    }
    return weir_cuda_answer(cuda, result);
}

void weir_cuda_op_event_destroy(void *self, weir_event event)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_result result;
    WEIR_CUDA_CALL(cuda, result, event_destroy((weir_cu_event)(uintptr_t)event));
    if (result == WEIR_CU_OK) {
        atomic_fetch_sub(&cuda->events, 1);
    }
    (void)weir_cuda_answer(cuda, result);
}

/* Behind all work of the context, for a stream that ended without a word; during a capture behind all
 * blocking streams, which is the most that a capture survives. */
static weir_cu_result order_record_all(weir_cuda *cuda, weir_cu_event event)
{
    if (cuda->driver.context_record && atomic_load(&cuda->captures) == 0) {
        return cuda->driver.context_record(cuda->context, event);
    }
    return cuda->driver.event_record(event, WEIR_CU_STREAM_LEGACY);
}

weir_status weir_cuda_op_event_record(void *self, weir_event event, uint64_t stream)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_scope scope;
    if (order_is_shut(stream)) {
        return WEIR_WOULD_WAIT;
    }
    weir_cu_result result = weir_cuda_enter_plain(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    weir_cu_stream named = order_stream(cuda, stream);
    bool captured = order_is_captured(cuda, named);
    if (!captured) {
        result = cuda->driver.event_record((weir_cu_event)(uintptr_t)event, named);
    }
    if (result == WEIR_CU_INVALID_HANDLE) {
        result = order_record_all(cuda, (weir_cu_event)(uintptr_t)event);
    }
    weir_cuda_leave(cuda, &scope);
    return captured ? WEIR_WOULD_WAIT : weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_event_query(void *self, weir_event event, bool *passed)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_result result;
    WEIR_CUDA_CALL(cuda, result, event_query((weir_cu_event)(uintptr_t)event));
    if (result == WEIR_CU_OK || result == WEIR_CU_NOT_READY) {
        *passed = result == WEIR_CU_OK;
        return WEIR_OK;
    }
    return weir_cuda_answer(cuda, result);
}

/* Another thread's default stream can't be made to wait. */
weir_status weir_cuda_op_stream_wait(void *self, uint64_t stream, weir_event event)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_scope scope;
    if (order_is_shut(stream)) {
        return WEIR_WOULD_WAIT;
    }
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    weir_cu_stream named = order_stream(cuda, stream);
    bool away = order_is_captured(cuda, named) ||
                ((stream & WEIR_CUDA_KIND) == WEIR_CUDA_THREAD && named == WEIR_CU_STREAM_LEGACY);
    if (!away) {
        result = cuda->driver.stream_wait(named, (weir_cu_event)(uintptr_t)event, 0);
    }
    weir_cuda_leave(cuda, &scope);
    return away ? WEIR_WOULD_WAIT : weir_cuda_answer(cuda, result);
}

/* ------------------------------------------------------------------------------------ waits -- */

#define ORDER_SPINS 64u            /* looks before the thread sleeps between them, */
#define ORDER_NAP_NS (20u * 1000u) /* this long */

static uint64_t order_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Looks until the event passes or the time is over. The context is current. */
static weir_cu_result order_poll(weir_cuda *cuda, weir_cu_event event, uint64_t wait_us)
{
    const struct timespec nap = {0, ORDER_NAP_NS};
    uint64_t start = order_now_us();
    weir_cu_result result = cuda->driver.event_query(event);
    for (unsigned i = 0; result == WEIR_CU_NOT_READY; i++) {
        if (wait_us != WEIR_FOREVER && order_now_us() - start >= wait_us) {
            break;
        }
        if (i < ORDER_SPINS) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
        }
        result = cuda->driver.event_query(event);
    }
    return result;
}

/* By looking, not by cuEventSynchronize: that would be a synchronisation at which the driver may
 * trim pools, and it has no bound. */
weir_status weir_cuda_op_event_wait(void *self, weir_event event, uint64_t wait_us, bool *passed)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_scope scope;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    result = order_poll(cuda, (weir_cu_event)(uintptr_t)event, wait_us);
    weir_cuda_leave(cuda, &scope);
    if (result == WEIR_CU_OK || result == WEIR_CU_NOT_READY) {
        *passed = result == WEIR_CU_OK;
        return WEIR_OK;
    }
    return weir_cuda_answer(cuda, result);
}

/* ------------------------------------------------------------------------------------ rescue -- */

/* The context is current. */
static weir_cu_result order_quiet(weir_cuda *cuda, uint64_t wait_us)
{
    weir_driver *driver = &cuda->driver;
    if (driver->context_record &&
        driver->context_record(cuda->context, cuda->carried) == WEIR_CU_OK) {
        return order_poll(cuda, cuda->carried, wait_us);
    }
    return wait_us == WEIR_FOREVER ? driver->context_sync() : WEIR_CU_NOT_SUPPORTED;
}

/* Nobody else queues work: that was promised (one_launcher). During a capture there is no way to
 * ask for quiet that the capture survives. */
weir_status weir_cuda_op_quiesce(void *self, uint64_t wait_us)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_scope scope;
    if (!cuda->config.one_launcher || atomic_load(&cuda->captures) > 0) {
        return WEIR_UNSUPPORTED;
    }
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    pthread_mutex_lock(&cuda->lock);
    result = order_quiet(cuda, wait_us);
    pthread_mutex_unlock(&cuda->lock);
    weir_cuda_leave(cuda, &scope);
    return result == WEIR_CU_NOT_READY ? WEIR_WOULD_WAIT : weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_copy(void *self, weir_addr to, weir_addr from, uint64_t bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_result result;
    WEIR_CUDA_CALL(cuda, result, copy_async(to, from, bytes, cuda->carrier));
    if (result == WEIR_CU_OK) {
        WEIR_CUDA_CALL(cuda, result, stream_sync(cuda->carrier));
    }
    return weir_cuda_answer(cuda, result);
}

/* What could start meanwhile was held back by its launcher, not by us. */
weir_status weir_cuda_op_resume(void *self)
{
    (void)self;
    return WEIR_OK;
}
