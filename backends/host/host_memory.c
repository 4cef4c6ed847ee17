/* SPDX-License-Identifier: MIT */
/*
 * Memory of the host device: a memory file mapped piece by piece over reserved addresses.
 *
 * Owns        the file, and sorted tables of handles (by place in the file), reserved ranges,
 *             mappings and segments (by address).
 * Invariants  Every mapping shows one whole handle and lies in one reserved range. Addresses that
 *             are reserved but not mapped have no rights. held_bytes never exceeds the device's.
 * Errors      A caller's mistake answers INVALID and changes nothing; a refusal by the system
 *             answers DEVICE and leaves its errno as the native error.
 * Cost        One system call, O(log n) to find, O(n) to insert; release looks at all mappings.
 */
#define _GNU_SOURCE
#include "host_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *hostmem_pointer(weir_addr addr)
{
    return (void *)(uintptr_t)addr;
}

static bool hostmem_bad_size(const weir_host *host, uint64_t bytes)
{
    return bytes == 0 || bytes % host->config.granule_bytes != 0;
}

static weir_status hostmem_refused(weir_host *host)
{
    host->native_error = errno;
    return WEIR_DEVICE;
}

/* ----------------------------------------------------------------------------------- extents -- */

/* The number of extents that start at or before `place`. */
static size_t hostmem_before(const weir_host_extents *list, uint64_t place)
{
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->at[middle].start <= place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The extent that starts at `start`, or NULL. */
static weir_host_extent *hostmem_exact(const weir_host_extents *list, uint64_t start)
{
    size_t before = hostmem_before(list, start);
    return before && list->at[before - 1].start == start ? &list->at[before - 1] : NULL;
}

/* The extent that holds all of [start, start+bytes), or NULL. */
static weir_host_extent *hostmem_holder(const weir_host_extents *list, uint64_t start,
                                        uint64_t bytes)
{
    size_t before = hostmem_before(list, start);
    if (before == 0) {
        return NULL;
    }
    weir_host_extent *extent = &list->at[before - 1];
    uint64_t offset = start - extent->start;
    return offset < extent->bytes && bytes <= extent->bytes - offset ? extent : NULL;
}

static bool hostmem_touched(const weir_host_extents *list, uint64_t start, uint64_t bytes)
{
    size_t before = hostmem_before(list, start + bytes - 1);
    return before && list->at[before - 1].start + list->at[before - 1].bytes > start;
}

static bool hostmem_room(weir_host_extents *list)
{
    if (list->count < list->capacity) {
        return true;
    }
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    weir_host_extent *grown = (weir_host_extent *)realloc(list->at, capacity * sizeof(*list->at));
    if (!grown) {
        return false;
    }
    list->at = grown;
    list->capacity = capacity;
    return true;
}

/* There is room. */
static void hostmem_insert(weir_host_extents *list, weir_host_extent extent)
{
    size_t before = hostmem_before(list, extent.start);
    memmove(&list->at[before + 1], &list->at[before], (list->count - before) * sizeof(*list->at));
    list->at[before] = extent;
    list->count++;
}

static void hostmem_remove(weir_host_extents *list, weir_host_extent *extent)
{
    size_t index = (size_t)(extent - list->at);
    list->count--;
    memmove(extent, extent + 1, (list->count - index) * sizeof(*list->at));
}

/* --------------------------------------------------------------------------------- addresses -- */

/* New addresses on a granule's boundary: maps a granule more than needed and cuts off both ends. */
static weir_status hostmem_address(weir_host *host, uint64_t bytes, int rights, weir_addr *base)
{
    uint64_t granule = host->config.granule_bytes;
    if (bytes > SIZE_MAX - granule) {
        return WEIR_NO_MEMORY;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *found = mmap(NULL, (size_t)(bytes + granule), rights, flags, -1, 0);
    if (found == MAP_FAILED) {
        host->native_error = errno;
        return WEIR_NO_MEMORY;
    }
    weir_addr start = (weir_addr)(uintptr_t)found;
    *base = (start + granule - 1) & ~(granule - 1);
    uint64_t head = *base - start;
    if (head) {
        munmap(found, (size_t)head);
    }
    munmap(hostmem_pointer(*base + bytes), (size_t)(granule - head));
    return WEIR_OK;
}

static weir_status hostmem_va_reserve(weir_host *host, uint64_t bytes, weir_addr *base)
{
    if (hostmem_bad_size(host, bytes)) {
        return WEIR_INVALID;
    }
    if (bytes > host->config.va_bytes - host->va_held_bytes) {
        return WEIR_NO_MEMORY;
    }
    if (!hostmem_room(&host->ranges)) {
        return WEIR_NO_METADATA;
    }
    weir_addr found = 0;
    weir_status status = hostmem_address(host, bytes, PROT_NONE, &found);
    if (status == WEIR_OK) {
        hostmem_insert(&host->ranges, (weir_host_extent){found, bytes, 0});
        host->va_held_bytes += bytes;
        *base = found;
    }
    return status;
}

static weir_status hostmem_va_free(weir_host *host, weir_addr base, uint64_t bytes)
{
    weir_host_extent *range = hostmem_exact(&host->ranges, base);
    if (!range || range->bytes != bytes || hostmem_touched(&host->mappings, base, bytes)) {
        return WEIR_INVALID;
    }
    if (munmap(hostmem_pointer(base), (size_t)bytes) != 0) {
        return hostmem_refused(host);
    }
    hostmem_remove(&host->ranges, range);
    host->va_held_bytes -= bytes;
    return WEIR_OK;
}

/* ----------------------------------------------------------------------------------- handles -- */

/* A handle's name is its place in the file, one granule up so that none is 0. */
static weir_status hostmem_handle_create(weir_host *host, uint64_t bytes, weir_handle *handle)
{
    if (hostmem_bad_size(host, bytes)) {
        return WEIR_INVALID;
    }
    if (bytes > host->config.memory_bytes - host->held_bytes) {
        return WEIR_NO_MEMORY;
    }
    if (!hostmem_room(&host->handles)) {
        return WEIR_NO_METADATA;
    }
    if (ftruncate(host->file, (off_t)(host->file_end + bytes)) != 0) {
        return hostmem_refused(host);
    }
    *handle = host->file_end;
    hostmem_insert(&host->handles, (weir_host_extent){host->file_end, bytes, 0});
    host->file_end += bytes;
    host->held_bytes += bytes;
    return WEIR_OK;
}

static bool hostmem_is_mapped(const weir_host *host, weir_handle handle)
{
    for (size_t i = 0; i < host->mappings.count; i++) {
        if (host->mappings.at[i].handle == handle) {
            return true;
        }
    }
    return false;
}

static weir_status hostmem_handle_release(weir_host *host, weir_handle handle, uint64_t bytes)
{
    weir_host_extent *extent = hostmem_exact(&host->handles, handle);
    if (!extent || extent->bytes != bytes || hostmem_is_mapped(host, handle)) {
        return WEIR_INVALID;
    }
    if (fallocate(host->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)handle,
                  (off_t)bytes) != 0) {
        return hostmem_refused(host);
    }
    hostmem_remove(&host->handles, extent);
    host->held_bytes -= bytes;
    return WEIR_OK;
}

static weir_status hostmem_map(weir_host *host, weir_addr addr, uint64_t bytes, weir_handle handle)
{
    const weir_host_extent *extent = hostmem_exact(&host->handles, handle);
    if (!extent || extent->bytes != bytes || addr % host->config.granule_bytes != 0 ||
        !hostmem_holder(&host->ranges, addr, bytes) ||
        hostmem_touched(&host->mappings, addr, bytes)) {
        return WEIR_INVALID;
    }
    if (!hostmem_room(&host->mappings)) {
        return WEIR_NO_METADATA;
    }
    if (mmap(hostmem_pointer(addr), (size_t)bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, host->file,
             (off_t)handle) == MAP_FAILED) {
        return hostmem_refused(host);
    }
    hostmem_insert(&host->mappings, (weir_host_extent){addr, bytes, handle});
    return WEIR_OK;
}

/* The number of whole mappings, without a gap, that make up the range; 0 if they do not. */
static size_t hostmem_whole_mappings(const weir_host *host, weir_addr addr, uint64_t bytes)
{
    const weir_host_extent *first = hostmem_exact(&host->mappings, addr);
    if (!first || bytes == 0) {
        return 0;
    }
    size_t left = host->mappings.count - (size_t)(first - host->mappings.at);
    uint64_t offset = 0;
    size_t count = 0;
    while (offset < bytes && count < left && first[count].start == addr + offset &&
           first[count].bytes <= bytes - offset) {
        offset += first[count].bytes;
        count++;
    }
    return offset == bytes ? count : 0;
}

static weir_status hostmem_set_access(weir_host *host, weir_addr addr, uint64_t bytes)
{
    if (hostmem_whole_mappings(host, addr, bytes) == 0) {
        return WEIR_INVALID;
    }
    if (mprotect(hostmem_pointer(addr), (size_t)bytes, PROT_READ | PROT_WRITE) != 0) {
        return hostmem_refused(host);
    }
    return WEIR_OK;
}

static weir_status hostmem_unmap(weir_host *host, weir_addr addr, uint64_t bytes)
{
    size_t count = hostmem_whole_mappings(host, addr, bytes);
    if (count == 0) {
        return WEIR_INVALID;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(hostmem_pointer(addr), (size_t)bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
        return hostmem_refused(host);
    }
    for (size_t i = 0; i < count; i++) {
        weir_host_extent *mapping = hostmem_exact(&host->mappings, addr);
        addr += mapping->bytes;
        hostmem_remove(&host->mappings, mapping);
    }
    return WEIR_OK;
}

/* ---------------------------------------------------------------------------------- segments -- */

static weir_status hostmem_segment_alloc(weir_host *host, uint64_t bytes, weir_addr *addr)
{
    if (hostmem_bad_size(host, bytes)) {
        return WEIR_INVALID;
    }
    if (bytes > host->config.memory_bytes - host->held_bytes) {
        return WEIR_NO_MEMORY;
    }
    if (!hostmem_room(&host->segments)) {
        return WEIR_NO_METADATA;
    }
    weir_addr found = 0;
    weir_status status = hostmem_address(host, bytes, PROT_READ | PROT_WRITE, &found);
    if (status == WEIR_OK) {
        hostmem_insert(&host->segments, (weir_host_extent){found, bytes, 0});
        host->held_bytes += bytes;
        *addr = found;
    }
    return status;
}

static weir_status hostmem_segment_free(weir_host *host, weir_addr addr, uint64_t bytes)
{
    weir_host_extent *segment = hostmem_exact(&host->segments, addr);
    if (!segment || segment->bytes != bytes) {
        return WEIR_INVALID;
    }
    if (munmap(hostmem_pointer(addr), (size_t)bytes) != 0) {
        return hostmem_refused(host);
    }
    hostmem_remove(&host->segments, segment);
    host->held_bytes -= bytes;
    return WEIR_OK;
}

/* --------------------------------------------------------------------------------- with lock -- */

static weir_host *hostmem_enter(void *self)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    return host;
}

static weir_status hostmem_leave(weir_host *host, weir_status status)
{
    pthread_mutex_unlock(&host->lock);
    return status;
}

weir_status weir_host_op_va_reserve(void *self, uint64_t bytes, weir_addr *base)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_va_reserve(host, bytes, base));
}

