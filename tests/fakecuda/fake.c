/* SPDX-License-Identifier: MIT */
/*
 * The state of the stand-in, and the way in and out of every call.
 *
 * Owns        the one static pointer; tables of handles; a record for each thread that called.
 * Invariants  A call holds the lock from enter to leave. What a requested failure or a lost device
 *             answers has done nothing else.
 */
#define _GNU_SOURCE
#include "fake_internal.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE_MEMORY_DEFAULT (UINT64_C(512) << 20)
#define FAKE_DEVICES_DEFAULT 2
#define FAKE_MAJOR_DEFAULT 9
#define FAKE_FIRST_ID 7000u /* of streams and captures: unlike a count of them */

/* The driver's functions have no argument that could carry their state, so it hangs here; nothing
 * but the two functions below looks at it. */
static fake_state *fake_one;

/* -------------------------------------------------------------------------------------- tables -- */

void *weir_fake_new(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) {
        abort();
    }
    return memory;
}

/* `array` with room for one more. */
void *weir_fake_room(void *array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) {
        return array;
    }
    *room = *room ? *room * 2 : 16;
    void *grown = realloc(array, *room * bytes);
    if (!grown) {
        abort();
    }
    memset((char *)grown + count * bytes, 0, (*room - count) * bytes);
    return grown;
}

/* Streams get the lowest free place, so a destroyed one's handle is given again at once; events and
 * the rest are never given again, so that any later use shows. */
uint64_t weir_fake_add(fake_state *state, fake_kind kind, void *thing)
{
    fake_table *table = &state->tables[kind];
    size_t place = kind == FAKE_IS_STREAM ? 0 : table->count;
    while (place < table->count && table->at[place]) {
        place++;
    }
    if (place == table->count) {
        table->at = weir_fake_room(table->at, table->count, &table->room, sizeof(*table->at));
        table->count++;
    }
    table->at[place] = thing;
    table->live++;
    return (uint64_t)kind << 40 | (uint64_t)(place + 1) << 6;
}

static void **fake_slot(fake_state *state, fake_kind kind, uint64_t handle)
{
    uint64_t place = handle >> 6 & UINT32_MAX;
    if (handle >> 40 != (uint64_t)kind || (handle & 63) != 0 || place == 0 ||
        place > state->tables[kind].count) {
        return NULL;
    }
    return &state->tables[kind].at[place - 1];
}

void *weir_fake_find(fake_state *state, fake_kind kind, const void *handle)
{
    void **slot = fake_slot(state, kind, (uintptr_t)handle);
    return slot ? *slot : NULL;
}

void weir_fake_drop(fake_state *state, fake_kind kind, uint64_t handle)
{
    void **slot = fake_slot(state, kind, handle);
    if (slot && *slot) {
        *slot = NULL;
        state->tables[kind].live--;
    }
}

/* -------------------------------------------------------------------------------------- reset -- */

static void fake_thread_end(void *self)
{
    fake_thread *thread = (fake_thread *)self;
    fake_state *state = thread->state;
    pthread_mutex_lock(&state->lock);
    fake_thread **link = &state->threads;
    while (*link && *link != thread) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = thread->next;
        weir_fake_thread_streams_end(state, thread);
        for (fake_capture *capture = state->captures; capture; capture = capture->next) {
            capture->thread = capture->thread == thread ? NULL : capture->thread;
        }
        free(thread);
    }
    pthread_mutex_unlock(&state->lock);
}

fake_thread *weir_fake_thread(fake_state *state)
{
    fake_thread *thread = (fake_thread *)pthread_getspecific(state->key);
    if (!thread) {
        thread = weir_fake_new(sizeof(*thread));
        thread->state = state;
        thread->next = state->threads;
        state->threads = thread;
        pthread_setspecific(state->key, thread);
    }
    return thread;
}

static void fake_open(fake_state *state)
{
    weir_fakecuda_config *config = &state->config;
    config->driver_version = config->driver_version ? config->driver_version : 13000;
    config->major = config->major ? config->major : FAKE_MAJOR_DEFAULT;
    config->memory_bytes = config->memory_bytes ? config->memory_bytes : FAKE_MEMORY_DEFAULT;
    state->device_count = config->devices ? config->devices : FAKE_DEVICES_DEFAULT;
    if (state->device_count < 0) {
        state->device_count = 0;
    }
    state->next_id = FAKE_FIRST_ID;
    state->process = getpid();
    weir_host_config host = {.memory_bytes = config->memory_bytes * FAKE_DEVICES_MAX,
                             .granule_bytes = weir_fake_granule(state)};
    state->host = weir_host_create(&host);
    if (!state->host || pthread_key_create(&state->key, fake_thread_end) != 0) {
        abort();
    }
    state->ops = weir_host_ops(state->host);
}

static void fake_things_drop(fake_state *state)
{
    for (int kind = FAKE_IS_CONTEXT; kind < FAKE_KINDS; kind++) {
        fake_table *table = &state->tables[kind];
        for (size_t i = 0; i < table->count; i++) {
            if (kind != FAKE_IS_STREAM && kind != FAKE_IS_GRAPH && kind != FAKE_IS_EXEC &&
                kind != FAKE_IS_POOL && kind != FAKE_IS_HANDLE) {
                free(table->at[i]);
            }
        }
    }
}

