/* SPDX-License-Identifier: MIT */
/*
 * Memory: the calls on blocks and on what a device holds.
 *
 * Cost  On top of the pool's: one look into the books, under the device's lock; with history or a
 *       trace a record each.
 */
#include "runtime_internal.h"

#include <stdio.h>
#include <string.h>

static void *memory_stream(uint64_t stream)
{
    return (void *)(uintptr_t)stream; /* 0 and 1 are the legacy stream to the pool as well */
}

/* -------------------------------------------------------------------------------------- alloc -- */

static void memory_note(const weir_rt_device *on, weir_rt_act act, const weir_rt_block *block)
{
    weir_rt_event event = {.act = act,
                           .device = on->ordinal,
                           .addr = block->addr,
                           .bytes = block->bytes,
                           .stream = block->stream,
                           .stack = block->stack};
    if (block->pool != 0) {
        event.hi = on->pools[block->pool].hi;
        event.lo = on->pools[block->pool].lo;
    }
    weir_rt_history_note(&event);
}

static int memory_failed(weir_rt_device *on, int status, uint64_t bytes, uint64_t stream)
{
    char text[WEIR_RT_WHY_BYTES];
    weir_rt_oom_sentence(on, status, bytes, text, sizeof(text));
    if (status != WEIR_NO_MEMORY && status != WEIR_WOULD_WAIT) {
        return weir_rt_fail(status, "%s", text);
    }
    weir_rt_block none = {.bytes = bytes, .stream = stream};
    pthread_mutex_lock(&on->lock);
    on->stats.ooms++;
    if (weir_rt_history_on()) {
        memory_note(on, WEIR_RT_OOM, &none);
    }
    pthread_mutex_unlock(&on->lock);
    return weir_rt_fail(status, "%s", text);
}

/* Puts a new block on the books; false where host memory is short. */
static bool memory_book(weir_rt_device *on, weir_rt_block *block)
{
    pthread_mutex_lock(&on->lock);
    bool booked = weir_rt_books_add(&on->books, block);
    if (booked) {
        weir_rt_stats_add(on, block);
        weir_rt_books_find(&on->books, block->addr)->id =
            weir_rt_trace_alloc(block->requested, block->stream);
        if (weir_rt_history_on()) {
            memory_note(on, WEIR_RT_ALLOC, block);
        }
    }
    pthread_mutex_unlock(&on->lock);
    return booked;
}

/* What the block occupies; a block of no bytes occupies a unit. */
static uint64_t memory_occupied(const weir_rt_device *on, uint64_t addr, uint64_t requested)
{
    weir_block block;
    return weir_block_find(weir_rt_core(on), addr, &block) == WEIR_OK ? block.bytes : requested;
}

int weir_runtime_alloc(int device, uint64_t bytes, uint64_t stream, uint64_t *addr)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    if (!addr) {
        return weir_rt_fail(WEIR_INVALID, "there is no place for the address");
    }
    weir_rt_block block = {.requested = bytes, .stream = stream};
    block.stack = weir_rt_history_stack();
    block.born_us = weir_rt_about_now_us();
    status = (int)weir_rt_pool_place(on, bytes, stream, &block.pool, &block.addr);
    if (status != WEIR_OK) {
        return memory_failed(on, status, bytes, stream);
    }
    block.bytes = memory_occupied(on, block.addr, bytes);
    if (!memory_book(on, &block)) {
        (void)weir_cuda_pool_free(weir_rt_cuda(on), block.addr, memory_stream(stream));
        return weir_rt_fail(WEIR_NO_METADATA, "not enough host memory");
    }
    *addr = block.addr;
    return WEIR_OK;
}

/* --------------------------------------------------------------------------------------- free -- */

static bool memory_take(weir_rt_device *on, uint64_t addr, weir_rt_block *block)
{
    pthread_mutex_lock(&on->lock);
    bool taken = weir_rt_books_take(&on->books, addr, block);
    if (taken) {
        weir_rt_stats_take(on, block);
        weir_rt_trace_free(block);
        if (weir_rt_history_on()) {
            memory_note(on, WEIR_RT_FREE, block);
        }
    }
    pthread_mutex_unlock(&on->lock);
    return taken;
}

