/* SPDX-License-Identifier: MIT */
/*
 * The calls of weir_device_ops on a simulated device.
 *
 * Every call is counted first; then a lost device answers LOST and a due fault its status, both
 * without any effect or charge; then it is charged and done. event_destroy, which cannot answer, is
 * neither made to fail nor lost.
 */
#include "sim_internal.h"

#include <string.h>

#define SIMOP_EVENT_CREATE_NS 140u
#define SIMOP_EVENT_DESTROY_NS 120u
#define SIMOP_ORDER_NS 200u
#define SIMOP_WAIT_NS 5000u
#define SIMOP_INFO_NS 4100u

static weir_status simop_fault(weir_sim *sim, weir_sim_call call)
{
    weir_sim_fault *fault = &sim->faults[call];
    if (fault->left == 0 || --fault->left > 0) {
        return WEIR_OK;
    }
    fault->left = fault->on ? 1 : 0;
    return fault->status;
}

static weir_status simop_enter(weir_sim *sim, weir_sim_call call, uint64_t cost_ns)
{
    weir_sim_lock(sim);
    sim->totals.count[call]++;
    weir_status status = sim->lost ? WEIR_LOST : simop_fault(sim, call);
    if (status == WEIR_OK) {
        weir_sim_charge(sim, call, cost_ns);
    }
    return status;
}

static weir_status simop_leave(weir_sim *sim, weir_status status)
{
    if (status != WEIR_OK) {
        sim->native_error = (int64_t)status;
    }
    weir_sim_unlock(sim);
    return status;
}

/* What this simulator tells of itself; the truth unless it lies. */
static weir_device_info simop_info(const weir_sim *sim)
{
    weir_device_info info;
    memset(&info, 0, sizeof(info));
    info.size = sizeof(info);
    info.granule_bytes = sim->config.granule_bytes;
    info.memory_bytes = sim->config.memory_bytes;
    info.va_bytes = sim->config.va_bytes;
    info.handle_bytes_max = sim->config.handle_bytes_max;
    if (sim->config.lies) {
        info.memory_bytes *= 2;
        info.va_bytes = UINT64_MAX - info.granule_bytes + 1;
    }
    return info;
}

/* Writes no more than the caller's struct holds; a size of 0 stands for this version's. */
static weir_status simop_describe(void *self, weir_device_info *info)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_describe, 0);
    if (status == WEIR_OK) {
        weir_device_info full = simop_info(sim);
        if (info->size != 0 && info->size < full.size) {
            full.size = info->size;
        }
        memcpy(info, &full, full.size);
    }
    return simop_leave(sim, status);
}

static weir_status simop_va_reserve(void *self, uint64_t bytes, weir_addr *base)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_va_reserve, weir_sim_cost_reserve(bytes));
    return simop_leave(sim, status ? status : weir_sim_va_reserve(sim, bytes, base));
}

static weir_status simop_va_free(void *self, weir_addr base, uint64_t bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_va_free, weir_sim_cost_unreserve(bytes));
    return simop_leave(sim, status ? status : weir_sim_va_free(sim, base, bytes));
}

static weir_status simop_handle_create(void *self, uint64_t bytes, weir_handle *handle)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_handle_create, weir_sim_cost_create(bytes));
    return simop_leave(sim, status ? status : weir_sim_handle_create(sim, bytes, handle));
}

static weir_status simop_handle_release(void *self, weir_handle handle, uint64_t bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_handle_release, weir_sim_cost_release(bytes));
    return simop_leave(sim, status ? status : weir_sim_handle_release(sim, handle, bytes));
}

static weir_status simop_map(void *self, weir_addr addr, uint64_t bytes, weir_handle handle)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_map, weir_sim_cost_map(bytes));
    return simop_leave(sim, status ? status : weir_sim_map(sim, addr, bytes, handle));
}

/* set_access and unmap charge for each handle in the range, where they find it. */
static weir_status simop_set_access(void *self, weir_addr addr, uint64_t bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_set_access, 0);
    return simop_leave(sim, status ? status : weir_sim_set_access(sim, addr, bytes));
}

static weir_status simop_unmap(void *self, weir_addr addr, uint64_t bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_unmap, 0);
    return simop_leave(sim, status ? status : weir_sim_unmap(sim, addr, bytes));
}

static weir_status simop_segment_alloc(void *self, uint64_t bytes, weir_addr *addr)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status =
        simop_enter(sim, WEIR_SIM_segment_alloc, weir_sim_cost_segment_alloc(bytes));
    return simop_leave(sim, status ? status : weir_sim_segment_alloc(sim, bytes, addr));
}

