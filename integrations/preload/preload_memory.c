/* SPDX-License-Identifier: MIT */
/*
 * The memory calls: which Weir serves, and which the driver.
 *
 *   Weir     cuMemAlloc, cuMemAllocPitch, cuMemAllocAsync, cuMemAllocFromPoolAsync of the device's
 *            default pool; cuMemFree and cuMemFreeAsync of what these gave
 *   driver   pools that the program made (their limits, peers, handle types and figures are the
 *            program's own), managed and pinned host memory, arrays, cuMemCreate; a request of 0
 *            bytes or with bad arguments; all that is asked for outside a primary context
 *
 * A pointer that Weir did not give goes to the driver, so memory from before, from elsewhere and from
 * another library is freed by whom it belongs to. What fails for want of memory is
 * CUDA_ERROR_OUT_OF_MEMORY; for any other failure the driver is asked instead, and its answer is the
 * one that the program would have had.
 */
#include "preload.h"

/* Rows begin at multiples of it, as the driver's own do; more than every texture asks for. */
#define MEMORY_PITCH 512u

/* Stream 0 of a twin is the calling thread's. */
static void *memory_thread_stream(void *stream)
{
    return stream ? stream : PRELOAD_PER_THREAD;
}

static bool memory_is_ours(uint64_t addr)
{
    const preload_runtime *runtime = weir_preload_runtime_if();
    return runtime && addr && !weir_preload_is_off() && runtime->owns(addr);
}

/* ------------------------------------------------------------------------------------- cuMemAlloc -- */

/* True: *result is the answer. False: the driver has it. */
static bool memory_give(uint64_t *addr, uint64_t bytes, preload_result *result)
{
    uint64_t given = 0;
    preload_device *device = addr && bytes ? weir_preload_device() : NULL;
    if (!device) {
        return false;
    }
    if (device->state == PRELOAD_REFUSED) {
        *result = PRELOAD_NOT_PERMITTED;
        return true;
    }
    *result = weir_preload_answer(weir_preload_give(device, bytes, &given));
    if (*result == PRELOAD_OK) {
        *addr = given;
    }
    return *result >= 0;
}

preload_result cuMemAlloc_v2(uint64_t *addr, size_t bytes)
{
    preload_result result = PRELOAD_OK;
    return memory_give(addr, bytes, &result) ? result : PRELOAD_REAL(cuMemAlloc_v2, (addr, bytes));
}

preload_result cuMemAllocPitch_v2(uint64_t *addr, size_t *pitch, size_t width, size_t height,
                                  unsigned element)
{
    preload_result result = PRELOAD_OK;
    size_t row = (width + MEMORY_PITCH - 1) & ~(size_t)(MEMORY_PITCH - 1);
    bool fits = pitch && width && height && width <= INT32_MAX && height <= SIZE_MAX / row;
    bool known = element == 4 || element == 8 || element == 16;
    if (fits && known && memory_give(addr, (uint64_t)row * height, &result)) {
        if (result == PRELOAD_OK) {
            *pitch = row;
        }
        return result;
    }
    return PRELOAD_REAL(cuMemAllocPitch_v2, (addr, pitch, width, height, element));
}

preload_result cuMemFree_v2(uint64_t addr)
{
    return memory_is_ours(addr) ? weir_preload_rest(addr) : PRELOAD_REAL(cuMemFree_v2, (addr));
}

/* ------------------------------------------------------------------------------ in a stream's order -- */

/* As memory_give. `pool` NULL: the device's own. */
static bool memory_give_on(uint64_t *addr, uint64_t bytes, void *pool, void *stream,
                           preload_result *result)
{
    void *own = NULL;
    uint64_t given = 0;
    preload_device *device = addr && bytes ? weir_preload_device() : NULL;
    const preload_driver *driver = weir_preload_driver();
    if (!device || (!pool && device->own_pool)) {
        return false;
    }
    if (pool &&
        (!driver->cuDeviceGetDefaultMemPool ||
         driver->cuDeviceGetDefaultMemPool(&own, device->ordinal) != PRELOAD_OK || own != pool)) {
        return false;
    }
    if (device->state == PRELOAD_REFUSED) {
        *result = PRELOAD_NOT_PERMITTED;
        return true;
    }
    *result = weir_preload_answer(weir_preload_give_on(device, bytes, stream, &given));
    if (*result == PRELOAD_OK) {
        *addr = given;
    }
    return *result >= 0;
}

preload_result cuMemAllocAsync(uint64_t *addr, size_t bytes, void *stream)
{
    preload_result result = PRELOAD_OK;
    return memory_give_on(addr, bytes, NULL, stream, &result)
               ? result
               : PRELOAD_REAL(cuMemAllocAsync, (addr, bytes, stream));
}

preload_result cuMemAllocAsync_ptsz(uint64_t *addr, size_t bytes, void *stream)
{
    preload_result result = PRELOAD_OK;
    return memory_give_on(addr, bytes, NULL, memory_thread_stream(stream), &result)
               ? result
               : PRELOAD_REAL(cuMemAllocAsync_ptsz, (addr, bytes, stream));
}

preload_result cuMemAllocFromPoolAsync(uint64_t *addr, size_t bytes, void *pool, void *stream)
{
    preload_result result = PRELOAD_OK;
    return pool && memory_give_on(addr, bytes, pool, stream, &result)
               ? result
               : PRELOAD_REAL(cuMemAllocFromPoolAsync, (addr, bytes, pool, stream));
}

preload_result cuMemAllocFromPoolAsync_ptsz(uint64_t *addr, size_t bytes, void *pool, void *stream)
{
    preload_result result = PRELOAD_OK;
    return pool && memory_give_on(addr, bytes, pool, memory_thread_stream(stream), &result)
               ? result
               : PRELOAD_REAL(cuMemAllocFromPoolAsync_ptsz, (addr, bytes, pool, stream));
}

preload_result cuMemFreeAsync(uint64_t addr, void *stream)
{
    return memory_is_ours(addr) ? weir_preload_take(addr, stream)
                                : PRELOAD_REAL(cuMemFreeAsync, (addr, stream));
}

preload_result cuMemFreeAsync_ptsz(uint64_t addr, void *stream)
{
    return memory_is_ours(addr) ? weir_preload_take(addr, memory_thread_stream(stream))
                                : PRELOAD_REAL(cuMemFreeAsync_ptsz, (addr, stream));
}

/* The program puts a pool of its own in place of the default one, or that one back. */
preload_result cuDeviceSetMemPool(int device, void *pool)
{
    preload_result result = PRELOAD_REAL(cuDeviceSetMemPool, (device, pool));
    const preload_driver *driver = weir_preload_driver();
    void *own = NULL;
    if (result == PRELOAD_OK && device >= 0 && device < WEIR_RUNTIME_DEVICES &&
        driver->cuDeviceGetDefaultMemPool &&
        driver->cuDeviceGetDefaultMemPool(&own, device) == PRELOAD_OK) {
        weir_preload_device_at(device)->own_pool = own != pool;
    }
    return result;
}
