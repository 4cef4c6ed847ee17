/* SPDX-License-Identifier: MIT */
/*
 * Who may touch memory, and memory shown to others.
 *
 * A descriptor of a whole handle is a memory file that holds the handle's number: it can be brought
 * back in this process. One of a range is an empty file.
 */
#define _GNU_SOURCE
#include "fake_internal.h"

#include <sys/mman.h>
#include <unistd.h>

#define FAKESHARE_PAGE 4096u

/* ------------------------------------------------------------------------------------- access -- */

unsigned weir_fake_access(const fake_state *state, int owner, const weir_cu_access *access,
                          size_t count)
{
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++) {
        int device = access[i].location.id;
        if (access[i].location.type != WEIR_CU_LOCATION_DEVICE ||
            access[i].flags != WEIR_CU_ACCESS_READWRITE || !weir_fake_device_is(state, device) ||
            (device != owner && state->config.no_peers)) {
            return 0;
        }
        bits |= 1u << device;
    }
    return bits;
}

static weir_cu_result fakeshare_access(fake_state *state, uint64_t addr, size_t bytes,
                                       const weir_cu_access *access, size_t count)
{
    size_t areas = weir_fake_area_whole(state, addr, bytes);
    if (areas == 0 || !access) {
        weir_fake_breach(state, "access to what is no range of whole mappings");
        return WEIR_CU_INVALID_VALUE;
    }
    fake_area *first = weir_fake_area_at(state, addr);
    for (size_t i = 0; i < areas; i++) {
        if (weir_fake_access(state, first[i].device, access, count) == 0) {
            return WEIR_CU_INVALID_DEVICE;
        }
    }
    if (state->ops->set_access(state->host, addr, bytes) != WEIR_OK) {
        return WEIR_CU_INVALID_VALUE;
    }
    for (size_t i = 0; i < areas; i++) {
        first[i].access |= weir_fake_access(state, first[i].device, access, count);
    }
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuMemSetAccess, FAKE_STARTED,
              (uint64_t addr, size_t bytes, const weir_cu_access *access, size_t count),
              fakeshare_access(call.state, addr, bytes, access, count))

/* ------------------------------------------------------------------------------------- exports -- */

static int fakeshare_file(uint64_t id)
{
    int file = memfd_create("weir-fakecuda-share", MFD_CLOEXEC);
    if (file >= 0 && write(file, &id, sizeof(id)) != (ssize_t)sizeof(id)) {
        close(file);
        return -1;
    }
    return file;
}

static weir_cu_result fakeshare_export(fake_state *state, int *shared, uint64_t name, int type,
                                       unsigned long long flags)
{
    const fake_handle *handle =
        (const fake_handle *)weir_fake_find(state, FAKE_IS_HANDLE, FAKE_HANDLE(name));
    if (!handle || type != WEIR_CU_HANDLE_POSIX_FD || flags != 0 ||
        (handle->types & WEIR_CU_HANDLE_POSIX_FD) == 0) {
        weir_fake_breach(state, "an export of no handle, or of one not made for it");
        return WEIR_CU_INVALID_VALUE;
    }
    *shared = fakeshare_file(handle->id);
    return *shared >= 0 ? WEIR_CU_OK : WEIR_CU_OUT_OF_MEMORY;
}

static fake_handle *fakeshare_handle(fake_state *state, uint64_t id)
{
    const fake_table *table = &state->tables[FAKE_IS_HANDLE];
    for (size_t i = 0; i < table->count; i++) {
        fake_handle *handle = (fake_handle *)table->at[i];
        if (handle && handle->id == id) {
            return handle;
        }
    }
    return NULL;
}

static weir_cu_result fakeshare_import(fake_state *state, uint64_t *name, const void *shared,
                                       int type)
{
    uint64_t id = 0;
    int file = (int)(intptr_t)shared;
    if (type != WEIR_CU_HANDLE_POSIX_FD || pread(file, &id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
        return WEIR_CU_INVALID_VALUE;
    }
    fake_handle *handle = fakeshare_handle(state, id);
    if (!handle) {
        return WEIR_CU_INVALID_HANDLE;
    }
    handle->names++;
    *name = weir_fake_add(state, FAKE_IS_HANDLE, handle);
    return WEIR_CU_OK;
}

static weir_cu_result fakeshare_range(fake_state *state, int *shared, uint64_t addr, size_t bytes,
                                      int type, unsigned long long flags)
{
    const fake_area *area = weir_fake_area_holding(state, addr);
    if (state->config.no_dma_buf) {
        return WEIR_CU_NOT_SUPPORTED;
    }
    if (type != WEIR_CU_RANGE_DMA_BUF || flags != 0 || addr % FAKESHARE_PAGE != 0 || bytes == 0 ||
        bytes % FAKESHARE_PAGE != 0 || !area || bytes > area->addr + area->bytes - addr) {
        return WEIR_CU_INVALID_VALUE;
    }
    *shared = fakeshare_file(0);
    return *shared >= 0 ? WEIR_CU_OK : WEIR_CU_OUT_OF_MEMORY;
}

FAKE_FUNCTION(cuMemExportToShareableHandle, FAKE_STARTED,
              (void *shared, uint64_t handle, int type, unsigned long long flags),
              fakeshare_export(call.state, (int *)shared, handle, type, flags))
FAKE_FUNCTION(cuMemImportFromShareableHandle, FAKE_STARTED,
              (uint64_t * handle, void *shared, int type),
              fakeshare_import(call.state, handle, shared, type))
FAKE_FUNCTION(cuMemGetHandleForAddressRange, FAKE_STARTED,
              (void *shared, uint64_t addr, size_t bytes, int type, unsigned long long flags),
              fakeshare_range(call.state, (int *)shared, addr, bytes, type, flags))
