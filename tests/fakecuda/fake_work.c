/* SPDX-License-Identifier: MIT */
/*
 * Work: kernels known by name, copies, and the ends of allocations, frees and launches.
 *
 * Owns        a list of what was queued and has not ended, with the memory that it touches.
 * Invariants  Work touches only memory that its device may touch at the time it runs; else, as on
 *             a GPU, the device is lost with an illegal address.
 * Cost        O(unfinished work) to ask whether memory is in use.
 */
#define _POSIX_C_SOURCE 200809L
#include "fake_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------------------------- patterns -- */

static uint64_t fakework_word(uint64_t tag, uint64_t index)
{
    uint64_t x = tag * UINT64_C(0x9e3779b97f4a7c15) + index * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 29;
}

/* Bytes after the last whole word hold the low bytes of the next one. */
static size_t fakework_step(uint64_t bytes, uint64_t offset)
{
    return bytes - offset < sizeof(uint64_t) ? (size_t)(bytes - offset) : sizeof(uint64_t);
}

static void fakework_fill(fake_range range, uint64_t tag)
{
    char *start = FAKE_HANDLE(range.addr);
    for (uint64_t offset = 0; offset < range.bytes; offset += sizeof(uint64_t)) {
        uint64_t word = fakework_word(tag, offset / sizeof(uint64_t));
        memcpy(start + offset, &word, fakework_step(range.bytes, offset));
    }
}

static void fakework_verify(fake_range range, uint64_t tag, uint64_t counter)
{
    const char *start = FAKE_HANDLE(range.addr);
    uint64_t wrong = 0;
    for (uint64_t offset = 0; offset < range.bytes; offset += sizeof(uint64_t)) {
        uint64_t word = fakework_word(tag, offset / sizeof(uint64_t));
        wrong += memcmp(start + offset, &word, fakework_step(range.bytes, offset)) != 0;
    }
    __atomic_fetch_add((uint64_t *)FAKE_HANDLE(counter), wrong, __ATOMIC_RELAXED);
}

