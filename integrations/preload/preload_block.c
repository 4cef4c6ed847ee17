/* SPDX-License-Identifier: MIT */
/*
 * Blocks: what programs were given, and what rests between cuMemFree and its reuse.
 *
 * The rule of cuMemAlloc and cuMemFree. A block of cuMemAlloc may be touched by every stream at once,
 * non-blocking ones too, and nobody says by which. So
 *
 *   R1  such a block is given only when all work that used its memory before has ended: it is
 *       allocated in the order of a stream of our own that nothing is ever queued on, and the host
 *       waits for that stream, which waits only where Weir lent it memory from another stream;
 *   R2  a freed block rests. It goes back to the pool when an event that was recorded after the free
 *       on the whole context (cuCtxRecordEvent), and so behind every stream of it, has passed.
 *
 * The driver's own cuMemFree waits for all work instead; here the host waits only where memory would
 * be taken from the device though as much rests, or where there is no more. So what rests is never
 * more than a request that was served while it rested.
 *
 * Events of the whole context come with driver 12.5; before that, cuCtxSynchronize takes their place
 * at the next allocation. Both break a running capture, so blocks rest while one runs. A stream's end
 * is of no matter: the event covers what is left of it.
 *
 * Owns       a tree of the live blocks by address, and for each device batches of resting ones.
 * Invariant  a resting block is live in the pool and in one batch; the open batch has no event yet.
 * Threads    one lock; released while the host waits. Taken before the runtime's locks.
 * Cost       a free: a search in the tree. An allocation: cuStreamSynchronize of an idle stream; one
 *            event for all frees since the last, if any.
 */
#include "preload.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>

struct preload_block {
    uint64_t addr; /* first: searches are given a pointer to an address */
    uint64_t bytes;
    preload_device *device;
    preload_block *next, *previous; /* of the device */
    bool rests;
};

struct preload_batch {
    preload_batch *next;
    void *event;
    bool ended; /* no event: all work had ended, or the context is broken and none will run */
    preload_block **blocks;
    size_t count, room;
};

static void *block_tree; /* the process's; cuMemFree has no argument that could carry it */
static pthread_mutex_t block_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---------------------------------------------------------------------------------------- tree -- */

static int block_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static preload_block *block_find(uint64_t addr)
{
    void *const *found = (void *const *)tfind(&addr, &block_tree, block_compare);
    return found ? (preload_block *)*found : NULL;
}

/* False: the host has no memory. */
static bool block_add(preload_device *device, uint64_t addr, uint64_t bytes)
{
    preload_block *block = (preload_block *)calloc(1, sizeof(*block));
    if (!block) {
        return false;
    }
    block->addr = addr;
    block->bytes = bytes;
    block->device = device;
    pthread_mutex_lock(&block_lock);
    bool added = tsearch(block, &block_tree, block_compare) != NULL;
    if (added) {
        block->next = device->blocks;
        if (block->next) {
            block->next->previous = block;
        }
        device->blocks = block;
    }
    pthread_mutex_unlock(&block_lock);
    if (!added) {
        free(block);
    }
    return added;
}

static void block_drop(preload_block *block)
{
    (void)tdelete(block, &block_tree, block_compare);
    if (block->next) {
        block->next->previous = block->previous;
    }
    *(block->previous ? &block->previous->next : &block->device->blocks) = block->next;
    free(block);
}

/* Gives a block back to the pool. The record goes first: the address may be given again at once. */
static int block_return(preload_block *block, uint64_t stream)
{
    uint64_t addr = block->addr;
    block_drop(block);
    return weir_preload_runtime_if()->free(addr, stream);
}

/* ------------------------------------------------------------------------------------- batches -- */

static uint64_t block_host(const preload_device *device)
{
    return (uint64_t)(uintptr_t)device->host;
}

static preload_batch *block_batch(preload_device *device)
{
    if (!device->open) {
        device->open =
            device->spare ? device->spare : (preload_batch *)calloc(1, sizeof(preload_batch));
        device->spare = NULL;
    }
    preload_batch *batch = device->open;
    if (batch && batch->count == batch->room) {
        size_t room = batch->room ? batch->room * 2 : 16;
        preload_block **grown =
            (preload_block **)realloc((void *)batch->blocks, room * sizeof(preload_block *));
        if (!grown) {
            return NULL;
        }
        batch->blocks = grown;
        batch->room = room;
    }
    return batch;
}

static void block_batch_free(preload_batch *batch)
{
    if (batch) {
        free((void *)batch->blocks);
        free(batch);
    }
}

