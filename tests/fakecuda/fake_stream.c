/* SPDX-License-Identifier: MIT */
/*
 * Streams: those that programs make, each context's legacy one, each thread's default one.
 *
 * Owns        the streams, and for each a stream of the host device. One that was destroyed goes on
 *             until its work is done; its handle is given to the next that is made, its id never.
 * Invariants  Whatever is put on the legacy stream comes after all work so far on the blocking
 *             streams of its context, and what is put on those later comes after it.
 */
#include "fake_internal.h"

#include <stdlib.h>

/* -------------------------------------------------------------------------------- making, ending -- */

/* The last place of a stream, for the moment. */
static weir_event fakestream_tail(fake_state *state, fake_stream *stream)
{
    state->ops->event_record(state->host, stream->tail, stream->number);
    return stream->tail;
}

static bool fakestream_is_idle(fake_state *state, fake_stream *stream)
{
    bool passed = false;
    state->ops->event_query(state->host, fakestream_tail(state, stream), &passed);
    return passed;
}

static void fakestream_reap(fake_state *state)
{
    fake_stream **link = &state->streams;
    while (*link) {
        fake_stream *stream = *link;
        if (stream->ended && fakestream_is_idle(state, stream)) {
            *link = stream->next;
            state->ops->event_destroy(state->host, stream->tail);
            weir_host_stream_destroy(state->host, stream->number);
            free(stream);
        } else {
            link = &stream->next;
        }
    }
}

static fake_stream *fakestream_new(fake_state *state, fake_context *context)
{
    fakestream_reap(state);
    fake_stream *stream = weir_fake_new(sizeof(*stream));
    stream->context = context;
    stream->id = state->next_id++;
    stream->number = weir_host_stream_create(state->host);
    if (stream->number == 0 || state->ops->event_create(state->host, &stream->tail) != WEIR_OK) {
        abort();
    }
    stream->next = state->streams;
    state->streams = stream;
    return stream;
}

static void fakestream_end(fake_state *state, fake_stream *stream)
{
    if (stream->capture) {
        weir_fake_capture_break(state, stream->capture, "the end of its stream");
    }
    if (stream->handle) {
        weir_fake_drop(state, FAKE_IS_STREAM, stream->handle);
    }
    stream->ended = true;
}

void weir_fake_streams_end(fake_state *state, const fake_context *context)
{
    for (fake_stream *stream = state->streams; stream; stream = stream->next) {
        if (stream->context == context && !stream->ended) {
            fakestream_end(state, stream);
        }
    }
}

void weir_fake_thread_streams_end(fake_state *state, const fake_thread *thread)
{
    for (fake_stream *stream = state->streams; stream; stream = stream->next) {
        if (stream->owner == thread && !stream->ended) {
            fakestream_end(state, stream);
            stream->owner = NULL;
        }
    }
}

/* ---------------------------------------------------------------------------------------- names -- */

fake_stream *weir_fake_legacy(fake_state *state, fake_context *context)
{
    if (!context->legacy) {
        context->legacy = fakestream_new(state, context);
        context->legacy->legacy = true;
    }
    return context->legacy;
}

static fake_stream *fakestream_of_thread(fake_call *call)
{
    for (fake_stream *stream = call->state->streams; stream; stream = stream->next) {
        if (stream->owner == call->thread && stream->context == call->context && !stream->ended) {
            return stream;
        }
    }
    fake_stream *made = fakestream_new(call->state, call->context);
    made->owner = call->thread;
    made->blocking = true;
    return made;
}

fake_stream *weir_fake_stream(fake_call *call, const void *handle)
{
    bool is_default = (uintptr_t)handle <= (uintptr_t)WEIR_CU_STREAM_PER_THREAD;
    fake_stream *stream = NULL;
    if (is_default && call->context) {
        stream = handle == WEIR_CU_STREAM_PER_THREAD ? fakestream_of_thread(call)
                                                     : weir_fake_legacy(call->state, call->context);
    } else if (!is_default) {
        stream = (fake_stream *)weir_fake_find(call->state, FAKE_IS_STREAM, handle);
    }
    if (!stream) {
        weir_fake_breach(call->state, "%s of a stream that does not exist",
                         weir_fake_name(call->name));
    }
    return stream;
}

/* ---------------------------------------------------------------------------------------- order -- */

static void fakestream_wait_for(fake_state *state, fake_stream *stream, fake_stream *other)
{
    state->ops->stream_wait(state->host, stream->number, fakestream_tail(state, other));
}

void weir_fake_order(fake_state *state, fake_stream *stream)
{
    fake_stream *legacy = stream->context->legacy;
    if (stream->blocking && legacy) {
        fakestream_wait_for(state, stream, legacy);
    }
    if (!stream->legacy) {
        return;
    }
    for (fake_stream *other = state->streams; other; other = other->next) {
        if (other->context == stream->context && other->blocking) {
            fakestream_wait_for(state, stream, other);
        }
    }
}

