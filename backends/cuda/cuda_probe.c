/* SPDX-License-Identifier: MIT */
/*
 * What a device can: the driver's attributes, and for exports and RDMA a try, since a container or
 * a missing kernel module can refuse what an attribute promises. Costs a few driver calls, once.
 */
#include "cuda_internal.h"

#include <string.h>

static int probe_attribute(const weir_driver *driver, weir_cu_device device, int attribute)
{
    int value = 0;
    return driver->device_attribute(&value, attribute, device) == WEIR_CU_OK ? value : 0;
}

static bool probe_has_virtual(const weir_driver *driver)
{
    return driver->va_reserve && driver->va_free && driver->handle_create &&
           driver->handle_release && driver->map && driver->unmap && driver->set_access &&
           driver->granularity;
}

static bool probe_has_pools(const weir_driver *driver)
{
    return driver->pool_create && driver->pool_destroy && driver->pool_set && driver->pool_get &&
           driver->pool_trim && driver->pool_access && driver->alloc_async && driver->free_async;
}

static weir_cu_handle_prop probe_prop(weir_cu_device device, bool exports, bool rdma)
{
    weir_cu_handle_prop prop;
    memset(&prop, 0, sizeof(prop));
    prop.type = WEIR_CU_ALLOCATION_PINNED;
    prop.location.type = WEIR_CU_LOCATION_DEVICE;
    prop.location.id = device;
    prop.handle_types = exports ? WEIR_CU_HANDLE_POSIX_FD : WEIR_CU_HANDLE_NONE;
    prop.flags.rdma = rdma;
    return prop;
}

weir_cu_handle_prop weir_cuda_probe_prop(weir_cu_device device, const weir_cuda_probe *probe)
{
    return probe_prop(device, probe->exports, probe->rdma_handles);
}

static bool probe_try(const weir_driver *driver, weir_cu_device device, uint64_t bytes,
                      bool exports, bool rdma)
{
    weir_cu_handle_prop prop = probe_prop(device, exports, rdma);
    uint64_t handle = 0;
    if (driver->handle_create(&handle, bytes, &prop, 0) != WEIR_CU_OK) {
        return false;
    }
    return driver->handle_release(handle) == WEIR_CU_OK ||
           driver->handle_release(handle) == WEIR_CU_OK;
}

/* Both where both work, else the export alone, else RDMA alone, else neither. A full device makes
 * every try fail, and so handles that nobody can export. */
static void probe_handles(const weir_driver *driver, weir_cu_device device, weir_cuda_probe *probe)
{
    weir_cu_handle_prop prop = probe_prop(device, false, false);
    size_t granule = 0;
    if (driver->granularity(&granule, &prop, WEIR_CU_GRANULARITY_MINIMUM) != WEIR_CU_OK ||
        granule < 4096 || (granule & (granule - 1)) != 0) {
        probe->vmm = false;
        return;
    }
    probe->granule_bytes = granule;
    probe->exports = probe->posix_fd;
    probe->rdma_handles = probe->rdma;
    if (probe_try(driver, device, granule, probe->exports, probe->rdma_handles)) {
        return;
    }
    probe->exports = probe->posix_fd && probe_try(driver, device, granule, true, false);
    probe->rdma_handles =
        !probe->exports && probe->rdma && probe_try(driver, device, granule, false, true);
}

void weir_cuda_probe_device(const weir_driver *driver, weir_cu_device device,
                            weir_cuda_probe *probe)
{
    size_t memory_bytes = 0;
    memset(probe, 0, sizeof(*probe));
    probe->major = probe_attribute(driver, device, WEIR_CU_ATTR_MAJOR);
    probe->minor = probe_attribute(driver, device, WEIR_CU_ATTR_MINOR);
    if (driver->device_memory(&memory_bytes, device) == WEIR_CU_OK) {
        probe->memory_bytes = memory_bytes;
    }
    probe->vmm =
        probe_attribute(driver, device, WEIR_CU_ATTR_VMM) != 0 && probe_has_virtual(driver);
    probe->pools =
        probe_attribute(driver, device, WEIR_CU_ATTR_POOLS) != 0 && probe_has_pools(driver);
    probe->posix_fd = probe_attribute(driver, device, WEIR_CU_ATTR_POSIX_FD) != 0 &&
                      driver->export_handle != NULL;
    probe->fabric = probe_attribute(driver, device, WEIR_CU_ATTR_FABRIC) != 0;
    probe->rdma = probe_attribute(driver, device, WEIR_CU_ATTR_RDMA_VMM) != 0;
    probe->dma_buf =
        probe_attribute(driver, device, WEIR_CU_ATTR_DMA_BUF) != 0 && driver->export_range != NULL;
    probe->host_handles = probe_attribute(driver, device, WEIR_CU_ATTR_HOST_NUMA_VMM) != 0;
    if (probe->vmm) {
        probe_handles(driver, device, probe);
    }
}
