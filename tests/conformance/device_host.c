/* SPDX-License-Identifier: MIT */
/* The host device, with virtual memory and with segments, under the conformance suite. */
#include "conformance.h"
#include "host.h"

static void *device_host_open(bool no_virtual)
{
    weir_host_config config = {.memory_bytes = UINT64_C(256) << 20,
                               .granule_bytes = UINT64_C(64) << 10,
                               .no_virtual = no_virtual};
    return weir_host_create(&config);
}

static void *device_host_create(void)
{
    return device_host_open(false);
}

static void *device_host_create_segments(void)
{
    return device_host_open(true);
}

static void device_host_destroy(void *self)
{
    weir_host_destroy((weir_host *)self);
}

static const weir_device_ops *device_host_ops(void *self)
{
    return weir_host_ops((weir_host *)self);
}

static uint64_t device_host_stream_create(void *self)
{
    return weir_host_stream_create((weir_host *)self);
}

static uint64_t device_host_stream_unique(void *self, uint64_t stream)
{
    return weir_host_stream_unique((weir_host *)self, stream);
}

static void device_host_stream_destroy(void *self, uint64_t stream)
{
    weir_host_stream_destroy((weir_host *)self, stream);
}

static void device_host_write(void *self, uint64_t stream, weir_addr addr, uint64_t bytes,
                              uint64_t tag)
{
    weir_host_fill((weir_host *)self, stream, addr, bytes, tag);
}

static void device_host_verify(void *self, uint64_t stream, weir_addr addr, uint64_t bytes,
                               uint64_t tag)
{
    weir_host_verify((weir_host *)self, stream, addr, bytes, tag);
}

static void device_host_busy(void *self, uint64_t stream, uint64_t busy_us)
{
    weir_host_sleep((weir_host *)self, stream, busy_us);
}

static void device_host_sync(void *self)
{
    weir_host_sync((weir_host *)self, 0);
}

static uint64_t device_host_errors(void *self)
{
    return weir_host_errors((weir_host *)self);
}

static const char *device_host_balance(void *self)
{
    return weir_host_balance((weir_host *)self);
}

#define DEVICE_HOST_CALLS(made_by) \
    made_by, device_host_destroy, device_host_ops, device_host_stream_create, \
        device_host_stream_unique, device_host_stream_destroy, device_host_write, \
        device_host_verify, device_host_busy, device_host_sync, device_host_errors, \
        device_host_balance

const weir_conformance_device weir_conformance_host = {"host",
                                                       DEVICE_HOST_CALLS(device_host_create)};
const weir_conformance_device weir_conformance_host_segments = {
    "host with segments", DEVICE_HOST_CALLS(device_host_create_segments)};
