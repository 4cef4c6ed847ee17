/* SPDX-License-Identifier: MIT */
/*
 * Sharing: other devices, and other processes and drivers.
 *
 * Invariants  A peer that is on the list has access to every mapping whose set_access has ended.
 * Cost        weir_cuda_peer: one driver call for each mapping, once a peer.
 */
#include "cuda_internal.h"

#include <string.h>

/* ------------------------------------------------------------------------------------- peers -- */

static bool share_has_peer(const weir_cuda *cuda, int device)
{
    for (size_t i = 0; i < cuda->access_count; i++) {
        if (cuda->access[i].location.id == device) {
            return true;
        }
    }
    return false;
}

/* Opens all that is mapped now, or the driver's pool. The lock is held, and the scope entered. */
static weir_cu_result share_open(weir_cuda *cuda, const weir_cu_access *access)
{
    weir_driver *driver = &cuda->driver;
    weir_cu_result result = WEIR_CU_OK;
    if (cuda->source == WEIR_CONF_ASYNC) {
        return driver->pool_access(cuda->pool, access, 1);
    }
    for (size_t i = 0; i < cuda->extents.count && result == WEIR_CU_OK; i++) {
        const weir_cuda_extent *extent = &cuda->extents.at[i];
        result = driver->set_access(extent->addr, extent->bytes, access, 1);
    }
    return result;
}

/* The scope is entered. On the list first, so that what is mapped meanwhile is open too. */
static weir_cu_result share_add(weir_cuda *cuda, int device)
{
    weir_cu_access access = cuda->access[0];
    weir_cu_result result = WEIR_CU_OK;
    access.location.id = device;
    pthread_mutex_lock(&cuda->mapper);
    pthread_mutex_lock(&cuda->lock);
    if (!share_has_peer(cuda, device)) {
        cuda->access[cuda->access_count++] = access;
        result = share_open(cuda, &access);
        cuda->access_count -= result != WEIR_CU_OK;
    }
    pthread_mutex_unlock(&cuda->lock);
    pthread_mutex_unlock(&cuda->mapper);
    return result;
}

weir_status weir_cuda_peer(weir_cuda *cuda, int device)
{
    weir_cuda_scope scope;
    int can = 0;
    if (device == cuda->device) {
        return WEIR_OK;
    }
    if (cuda->source == WEIR_CONF_MALLOC || cuda->access_count > WEIR_CUDA_PEERS_MAX) {
        return WEIR_UNSUPPORTED;
    }
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(cuda, result);
    }
    result = cuda->driver.device_peer(&can, device, cuda->device);
    if (result == WEIR_CU_OK) {
        result = can ? share_add(cuda, device) : WEIR_CU_NOT_SUPPORTED;
    }
    weir_cuda_leave(cuda, &scope);
    return weir_cuda_answer(cuda, result);
}

/* ----------------------------------------------------------------------------------- exports -- */

/* Copies the mapping that holds all of a range. */
static bool share_find(weir_cuda *cuda, weir_addr addr, uint64_t bytes, weir_cuda_extent *found)
{
    pthread_mutex_lock(&cuda->lock);
    const weir_cuda_extent *extent = weir_cuda_extent_find(&cuda->extents, addr);
    bool whole = extent && bytes <= extent->bytes - (addr - extent->addr);
    if (whole) {
        *found = *extent;
    }
    pthread_mutex_unlock(&cuda->lock);
    return whole;
}

weir_status weir_cuda_export(weir_cuda *cuda, weir_addr addr, uint64_t bytes, weir_cuda_share as,
                             weir_cuda_shared *shared)
{
    weir_cuda_extent extent;
    weir_cu_result result;
    int fd = -1;
    bool can = as == WEIR_CUDA_FD ? cuda->source == WEIR_CONF_VMM && cuda->probe.exports
                                  : cuda->probe.dma_buf;
    if (!can) {
        return WEIR_UNSUPPORTED;
    }
    if (bytes == 0 || !share_find(cuda, addr, bytes, &extent)) {
        return WEIR_INVALID;
    }
    if (as == WEIR_CUDA_FD) {
        WEIR_CUDA_CALL(cuda, result, export_handle(&fd, extent.under, WEIR_CU_HANDLE_POSIX_FD, 0));
    } else {
        WEIR_CUDA_CALL(cuda, result, export_range(&fd, addr, bytes, WEIR_CU_RANGE_DMA_BUF, 0));
    }
    if (result == WEIR_CU_OK) {
        shared->fd = fd;
        shared->handle_bytes = as == WEIR_CUDA_FD ? extent.bytes : bytes;
        shared->offset = as == WEIR_CUDA_FD ? addr - extent.addr : 0;
    }
    return weir_cuda_answer(cuda, result);
}
