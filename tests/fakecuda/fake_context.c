/* SPDX-License-Identifier: MIT */
/*
 * Starting, devices and their attributes, contexts and each thread's stack of them.
 *
 * Owns        the contexts. A primary one lives from its first retain to its last release.
 * Invariants  A context that has ended stays in the table, so that its handle is never another's.
 */
#include "fake_internal.h"

#include <stdio.h>
#include <string.h>

bool weir_fake_device_is(const fake_state *state, int device)
{
    return device >= 0 && device < state->device_count;
}

fake_context *weir_fake_context(fake_state *state, const void *handle)
{
    fake_context *context = (fake_context *)weir_fake_find(state, FAKE_IS_CONTEXT, handle);
    return context && context->alive ? context : NULL;
}

/* ------------------------------------------------------------------------------------ starting -- */

static weir_cu_result fakectx_init(fake_state *state, unsigned flags)
{
    if (flags != 0) {
        return WEIR_CU_INVALID_VALUE;
    }
    if (state->device_count == 0) {
        return WEIR_CU_NO_DEVICE;
    }
    state->started = true;
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_version(const fake_state *state, int *version)
{
    *version = state->config.driver_version;
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_count(const fake_state *state, int *count)
{
    *count = state->device_count;
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_get(const fake_state *state, weir_cu_device *device, int ordinal)
{
    *device = ordinal;
    return weir_fake_device_is(state, ordinal) ? WEIR_CU_OK : WEIR_CU_INVALID_DEVICE;
}

FAKE_FUNCTION(cuInit, FAKE_ALWAYS, (unsigned flags), fakectx_init(call.state, flags))
FAKE_FUNCTION(cuDriverGetVersion, FAKE_ALWAYS, (int *version), fakectx_version(call.state, version))
FAKE_FUNCTION(cuDeviceGetCount, FAKE_STARTED | FAKE_STACK, (int *count),
              fakectx_count(call.state, count))
FAKE_FUNCTION(cuDeviceGet, FAKE_STARTED | FAKE_STACK, (weir_cu_device * device, int ordinal),
              fakectx_get(call.state, device, ordinal))

/* ------------------------------------------------------------------------------------- devices -- */

static weir_cu_result fakectx_name(const fake_state *state, char *name, int bytes,
                                   weir_cu_device device)
{
    if (!weir_fake_device_is(state, device) || bytes <= 0) {
        return WEIR_CU_INVALID_DEVICE;
    }
    snprintf(name, (size_t)bytes, "Stand-in %d", device);
    return WEIR_CU_OK;
}

static int fakectx_attribute_value(const weir_fakecuda_config *config, int attribute)
{
    switch (attribute) {
    case WEIR_CU_ATTR_MULTIPROCESSORS:
        return 4;
    case WEIR_CU_ATTR_MAJOR:
        return config->major;
    case WEIR_CU_ATTR_VMM:
        return !config->no_vmm;
    case WEIR_CU_ATTR_POSIX_FD:
        return !config->no_vmm && !config->no_posix_fd;
    case WEIR_CU_ATTR_RDMA_VMM:
    case WEIR_CU_ATTR_RDMA:
        return !config->no_rdma;
    case WEIR_CU_ATTR_POOLS:
        return !config->no_pools;
    case WEIR_CU_ATTR_DMA_BUF:
        return !config->no_dma_buf;
    default: /* integrated, minor, fabric, host memory */
        return 0;
    }
}

static weir_cu_result fakectx_attribute(const fake_state *state, int *value, int attribute,
                                        weir_cu_device device)
{
    if (!weir_fake_device_is(state, device)) {
        return WEIR_CU_INVALID_DEVICE;
    }
    *value = fakectx_attribute_value(&state->config, attribute);
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_memory(const fake_state *state, size_t *bytes, weir_cu_device device)
{
    *bytes = (size_t)state->config.memory_bytes;
    return weir_fake_device_is(state, device) ? WEIR_CU_OK : WEIR_CU_INVALID_DEVICE;
}

static weir_cu_result fakectx_uuid(const fake_state *state, weir_cu_uuid *uuid,
                                   weir_cu_device device)
{
    memset(uuid, 'w', sizeof(*uuid));
    uuid->bytes[0] = (char)device;
    return weir_fake_device_is(state, device) ? WEIR_CU_OK : WEIR_CU_INVALID_DEVICE;
}

static weir_cu_result fakectx_peer(const fake_state *state, int *can, weir_cu_device device,
                                   weir_cu_device peer)
{
    *can = device != peer && !state->config.no_peers;
    return weir_fake_device_is(state, device) && weir_fake_device_is(state, peer)
               ? WEIR_CU_OK
               : WEIR_CU_INVALID_DEVICE;
}

FAKE_FUNCTION(cuDeviceGetName, FAKE_STARTED | FAKE_STACK,
              (char *name, int bytes, weir_cu_device device),
              fakectx_name(call.state, name, bytes, device))
FAKE_FUNCTION(cuDeviceGetAttribute, FAKE_STARTED | FAKE_STACK,
              (int *value, int attribute, weir_cu_device device),
              fakectx_attribute(call.state, value, attribute, device))
FAKE_FUNCTION(cuDeviceTotalMem_v2, FAKE_STARTED | FAKE_STACK,
              (size_t * bytes, weir_cu_device device), fakectx_memory(call.state, bytes, device))
FAKE_FUNCTION(cuDeviceGetUuid, FAKE_STARTED | FAKE_STACK,
              (weir_cu_uuid * uuid, weir_cu_device device), fakectx_uuid(call.state, uuid, device))
FAKE_FUNCTION(cuDeviceCanAccessPeer, FAKE_STARTED | FAKE_STACK,
              (int *can, weir_cu_device device, weir_cu_device peer),
              fakectx_peer(call.state, can, device, peer))

/* ------------------------------------------------------------------------------------ contexts -- */

static fake_context *fakectx_new(fake_state *state, int device, bool primary)
{
    fake_context *context = weir_fake_new(sizeof(*context));
    context->device = device;
    context->is_primary = primary;
    context->alive = true;
    context->handle = weir_fake_add(state, FAKE_IS_CONTEXT, context);
    return context;
}

/* Its streams end after their work. */
static void fakectx_end(fake_state *state, fake_context *context)
{
    (void)weir_fake_capture_break_all(state, context, "the end of its context");
    weir_fake_streams_end(state, context);
    context->alive = false;
    context->legacy = NULL;
    context->all = NULL;
}

static weir_cu_result fakectx_retain(fake_state *state, weir_cu_context *handle,
                                     weir_cu_device device)
{
    if (!weir_fake_device_is(state, device)) {
        return WEIR_CU_INVALID_DEVICE;
    }
    fake_device *of = &state->devices[device];
    if (of->retained == 0) {
        of->primary = fakectx_new(state, device, true)->handle;
    }
    of->retained++;
    *handle = FAKE_HANDLE(of->primary);
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_release(fake_state *state, weir_cu_device device)
{
    if (!weir_fake_device_is(state, device)) {
        return WEIR_CU_INVALID_DEVICE;
    }
    fake_device *of = &state->devices[device];
    if (of->retained == 0) {
        weir_fake_breach(state, "the primary context is released more often than retained");
        return WEIR_CU_INVALID_CONTEXT;
    }
    if (--of->retained == 0) {
        fakectx_end(state, weir_fake_context(state, FAKE_HANDLE(of->primary)));
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_current(const fake_call *call, weir_cu_context *handle)
{
    *handle =
        call->thread->depth ? FAKE_HANDLE(call->thread->stack[call->thread->depth - 1]) : NULL;
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_push(fake_call *call, const void *handle)
{
    fake_thread *thread = call->thread;
    if (!weir_fake_context(call->state, handle) || thread->depth == FAKE_STACK_MAX) {
        weir_fake_breach(call->state, "a context is pushed that does not exist, or too many");
        return WEIR_CU_INVALID_CONTEXT;
    }
    thread->stack[thread->depth++] = (uintptr_t)handle;
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_pop(fake_call *call, weir_cu_context *handle)
{
    fake_thread *thread = call->thread;
    if (thread->depth == 0) {
        weir_fake_breach(call->state, "a context is popped from an empty stack");
        return WEIR_CU_INVALID_CONTEXT;
    }
    thread->depth--;
    if (handle) {
        *handle = FAKE_HANDLE(thread->stack[thread->depth]);
    }
    return WEIR_CU_OK;
}

/* Replaces the top of the stack; NULL takes it away. */
static weir_cu_result fakectx_set(fake_call *call, const void *handle)
{
    if (handle && !weir_fake_context(call->state, handle)) {
        return WEIR_CU_INVALID_CONTEXT;
    }
    if (call->thread->depth > 0) {
        call->thread->depth--;
    }
    return handle ? fakectx_push(call, handle) : WEIR_CU_OK;
}

static weir_cu_result fakectx_create(fake_call *call, weir_cu_context *handle,
                                     weir_cu_device device)
{
    if (!weir_fake_device_is(call->state, device)) {
        return WEIR_CU_INVALID_DEVICE;
    }
    *handle = FAKE_HANDLE(fakectx_new(call->state, device, false)->handle);
    return fakectx_push(call, *handle);
}

static weir_cu_result fakectx_destroy(fake_call *call, const void *handle)
{
    fake_context *context = weir_fake_context(call->state, handle);
    if (!context || context->is_primary) {
        return WEIR_CU_INVALID_CONTEXT;
    }
    fakectx_end(call->state, context);
    if (call->context == context) {
        call->thread->depth--;
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakectx_device(const fake_call *call, weir_cu_device *device)
{
    *device = call->context->device;
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuDevicePrimaryCtxRetain, FAKE_STARTED | FAKE_STACK,
              (weir_cu_context * context, weir_cu_device device),
              fakectx_retain(call.state, context, device))
FAKE_FUNCTION(cuDevicePrimaryCtxRelease_v2, FAKE_STARTED | FAKE_STACK, (weir_cu_device device),
              fakectx_release(call.state, device))
FAKE_FUNCTION(cuCtxGetCurrent, FAKE_STARTED | FAKE_STACK, (weir_cu_context * context),
              fakectx_current(&call, context))
FAKE_FUNCTION(cuCtxPushCurrent_v2, FAKE_STARTED | FAKE_STACK, (weir_cu_context context),
              fakectx_push(&call, context))
FAKE_FUNCTION(cuCtxPopCurrent_v2, FAKE_STARTED | FAKE_STACK, (weir_cu_context * context),
              fakectx_pop(&call, context))
FAKE_FUNCTION(cuCtxSetCurrent, FAKE_STARTED | FAKE_STACK, (weir_cu_context context),
              fakectx_set(&call, context))
FAKE_FUNCTION(cuCtxCreate_v2, FAKE_STARTED | FAKE_STACK,
              (weir_cu_context * context, unsigned flags, weir_cu_device device),
              ((void)flags, fakectx_create(&call, context, device)))
FAKE_FUNCTION(cuCtxDestroy_v2, FAKE_STARTED | FAKE_STACK, (weir_cu_context context),
              fakectx_destroy(&call, context))
FAKE_FUNCTION(cuCtxGetDevice, FAKE_STARTED | FAKE_CURRENT | FAKE_STACK, (weir_cu_device * device),
              fakectx_device(&call, device))

/* -------------------------------------------------------------------------------------- waits -- */

static weir_cu_result fakectx_sync(fake_call *call)
{
    fake_state *state = call->state;
    int device = call->context->device;
    if (weir_fake_capture_break_all(state, call->context, "cuCtxSynchronize")) {
        return WEIR_CU_CAPTURE_UNSUPPORTED;
    }
    weir_fake_wait(state, weir_fake_gather(state, call->context));
    weir_fake_pools_sync(state, device, 0);
    return state->devices[device].lost;
}

FAKE_FUNCTION(cuCtxSynchronize, FAKE_STARTED | FAKE_CURRENT, (void), fakectx_sync(&call))
