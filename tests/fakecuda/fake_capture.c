/* SPDX-License-Identifier: MIT */
/*
 * Captures: what streams record instead of doing, and what others may not do meanwhile.
 *
 * Owns        the captures that run, each with the graph that it makes.
 * Invariants  As measured and documented: calls marked unsafe answer 900 to the capturing thread,
 *             and where both the capture and the thread's own mode are global to every thread; they
 *             break the capture. A thread in relaxed mode is free. The legacy stream can't be used
 *             while a blocking stream of its context is captured.
 */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------- breaking -- */

void weir_fake_capture_break(fake_state *state, fake_capture *capture, const char *by)
{
    if (!capture->broken) {
        capture->broken = true;
        weir_fake_breach(state, "%s breaks a capture", by);
    }
}

static bool fakecap_is_of(const fake_capture *capture, const fake_context *context, bool blocking)
{
    for (unsigned i = 0; i < capture->count; i++) {
        if (capture->members[i]->context == context &&
            (!blocking || capture->members[i]->blocking)) {
            return true;
        }
    }
    return false;
}

static bool fakecap_any(fake_state *state, const fake_context *context, bool blocking, bool breaks,
                        const char *by)
{
    bool any = false;
    for (fake_capture *capture = state->captures; capture; capture = capture->next) {
        if (fakecap_is_of(capture, context, blocking)) {
            any = true;
            if (breaks) {
                weir_fake_capture_break(state, capture, by);
            }
        }
    }
    return any;
}

bool weir_fake_capture_break_all(fake_state *state, const fake_context *context, const char *by)
{
    return fakecap_any(state, context, false, true, by);
}

bool weir_fake_capture_blocks(fake_state *state, const fake_context *context, bool breaks,
                              const char *by)
{
    return fakecap_any(state, context, true, breaks, by);
}

static bool fakecap_restricts(const fake_capture *capture, const fake_thread *thread)
{
    if (thread->mode == WEIR_CU_MODE_RELAXED || capture->mode == WEIR_CU_MODE_RELAXED) {
        return false;
    }
    return capture->thread == thread ||
           (capture->mode == WEIR_CU_MODE_GLOBAL && thread->mode == WEIR_CU_MODE_GLOBAL);
}

