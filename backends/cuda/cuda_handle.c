/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: each call is one of the driver, and the books of what is mapped where.
 *
 * Owns        no memory: handles and ranges are the pool's, and the counts are for the balance.
 * Invariants  A mapping is on the books from its map to its unmap. A peer that is let in between
 *             its map and its access is on the list that the access reads.
 *             One call at a time: with four threads at it cuMemMap answered CUDA_ERROR_UNKNOWN on an
 *             H200 with driver 580, and the context was lost (tests/hardware, the storm of moves).
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

/* Puts a mapping on the books; the driver forgets it again where there is no room. */
static weir_status handle_note(weir_cuda *cuda, weir_cuda_extent extent)
{
    weir_cu_result result;
    pthread_mutex_lock(&cuda->lock);
    bool room = weir_cuda_extent_room(&cuda->extents);
    if (room) {
        weir_cuda_extent_add(&cuda->extents, extent);
    }
    pthread_mutex_unlock(&cuda->lock);
    if (room) {
        return WEIR_OK;
    }
    WEIR_CUDA_MAP_CALL(cuda, result, unmap(extent.addr, extent.bytes));
    return result == WEIR_CU_OK ? WEIR_NO_METADATA : weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_map(void *self, weir_addr addr, uint64_t bytes, weir_handle handle)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cuda_extent extent = {addr, bytes, handle};
    weir_cu_result result;
    WEIR_CUDA_MAP_CALL(cuda, result, map(addr, bytes, 0, handle, 0));
    return result == WEIR_CU_OK ? handle_note(cuda, extent) : weir_cuda_answer(cuda, result);
}

weir_status weir_cuda_op_set_access(void *self, weir_addr addr, uint64_t bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    weir_cu_access access[WEIR_CUDA_PEERS_MAX + 1];
    weir_cu_result result;
    pthread_mutex_lock(&cuda->lock);
    size_t count = cuda->access_count;
    memcpy(access, cuda->access, count * sizeof(access[0]));
    pthread_mutex_unlock(&cuda->lock);
    WEIR_CUDA_MAP_CALL(cuda, result, set_access(addr, bytes, access, count));
    return weir_cuda_answer(cuda, result);
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