/* Takes a block off the books of whichever device has it. A thread mostly works with one device, so
 * that one is asked first: threads of several devices do not meet at each other's locks. */
static weir_rt_device *memory_unbook(uint64_t addr, weir_rt_block *block)
{
    static _Thread_local int last;
    weir_rt_device *first = weir_rt_device_peek(last);
    if (first && memory_take(first, addr, block)) {
        return first;
    }
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        if (on != first && memory_take(on, addr, block)) {
            last = on->ordinal;
            return on;
        }
    }
    return NULL;
}

/* A stream that has ended can't be named any more. What it had queued is behind the block all the
 * same, as the pool was told of its end. */
static weir_status memory_free_on(weir_rt_device *on, uint64_t addr, uint64_t stream)
{
    weir_cuda_pool *cuda = weir_rt_cuda(on);
    weir_status status = weir_cuda_pool_free(cuda, addr, memory_stream(stream));
    if (status == WEIR_INVALID || status == WEIR_STALE) {
        status = weir_cuda_pool_free(cuda, addr, NULL);
    }
    return status;
}

int weir_runtime_free(uint64_t addr, uint64_t stream)
{
    weir_rt_block block;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    weir_rt_device *on = memory_unbook(addr, &block);
    if (!on) {
        return weir_rt_fail(WEIR_NOT_FOUND, "0x%llx is not the address of a live block",
                            (unsigned long long)addr);
    }
    weir_status status = memory_free_on(on, addr, stream);
    if (status != WEIR_OK) { /* the owner still has it */
        (void)memory_book(on, &block);
        return weir_rt_fail((int)status, "0x%llx was not freed: %s", (unsigned long long)addr,
                            weir_status_text(status));
    }
    if (block.pool != 0) {
        weir_rt_pool_drop(on, block.pool);
    }
    return WEIR_OK;
}

/* --------------------------------------------------------------------------- looking a block up -- */

/* The device whose books have a block that begins at `addr`, and the block's length. */
static weir_rt_device *memory_owner(uint64_t addr, uint64_t *bytes)
{
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        pthread_mutex_lock(&on->lock);
        const weir_rt_block *block = weir_rt_books_find(&on->books, addr);
        *bytes = block ? block->bytes : 0;
        pthread_mutex_unlock(&on->lock);
        if (block) {
            return on;
        }
    }
    return NULL;
}

/* The device with the block that holds `addr`, and the block's first address. All books are asked
 * before any pool, which would walk over its blocks for an address that is not one of its own. */
static weir_rt_device *memory_holder(uint64_t addr, uint64_t *base, uint64_t *bytes)
{
    weir_block block;
    weir_rt_device *owner = memory_owner(addr, bytes);
    if (owner) {
        *base = addr;
        return owner;
    }
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        if (weir_block_find(weir_rt_core(on), addr, &block) == WEIR_OK) {
            *base = block.addr;
            *bytes = block.bytes;
            return on;
        }
    }
    (void)weir_rt_fail(WEIR_NOT_FOUND, "0x%llx lies in no live block", (unsigned long long)addr);
    return NULL;
}

int weir_runtime_find(uint64_t addr, int *device, uint64_t *base, uint64_t *bytes)
{
    uint64_t first, length;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    weir_rt_device *on = memory_holder(addr, &first, &length);
    if (!on) {
        return WEIR_NOT_FOUND;
    }
    if (device) {
        *device = on->ordinal;
    }
    if (base) {
        *base = first;
    }
    if (bytes) {
        *bytes = length;
    }
    return WEIR_OK;
}

int weir_runtime_owns(uint64_t addr)
{
    uint64_t bytes;
    return memory_owner(addr, &bytes) ? 1 : 0;
}

static int memory_say(weir_status status)
{
    return status == WEIR_OK ? WEIR_OK : weir_rt_fail((int)status, "%s", weir_status_text(status));
}