weir_cu_result weir_fake_capture_unsafe(fake_call *call)
{
    weir_cu_result result = WEIR_CU_OK;
    for (fake_capture *capture = call->state->captures; capture; capture = capture->next) {
        if (fakecap_restricts(capture, call->thread)) {
            weir_fake_capture_break(call->state, capture, weir_fake_name(call->name));
            result = WEIR_CU_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

/* -------------------------------------------------------------------------------- begin and end -- */

fake_capture *weir_fake_capture_find(fake_state *state, uint64_t id)
{
    fake_capture *capture = state->captures;
    while (capture && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

void weir_fake_capture_join(fake_capture *capture, fake_stream *stream)
{
    if (capture->count == FAKE_MEMBERS_MAX) {
        abort();
    }
    stream->capture = capture;
    stream->member = capture->count;
    memset(stream->clock, 0, sizeof(stream->clock));
    capture->members[capture->count++] = stream;
}

static weir_cu_result fakecap_begin(fake_call *call, const void *name, int mode)
{
    fake_state *state = call->state;
    fake_stream *stream = weir_fake_stream(call, name);
    if (!stream || mode < WEIR_CU_MODE_GLOBAL || mode > WEIR_CU_MODE_RELAXED) {
        return WEIR_CU_INVALID_VALUE;
    }
    if (stream->legacy) {
        return WEIR_CU_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture) {
        return FAKE_ILLEGAL_STATE;
    }
    fake_capture *capture = weir_fake_new(sizeof(*capture));
    capture->id = state->next_id++;
    capture->mode = mode;
    capture->thread = call->thread;
    capture->graph = weir_fake_graph_new(state);
    capture->graph->captured = true;
    capture->next = state->captures;
    state->captures = capture;
    weir_fake_capture_join(capture, stream);
    return WEIR_CU_OK;
}

/* Lets the streams go. */
static void fakecap_close(fake_state *state, fake_capture *capture)
{
    fake_capture **link = &state->captures;
    while (*link != capture) {
        link = &(*link)->next;
    }
    *link = capture->next;
    for (unsigned i = 0; i < capture->count; i++) {
        capture->members[i]->capture = NULL;
    }
    free(capture);
}

void weir_fake_captures_drop(fake_state *state)
{
    while (state->captures) {
        weir_fake_graph_drop(state, state->captures->graph);
        fakecap_close(state, state->captures);
    }
}

/* Whether the first stream comes after all that the others captured. */
static bool fakecap_is_joined(const fake_capture *capture)
{
    return memcmp(capture->members[0]->clock, capture->ops, sizeof(capture->ops)) == 0;
}

static weir_cu_result fakecap_finish(fake_state *state, fake_capture *capture, weir_cu_graph *graph)
{
    weir_cu_result result = WEIR_CU_OK;
    if (capture->broken) {
        result = WEIR_CU_CAPTURE_INVALIDATED;
    } else if (!fakecap_is_joined(capture)) {
        result = FAKE_CAPTURE_UNJOINED;
    }
    *graph = NULL;
    if (result == WEIR_CU_OK) {
        capture->graph->captured = false;
        *graph = FAKE_HANDLE(capture->graph->handle);
    } else {
        weir_fake_graph_drop(state, capture->graph);
    }
    fakecap_close(state, capture);
    return result;
}

static weir_cu_result fakecap_end(fake_call *call, const void *name, weir_cu_graph *graph)
{
    fake_stream *stream = weir_fake_stream(call, name);
    if (!stream || !stream->capture) {
        return FAKE_ILLEGAL_STATE;
    }
    fake_capture *capture = stream->capture;
    if (capture->members[0] != stream) {
        return FAKE_CAPTURE_UNMATCHED;
    }
    if (capture->mode != WEIR_CU_MODE_RELAXED && capture->thread != call->thread) {
        return FAKE_CAPTURE_WRONG_THREAD;
    }
    return fakecap_finish(call->state, capture, graph);
}

/* ----------------------------------------------------------------------------------------- look -- */

static weir_cu_result fakecap_status(fake_call *call, const void *name, int *status,
                                     fake_capture **capture)
{
    fake_stream *stream = weir_fake_stream(call, name);
    if (!stream || !status) {
        return WEIR_CU_INVALID_HANDLE;
    }
    if (stream->legacy && weir_fake_capture_blocks(call->state, stream->context, false, "")) {
        return WEIR_CU_CAPTURE_IMPLICIT;
    }
    *capture = stream->capture;
    *status = WEIR_CU_CAPTURE_NONE;
    if (stream->capture) {
        *status = stream->capture->broken ? WEIR_CU_CAPTURE_BROKEN : WEIR_CU_CAPTURE_ACTIVE;
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakecap_is_capturing(fake_call *call, const void *name, int *status)
{
    fake_capture *capture = NULL;
    return fakecap_status(call, name, status, &capture);
}

/* Nodes are not told: the stand-in keeps no edges. */
static weir_cu_result fakecap_info(fake_call *call, const void *name, int *status, uint64_t *id,
                                   weir_cu_graph *graph, size_t *count)
{
    fake_capture *capture = NULL;
    weir_cu_result result = fakecap_status(call, name, status, &capture);
    if (result != WEIR_CU_OK || *status != WEIR_CU_CAPTURE_ACTIVE) {
        return result;
    }
    if (id) {
        *id = capture->id;
    }
    if (graph) {
        *graph = FAKE_HANDLE(capture->graph->handle);
    }
    if (count) {
        *count = 0;
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakecap_mode(fake_thread *thread, int *mode)
{
    if (*mode < WEIR_CU_MODE_GLOBAL || *mode > WEIR_CU_MODE_RELAXED) {
        return WEIR_CU_INVALID_VALUE;
    }
    int before = thread->mode;
    thread->mode = *mode;
    *mode = before;
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuStreamBeginCapture_v2, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_stream stream, int mode), fakecap_begin(&call, stream, mode))
FAKE_FUNCTION(cuStreamEndCapture, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_stream stream, weir_cu_graph *graph), fakecap_end(&call, stream, graph))
FAKE_FUNCTION(cuStreamIsCapturing, FAKE_STARTED | FAKE_CURRENT | FAKE_ASKING,
              (weir_cu_stream stream, int *status), fakecap_is_capturing(&call, stream, status))
FAKE_FUNCTION(cuStreamGetCaptureInfo_v2, FAKE_STARTED | FAKE_CURRENT | FAKE_ASKING,
              (weir_cu_stream stream, int *status, uint64_t *id, weir_cu_graph *graph,
               const void **nodes, size_t *count),
              ((void)nodes, fakecap_info(&call, stream, status, id, graph, count)))
FAKE_FUNCTION(cuThreadExchangeStreamCaptureMode, FAKE_STARTED | FAKE_STACK, (int *mode),
              fakecap_mode(call.thread, mode))
