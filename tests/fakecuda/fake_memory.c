/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: reserved addresses, handles, mappings, on those of the host device.
 *
 * As measured: granules of 2 MiB; a map of a part of a handle, or at an offset, is not supported; a
 * handle may be mapped at several addresses; no mapping is accessible before cuMemSetAccess.
 * Stricter: an unmap covers whole mappings and none that unfinished work touches; a handle is
 * mapped nowhere when it is released; a reservation is given back whole.
 */
#include "fake_internal.h"

#include <stdlib.h>

uint64_t weir_fake_granule(const fake_state *state)
{
    return state->config.small_granule ? FAKE_SMALL_GRANULE : FAKE_GRANULE;
}

static weir_cu_result fakemem_answer(weir_status status)
{
    switch (status) {
    case WEIR_OK:
        return WEIR_CU_OK;
    case WEIR_NO_MEMORY:
    case WEIR_NO_METADATA:
        return WEIR_CU_OUT_OF_MEMORY;
    default:
        return WEIR_CU_INVALID_VALUE;
    }
}

static bool fakemem_is_uneven(const fake_state *state, uint64_t bytes)
{
    return bytes == 0 || bytes % weir_fake_granule(state) != 0;
}

bool weir_fake_take(fake_state *state, int device, uint64_t bytes)
{
    fake_device *of = &state->devices[device];
    if (bytes > state->config.memory_bytes - of->held_bytes) {
        return false;
    }
    of->held_bytes += bytes;
    return true;
}

void weir_fake_untake(fake_state *state, int device, uint64_t bytes)
{
    state->devices[device].held_bytes -= bytes;
}

/* ----------------------------------------------------------------------------------- addresses -- */

static weir_cu_result fakemem_reserve(fake_state *state, uint64_t *addr, size_t bytes, size_t align,
                                      uint64_t hint, unsigned long long flags)
{
    if (fakemem_is_uneven(state, bytes) || (align & (align - 1)) != 0 ||
        align > weir_fake_granule(state) || hint != 0 || flags != 0) {
        return WEIR_CU_INVALID_VALUE;
    }
    weir_cu_result result = fakemem_answer(state->ops->va_reserve(state->host, bytes, addr));
    state->ranges += result == WEIR_CU_OK;
    return result;
}

static weir_cu_result fakemem_unreserve(fake_state *state, uint64_t addr, size_t bytes)
{
    weir_cu_result result = fakemem_answer(state->ops->va_free(state->host, addr, bytes));
    if (result != WEIR_CU_OK) {
        weir_fake_breach(state, "addresses are given back in part, twice, or while mapped");
    }
    state->ranges -= result == WEIR_CU_OK;
    return result;
}

FAKE_FUNCTION(cuMemAddressReserve, FAKE_STARTED,
              (uint64_t * addr, size_t bytes, size_t align, uint64_t hint,
               unsigned long long flags),
              fakemem_reserve(call.state, addr, bytes, align, hint, flags))
FAKE_FUNCTION(cuMemAddressFree, FAKE_STARTED, (uint64_t addr, size_t bytes),
              fakemem_unreserve(call.state, addr, bytes))

/* ------------------------------------------------------------------------------------- handles -- */