/* The work of a batch has ended: its blocks go back to the pool. */
static void block_wake(preload_device *device, preload_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        device->resting_bytes -= batch->blocks[i]->bytes;
        (void)block_return(batch->blocks[i], block_host(device));
    }
    batch->count = 0;
    batch->ended = false;
    batch->next = NULL;
    if (!device->spare) {
        device->spare = batch;
        return;
    }
    if (batch->event) {
        (void)weir_preload_driver()->cuEventDestroy_v2(batch->event);
    }
    block_batch_free(batch);
}

/* Puts an event behind all work of the context. False: not now. */
static bool block_mark(const preload_device *device, preload_batch *batch)
{
    const preload_driver *driver = weir_preload_driver();
    preload_result result = PRELOAD_NOT_SUPPORTED;
    if (driver->cuCtxRecordEvent && !batch->event &&
        driver->cuEventCreate(&batch->event, PRELOAD_NO_TIMING) != PRELOAD_OK) {
        batch->event = NULL;
    }
    if (batch->event) {
        result = driver->cuCtxRecordEvent(device->context, batch->event);
    }
    if (result == PRELOAD_NOT_SUPPORTED) { /* an older driver */
        result = driver->cuCtxSynchronize();
        batch->ended = true;
    } else {
        batch->ended = result != PRELOAD_OK;
    }
    return result != PRELOAD_CAPTURE_UNSUPPORTED;
}

/* With the lock; the device's context is current. */
static void block_close(preload_device *device)
{
    preload_batch *batch = device->open;
    if (!batch || batch->count == 0 || weir_preload_is_captured() || !block_mark(device, batch)) {
        return;
    }
    device->open = NULL;
    *(device->first ? &device->last->next : &device->first) = batch;
    device->last = batch;
}

static preload_batch *block_shift(preload_device *device)
{
    preload_batch *batch = device->first;
    if (batch) {
        device->first = batch->next;
        batch->next = NULL;
    }
    return batch;
}

static bool block_has_passed(const preload_batch *batch)
{
    return batch->ended || weir_preload_driver()->cuEventQuery(batch->event) != PRELOAD_NOT_READY;
}

/* ----------------------------------------------------------------------------------- the pool -- */

/* What no capture of this thread may forbid or be broken by is done in relaxed mode. */
static int block_relax(int mode)
{
    const preload_driver *driver = weir_preload_driver();
    if (driver->cuThreadExchangeStreamCaptureMode) {
        (void)driver->cuThreadExchangeStreamCaptureMode(&mode);
    }
    return mode;
}

/* With the lock. */
static void block_settle(preload_device *device)
{
    if (!device->open && !device->first) {
        return;
    }
    int mode = block_relax(PRELOAD_RELAXED);
    block_close(device);
    while (device->first && block_has_passed(device->first)) {
        block_wake(device, block_shift(device));
    }
    (void)block_relax(mode);
}

/* Waits until `bytes` of what rests are back in the pool, or nothing is left to wait for. With the
 * lock, which is released while it waits. False: nothing came back. */
static bool block_await(preload_device *device, uint64_t bytes)
{
    uint64_t woken = 0;
    int mode = block_relax(PRELOAD_RELAXED);
    block_close(device);
    while (woken < bytes && device->first) {
        preload_batch *batch = block_shift(device);
        if (!batch->ended) {
            pthread_mutex_unlock(&block_lock);
            (void)weir_preload_driver()->cuEventSynchronize(batch->event);
            pthread_mutex_lock(&block_lock);
        }
        for (size_t i = 0; i < batch->count; i++) {
            woken += batch->blocks[i]->bytes;
        }
        block_wake(device, batch);
    }
    (void)block_relax(mode);
    return woken > 0;
}

/* Whether the pool has no `bytes` to give while as much rests. */
static bool block_is_better_awaited(const preload_device *device, uint64_t bytes)
{
    weir_runtime_stats stats = {.size = sizeof(stats)};
    if (device->resting_bytes < bytes ||
        weir_preload_runtime_if()->stats_read(device->ordinal, &stats) != WEIR_OK) {
        return false;
    }
    return stats.reserved.current - stats.allocated[0].current < bytes;
}

static void block_prepare(preload_device *device, uint64_t bytes)
{
    pthread_mutex_lock(&block_lock);
    block_settle(device);
    if (block_is_better_awaited(device, bytes)) {
        (void)block_await(device, bytes);
    }
    pthread_mutex_unlock(&block_lock);
}

