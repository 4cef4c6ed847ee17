/* SPDX-License-Identifier: MIT */
/* The calls that are looked at one by one, and what each of them needs. */
#include "probe.h"

#include <string.h>

/* ------------------------------------------------------------------------- a life in seven steps -- */

static weir_cu_result call_made(probe_kit *kit, weir_cu_result result)
{
    kit->step += result == WEIR_CU_OK;
    return result;
}

static weir_cu_result call_reserve(probe_kit *kit)
{
    return call_made(kit, kit->rig->driver.va_reserve(&kit->base, kit->bytes, 0, 0, 0));
}

static weir_cu_result call_create(probe_kit *kit)
{
    return call_made(kit,
                     kit->rig->driver.handle_create(&kit->handle, kit->bytes, &kit->rig->prop, 0));
}

static weir_cu_result call_map(probe_kit *kit)
{
    return call_made(kit, kit->rig->driver.map(kit->base, kit->bytes, 0, kit->handle, 0));
}

static weir_cu_result call_access(probe_kit *kit)
{
    return call_made(kit, kit->rig->driver.set_access(kit->base, kit->bytes, &kit->rig->access, 1));
}

static weir_cu_result call_unmap(probe_kit *kit)
{
    return call_made(kit, kit->rig->driver.unmap(kit->base, kit->bytes));
}

static weir_cu_result call_release(probe_kit *kit)
{
    return call_made(kit, kit->rig->driver.handle_release(kit->handle));
}

static weir_cu_result call_va_free(probe_kit *kit)
{
    weir_cu_result result = kit->rig->driver.va_free(kit->base, kit->bytes);
    kit->step = result == WEIR_CU_OK ? 0 : kit->step;
    return result;
}

/* ------------------------------------------------------------------------------------ others -- */

static weir_cu_result call_alloc(probe_kit *kit)
{
    return kit->rig->driver.alloc(&kit->block, PROBE_PIECE);
}

static weir_cu_result call_free(probe_kit *kit)
{
    weir_cu_result result = kit->rig->driver.free(kit->block);
    kit->block = result == WEIR_CU_OK ? 0 : kit->block;
    return result;
}

static weir_cu_result call_alloc_async(probe_kit *kit)
{
    return kit->rig->driver.alloc_async(&kit->segment, PROBE_PIECE, kit->pool, kit->other);
}

static weir_cu_result call_free_async(probe_kit *kit)
{
    weir_cu_result result = kit->rig->driver.free_async(kit->segment, kit->other);
    kit->segment = result == WEIR_CU_OK ? 0 : kit->segment;
    return result;
}

static weir_cu_result call_event_create(probe_kit *kit)
{
    return kit->rig->driver.event_create(&kit->spare_event, WEIR_CU_EVENT_NO_TIMING);
}

static weir_cu_result call_event_record(probe_kit *kit)
{
    return kit->rig->driver.event_record(kit->fresh, kit->other);
}

static weir_cu_result call_event_query(probe_kit *kit)
{
    return kit->rig->driver.event_query(kit->passed);
}

static weir_cu_result call_event_sync(probe_kit *kit)
{
    return kit->rig->driver.event_sync(kit->passed);
}

static weir_cu_result call_stream_wait(probe_kit *kit)
{
    return kit->rig->driver.stream_wait(kit->other, kit->passed, 0);
}

static weir_cu_result call_wait_on_outside(probe_kit *kit)
{
    return kit->rig->driver.stream_wait(kit->busy, kit->passed, 0);
}

static weir_cu_result call_stream_create(probe_kit *kit)
{
    return kit->rig->driver.stream_create(&kit->spare_stream, WEIR_CU_STREAM_NON_BLOCKING);
}

static weir_cu_result call_stream_sync(probe_kit *kit)
{
    return kit->rig->driver.stream_sync(kit->other);
}

static weir_cu_result call_context_sync(probe_kit *kit)
{
    return kit->rig->driver.context_sync();
}

static weir_cu_result call_context_record(probe_kit *kit)
{
    const weir_driver *driver = &kit->rig->driver;
    return driver->context_record ? driver->context_record(kit->rig->context, kit->fresh)
                                  : WEIR_CU_NOT_SUPPORTED;
}

static weir_cu_result call_memory_info(probe_kit *kit)
{
    size_t free_bytes, total_bytes;
    return kit->rig->driver.memory_info(&free_bytes, &total_bytes);
}

static weir_cu_result call_id(probe_kit *kit, weir_cu_stream stream)
{
    unsigned long long id;
    const weir_driver *driver = &kit->rig->driver;
    return driver->stream_id ? driver->stream_id(stream, &id) : WEIR_CU_NOT_SUPPORTED;
}

static weir_cu_result call_id_own(probe_kit *kit)
{
    return call_id(kit, kit->busy);
}

static weir_cu_result call_id_other(probe_kit *kit)
{
    return call_id(kit, kit->other);
}

static weir_cu_result call_id_legacy(probe_kit *kit)
{
    return call_id(kit, WEIR_CU_STREAM_LEGACY);
}

static weir_cu_result call_capturing(probe_kit *kit)
{
    int status;
    return kit->rig->driver.stream_capturing(kit->busy, &status);
}

static weir_cu_result call_stream_context(probe_kit *kit)
{
    weir_cu_context context;
    return kit->rig->driver.stream_context(kit->other, &context);
}