static weir_status simop_segment_free(void *self, weir_addr addr, uint64_t bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_segment_free, weir_sim_cost_segment_free(bytes));
    return simop_leave(sim, status ? status : weir_sim_segment_free(sim, addr, bytes));
}

static weir_status simop_event_create(void *self, weir_event *event)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_event_create, SIMOP_EVENT_CREATE_NS);
    return simop_leave(sim, status ? status : weir_sim_event_create(sim, event));
}

static void simop_event_destroy(void *self, weir_event event)
{
    weir_sim *sim = (weir_sim *)self;
    weir_sim_lock(sim);
    sim->totals.count[WEIR_SIM_event_destroy]++;
    weir_sim_charge(sim, WEIR_SIM_event_destroy, SIMOP_EVENT_DESTROY_NS);
    (void)simop_leave(sim, weir_sim_event_destroy(sim, event));
}

static weir_status simop_event_record(void *self, weir_event event, uint64_t stream)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_event_record, SIMOP_ORDER_NS);
    return simop_leave(sim, status ? status : weir_sim_event_record(sim, event, stream));
}

static weir_status simop_event_query(void *self, weir_event event, bool *passed)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_event_query, SIMOP_ORDER_NS);
    return simop_leave(sim, status ? status : weir_sim_event_query(sim, event, passed));
}

static weir_status simop_stream_wait(void *self, uint64_t stream, weir_event event)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_stream_wait, SIMOP_ORDER_NS);
    return simop_leave(sim, status ? status : weir_sim_stream_wait(sim, stream, event));
}

static weir_status simop_event_wait(void *self, weir_event event, uint64_t wait_us, bool *passed)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_event_wait, SIMOP_WAIT_NS);
    return simop_leave(sim, status ? status : weir_sim_event_wait(sim, event, wait_us, passed));
}

static weir_status simop_quiesce(void *self, uint64_t wait_us)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_quiesce, SIMOP_WAIT_NS);
    return simop_leave(sim, status ? status : weir_sim_quiesce(sim, wait_us));
}

static weir_status simop_copy(void *self, weir_addr to, weir_addr from, uint64_t bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_copy, weir_sim_cost_copy(bytes));
    return simop_leave(sim, status ? status : weir_sim_copy(sim, to, from, bytes));
}

static weir_status simop_resume(void *self)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_resume, SIMOP_WAIT_NS);
    return simop_leave(sim, status ? status : weir_sim_resume(sim));
}

static weir_status simop_memory_info(void *self, uint64_t *free_bytes, uint64_t *total_bytes)
{
    weir_sim *sim = (weir_sim *)self;
    weir_status status = simop_enter(sim, WEIR_SIM_memory_info, SIMOP_INFO_NS);
    if (status == WEIR_OK) {
        uint64_t left = sim->config.memory_bytes - sim->totals.held_bytes;
        *free_bytes = left > sim->tenant_bytes ? left - sim->tenant_bytes : 0;
        *total_bytes = sim->config.memory_bytes;
    }
    return simop_leave(sim, status);
}

static int64_t simop_native_error(void *self)
{
    const weir_sim *sim = (const weir_sim *)self;
    weir_sim_lock(sim);
    int64_t error = sim->native_error;
    weir_sim_unlock(sim);
    return error;
}

static void simop_fill_memory(weir_device_ops *ops, bool no_virtual)
{
    if (no_virtual) {
        ops->segment_alloc = simop_segment_alloc;
        ops->segment_free = simop_segment_free;
        return;
    }
    ops->va_reserve = simop_va_reserve;
    ops->va_free = simop_va_free;
    ops->handle_create = simop_handle_create;
    ops->handle_release = simop_handle_release;
    ops->map = simop_map;
    ops->set_access = simop_set_access;
    ops->unmap = simop_unmap;
}

static void simop_fill_optional(weir_device_ops *ops, const weir_sim_config *config)
{
    if (!config->no_event_wait) {
        ops->event_wait = simop_event_wait;
    }
    if (!config->no_rescue) {
        ops->quiesce = simop_quiesce;
        ops->copy = simop_copy;
        ops->resume = simop_resume;
    }
    if (!config->no_memory_info) {
        ops->memory_info = simop_memory_info;
    }
}

void weir_sim_ops_fill(weir_sim *sim)
{
    weir_device_ops *ops = &sim->ops;
    ops->size = sizeof(*ops);
    ops->describe = simop_describe;
    simop_fill_memory(ops, sim->config.no_virtual);
    ops->event_create = simop_event_create;
    ops->event_destroy = simop_event_destroy;
    ops->event_record = simop_event_record;
    ops->event_query = simop_event_query;
    ops->stream_wait = simop_stream_wait;
    simop_fill_optional(ops, &sim->config);
    ops->native_error = simop_native_error;
}
