/* SPDX-License-Identifier: MIT */
/*
 * Events, on those of the host device.
 *
 * As documented: an event and the stream it is recorded on are of one context; a query asks for no
 * matching one. An event that was never recorded has passed. Recorded in a capture it stands for a
 * place in the graph, and only streams of that capture may wait for it.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

static fake_event *fakeevent_find(fake_call *call, const void *handle)
{
    fake_event *event = (fake_event *)weir_fake_find(call->state, FAKE_IS_EVENT, handle);
    if (!event || !event->context->alive) {
        weir_fake_breach(call->state, "%s of an event that does not exist",
                         weir_fake_name(call->name));
        return NULL;
    }
    return event;
}

/* ------------------------------------------------------------------------------ making, ending -- */

static weir_cu_result fakeevent_create(fake_call *call, weir_cu_event *handle)
{
    fake_state *state = call->state;
    fake_event *event = weir_fake_new(sizeof(*event));
    if (state->ops->event_create(state->host, &event->host) != WEIR_OK) {
        abort();
    }
    event->context = call->context;
    event->handle = weir_fake_add(state, FAKE_IS_EVENT, event);
    *handle = FAKE_HANDLE(event->handle);
    return WEIR_CU_OK;
}

static weir_cu_result fakeevent_destroy(fake_call *call, const void *handle)
{
    fake_event *event = fakeevent_find(call, handle);
    if (!event) {
        return WEIR_CU_INVALID_HANDLE;
    }
    call->state->ops->event_destroy(call->state->host, event->host);
    weir_fake_drop(call->state, FAKE_IS_EVENT, event->handle);
    free(event);
    return WEIR_CU_OK;
}

/* -------------------------------------------------------------------------------------- record -- */

