/* SPDX-License-Identifier: MIT */
/*
 * Segments: memory by the piece, from a driver pool of our own or from cuMemAlloc.
 *
 * Owns        the driver's pool of the async source.
 * Invariants  A segment starts at a granule: where the driver's address does not, a granule more is
 *             asked for, and the books keep the driver's address.
 *             The driver's pool keeps everything at synchronisations that the program makes; only
 *             segment_free trims it, to the release threshold.
 * Cost        alloc: one driver call, and for async a look at an event that has nothing to wait for,
 *             as only our own allocations run on the carrier. free: the same, and a trim.
 */
#include "cuda_internal.h"

#include <sched.h>
#include <string.h>

#define SEGMENT_GRANULE (UINT64_C(2) << 20)

/* ------------------------------------------------------------------------------------- pool -- */

weir_cu_result weir_cuda_segment_open(weir_cuda *cuda)
{
    weir_driver *driver = &cuda->driver;
    uint64_t keep = UINT64_MAX;
    weir_cu_pool_prop prop;
    memset(&prop, 0, sizeof(prop));
    prop.type = WEIR_CU_ALLOCATION_PINNED;
    prop.location.type = WEIR_CU_LOCATION_DEVICE;
    prop.location.id = cuda->device;
    weir_cu_result result = driver->pool_create(&cuda->pool, &prop);
    if (result != WEIR_CU_OK) {
        cuda->pool = NULL;
        return result;
    }
    result = driver->pool_set(cuda->pool, WEIR_CU_POOL_RELEASE_THRESHOLD, &keep);
    if (result != WEIR_CU_OK) {
        weir_cuda_segment_close(cuda);
    }
    return result;
}

void weir_cuda_segment_close(weir_cuda *cuda)
{
    if (cuda->pool) {
        cuda->driver.pool_destroy(cuda->pool);
        cuda->pool = NULL;
    }
}

/* Until the allocation put on the carrier is done. Not by a synchronisation, at which the driver may
 * trim pools of the program. The lock is held. */
static weir_cu_result segment_carried(weir_cuda *cuda)
{
    weir_driver *driver = &cuda->driver;
    weir_cu_result result = driver->event_record(cuda->carried, cuda->carrier);
    while (result == WEIR_CU_OK &&
           (result = driver->event_query(cuda->carried)) == WEIR_CU_NOT_READY) {
        sched_yield();
        result = WEIR_CU_OK;
    }
    return result;
}

/* ------------------------------------------------------------------------------------ driver -- */

static weir_cu_result segment_take(weir_cuda *cuda, uint64_t bytes, weir_addr *addr)
{
    weir_driver *driver = &cuda->driver;
    if (cuda->source == WEIR_CONF_MALLOC) {
        return driver->alloc(addr, bytes);
    }
    weir_cu_result result = driver->alloc_async(addr, bytes, cuda->pool, cuda->carrier);
    if (result != WEIR_CU_OK) {
        return result;
    }
    result = segment_carried(cuda);
    if (result != WEIR_CU_OK) {
        driver->free_async(*addr, cuda->carrier);
    }
    return result;
}

/* The driver trims only what a synchronisation has shown it to be done, an event is not enough. Ours
 * is of the carrier alone, which has nothing to wait for. */
static weir_cu_result segment_trim(weir_cuda *cuda)
{
    weir_driver *driver = &cuda->driver;
    uint64_t keep_bytes = cuda->config.release_threshold_bytes;
    uint64_t held_bytes = 0;
    weir_cu_result result = driver->pool_get(cuda->pool, WEIR_CU_POOL_RESERVED, &held_bytes);
    if (result != WEIR_CU_OK || held_bytes <= keep_bytes) {
        return result;
    }
    result = driver->stream_sync(cuda->carrier);
    return result == WEIR_CU_OK ? driver->pool_trim(cuda->pool, keep_bytes) : result;
}

static weir_cu_result segment_drop(weir_cuda *cuda, weir_addr addr)
{
    weir_driver *driver = &cuda->driver;
    if (cuda->source == WEIR_CONF_MALLOC) {
        return driver->free(addr);
    }
    return driver->free_async(addr, cuda->carrier);
}

/* ------------------------------------------------------------------------------------- calls -- */

/* The lock is held, and the scope entered. */
static weir_cu_result segment_get(weir_cuda *cuda, uint64_t bytes, weir_cuda_extent *extent)
{
    weir_cu_result result = segment_take(cuda, bytes, &extent->under);
    if (result == WEIR_CU_OK && (extent->under & (SEGMENT_GRANULE - 1)) != 0) {
        segment_drop(cuda, extent->under);
        result = segment_take(cuda, bytes + SEGMENT_GRANULE, &extent->under);
    }
    extent->addr = (extent->under + SEGMENT_GRANULE - 1) & ~(SEGMENT_GRANULE - 1);
    extent->bytes = bytes;
    return result;
}

weir_status weir_cuda_op_segment_alloc(void *self, uint64_t bytes, weir_addr *addr)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_extent extent = {0, 0, 0};
    weir_cuda_scope scope;
    weir_status status = WEIR_NO_METADATA;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    pthread_mutex_lock(&cuda->lock);
    if (weir_cuda_extent_room(&cuda->extents)) {
        result = segment_get(cuda, bytes, &extent);
        status = weir_cuda_answer(cuda, result);
    }
    if (status == WEIR_OK) {
        weir_cuda_extent_add(&cuda->extents, extent);
        *addr = extent.addr;
    }
    pthread_mutex_unlock(&cuda->lock);
    weir_cuda_leave(cuda, &scope);
    return status;
}

/* The lock is held, and the scope entered. A trim that fails leaves more in the driver's pool, and
 * the next one takes it along. */
static weir_status segment_put(weir_cuda *cuda, weir_addr addr, uint64_t bytes)
{
    const weir_cuda_extent *extent = weir_cuda_extent_find(&cuda->extents, addr);
    if (!extent || extent->addr != addr) {
        return WEIR_INVALID;
    }
    weir_cu_result result = segment_drop(cuda, extent->under);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    weir_cuda_extent_drop(&cuda->extents, addr, bytes);
    if (cuda->source == WEIR_CONF_ASYNC) {
        (void)weir_cuda_answer(cuda, segment_trim(cuda));
    }
    return WEIR_OK;
}

weir_status weir_cuda_op_segment_free(void *self, weir_addr addr, uint64_t bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_scope scope;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    pthread_mutex_lock(&cuda->lock);
    weir_status status = segment_put(cuda, addr, bytes);
    pthread_mutex_unlock(&cuda->lock);
    weir_cuda_leave(cuda, &scope);
    return status;
}