static bool block_await_all(preload_device *device)
{
    pthread_mutex_lock(&block_lock);
    bool woken = block_await(device, UINT64_MAX);
    pthread_mutex_unlock(&block_lock);
    return woken;
}

preload_result weir_preload_answer(int status)
{
    switch (status) {
    case WEIR_OK:
        return PRELOAD_OK;
    case WEIR_NO_MEMORY:
    case WEIR_WOULD_WAIT:
    case WEIR_NO_METADATA:
        return PRELOAD_OUT_OF_MEMORY;
    default:
        return -1;
    }
}

static int block_alloc(preload_device *device, uint64_t bytes, uint64_t stream, uint64_t *addr)
{
    const preload_runtime *runtime = weir_preload_runtime_if();
    block_prepare(device, bytes);
    int status = runtime->alloc(device->ordinal, bytes, stream, addr);
    if (weir_preload_answer(status) == PRELOAD_OUT_OF_MEMORY && block_await_all(device)) {
        status = runtime->alloc(device->ordinal, bytes, stream, addr);
    }
    if (status == WEIR_OK && !block_add(device, *addr, bytes)) {
        (void)runtime->free(*addr, stream);
        status = WEIR_NO_METADATA;
    }
    return status;
}

int weir_preload_give_on(preload_device *device, uint64_t bytes, void *stream, uint64_t *addr)
{
    return block_alloc(device, bytes, (uint64_t)(uintptr_t)stream, addr);
}

int weir_preload_give(preload_device *device, uint64_t bytes, uint64_t *addr)
{
    int status = block_alloc(device, bytes, block_host(device), addr);
    if (status == WEIR_OK) {
        int mode = block_relax(PRELOAD_RELAXED);
        (void)weir_preload_driver()->cuStreamSynchronize(device->host); /* R1 */
        (void)block_relax(mode);
    }
    return status;
}

preload_result weir_preload_rest(uint64_t addr)
{
    pthread_mutex_lock(&block_lock);
    preload_block *block = block_find(addr);
    preload_batch *batch = block && !block->rests ? block_batch(block->device) : NULL;
    if (batch) {
        batch->blocks[batch->count++] = block;
        block->rests = true;
        block->device->resting_bytes += block->bytes;
    }
    pthread_mutex_unlock(&block_lock);
    return batch ? PRELOAD_OK : PRELOAD_INVALID_VALUE;
}

preload_result weir_preload_take(uint64_t addr, void *stream)
{
    int status = WEIR_NOT_FOUND;
    pthread_mutex_lock(&block_lock);
    preload_block *block = block_find(addr);
    if (block && !block->rests) {
        status = block_return(block, (uint64_t)(uintptr_t)stream);
    } else if (!block) { /* another user of the runtime allocated it */
        status = weir_preload_runtime_if()->free(addr, (uint64_t)(uintptr_t)stream);
    }
    pthread_mutex_unlock(&block_lock);
    return status == WEIR_OK ? PRELOAD_OK : PRELOAD_INVALID_VALUE;
}

uint64_t weir_preload_resting(preload_device *device)
{
    pthread_mutex_lock(&block_lock);
    uint64_t bytes = device->resting_bytes;
    pthread_mutex_unlock(&block_lock);
    return bytes;
}

static void block_wake_early(preload_device *device, preload_batch *batch)
{
    for (size_t i = 0; batch && i < batch->count; i++) {
        (void)block_return(batch->blocks[i], block_host(device));
    }
    if (batch) {
        batch->count = 0;
    }
}

void weir_preload_blocks_wake(preload_device *device)
{
    pthread_mutex_lock(&block_lock);
    for (preload_batch *batch = device->first; batch; batch = batch->next) {
        block_wake_early(device, batch);
    }
    block_wake_early(device, device->open);
    device->resting_bytes = 0;
    pthread_mutex_unlock(&block_lock);
}

void weir_preload_blocks_end(preload_device *device)
{
    pthread_mutex_lock(&block_lock);
    while (device->blocks) {
        (void)block_return(device->blocks, block_host(device));
    }
    for (preload_batch *batch = device->first; batch;) {
        preload_batch *next = batch->next;
        block_batch_free(batch);
        batch = next;
    }
    block_batch_free(device->open);
    block_batch_free(device->spare);
    device->open = device->first = device->last = device->spare = NULL;
    device->resting_bytes = 0;
    pthread_mutex_unlock(&block_lock);
}
