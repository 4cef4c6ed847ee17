/* SPDX-License-Identifier: MIT */
/*
 * Memory that comes with its addresses: cuMemAlloc, and the driver's pools.
 *
 * Owns        anonymous pages. A pool keeps what was freed into it until it is trimmed: on request,
 *             when the device is full, and at a synchronisation down to the release threshold. As
 *             measured it trims only what a synchronisation has shown to be free; an event that
 *             has passed shows nothing.
 * Invariants  A block of a pool may be touched when its stream has come to the allocation, and is
 *             free when it has come to the free.
 */
#define _GNU_SOURCE
#include "fake_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#define FAKESEG_ODD 512u

/* --------------------------------------------------------------------------------------- pages -- */

static uint64_t fakeseg_round(uint64_t bytes)
{
    return (bytes + FAKE_GRANULE - 1) & ~(FAKE_GRANULE - 1);
}

/* Pages of one device, aligned to 2 MiB; 0: the device is full. */
static uint64_t fakeseg_pages(fake_state *state, int device, uint64_t bytes)
{
    if (!weir_fake_take(state, device, bytes)) {
        return 0;
    }
    char *found = mmap(NULL, (size_t)(bytes + FAKE_GRANULE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) {
        abort();
    }
    size_t head = (size_t)(fakeseg_round((uintptr_t)found) - (uintptr_t)found);
    if (head > 0) {
        munmap(found, head);
    }
    munmap(found + head + bytes, (size_t)(FAKE_GRANULE - head));
    return (uintptr_t)found + head;
}

static void fakeseg_pages_drop(fake_state *state, int device, fake_block block)
{
    munmap(FAKE_HANDLE(block.base), (size_t)block.base_bytes);
    weir_fake_untake(state, device, block.base_bytes);
}

static uint64_t fakeseg_odd(const fake_state *state)
{
    return state->config.odd_segments ? FAKESEG_ODD : 0;
}

/* --------------------------------------------------------------------------------------- alloc -- */

static weir_cu_result fakeseg_alloc(fake_call *call, uint64_t *addr, size_t bytes)
{
    fake_state *state = call->state;
    uint64_t whole = fakeseg_round(bytes + fakeseg_odd(state));
    int device = call->context->device;
    if (bytes == 0) {
        return WEIR_CU_INVALID_VALUE;
    }
    uint64_t base = fakeseg_pages(state, device, whole);
    if (base == 0) {
        return WEIR_CU_OUT_OF_MEMORY;
    }
    *addr = base + fakeseg_odd(state);
    weir_fake_area_add(state, (fake_area){.addr = *addr,
                                          .bytes = bytes,
                                          .kind = FAKE_ALLOCATED,
                                          .device = device,
                                          .access = 1u << device,
                                          .base = base,
                                          .base_bytes = whole,
                                          .ready = true});
    return WEIR_CU_OK;
}

/* Waits for the work of the context, as measured. */
static weir_cu_result fakeseg_free(fake_call *call, uint64_t addr)
{
    fake_state *state = call->state;
    weir_fake_wait(state, weir_fake_gather(state, call->context));
    fake_area *area = weir_fake_area_at(state, addr);
    if (!area || area->kind != FAKE_ALLOCATED) {
        weir_fake_breach(state, "cuMemFree of what cuMemAlloc did not give");
        return WEIR_CU_INVALID_VALUE;
    }
    if (weir_fake_is_used(state, area->addr, area->bytes, UINT64_MAX)) {
        weir_fake_breach(state, "cuMemFree under unfinished work of another context");
        return WEIR_CU_INVALID_VALUE;
    }
    fakeseg_pages_drop(state, area->device, (fake_block){area->base, area->base_bytes, 0, false});
    weir_fake_area_remove(state, area);
    return WEIR_CU_OK;
}

static weir_cu_result fakeseg_info(const fake_call *call, size_t *free_bytes, size_t *total_bytes)
{
    const fake_device *device = &call->state->devices[call->context->device];
    *total_bytes = (size_t)call->state->config.memory_bytes;
    *free_bytes = (size_t)(call->state->config.memory_bytes - device->held_bytes);
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuMemAlloc_v2, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (uint64_t * addr, size_t bytes), fakeseg_alloc(&call, addr, bytes))
FAKE_FUNCTION(cuMemFree_v2, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE, (uint64_t addr),
              fakeseg_free(&call, addr))
FAKE_FUNCTION(cuMemGetInfo_v2, FAKE_STARTED | FAKE_CURRENT,
              (size_t * free_bytes, size_t *total_bytes),
              fakeseg_info(&call, free_bytes, total_bytes))

/* --------------------------------------------------------------------------------------- pools -- */

static fake_pool *fakeseg_pool(fake_state *state, const void *handle)
{
    fake_pool *pool = (fake_pool *)weir_fake_find(state, FAKE_IS_POOL, handle);
    if (!pool || pool->ended) {
        weir_fake_breach(state, "use of a driver's pool that does not exist");
        return NULL;
    }
    return pool;
}

/* Of what was seen to be free, or of all. */
static void fakeseg_trim(fake_state *state, fake_pool *pool, uint64_t keep, bool all)
{
    for (size_t i = pool->count; i-- > 0 && pool->reserved > keep;) {
        fake_block block = pool->blocks[i];
        if (all || block.seen) {
            pool->blocks[i] = pool->blocks[--pool->count];
            pool->reserved -= block.base_bytes;
            fakeseg_pages_drop(state, pool->device, block);
        }
    }
}

static void fakeseg_pool_drop(fake_state *state, fake_pool *pool)
{
    fakeseg_trim(state, pool, 0, true);
    weir_fake_drop(state, FAKE_IS_POOL, pool->handle);
    free(pool->blocks);
    free(pool);
}

void weir_fake_pools_sync(fake_state *state, int device, uint64_t number)
{
    fake_table *table = &state->tables[FAKE_IS_POOL];
    for (size_t i = 0; i < table->count; i++) {
        fake_pool *pool = (fake_pool *)table->at[i];
        if (!pool || pool->device != device) {
            continue;
        }
        for (size_t j = 0; j < pool->count; j++) {
            fake_block *block = &pool->blocks[j];
            block->seen = block->seen || number == 0 || block->number == number;
        }
        fakeseg_trim(state, pool, pool->threshold, false);
    }
}

/* All pages that are left, of pools and of cuMemAlloc, and the handles. */
void weir_fake_pools_drop(fake_state *state)
{
    for (size_t i = 0; i < state->area_count; i++) {
        const fake_area *area = &state->areas[i];
        if (area->kind != FAKE_MAPPED) {
            fakeseg_pages_drop(state, area->device,
                               (fake_block){area->base, area->base_bytes, 0, false});
        }
    }
    for (size_t i = 0; i < state->tables[FAKE_IS_POOL].count; i++) {
        if (state->tables[FAKE_IS_POOL].at[i]) {
            fakeseg_pool_drop(state, (fake_pool *)state->tables[FAKE_IS_POOL].at[i]);
        }
    }
    for (size_t i = 0; i < state->tables[FAKE_IS_HANDLE].count; i++) {
        fake_handle *handle = (fake_handle *)state->tables[FAKE_IS_HANDLE].at[i];
        if (handle && --handle->names == 0) {
            free(handle);
        }
    }
}

static weir_cu_result fakeseg_pool_create(fake_state *state, weir_cu_pool *handle,
                                          const weir_cu_pool_prop *prop)
{
    if (state->config.no_pools) {
        return WEIR_CU_NOT_SUPPORTED;
    }
    if (!prop || prop->type != WEIR_CU_ALLOCATION_PINNED ||
        prop->location.type != WEIR_CU_LOCATION_DEVICE ||
        !weir_fake_device_is(state, prop->location.id)) {
        return WEIR_CU_INVALID_VALUE;
    }
    fake_pool *pool = weir_fake_new(sizeof(*pool));
    pool->device = prop->location.id;
    pool->access = 1u << pool->device;
    pool->handle = weir_fake_add(state, FAKE_IS_POOL, pool);
    *handle = FAKE_HANDLE(pool->handle);
    return WEIR_CU_OK;
}

static weir_cu_result fakeseg_pool_destroy(fake_state *state, const void *handle)
{
    fake_pool *pool = fakeseg_pool(state, handle);
    if (!pool) {
        return WEIR_CU_INVALID_VALUE;
    }
    for (size_t i = 0; i < state->area_count; i++) {
        if (state->areas[i].pool == pool && !state->areas[i].going) {
            weir_fake_breach(state, "a driver's pool is destroyed that still has live memory");
        }
    }
    pool->ended = true;
    if (pool->used == 0) {
        fakeseg_pool_drop(state, pool);
    }
    return WEIR_CU_OK;
}

static uint64_t *fakeseg_pool_value(fake_pool *pool, int attribute)
{
    switch (attribute) {
    case WEIR_CU_POOL_RELEASE_THRESHOLD:
        return &pool->threshold;
    case WEIR_CU_POOL_RESERVED:
        return &pool->reserved;
    case WEIR_CU_POOL_RESERVED_HIGH:
        return &pool->reserved_high;
    case WEIR_CU_POOL_USED:
        return &pool->used;
    case WEIR_CU_POOL_USED_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

/* Only the threshold can be set, and the highs to 0. */
static weir_cu_result fakeseg_pool_set(fake_state *state, const void *handle, int attribute,
                                       const uint64_t *value)
{
    fake_pool *pool = fakeseg_pool(state, handle);
    uint64_t *slot = pool ? fakeseg_pool_value(pool, attribute) : NULL;
    bool high = attribute == WEIR_CU_POOL_RESERVED_HIGH || attribute == WEIR_CU_POOL_USED_HIGH;
    if (!slot || !value || (attribute != WEIR_CU_POOL_RELEASE_THRESHOLD && (!high || *value))) {
        return WEIR_CU_INVALID_VALUE;
    }
    *slot = *value;
    return WEIR_CU_OK;
}

static weir_cu_result fakeseg_pool_get(fake_state *state, const void *handle, int attribute,
                                       uint64_t *value)
{
    fake_pool *pool = fakeseg_pool(state, handle);
    const uint64_t *slot = pool ? fakeseg_pool_value(pool, attribute) : NULL;
    if (!slot || !value) {
        return WEIR_CU_INVALID_VALUE;
    }
    *value = *slot;
    return WEIR_CU_OK;
}

static weir_cu_result fakeseg_pool_trim(fake_state *state, const void *handle, size_t keep)
{
    fake_pool *pool = fakeseg_pool(state, handle);
    if (!pool) {
        return WEIR_CU_INVALID_VALUE;
    }
    fakeseg_trim(state, pool, keep, false);
    return WEIR_CU_OK;
}

static weir_cu_result fakeseg_pool_access(fake_state *state, const void *handle,
                                          const weir_cu_access *access, size_t count)
{
    fake_pool *pool = fakeseg_pool(state, handle);
    unsigned bits = pool ? weir_fake_access(state, pool->device, access, count) : 0;
    if (bits == 0) {
        return WEIR_CU_INVALID_VALUE;
    }
    pool->access |= bits;
    for (size_t i = 0; i < state->area_count; i++) {
        if (state->areas[i].pool == pool) {
            state->areas[i].access |= bits;
        }
    }
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuMemPoolCreate, FAKE_STARTED | FAKE_UNSAFE,
              (weir_cu_pool * pool, const weir_cu_pool_prop *prop),
              fakeseg_pool_create(call.state, pool, prop))
FAKE_FUNCTION(cuMemPoolDestroy, FAKE_STARTED | FAKE_UNSAFE, (weir_cu_pool pool),
              fakeseg_pool_destroy(call.state, pool))
FAKE_FUNCTION(cuMemPoolSetAttribute, FAKE_STARTED | FAKE_UNSAFE,
              (weir_cu_pool pool, int attribute, void *value),
              fakeseg_pool_set(call.state, pool, attribute, (const uint64_t *)value))
FAKE_FUNCTION(cuMemPoolGetAttribute, FAKE_STARTED | FAKE_UNSAFE,
              (weir_cu_pool pool, int attribute, void *value),
              fakeseg_pool_get(call.state, pool, attribute, (uint64_t *)value))
FAKE_FUNCTION(cuMemPoolTrimTo, FAKE_STARTED | FAKE_UNSAFE, (weir_cu_pool pool, size_t keep_bytes),
              fakeseg_pool_trim(call.state, pool, keep_bytes))
FAKE_FUNCTION(cuMemPoolSetAccess, FAKE_STARTED | FAKE_UNSAFE,
              (weir_cu_pool pool, const weir_cu_access *access, size_t count),
              fakeseg_pool_access(call.state, pool, access, count))

/* ------------------------------------------------------------------------------ in stream order -- */

/* The smallest free block that is large enough and not twice too large, or new pages. */
static bool fakeseg_block(fake_state *state, fake_pool *pool, uint64_t bytes, fake_block *block)
{
    size_t best = pool->count;
    for (size_t i = 0; i < pool->count; i++) {
        uint64_t have = pool->blocks[i].base_bytes;
        if (have >= bytes && have / 2 < bytes &&
            (best == pool->count || have < pool->blocks[best].base_bytes)) {
            best = i;
        }
    }
    if (best < pool->count) {
        *block = pool->blocks[best];
        pool->blocks[best] = pool->blocks[--pool->count];
        return true;
    }
    *block = (fake_block){fakeseg_pages(state, pool->device, bytes), bytes, 0, false};
    if (block->base == 0) {
        fakeseg_trim(state, pool, 0, true);
        block->base = fakeseg_pages(state, pool->device, bytes);
    }
    pool->reserved += block->base != 0 ? bytes : 0;
    pool->reserved_high =
        pool->reserved_high > pool->reserved ? pool->reserved_high : pool->reserved;
    return block->base != 0;
}

/* Where there is none, what was freed on the stream before is waited for. */
static weir_cu_result fakeseg_arrive(fake_call *call, uint64_t *addr, size_t bytes, fake_pool *pool,
                                     fake_stream *stream)
{
    fake_state *state = call->state;
    uint64_t whole = fakeseg_round(bytes + fakeseg_odd(state));
    fake_block block;
    bool found = fakeseg_block(state, pool, whole, &block);
    if (!found) {
        weir_fake_wait(state, stream->number);
        found = fakeseg_block(state, pool, whole, &block);
    }
    if (!found) {
        return WEIR_CU_OUT_OF_MEMORY;
    }
    pool->used += block.base_bytes;
    pool->used_high = pool->used_high > pool->used ? pool->used_high : pool->used;
    *addr = block.base + fakeseg_odd(state);
    weir_fake_area_add(state, (fake_area){.addr = *addr,
                                          .bytes = bytes,
                                          .kind = FAKE_POOLED,
                                          .device = pool->device,
                                          .access = pool->access,
                                          .pool = pool,
                                          .base = block.base,
                                          .base_bytes = block.base_bytes});
    fake_work work = {.kind = FAKE_ARRIVE, .tag = *addr};
    return weir_fake_queue(call, stream, &work);
}

static weir_cu_result fakeseg_alloc_async(fake_call *call, uint64_t *addr, size_t bytes,
                                          const void *handle, const void *name)
{
    fake_state *state = call->state;
    fake_pool *pool = fakeseg_pool(state, handle);
    fake_stream *stream = weir_fake_stream(call, name);
    if (!pool || !stream || bytes == 0) {
        return WEIR_CU_INVALID_VALUE;
    }
    if (stream->capture) {
        weir_fake_breach(state, "an allocation of a driver's pool is captured");
        return WEIR_CU_NOT_SUPPORTED;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    return result == WEIR_CU_OK ? fakeseg_arrive(call, addr, bytes, pool, stream) : result;
}

static weir_cu_result fakeseg_free_async(fake_call *call, uint64_t addr, const void *name)
{
    fake_state *state = call->state;
    fake_stream *stream = weir_fake_stream(call, name);
    fake_area *area = weir_fake_area_at(state, addr);
    if (!stream || !area || area->kind != FAKE_POOLED || area->going || stream->capture) {
        weir_fake_breach(state, "cuMemFreeAsync of what is no live memory of a pool");
        return WEIR_CU_INVALID_VALUE;
    }
    weir_cu_result result = weir_fake_stream_check(call, stream);
    if (result == WEIR_CU_OK) {
        fake_work work = {.kind = FAKE_LEAVE, .tag = addr};
        area->going = true;
        result = weir_fake_queue(call, stream, &work);
    }
    return result;
}

void weir_fake_pool_arrive(fake_state *state, uint64_t addr)
{
    weir_fake_area_at(state, addr)->ready = true;
}

void weir_fake_pool_leave(fake_state *state, uint64_t addr, uint64_t number)
{
    fake_area *area = weir_fake_area_at(state, addr);
    fake_pool *pool = area->pool;
    pool->used -= area->base_bytes;
    pool->blocks = weir_fake_room(pool->blocks, pool->count, &pool->room, sizeof(*pool->blocks));
    pool->blocks[pool->count++] = (fake_block){area->base, area->base_bytes, number, false};
    weir_fake_area_remove(state, area);
    if (pool->ended && pool->used == 0) {
        fakeseg_pool_drop(state, pool);
    }
}

FAKE_FUNCTION(cuMemAllocFromPoolAsync, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (uint64_t * addr, size_t bytes, weir_cu_pool pool, weir_cu_stream stream),
              fakeseg_alloc_async(&call, addr, bytes, pool, stream))
FAKE_FUNCTION(cuMemFreeAsync, FAKE_STARTED | FAKE_CURRENT | FAKE_UNSAFE,
              (uint64_t addr, weir_cu_stream stream), fakeseg_free_async(&call, addr, stream))