static weir_cu_result call_record_legacy(probe_kit *kit)
{
    return kit->rig->driver.event_record(kit->fresh, WEIR_CU_STREAM_LEGACY);
}

#define ANY PROBE_ANY

const probe_call probe_calls[] = {
    {"cuMemAddressReserve", 0, true, true, call_reserve},
    {"cuMemCreate", 1, true, true, call_create},
    {"cuMemMap", 2, true, true, call_map},
    {"cuMemSetAccess", 3, true, true, call_access},
    {"cuMemUnmap", 4, true, true, call_unmap},
    {"cuMemRelease", 5, true, true, call_release},
    {"cuMemAddressFree", 6, true, true, call_va_free},
    {"cuMemAlloc", ANY, true, true, call_alloc},
    {"cuMemFree", ANY, false, false, call_free},
    {"cuMemAllocFromPoolAsync, another stream", ANY, true, true, call_alloc_async},
    {"cuMemFreeAsync, another stream", ANY, true, true, call_free_async},
    {"cuEventCreate", ANY, true, true, call_event_create},
    {"cuEventRecord, another stream", ANY, true, true, call_event_record},
    {"cuEventRecord, the legacy stream", ANY, true, false, call_record_legacy},
    {"cuEventQuery, outside", ANY, true, true, call_event_query},
    {"cuEventSynchronize, outside", ANY, false, false, call_event_sync},
    {"cuStreamWaitEvent, another stream", ANY, true, true, call_stream_wait},
    {"cuStreamWaitEvent, this stream on an event outside", ANY, true, false, call_wait_on_outside},
    {"cuStreamCreate", ANY, true, false, call_stream_create},
    {"cuStreamSynchronize, another stream", ANY, true, false, call_stream_sync},
    {"cuCtxSynchronize", ANY, false, false, call_context_sync},
    {"cuCtxRecordEvent", ANY, true, false, call_context_record},
    {"cuMemGetInfo", ANY, true, true, call_memory_info},
    {"cuStreamGetId, this stream", ANY, true, false, call_id_own},
    {"cuStreamGetId, another stream", ANY, true, true, call_id_other},
    {"cuStreamGetId, the legacy stream", ANY, true, false, call_id_legacy},
    {"cuStreamIsCapturing", ANY, true, true, call_capturing},
    {"cuStreamGetCtx, another stream", ANY, true, true, call_stream_context},
};

const size_t probe_call_count = sizeof(probe_calls) / sizeof(probe_calls[0]);

/* --------------------------------------------------------------------------------------- kit -- */

#define LIFE_STEPS 7u

static void kit_life(probe_kit *kit, unsigned step)
{
    while (kit->step != step) {
        weir_cu_result result = probe_calls[kit->step].make(kit);
        probe_must(kit->rig, result, probe_calls[kit->step % LIFE_STEPS].name);
    }
}

void probe_kit_open(probe_kit *kit, probe_rig *rig, uint64_t bytes)
{
    weir_cu_pool_prop prop;
    memset(kit, 0, sizeof(*kit));
    memset(&prop, 0, sizeof(prop));
    kit->rig = rig;
    kit->bytes = bytes;
    kit->busy = probe_stream(rig);
    kit->other = probe_stream(rig);
    prop.type = WEIR_CU_ALLOCATION_PINNED;
    prop.location = rig->prop.location;
    probe_must(rig, rig->driver.pool_create(&kit->pool, &prop), "a driver's pool");
    probe_must(rig, rig->driver.event_create(&kit->passed, WEIR_CU_EVENT_NO_TIMING), "an event");
    probe_must(rig, rig->driver.event_create(&kit->fresh, WEIR_CU_EVENT_NO_TIMING), "an event");
}

/* What single calls made apart from the piece goes. */
static void kit_spares(probe_kit *kit)
{
    const weir_driver *driver = &kit->rig->driver;
    if (kit->spare_stream) {
        driver->stream_destroy(kit->spare_stream);
    }
    if (kit->spare_event) {
        driver->event_destroy(kit->spare_event);
    }
    kit->spare_stream = NULL;
    kit->spare_event = NULL;
}

static void kit_block(probe_kit *kit, bool there)
{
    if ((kit->block != 0) != there) {
        probe_must(kit->rig, there ? call_alloc(kit) : call_free(kit), "a block");
    }
}

static void kit_segment(probe_kit *kit, bool there)
{
    if ((kit->segment != 0) != there) {
        probe_must(kit->rig, there ? call_alloc_async(kit) : call_free_async(kit), "a segment");
    }
}

void probe_kit_ready(probe_kit *kit, const probe_call *call)
{
    kit_spares(kit);
    kit_life(kit, call->step == PROBE_ANY ? 0 : call->step);
    kit_block(kit, call->make == call_free);
    kit_segment(kit, call->make == call_free_async);
    probe_must(kit->rig, kit->rig->driver.event_record(kit->passed, kit->other), "a record");
    probe_must(kit->rig, kit->rig->driver.context_sync(), "the kit's work");
}

void probe_kit_close(probe_kit *kit)
{
    const weir_driver *driver = &kit->rig->driver;
    kit_spares(kit);
    kit_life(kit, 0);
    kit_block(kit, false);
    kit_segment(kit, false);
    probe_must(kit->rig, driver->context_sync(), "the kit's work");
    driver->event_destroy(kit->passed);
    driver->event_destroy(kit->fresh);
    probe_must(kit->rig, driver->pool_destroy(kit->pool), "the end of a driver's pool");
}