weir_cu_result weir_fake_stream_check(fake_call *call, fake_stream *stream)
{
    if (stream->capture && stream->capture->broken) {
        return WEIR_CU_CAPTURE_INVALIDATED;
    }
    if (stream->legacy &&
        weir_fake_capture_blocks(call->state, stream->context, true, weir_fake_name(call->name))) {
        return WEIR_CU_CAPTURE_IMPLICIT;
    }
    return WEIR_CU_OK;
}

uint64_t weir_fake_gather(fake_state *state, fake_context *context)
{
    if (!context->all) {
        context->all = fakestream_new(state, context);
    }
    for (fake_stream *other = state->streams; other; other = other->next) {
        if (other->context == context && other != context->all) {
            fakestream_wait_for(state, context->all, other);
        }
    }
    return context->all->number;
}

void weir_fake_wait(fake_state *state, uint64_t number)
{
    weir_host *host = state->host;
    weir_fake_unlock(state);
    weir_host_sync(host, number);
    (void)weir_fake_lock();
}

/* ---------------------------------------------------------------------------------------- calls -- */

static weir_cu_result fakestream_create(fake_call *call, weir_cu_stream *handle, unsigned flags)
{
    if (flags > WEIR_CU_STREAM_NON_BLOCKING) {
        return WEIR_CU_INVALID_VALUE;
    }
    fake_stream *stream = fakestream_new(call->state, call->context);
    stream->blocking = flags == 0;
    stream->handle = weir_fake_add(call->state, FAKE_IS_STREAM, stream);
    *handle = FAKE_HANDLE(stream->handle);
    return WEIR_CU_OK;
}

static weir_cu_result fakestream_destroy(fake_call *call, const void *handle)
{
    fake_stream *stream = (fake_stream *)weir_fake_find(call->state, FAKE_IS_STREAM, handle);
    if (!stream) {
        weir_fake_breach(call->state, "a stream is destroyed that does not exist");
        return WEIR_CU_INVALID_HANDLE;
    }
    fakestream_end(call->state, stream);
    fakestream_reap(call->state);
    return WEIR_CU_OK;
}

static weir_cu_result fakestream_sync(fake_call *call, const void *handle)
{
    fake_state *state = call->state;
    fake_stream *stream = weir_fake_stream(call, handle);
    if (!stream) {
        return WEIR_CU_INVALID_HANDLE;
    }
    if (stream->capture) {
        weir_fake_capture_break(state, stream->capture, "cuStreamSynchronize");
        return WEIR_CU_CAPTURE_UNSUPPORTED;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    if (result != WEIR_CU_OK) {
        return result;
    }
    int device = stream->context->device;
    weir_fake_order(state, stream);
    uint64_t number = stream->legacy ? 0 : stream->number;
    weir_fake_wait(state, stream->number);
    weir_fake_pools_sync(state, device, number);
    return state->devices[device].lost;
}

static weir_cu_result fakestream_id(fake_call *call, const void *handle, unsigned long long *id)
{
    const fake_stream *stream = weir_fake_stream(call, handle);
    if (!stream) {
        return WEIR_CU_INVALID_HANDLE;
    }
    if (stream->capture) { /* as measured, in every mode */
        weir_fake_capture_break(call->state, stream->capture, "cuStreamGetId");
        return WEIR_CU_CAPTURE_UNSUPPORTED;
    }
    *id = stream->id;
    return WEIR_CU_OK;
}

static weir_cu_result fakestream_context(fake_call *call, const void *handle,
                                         weir_cu_context *context)
{
    const fake_stream *stream = weir_fake_stream(call, handle);
    if (!stream) {
        return WEIR_CU_INVALID_HANDLE;
    }
    *context = FAKE_HANDLE(stream->context->handle);
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuStreamCreate, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_stream * stream, unsigned flags), fakestream_create(&call, stream, flags))
FAKE_FUNCTION(cuStreamDestroy_v2, FAKE_STARTED | FAKE_CURRENT, (weir_cu_stream stream),
              fakestream_destroy(&call, stream))
FAKE_FUNCTION(cuStreamSynchronize, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (weir_cu_stream stream), fakestream_sync(&call, stream))
FAKE_FUNCTION(cuStreamGetId, FAKE_STARTED | FAKE_CURRENT | FAKE_ASKING,
              (weir_cu_stream stream, unsigned long long *id), fakestream_id(&call, stream, id))
FAKE_FUNCTION(cuStreamGetCtx, FAKE_STARTED | FAKE_CURRENT | FAKE_ASKING,
              (weir_cu_stream stream, weir_cu_context *context),
              fakestream_context(&call, stream, context))