static weir_cu_result fakeevent_record(fake_call *call, const void *handle, const void *name)
{
    fake_state *state = call->state;
    fake_event *event = fakeevent_find(call, handle);
    fake_stream *stream = weir_fake_stream(call, name);
    if (!event || !stream) {
        return WEIR_CU_INVALID_HANDLE;
    }
    if (event->context != stream->context) {
        weir_fake_breach(state, "an event is recorded on a stream of another context");
        return WEIR_CU_INVALID_HANDLE;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    if (result != WEIR_CU_OK) {
        return result;
    }
    event->recorded = !stream->capture;
    event->captured = stream->capture ? stream->capture->id : 0;
    memcpy(event->clock, stream->clock, sizeof(event->clock));
    if (event->recorded) {
        weir_fake_order(state, stream);
        state->ops->event_record(state->host, event->host, stream->number);
        event->number = stream->legacy ? 0 : stream->number;
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakeevent_record_context(fake_call *call, const void *of, const void *handle)
{
    fake_state *state = call->state;
    fake_context *context = weir_fake_context(state, of);
    fake_event *event = fakeevent_find(call, handle);
    if (!context || !event || event->context != context) {
        weir_fake_breach(state, "cuCtxRecordEvent of no context, or of another's event");
        return WEIR_CU_INVALID_HANDLE;
    }
    if (weir_fake_capture_break_all(state, context, "cuCtxRecordEvent")) {
        return WEIR_CU_CAPTURE_UNSUPPORTED;
    }
    event->recorded = true;
    event->captured = 0;
    event->number = 0;
    state->ops->event_record(state->host, event->host, weir_fake_gather(state, context));
    return WEIR_CU_OK;
}

/* --------------------------------------------------------------------------------------- query -- */

/* 907 where the event stands for a place in a graph; a running capture is broken by it. */
static weir_cu_result fakeevent_check(fake_call *call, const fake_event *event)
{
    if (event->captured == 0) {
        return call->state->devices[event->context->device].lost;
    }
    fake_capture *capture = weir_fake_capture_find(call->state, event->captured);
    if (capture) {
        weir_fake_capture_break(call->state, capture, weir_fake_name(call->name));
    }
    return WEIR_CU_CAPTURED_EVENT;
}

static weir_cu_result fakeevent_query(fake_call *call, const void *handle)
{
    const fake_event *event = fakeevent_find(call, handle);
    bool passed = true;
    if (!event) {
        return WEIR_CU_INVALID_HANDLE;
    }
    weir_cu_result result = fakeevent_check(call, event);
    if (result == WEIR_CU_OK && event->recorded) {
        call->state->ops->event_query(call->state->host, event->host, &passed);
        result = passed ? WEIR_CU_OK : WEIR_CU_NOT_READY;
    }
    return result;
}

static weir_cu_result fakeevent_sync(fake_call *call, const void *handle)
{
    fake_state *state = call->state;
    const fake_event *event = fakeevent_find(call, handle);
    bool passed = true;
    if (!event) {
        return WEIR_CU_INVALID_HANDLE;
    }
    weir_cu_result result = fakeevent_check(call, event);
    if (result == WEIR_CU_OK && event->recorded) {
        weir_event host = event->host;
        uint64_t number = event->number;
        int device = event->context->device;
        weir_fake_unlock(state);
        state->ops->event_wait(state->host, host, WEIR_FOREVER, &passed);
        (void)weir_fake_lock();
        weir_fake_pools_sync(state, device, number);
        result = state->devices[device].lost;
    }
    return result;
}

/* ---------------------------------------------------------------------------------------- wait -- */

static void fakeevent_merge(fake_stream *stream, const fake_event *event)
{
    for (unsigned i = 0; i < FAKE_MEMBERS_MAX; i++) {
        if (stream->clock[i] < event->clock[i]) {
            stream->clock[i] = event->clock[i];
        }
    }
}

/* A stream waits for a place in a graph, and is captured into it from then on. */
static weir_cu_result fakeevent_wait_captured(fake_call *call, fake_stream *stream,
                                              const fake_event *event)
{
    fake_state *state = call->state;
    fake_capture *capture = weir_fake_capture_find(state, event->captured);
    if (!capture || capture->broken) {
        return WEIR_CU_CAPTURED_EVENT;
    }
    if (stream->capture && stream->capture != capture) {
        weir_fake_capture_break(state, capture, "a wait that joins two captures");
        weir_fake_capture_break(state, stream->capture, "a wait that joins two captures");
        return FAKE_CAPTURE_MERGE;
    }
    if (stream->legacy) {
        weir_fake_capture_break(state, capture, "a wait of the legacy stream");
        return WEIR_CU_CAPTURE_IMPLICIT;
    }
    if (!stream->capture) {
        weir_fake_capture_join(capture, stream);
    }
    fakeevent_merge(stream, event);
    return WEIR_CU_OK;
}

static weir_cu_result fakeevent_wait(fake_call *call, const void *name, const void *handle,
                                     unsigned flags)
{
    fake_state *state = call->state;
    fake_stream *stream = weir_fake_stream(call, name);
    fake_event *event = fakeevent_find(call, handle);
    if (!stream || !event || flags != 0) {
        return WEIR_CU_INVALID_HANDLE;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    if (result != WEIR_CU_OK) {
        return result;
    }
    if (event->captured != 0) {
        return fakeevent_wait_captured(call, stream, event);
    }
    if (stream->capture) {
        weir_fake_capture_break(state, stream->capture, "a wait for an event from outside");
        return WEIR_CU_CAPTURE_ISOLATION;
    }
    if (event->recorded) {
        weir_fake_order(state, stream);
        state->ops->stream_wait(state->host, stream->number, event->host);
    }
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuEventCreate, FAKE_STARTED | FAKE_CURRENT, (weir_cu_event * event, unsigned flags),
              ((void)flags, fakeevent_create(&call, event)))
FAKE_FUNCTION(cuEventDestroy_v2, FAKE_STARTED | FAKE_CURRENT, (weir_cu_event event),
              fakeevent_destroy(&call, event))
FAKE_FUNCTION(cuEventRecord, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_event event, weir_cu_stream stream), fakeevent_record(&call, event, stream))
FAKE_FUNCTION(cuCtxRecordEvent, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_context context, weir_cu_event event),
              fakeevent_record_context(&call, context, event))
FAKE_FUNCTION(cuEventQuery, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE, (weir_cu_event event),
              fakeevent_query(&call, event))
FAKE_FUNCTION(cuEventSynchronize, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE, (weir_cu_event event),
              fakeevent_sync(&call, event))
FAKE_FUNCTION(cuStreamWaitEvent, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_stream stream, weir_cu_event event, unsigned flags),
              fakeevent_wait(&call, stream, event, flags))