/* What no list or table but one owns is dropped by the file that knows it. */
static void fake_close(fake_state *state)
{
    weir_fakecuda_go();
    weir_fakecuda_settle();
    weir_fake_captures_drop(state);
    weir_fake_graphs_drop(state);
    weir_fakecuda_settle();
    weir_fake_pools_drop(state);
    fake_things_drop(state);
    weir_host_destroy(state->host);
    pthread_key_delete(state->key);
    for (int kind = FAKE_IS_CONTEXT; kind < FAKE_KINDS; kind++) {
        free(state->tables[kind].at);
    }
    while (state->streams) {
        fake_stream *stream = state->streams;
        state->streams = stream->next;
        free(stream);
    }
    while (state->threads) {
        fake_thread *thread = state->threads;
        state->threads = thread->next;
        free(thread);
    }
    free(state->areas);
}

void weir_fakecuda_reset(const weir_fakecuda_config *config)
{
    fake_state *state = fake_one;
    char path[sizeof(state->path)];
    memcpy(path, state->path, sizeof(path));
    fake_close(state);
    pthread_cond_destroy(&state->changed);
    pthread_mutex_destroy(&state->lock);
    memset(state, 0, sizeof(*state));
    memcpy(state->path, path, sizeof(path));
    if (config) {
        state->config = *config;
    }
    pthread_mutex_init(&state->lock, NULL);
    pthread_cond_init(&state->changed, NULL);
    fake_open(state);
}

__attribute__((constructor)) static void fake_load(void)
{
    Dl_info info;
    fake_one = weir_fake_new(sizeof(*fake_one));
    pthread_mutex_init(&fake_one->lock, NULL);
    pthread_cond_init(&fake_one->changed, NULL);
    if (dladdr((void *)&fake_one, &info) && info.dli_fname) {
        snprintf(fake_one->path, sizeof(fake_one->path), "%s", info.dli_fname);
    }
    fake_open(fake_one);
}

/* -------------------------------------------------------------------------------- in and out -- */

fake_state *weir_fake_lock(void)
{
    pthread_mutex_lock(&fake_one->lock);
    return fake_one;
}

void weir_fake_unlock(fake_state *state)
{
    pthread_mutex_unlock(&state->lock);
}

void weir_fake_breach(fake_state *state, const char *format, ...)
{
    va_list list;
    if (state->breaches++ == 0) {
        va_start(list, format);
        vsnprintf(state->breach, sizeof(state->breach), format, list);
        va_end(list);
    }
}

/* The failure that was asked for at this call, or 0. */
static weir_cu_result fake_fault_hit(fake_state *state, fake_name name, bool naming)
{
    weir_cu_result result = WEIR_CU_OK;
    for (unsigned i = 0; i < state->fault_count && !naming; i++) {
        fake_fault *fault = &state->faults[i];
        if (fault->name != -1 && fault->name != (int)name) {
            continue;
        }
        if (fault->left > 0) {
            fault->left--;
        }
        if (fault->left == 0 && fault->result != WEIR_CU_OK) {
            result = fault->result;
            fault->result = fault->forever ? fault->result : WEIR_CU_OK;
            state->fault_hit = weir_fake_name(name);
        }
    }
    return result;
}

/* What the state of device and process answers to any call, or 0. */
static weir_cu_result fake_doomed(fake_call *call, unsigned needs)
{
    fake_state *state = call->state;
    if (state->ended) {
        return WEIR_CU_DEINITIALIZED;
    }
    if (state->process != getpid()) { /* a forked child; fork leaves a driver's threads behind */
        return WEIR_CU_NOT_INITIALIZED;
    }
    if (call->thread->no_calls) {
        weir_fake_breach(state, "%s inside a destructor", weir_fake_name(call->name));
        return WEIR_CU_NOT_PERMITTED;
    }
    weir_cu_result fault = fake_fault_hit(state, call->name, (needs & FAKE_NAMING) != 0);
    if (fault != WEIR_CU_OK || (needs & FAKE_NAMING) != 0) {
        return fault;
    }
    return state->lost;
}

static weir_cu_result fake_lacks(fake_call *call, unsigned needs)
{
    fake_state *state = call->state;
    if ((needs & FAKE_STARTED) != 0 && !state->started) {
        weir_fake_breach(state, "%s before cuInit", weir_fake_name(call->name));
        return WEIR_CU_NOT_INITIALIZED;
    }
    if ((needs & FAKE_CURRENT) != 0 && !call->context) {
        if ((needs & FAKE_ASKING) == 0) {
            weir_fake_breach(state, "%s without a current context", weir_fake_name(call->name));
        }
        return WEIR_CU_INVALID_CONTEXT;
    }
    if (call->context && (needs & (FAKE_STACK | FAKE_NAMING)) == 0 &&
        state->devices[call->context->device].lost != WEIR_CU_OK) {
        return state->devices[call->context->device].lost;
    }
    return (needs & FAKE_UNSAFE) != 0 ? weir_fake_capture_unsafe(call) : WEIR_CU_OK;
}

fake_call weir_fake_enter(fake_name name, unsigned needs)
{
    fake_call call = {weir_fake_lock(), NULL, NULL, name, WEIR_CU_OK};
    fake_state *state = call.state;
    state->calls[name]++;
    call.thread = weir_fake_thread(state);
    if (call.thread->depth > 0) {
        uint64_t current = call.thread->stack[call.thread->depth - 1];
        call.context = weir_fake_context(state, FAKE_HANDLE(current));
    }
    call.result = fake_doomed(&call, needs);
    if (call.result == WEIR_CU_OK) {
        call.result = fake_lacks(&call, needs);
    }
    return call;
}

weir_cu_result weir_fake_leave(fake_call *call)
{
    weir_fake_unlock(call->state);
    return call->result;
}