weir_status weir_host_op_va_free(void *self, weir_addr base, uint64_t bytes)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_va_free(host, base, bytes));
}

weir_status weir_host_op_handle_create(void *self, uint64_t bytes, weir_handle *handle)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_handle_create(host, bytes, handle));
}

weir_status weir_host_op_handle_release(void *self, weir_handle handle, uint64_t bytes)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_handle_release(host, handle, bytes));
}

weir_status weir_host_op_map(void *self, weir_addr addr, uint64_t bytes, weir_handle handle)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_map(host, addr, bytes, handle));
}

weir_status weir_host_op_set_access(void *self, weir_addr addr, uint64_t bytes)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_set_access(host, addr, bytes));
}

weir_status weir_host_op_unmap(void *self, weir_addr addr, uint64_t bytes)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_unmap(host, addr, bytes));
}

weir_status weir_host_op_segment_alloc(void *self, uint64_t bytes, weir_addr *addr)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_segment_alloc(host, bytes, addr));
}

weir_status weir_host_op_segment_free(void *self, weir_addr addr, uint64_t bytes)
{
    weir_host *host = hostmem_enter(self);
    return hostmem_leave(host, hostmem_segment_free(host, addr, bytes));
}

/* -------------------------------------------------------------------------- opening, closing -- */

bool weir_host_memory_open(weir_host *host)
{
    host->file = -1;
    host->file_end = host->config.granule_bytes;
    if (!host->config.no_virtual) {
        host->file = memfd_create("weir-host-device", MFD_CLOEXEC);
    }
    return host->config.no_virtual || host->file >= 0;
}

static void hostmem_drop_all(weir_host_extents *list)
{
    for (size_t i = 0; i < list->count; i++) {
        munmap(hostmem_pointer(list->at[i].start), (size_t)list->at[i].bytes);
    }
    free(list->at);
}

void weir_host_memory_close(weir_host *host)
{
    hostmem_drop_all(&host->ranges);
    hostmem_drop_all(&host->segments);
    free(host->mappings.at);
    free(host->handles.at);
    if (host->file >= 0) {
        close(host->file);
    }
}