int weir_runtime_use(uint64_t addr, uint64_t stream)
{
    uint64_t base, bytes;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    weir_rt_device *on = memory_holder(addr, &base, &bytes);
    if (!on) {
        return WEIR_NOT_FOUND;
    }
    return memory_say(weir_cuda_pool_use(weir_rt_cuda(on), base, memory_stream(stream)));
}

int weir_runtime_pin(uint64_t addr)
{
    uint64_t base, bytes;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    weir_rt_device *on = memory_holder(addr, &base, &bytes);
    return on ? memory_say(weir_pin(weir_rt_core(on), base)) : WEIR_NOT_FOUND;
}

int weir_runtime_peer(int device, int other)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    return on ? memory_say(weir_cuda_peer(weir_cuda_pool_device(weir_rt_cuda(on)), other)) : status;
}

int weir_runtime_stream_end(uint64_t stream)
{
    weir_status status = WEIR_OK;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        weir_status ended = weir_cuda_pool_stream_end(weir_rt_cuda(on), memory_stream(stream));
        status = status == WEIR_OK ? ended : status;
    }
    return memory_say(status);
}

int weir_runtime_capture_begin(int device)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (on) {
        weir_cuda_pool_capture_begin(weir_rt_cuda(on));
    }
    return on ? WEIR_OK : status;
}

int weir_runtime_capture_end(int device)
{
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    weir_rt_device *on = weir_rt_device_peek(device);
    if (!on) {
        return weir_rt_fail(WEIR_NOT_FOUND, "device %d has no pool, so no capture began", device);
    }
    weir_cuda_pool_capture_end(weir_rt_cuda(on));
    return WEIR_OK;
}

/* ------------------------------------------------------------------------------- what is held -- */

int weir_runtime_trim(int device, uint64_t keep, uint64_t *released)
{
    uint64_t sum = 0;
    weir_status status = WEIR_OK;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    for (weir_rt_device *on = weir_rt_first(device); on; on = weir_rt_next(device, on)) {
        uint64_t part = 0;
        (void)weir_cuda_pool_settle(weir_rt_cuda(on));
        weir_status trimmed = weir_trim(weir_rt_core(on), keep, WEIR_FOREVER, &part);
        status = status == WEIR_OK ? trimmed : status;
        sum += part;
    }
    if (released) {
        *released = sum;
    }
    return memory_say(status);
}

int weir_runtime_limit(int device, uint64_t bytes)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    return on ? memory_say(weir_limit_set(weir_rt_core(on), bytes)) : status;
}

static weir_status memory_of_device(const weir_rt_device *on, uint64_t *free_bytes, uint64_t *total)
{
    weir_cuda *cuda = weir_cuda_pool_device(weir_rt_cuda(on));
    return weir_cuda_ops(cuda)->memory_info(cuda, free_bytes, total);
}

int weir_runtime_limit_part(int device, double part)
{
    uint64_t free_bytes, total;
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    if (!(part > 0.0 && part <= 1.0)) {
        return weir_rt_fail(WEIR_INVALID, "a part of the device is above 0 and at most 1");
    }
    status = memory_say(memory_of_device(on, &free_bytes, &total));
    if (status != WEIR_OK) {
        return status;
    }
    uint64_t limit = part < 1.0 ? (uint64_t)((double)total * part) : WEIR_NO_LIMIT;
    return weir_runtime_limit(device, limit < on->settings_limit ? limit : on->settings_limit);
}

int weir_runtime_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    uint64_t free_now, total;
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    status = memory_say(memory_of_device(on, &free_now, &total));
    if (status != WEIR_OK) {
        return status;
    }
    weir_stats core = {.size = sizeof(core)};
    weir_stats_read(weir_rt_core(on), &core);
    uint64_t live = core.allocated.current;
    free_now +=
        core.reserved.current - (live < core.reserved.current ? live : core.reserved.current);
    if (core.limit_bytes != 0 && core.limit_bytes < total) {
        total = core.limit_bytes;
        uint64_t left = total - (live < total ? live : total);
        free_now = free_now < left ? free_now : left;
    }
    if (free_bytes) {
        *free_bytes = free_now;
    }
    if (total_bytes) {
        *total_bytes = total;
    }
    return WEIR_OK;
}