static void fakework_spin(uint64_t spin_ns)
{
    struct timespec left = {(time_t)(spin_ns / 1000000000), (long)(spin_ns % 1000000000)};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void fakework_set(fake_range range, uint32_t word)
{
    uint32_t *start = (uint32_t *)FAKE_HANDLE(range.addr);
    for (uint64_t i = 0; i < range.bytes / sizeof(word); i++) {
        start[i] = word;
    }
}

/* -------------------------------------------------------------------------------------- running -- */

/* Without the lock. */
static void fakework_do(const fake_work *work)
{
    switch (work->kind) {
    case FAKE_FILL:
        fakework_fill(work->range[0], work->tag);
        break;
    case FAKE_VERIFY:
        fakework_verify(work->range[0], work->tag, work->range[1].addr);
        break;
    case FAKE_SPIN:
        fakework_spin(work->tag);
        break;
    case FAKE_COPY:
        memmove(FAKE_HANDLE(work->range[0].addr), FAKE_HANDLE(work->range[1].addr),
                (size_t)work->range[0].bytes);
        break;
    case FAKE_SET:
        fakework_set(work->range[0], (uint32_t)work->tag);
        break;
    default: /* done with the lock */
        break;
    }
}

static void fakework_leave(fake_state *state, const fake_work *work)
{
    const fake_area *area = weir_fake_area_at(state, work->tag);
    if (weir_fake_is_used(state, area->addr, area->bytes, work->number)) {
        weir_fake_breach(state, "memory is freed into a pool under unfinished work");
    }
    weir_fake_pool_leave(state, work->tag, work->stream);
}

/* With the lock. */
static void fakework_do_locked(fake_state *state, const fake_work *work)
{
    switch (work->kind) {
    case FAKE_HOLD:
        while (state->holds == work->tag) {
            pthread_cond_wait(&state->changed, &state->lock);
        }
        break;
    case FAKE_ARRIVE:
        weir_fake_pool_arrive(state, work->tag);
        break;
    case FAKE_LEAVE:
        fakework_leave(state, work);
        break;
    case FAKE_CEASE:
        weir_fake_exec_cease(state, work->exec);
        break;
    default: /* done without the lock */
        break;
    }
}

static bool fakework_may(fake_state *state, const fake_work *work)
{
    fake_device *device = &state->devices[work->device];
    for (unsigned i = 0; i < FAKE_RANGES_MAX && device->lost == WEIR_CU_OK; i++) {
        const char *wrong = weir_fake_area_wrong(state, work->range[i], work->device);
        if (wrong) {
            weir_fake_breach(state, "work on device %d touches %s at 0x%" PRIx64, work->device,
                             wrong, work->range[i].addr);
            device->lost = WEIR_CU_ILLEGAL_ADDRESS;
        }
    }
    return device->lost == WEIR_CU_OK;
}

static void fakework_unlink(fake_state *state, fake_work *work)
{
    fake_work **link = &state->pending;
    while (*link != work) {
        link = &(*link)->next;
    }
    *link = work->next;
    free(work);
}

static void fakework_run(void *self)
{
    fake_work *work = (fake_work *)self;
    fake_state *state = weir_fake_lock();
    bool may = fakework_may(state, work);
    fakework_do_locked(state, work);
    weir_fake_unlock(state);
    if (may) {
        fakework_do(work);
    }
    state = weir_fake_lock();
    fakework_unlink(state, work);
    weir_fake_unlock(state);
}

/* ------------------------------------------------------------------------------------- queueing -- */

weir_cu_result weir_fake_queue(fake_call *call, fake_stream *stream, const fake_work *work)
{
    fake_state *state = call->state;
    if (stream->capture) {
        weir_fake_graph_node(stream->capture->graph, work);
        stream->clock[stream->member] = ++stream->capture->ops[stream->member];
        return WEIR_CU_OK;
    }
    fake_work *queued = weir_fake_new(sizeof(*queued));
    *queued = *work;
    queued->device = stream->context->device;
    queued->number = state->next_work++;
    queued->stream = stream->number;
    queued->next = state->pending;
    state->pending = queued;
    weir_fake_order(state, stream);
    if (!weir_host_call(state->host, stream->number, fakework_run, queued)) {
        abort();
    }
    return WEIR_CU_OK;
}

bool weir_fake_is_used(fake_state *state, uint64_t addr, uint64_t bytes, uint64_t before)
{
    for (const fake_work *work = state->pending; work; work = work->next) {
        for (unsigned i = 0; i < FAKE_RANGES_MAX && work->number < before; i++) {
            fake_range range = work->range[i];
            if (range.bytes && range.addr < addr + bytes && addr < range.addr + range.bytes) {
                return true;
            }
        }
    }
    return false;
}

static weir_cu_result fakework_submit(fake_call *call, const void *name, const fake_work *work)
{
    fake_stream *stream = weir_fake_stream(call, name);
    if (!stream) {
        return WEIR_CU_INVALID_HANDLE;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    return result == WEIR_CU_OK ? weir_fake_queue(call, stream, work) : result;
}

weir_cu_result weir_fakecuda_hold(weir_cu_stream stream)
{
    fake_call call = weir_fake_enter(FAKE_cuLaunchKernel, FAKE_STARTED | FAKE_CURRENT);
    if (call.result == WEIR_CU_OK) {
        fake_work work = {.kind = FAKE_HOLD, .tag = call.state->holds};
        call.result = fakework_submit(&call, stream, &work);
    }
    return weir_fake_leave(&call);
}

/* --------------------------------------------------------------------------------------- copies -- */

static weir_cu_result fakework_copy(fake_call *call, uint64_t to, uint64_t from, size_t bytes,
                                    const void *stream)
{
    fake_work work = {.kind = FAKE_COPY, .range = {{to, bytes}, {from, bytes}}};
    return bytes ? fakework_submit(call, stream, &work) : WEIR_CU_OK;
}

static weir_cu_result fakework_set_words(fake_call *call, uint64_t addr, unsigned value,
                                         size_t words)
{
    fake_work work = {
        .kind = FAKE_SET, .range = {{addr, words * sizeof(value)}, {0, 0}}, .tag = value};
    return addr % sizeof(value) == 0 ? fakework_submit(call, NULL, &work) : WEIR_CU_INVALID_VALUE;
}

/* Waits for the legacy stream, and so for all blocking ones. */
static weir_cu_result fakework_to_host(fake_call *call, void *to, uint64_t from, size_t bytes)
{
    fake_state *state = call->state;
    int device = call->context->device;
    fake_stream *legacy = weir_fake_legacy(state, call->context);
    weir_cu_result result = weir_fake_stream_check(call, legacy);
    if (result != WEIR_CU_OK) {
        return result;
    }
    weir_fake_order(state, legacy);
    weir_fake_wait(state, legacy->number);
    const char *wrong = weir_fake_area_wrong(state, (fake_range){from, bytes}, device);
    if (wrong) {
        weir_fake_breach(state, "a copy to the host touches %s", wrong);
        return WEIR_CU_INVALID_VALUE;
    }
    memcpy(to, FAKE_HANDLE(from), bytes);
    return state->devices[device].lost;
}

FAKE_FUNCTION(cuMemcpyDtoDAsync_v2, FAKE_STARTED | FAKE_CURRENT,
              (uint64_t to, uint64_t from, size_t bytes, weir_cu_stream stream),
              fakework_copy(&call, to, from, bytes, stream))
FAKE_FUNCTION(cuMemcpyDtoH_v2, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (void *to, uint64_t from, size_t bytes), fakework_to_host(&call, to, from, bytes))
FAKE_FUNCTION(cuMemsetD32_v2, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (uint64_t addr, unsigned value, size_t words),
              fakework_set_words(&call, addr, value, words))

/* -------------------------------------------------------------------------------------- kernels -- */

/* The image is PTX: a text, in which a kernel stands behind ".entry". */
static weir_cu_result fakework_module(fake_state *state, weir_cu_module *handle, const char *image)
{
    if (!image || !strstr(image, ".entry")) {
        return WEIR_CU_INVALID_VALUE;
    }
    char *copy = weir_fake_new(strlen(image) + 1);
    memcpy(copy, image, strlen(image));
    *handle = FAKE_HANDLE(weir_fake_add(state, FAKE_IS_MODULE, copy));
    return WEIR_CU_OK;
}

static weir_cu_result fakework_unload(fake_state *state, const void *handle)
{
    char *image = (char *)weir_fake_find(state, FAKE_IS_MODULE, handle);
    if (!image) {
        weir_fake_breach(state, "a module is unloaded that does not exist");
        return WEIR_CU_INVALID_HANDLE;
    }
    free(image);
    weir_fake_drop(state, FAKE_IS_MODULE, (uintptr_t)handle);
    return WEIR_CU_OK;
}

static weir_cu_result fakework_function(fake_state *state, weir_cu_function *handle,
                                        const void *module, const char *name)
{
    static const char *const names[] = {"weir_fill", "weir_verify", "weir_spin"};
    static const fake_work_kind kinds[] = {FAKE_FILL, FAKE_VERIFY, FAKE_SPIN};
    const char *image = (const char *)weir_fake_find(state, FAKE_IS_MODULE, module);
    for (unsigned i = 0; image && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(name, names[i]) == 0 && strstr(image, name)) {
            fake_function *function = weir_fake_new(sizeof(*function));
            function->module = (uintptr_t)module;
            function->kind = kinds[i];
            *handle = FAKE_HANDLE(weir_fake_add(state, FAKE_IS_FUNCTION, function));
            return WEIR_CU_OK;
        }
    }
    return image ? WEIR_CU_NOT_FOUND : WEIR_CU_INVALID_HANDLE;
}

static fake_work fakework_of(fake_work_kind kind, void **parameters)
{
    fake_work work = {.kind = kind};
    uint64_t *const *values = (uint64_t *const *)parameters;
    if (kind == FAKE_SPIN) {
        work.tag = *values[0];
        return work;
    }
    work.range[0] = (fake_range){*values[0], *values[1]};
    work.tag = *values[2];
    if (kind == FAKE_VERIFY) {
        work.range[1] = (fake_range){*values[3], sizeof(uint64_t)};
    }
    return work;
}

typedef struct fakework_grid {
    unsigned grid[3], block[3];
} fakework_grid;

static bool fakework_grid_fits(const fakework_grid *grid)
{
    uint64_t threads = 1;
    bool some = true;
    for (unsigned i = 0; i < 3; i++) {
        some = some && grid->grid[i] > 0 && grid->block[i] > 0;
        threads *= grid->block[i];
    }
    return some && threads <= 1024;
}

static weir_cu_result fakework_launch(fake_call *call, const void *handle, fakework_grid grid,
                                      const void *name, void **parameters)
{
    fake_state *state = call->state;
    const fake_function *function =
        (const fake_function *)weir_fake_find(state, FAKE_IS_FUNCTION, handle);
    const fake_stream *stream = weir_fake_stream(call, name);
    if (!function || !stream ||
        !weir_fake_find(state, FAKE_IS_MODULE, FAKE_HANDLE(function->module))) {
        weir_fake_breach(state, "a launch of no function, or on no stream");
        return WEIR_CU_INVALID_HANDLE;
    }
    if (stream->context != call->context) {
        weir_fake_breach(state, "a launch on a stream of another context");
        return WEIR_CU_INVALID_HANDLE;
    }
    if (!fakework_grid_fits(&grid) || !parameters) {
        return WEIR_CU_INVALID_VALUE;
    }
    fake_work work = fakework_of(function->kind, parameters);
    return fakework_submit(call, name, &work);
}

FAKE_FUNCTION(cuModuleLoadData, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (weir_cu_module * module, const void *image),
              fakework_module(call.state, module, (const char *)image))
FAKE_FUNCTION(cuModuleUnload, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE, (weir_cu_module module),
              fakework_unload(call.state, module))
FAKE_FUNCTION(cuModuleGetFunction, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_function * function, weir_cu_module module, const char *name),
              fakework_function(call.state, function, module, name))
FAKE_FUNCTION(cuLaunchKernel, FAKE_STARTED | FAKE_CURRENT,
              (weir_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
               weir_cu_stream stream, void **parameters, void **extra),
              ((void)shared_bytes, (void)extra,
               fakework_launch(&call, function,
                               (fakework_grid){{grid_x, grid_y, grid_z},
                                               {block_x, block_y, block_z}},
                               stream, parameters)))
