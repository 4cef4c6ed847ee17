/* SPDX-License-Identifier: MIT */
/*
 * The meter's calls. Each is the inner call between meter_start and meter_stop; the macro spells
 * them all alike. A call that the device lacks stays NULL, so the pool sees the same device.
 */
#include "meter.h"

#include <string.h>

#include "clock.h"

static uint64_t meter_now(const weir_meter *meter, weir_sim_call call)
{
    weir_sim_totals totals;

    if (meter->sim == NULL) return weir_clock_ns();
    weir_sim_totals_read(meter->sim, &totals);
    return totals.cost_ns[call];
}

static uint64_t meter_start(const weir_meter *meter, weir_sim_call call)
{
    return meter_now(meter, call);
}

static void meter_stop(weir_meter *meter, weir_sim_call call, uint64_t start)
{
    uint64_t cost_ns = meter_now(meter, call) - start;

    meter->cost_ns += cost_ns;
    meter->call_ns[call] += cost_ns;
    if (call == WEIR_SIM_event_wait || call == WEIR_SIM_quiesce) meter->wait_ns += cost_ns;
    meter->count[call]++;
    meter->calls++;
}

static void meter_take(weir_meter *meter, weir_status status, uint64_t bytes)
{
    if (status != WEIR_OK) return;
    meter->held_bytes += bytes;
    meter->changed = true;
    if (meter->held_bytes > meter->held_peak_bytes) meter->held_peak_bytes = meter->held_bytes;
}

static void meter_drop(weir_meter *meter, weir_status status, uint64_t bytes)
{
    if (status != WEIR_OK) return;
    meter->held_bytes -= bytes;
    meter->returned_bytes += bytes;
    meter->changed = true;
}

/* `after` is done with the status before it is returned. */
#define METER_CALL(name, parameters, arguments, after) \
    static weir_status meter_##name parameters \
    { \
        weir_meter *meter = self; \
        uint64_t start = meter_start(meter, WEIR_SIM_##name); \
        weir_status status = meter->inner->name arguments; \
        meter_stop(meter, WEIR_SIM_##name, start); \
        after; \
        return status; \
    }

#define METER_SELF meter->inner_self

METER_CALL(describe, (void *self, weir_device_info *info), (METER_SELF, info), (void)0)
METER_CALL(va_reserve, (void *self, uint64_t bytes, weir_addr *base), (METER_SELF, bytes, base),
           (void)0)
METER_CALL(va_free, (void *self, weir_addr base, uint64_t bytes), (METER_SELF, base, bytes),
           (void)0)
METER_CALL(handle_create, (void *self, uint64_t bytes, weir_handle *handle),
           (METER_SELF, bytes, handle), meter_take(meter, status, bytes))
METER_CALL(handle_release, (void *self, weir_handle handle, uint64_t bytes),
           (METER_SELF, handle, bytes), meter_drop(meter, status, bytes))
METER_CALL(map, (void *self, weir_addr addr, uint64_t bytes, weir_handle handle),
           (METER_SELF, addr, bytes, handle), (void)0)
METER_CALL(set_access, (void *self, weir_addr addr, uint64_t bytes), (METER_SELF, addr, bytes),
           (void)0)
METER_CALL(unmap, (void *self, weir_addr addr, uint64_t bytes), (METER_SELF, addr, bytes), (void)0)
METER_CALL(segment_alloc, (void *self, uint64_t bytes, weir_addr *addr), (METER_SELF, bytes, addr),
           meter_take(meter, status, bytes))
METER_CALL(segment_free, (void *self, weir_addr addr, uint64_t bytes), (METER_SELF, addr, bytes),
           meter_drop(meter, status, bytes))
METER_CALL(event_create, (void *self, weir_event *event), (METER_SELF, event), (void)0)
METER_CALL(event_record, (void *self, weir_event event, uint64_t stream),
           (METER_SELF, event, stream), (void)0)
METER_CALL(event_query, (void *self, weir_event event, bool *passed), (METER_SELF, event, passed),
           (void)0)
METER_CALL(stream_wait, (void *self, uint64_t stream, weir_event event),
           (METER_SELF, stream, event), (void)0)
METER_CALL(event_wait, (void *self, weir_event event, uint64_t wait_us, bool *passed),
           (METER_SELF, event, wait_us, passed), (void)0)
METER_CALL(quiesce, (void *self, uint64_t wait_us), (METER_SELF, wait_us), (void)0)
METER_CALL(copy, (void *self, weir_addr to, weir_addr from, uint64_t bytes),
           (METER_SELF, to, from, bytes), (void)0)
METER_CALL(resume, (void *self), (METER_SELF), (void)0)
METER_CALL(memory_info, (void *self, uint64_t *free_bytes, uint64_t *total_bytes),
           (METER_SELF, free_bytes, total_bytes), (void)0)

static void meter_event_destroy(void *self, weir_event event)
{
    weir_meter *meter = self;
    uint64_t start = meter_start(meter, WEIR_SIM_event_destroy);

    meter->inner->event_destroy(meter->inner_self, event);
    meter_stop(meter, WEIR_SIM_event_destroy, start);
}

/* Free of charge: no table knows it, and it is asked only after something failed. */
static int64_t meter_native_error(void *self)
{
    const weir_meter *meter = self;
    return meter->inner->native_error(meter->inner_self);
}

#define METER_SET(name) meter->ops.name = inner->name != NULL ? meter_##name : NULL;

void weir_meter_init(weir_meter *meter, const weir_device_ops *inner, void *inner_self,
                     const weir_sim *sim)
{
    memset(meter, 0, sizeof *meter);
    meter->inner = inner;
    meter->inner_self = inner_self;
    meter->sim = sim;
    meter->ops.size = sizeof meter->ops;
    WEIR_SIM_CALL_MAP(METER_SET)
    METER_SET(native_error)
}