static weir_cu_result fakemem_prop_check(const fake_state *state, const weir_cu_handle_prop *prop)
{
    const weir_fakecuda_config *config = &state->config;
    if (config->no_vmm) {
        return WEIR_CU_NOT_SUPPORTED;
    }
    if (!prop || prop->type != WEIR_CU_ALLOCATION_PINNED ||
        prop->location.type != WEIR_CU_LOCATION_DEVICE) {
        return WEIR_CU_INVALID_VALUE;
    }
    if (!weir_fake_device_is(state, prop->location.id)) {
        return WEIR_CU_INVALID_DEVICE;
    }
    bool exports = prop->handle_types != WEIR_CU_HANDLE_NONE;
    if ((exports && (config->no_posix_fd || config->refuse_export ||
                     prop->handle_types != WEIR_CU_HANDLE_POSIX_FD)) ||
        (prop->flags.rdma && (config->no_rdma || config->refuse_rdma))) {
        return WEIR_CU_NOT_SUPPORTED;
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakemem_create(fake_state *state, uint64_t *handle, size_t bytes,
                                     const weir_cu_handle_prop *prop, unsigned long long flags)
{
    fake_handle made = {0};
    weir_cu_result result = fakemem_prop_check(state, prop);
    if (result != WEIR_CU_OK) {
        return result;
    }
    if (fakemem_is_uneven(state, bytes) || flags != 0) {
        return WEIR_CU_INVALID_VALUE;
    }
    if (!weir_fake_take(state, prop->location.id, bytes)) {
        return WEIR_CU_OUT_OF_MEMORY;
    }
    result = fakemem_answer(state->ops->handle_create(state->host, bytes, &made.host));
    if (result != WEIR_CU_OK) {
        weir_fake_untake(state, prop->location.id, bytes);
        return result;
    }
    made.bytes = bytes;
    made.id = state->next_id++;
    made.device = prop->location.id;
    made.names = 1;
    made.types = prop->handle_types;
    fake_handle *kept = weir_fake_new(sizeof(*kept));
    *kept = made;
    *handle = weir_fake_add(state, FAKE_IS_HANDLE, kept);
    return WEIR_CU_OK;
}

static weir_cu_result fakemem_release(fake_state *state, uint64_t name)
{
    fake_handle *handle = (fake_handle *)weir_fake_find(state, FAKE_IS_HANDLE, FAKE_HANDLE(name));
    if (!handle) {
        weir_fake_breach(state, "a handle is released that does not exist");
        return WEIR_CU_INVALID_VALUE;
    }
    if (handle->names == 1 && handle->maps > 0) {
        weir_fake_breach(state, "a handle is released while it is mapped");
        return WEIR_CU_INVALID_VALUE;
    }
    weir_fake_drop(state, FAKE_IS_HANDLE, name);
    if (--handle->names == 0) {
        state->ops->handle_release(state->host, handle->host, handle->bytes);
        weir_fake_untake(state, handle->device, handle->bytes);
        free(handle);
    }
    return WEIR_CU_OK;
}

static weir_cu_result fakemem_granularity(const fake_state *state, size_t *bytes,
                                          const weir_cu_handle_prop *prop, int option)
{
    if (option != WEIR_CU_GRANULARITY_MINIMUM) {
        return WEIR_CU_INVALID_VALUE;
    }
    *bytes = (size_t)weir_fake_granule(state);
    return fakemem_prop_check(state, prop);
}

FAKE_FUNCTION(cuMemCreate, FAKE_STARTED,
              (uint64_t * handle, size_t bytes, const weir_cu_handle_prop *prop,
               unsigned long long flags),
              fakemem_create(call.state, handle, bytes, prop, flags))
FAKE_FUNCTION(cuMemRelease, FAKE_STARTED, (uint64_t handle), fakemem_release(call.state, handle))
FAKE_FUNCTION(cuMemGetAllocationGranularity, FAKE_STARTED,
              (size_t * bytes, const weir_cu_handle_prop *prop, int option),
              fakemem_granularity(call.state, bytes, prop, option))

/* ------------------------------------------------------------------------------------ mappings -- */

/* A mapping of another thread that has no access yet. */
static bool fakemem_is_between(const fake_state *state)
{
    for (size_t i = 0; i < state->area_count; i++) {
        const fake_area *area = &state->areas[i];
        if (area->kind == FAKE_MAPPED && area->access == 0 &&
            !pthread_equal(area->mapper, pthread_self())) {
            return true;
        }
    }
    return false;
}

static weir_cu_result fakemem_map(fake_state *state, uint64_t addr, size_t bytes, size_t offset,
                                  uint64_t name, unsigned long long flags)
{
    fake_handle *handle = (fake_handle *)weir_fake_find(state, FAKE_IS_HANDLE, FAKE_HANDLE(name));
    if (!handle || flags != 0 || fakemem_is_uneven(state, bytes)) {
        weir_fake_breach(state, "a map of no handle, or of no whole granules");
        return WEIR_CU_INVALID_VALUE;
    }
    if (offset != 0 || bytes != handle->bytes) {
        return WEIR_CU_NOT_SUPPORTED;
    }
    if (handle->maps > 0 && fakemem_is_between(state)) { /* seen on an H200, driver 580 */
        return FAKE_UNKNOWN;
    }
    weir_cu_result result = fakemem_answer(state->ops->map(state->host, addr, bytes, handle->host));
    if (result != WEIR_CU_OK) {
        weir_fake_breach(state, "a map over addresses that are not reserved, or mapped already");
        return result;
    }
    handle->maps++;
    weir_fake_area_add(state, (fake_area){.addr = addr,
                                          .bytes = bytes,
                                          .kind = FAKE_MAPPED,
                                          .device = handle->device,
                                          .handle = handle,
                                          .mapper = pthread_self(),
                                          .ready = true});
    return WEIR_CU_OK;
}

static weir_cu_result fakemem_unmap(fake_state *state, uint64_t addr, size_t bytes)
{
    size_t count = weir_fake_area_whole(state, addr, bytes);
    if (count == 0) {
        weir_fake_breach(state, "an unmap of what is no range of whole mappings");
        return WEIR_CU_INVALID_VALUE;
    }
    if (weir_fake_is_used(state, addr, bytes, UINT64_MAX)) {
        weir_fake_breach(state, "an unmap under unfinished work");
        return WEIR_CU_INVALID_VALUE;
    }
    weir_cu_result result = fakemem_answer(state->ops->unmap(state->host, addr, bytes));
    for (size_t i = 0; i < count && result == WEIR_CU_OK; i++) {
        fake_area *area = weir_fake_area_at(state, addr);
        area->handle->maps--;
        addr += area->bytes;
        weir_fake_area_remove(state, area);
    }
    return result;
}

FAKE_FUNCTION(cuMemMap, FAKE_STARTED,
              (uint64_t addr, size_t bytes, size_t offset, uint64_t handle,
               unsigned long long flags),
              fakemem_map(call.state, addr, bytes, offset, handle, flags))
FAKE_FUNCTION(cuMemUnmap, FAKE_STARTED, (uint64_t addr, size_t bytes),
              fakemem_unmap(call.state, addr, bytes))
