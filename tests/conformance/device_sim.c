/* SPDX-License-Identifier: MIT */
/* The simulated device, with virtual memory and with segments, under the conformance suite. */
#include "conformance.h"
#include "sim.h"

#include <stdio.h>

static void device_sim_breach(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "breach: %s\n", text);
}

static void *device_sim_open(bool no_virtual)
{
    weir_sim_config config = {.memory_bytes = UINT64_C(256) << 20,
                              .granule_bytes = UINT64_C(64) << 10,
                              .lag_us = 50,
                              .no_virtual = no_virtual,
                              .oracle = true,
                              .locked = true,
                              .breach = device_sim_breach};
    return weir_sim_create(&config);
}

static void *device_sim_create(void)
{
    return device_sim_open(false);
}

static void *device_sim_create_segments(void)
{
    return device_sim_open(true);
}

static void device_sim_destroy(void *self)
{
    weir_sim_destroy((weir_sim *)self);
}

static const weir_device_ops *device_sim_ops(void *self)
{
    return weir_sim_ops((weir_sim *)self);
}

static uint64_t device_sim_stream_create(void *self)
{
    return weir_sim_stream_create((weir_sim *)self);
}

static uint64_t device_sim_stream_unique(void *self, uint64_t stream)
{
    return weir_sim_stream_unique((weir_sim *)self, stream);
}

static void device_sim_stream_destroy(void *self, uint64_t stream)
{
    weir_sim_stream_destroy((weir_sim *)self, stream);
}

static void device_sim_write(void *self, uint64_t stream, weir_addr addr, uint64_t bytes,
                             uint64_t tag)
{
    weir_sim_write((weir_sim *)self, stream, addr, bytes, tag);
}

static void device_sim_verify(void *self, uint64_t stream, weir_addr addr, uint64_t bytes,
                              uint64_t tag)
{
    weir_sim_read((weir_sim *)self, stream, addr, bytes, tag);
}

static void device_sim_busy(void *self, uint64_t stream, uint64_t busy_us)
{
    weir_sim *sim = (weir_sim *)self;
    weir_sim_busy_until(sim, stream, weir_sim_time(sim) + busy_us);
    weir_sim_write(sim, stream, 0, 0, 0);
}

static void device_sim_sync(void *self)
{
    weir_sim_sync((weir_sim *)self, 0);
}

static uint64_t device_sim_errors(void *self)
{
    weir_sim_totals totals;
    weir_sim_totals_read((weir_sim *)self, &totals);
    return totals.breaches;
}

static const char *device_sim_balance(void *self)
{
    return weir_sim_balance((weir_sim *)self);
}

#define DEVICE_SIM_CALLS(made_by) \
    made_by, device_sim_destroy, device_sim_ops, device_sim_stream_create, \
        device_sim_stream_unique, device_sim_stream_destroy, device_sim_write, device_sim_verify, \
        device_sim_busy, device_sim_sync, device_sim_errors, device_sim_balance

const weir_conformance_device weir_conformance_sim = {"sim", DEVICE_SIM_CALLS(device_sim_create)};
const weir_conformance_device weir_conformance_sim_segments = {
    "sim with segments", DEVICE_SIM_CALLS(device_sim_create_segments)};
