/* SPDX-License-Identifier: MIT */
/*
 * The device that the pool sees: the simulated one, with failures of our own before it and a look
 * at the lock. The targets' own calls go to the simulated device directly and never fail.
 */
#include "world.h"

static bool device_scripted(weir_sim_call call)
{
    return (call >= WEIR_SIM_va_reserve && call <= WEIR_SIM_segment_free) ||
           (call >= WEIR_SIM_quiesce && call <= WEIR_SIM_resume);
}

/* What this call answers instead of being made; OK: it is made. */
static weir_status device_fault(world *of, weir_sim_call call)
{
    world_fault *fault = &of->fault[call];
    weir_status status = WEIR_OK;
    if (fault->left != 0 && --fault->left == 0) {
        fault->left = fault->on ? 1 : 0;
        status = fault->status;
    }
    if (device_scripted(call)) {
        if ((of->script & 1) != 0) status = of->script_status;
        of->script >>= 1;
    }
    return status;
}

static weir_status device_fail(world *of, weir_sim_call call, weir_status status)
{
    of->hits++;
    of->hits_all++;
    of->odd = true;
    of->undone_less = of->undone_less || call == WEIR_SIM_unmap ||
                      call == WEIR_SIM_handle_release || call == WEIR_SIM_segment_free;
    if (status == WEIR_LOST) of->lost = true;
    of->misses = call == WEIR_SIM_resume ? of->misses + 1 : 0;
    if (of->misses == 2) of->lost = true;
    return status;
}

/* Other threads' operations run while the lock is free. */
static void device_nest(world *of)
{
    if (of->nest_in == 0 || --of->nest_in != 0 || of->depth != 1) return;
    uint32_t script = of->script;
    of->script = 0;
    of->nested = true;
    for (; of->nest_count > 0 && weir_world_run(of, of->step); of->nest_count--) {
    }
    of->script = script;
}

static weir_status device_enter(world *of, weir_sim_call call, bool locked)
{
    of->calls[call]++;
    if (locked) {
        FUZZ_SAY(of->rig.memory.held, "in %s", weir_sim_call_name(call));
    } else {
        of->odd = true;
        if (!of->rig.memory.held) device_nest(of);
    }
    weir_status status = device_fault(of, call);
    if (status != WEIR_OK) return device_fail(of, call, status);
    if (call == WEIR_SIM_resume) of->misses = 0;
    return WEIR_OK;
}

/* clang-format off */
#define DEVICE_CALL(name, locked, params, ...) \
    static weir_status device_##name params \
    { \
        world *of = (world *)self; \
        weir_status status = device_enter(of, WEIR_SIM_##name, locked); \
        return status != WEIR_OK ? status : of->real->name(of->rig.sim, __VA_ARGS__); \
    }
DEVICE_CALL(va_reserve, false, (void *self, uint64_t bytes, weir_addr *base), bytes, base)
DEVICE_CALL(va_free, false, (void *self, weir_addr base, uint64_t bytes), base, bytes)
DEVICE_CALL(handle_create, false, (void *self, uint64_t bytes, weir_handle *handle), bytes, handle)
DEVICE_CALL(handle_release, false, (void *self, weir_handle handle, uint64_t bytes), handle, bytes)
DEVICE_CALL(map, false, (void *self, weir_addr addr, uint64_t bytes, weir_handle handle), addr,
            bytes, handle)
DEVICE_CALL(set_access, false, (void *self, weir_addr addr, uint64_t bytes), addr, bytes)
DEVICE_CALL(unmap, false, (void *self, weir_addr addr, uint64_t bytes), addr, bytes)
DEVICE_CALL(segment_alloc, false, (void *self, uint64_t bytes, weir_addr *addr), bytes, addr)
DEVICE_CALL(segment_free, false, (void *self, weir_addr addr, uint64_t bytes), addr, bytes)
DEVICE_CALL(event_create, true, (void *self, weir_event *event), event)
DEVICE_CALL(event_record, true, (void *self, weir_event event, uint64_t stream), event, stream)
DEVICE_CALL(event_query, true, (void *self, weir_event event, bool *passed), event, passed)
DEVICE_CALL(stream_wait, true, (void *self, uint64_t stream, weir_event event), stream, event)
DEVICE_CALL(event_wait, false, (void *self, weir_event event, uint64_t wait_us, bool *passed),
            event, wait_us, passed)
DEVICE_CALL(copy, true, (void *self, weir_addr to, weir_addr from, uint64_t bytes), to, from, bytes)
DEVICE_CALL(memory_info, false, (void *self, uint64_t *free_bytes, uint64_t *total_bytes),
            free_bytes, total_bytes)
/* clang-format on */

static weir_status device_describe(void *self, weir_device_info *info)
{
    world *of = (world *)self;
    return of->real->describe(of->rig.sim, info);
}

static void device_event_destroy(void *self, weir_event event)
{
    world *of = (world *)self;
    of->calls[WEIR_SIM_event_destroy]++;
    of->real->event_destroy(of->rig.sim, event);
}

static weir_status device_quiesce(void *self, uint64_t wait_us)
{
    world *of = (world *)self;
    weir_status status = device_enter(of, WEIR_SIM_quiesce, true);
    if (status == WEIR_OK) status = of->real->quiesce(of->rig.sim, wait_us);
    of->quiet = status == WEIR_OK;
    return status;
}

static weir_status device_resume(void *self)
{
    world *of = (world *)self;
    weir_status status = device_enter(of, WEIR_SIM_resume, true);
    if (status != WEIR_OK) return status;
    of->quiet = false;
    return of->real->resume(of->rig.sim);
}

static int64_t device_native_error(void *self)
{
    world *of = (world *)self;
    return of->real->native_error(of->rig.sim);
}

/* The same calls that the simulated device has. */
void weir_world_device(world *of)
{
    of->real = weir_sim_ops(of->rig.sim);
    of->ops = *of->real;
#define DEVICE_TAKE(name) \
    if (of->real->name != NULL) of->ops.name = device_##name;
    WEIR_SIM_CALL_MAP(DEVICE_TAKE)
    DEVICE_TAKE(native_error)
#undef DEVICE_TAKE
}
