/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: each call is one of the driver, and the books of what is mapped where.
 *
 * Owns        no memory: handles and ranges are the pool's, and the counts are for the balance.
 * Invariants  A mapping is on the books from its map to its unmap. The lock of the mapper is taken
 *             before that of the books.
 *             One call at a time, and a map with its access as one: when another thread calls
 *             between the two, cuMemMap of a handle that is mapped elsewhere too answers
 *             CUDA_ERROR_UNKNOWN (H200, driver 580; tests/hardware, the storm of moves).
 * Cost        One driver call and O(mappings) words moved. None waits for work on the device.
 */
#include "cuda_internal.h"

#include <string.h>

weir_status weir_cuda_op_va_reserve(void *self, uint64_t bytes, weir_addr *base)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_addr addr = 0;
    weir_cu_result result;
    WEIR_CUDA_MAP_CALL(cuda, result, va_reserve(&addr, bytes, cuda->probe.granule_bytes, 0, 0));
    if (result == WEIR_CU_OK) {
        atomic_fetch_add(&cuda->ranges, 1);
        *base = addr;
    }
    return weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_va_free(void *self, weir_addr base, uint64_t bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_result result;
    WEIR_CUDA_MAP_CALL(cuda, result, va_free(base, bytes));
    if (result == WEIR_CU_OK) {
        atomic_fetch_sub(&cuda->ranges, 1);
    }
    return weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_handle_create(void *self, uint64_t bytes, weir_handle *handle)
{
    weir_cuda *cuda = (weir_cuda *)self;
    uint64_t made = 0;
    weir_cu_result result;
    WEIR_CUDA_MAP_CALL(cuda, result, handle_create(&made, bytes, &cuda->prop, 0));
    if (result == WEIR_CU_OK) {
        atomic_fetch_add(&cuda->handles, 1);
        *handle = made;
    }
    return weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_handle_release(void *self, weir_handle handle, uint64_t bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_result result;
    (void)bytes;
    WEIR_CUDA_MAP_CALL(cuda, result, handle_release(handle));
    if (result == WEIR_CU_OK) {
        atomic_fetch_sub(&cuda->handles, 1);
    }
    return weir_cuda_answer(cuda, result);
}

/* Puts a mapping on the books and copies who may touch it. False where host memory is short. */
static bool handle_note(weir_cuda *cuda, weir_cuda_extent extent, weir_cu_access *access,
                        size_t *count)
{
    pthread_mutex_lock(&cuda->lock);
    bool room = weir_cuda_extent_room(&cuda->extents);
    if (room) {
        weir_cuda_extent_add(&cuda->extents, extent);
        *count = cuda->access_count;
        memcpy(access, cuda->access, *count * sizeof(access[0]));
    }
    pthread_mutex_unlock(&cuda->lock);
    return room;
}

/* The mapper's lock is held, and the scope entered. */
static weir_status handle_map(weir_cuda *cuda, weir_cuda_extent extent)
{
    const weir_driver *driver = &cuda->driver;
    weir_cu_access access[WEIR_CUDA_PEERS_MAX + 1];
    size_t count = 0;
    weir_cu_result result = driver->map(extent.addr, extent.bytes, 0, extent.under, 0);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    bool noted = handle_note(cuda, extent, access, &count);
    if (noted) {
        result = driver->set_access(extent.addr, extent.bytes, access, count);
    }
    if (noted && result == WEIR_CU_OK) {
        return WEIR_OK;
    }
    if (noted) {
        pthread_mutex_lock(&cuda->lock);
        weir_cuda_extent_drop(&cuda->extents, extent.addr, extent.bytes);
        pthread_mutex_unlock(&cuda->lock);
    }
    (void)weir_cuda_answer(cuda, driver->unmap(extent.addr, extent.bytes));
    return noted ? weir_cuda_answer(cuda, result) : WEIR_NO_METADATA;
}

weir_status weir_cuda_op_map(void *self, weir_addr addr, uint64_t bytes, weir_handle handle)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_extent extent = {addr, bytes, handle};
    weir_cuda_scope scope;
    pthread_mutex_lock(&cuda->mapper);
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    weir_status status = weir_cuda_answer(cuda, result);
    if (result == WEIR_CU_OK) {
        status = handle_map(cuda, extent);
        weir_cuda_leave(cuda, &scope);
    }
    pthread_mutex_unlock(&cuda->mapper);
    return status;
}

/* Given with the map. Access costs by the handle, so one call for many would save nothing. */
weir_status weir_cuda_op_set_access(void *self, weir_addr addr, uint64_t bytes)
{
    (void)self;
    (void)addr;
    (void)bytes;
    return WEIR_OK;
}

weir_status weir_cuda_op_unmap(void *self, weir_addr addr, uint64_t bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_result result;
    WEIR_CUDA_MAP_CALL(cuda, result, unmap(addr, bytes));
    if (result == WEIR_CU_OK) {
        pthread_mutex_lock(&cuda->lock);
        weir_cuda_extent_drop(&cuda->extents, addr, bytes);
        pthread_mutex_unlock(&cuda->lock);
    }
    return weir_cuda_answer(cuda, result);
}
