/* SPDX-License-Identifier: MIT */
/* What calls cost on an idle card, and which of them wait for a kernel that runs. */
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define COSTS_HANDLES 40u
#define COSTS_ROUNDS 500u /* of a cheap call: fewer than fill the queue of a stream */
#define COSTS_BATCHES 7u

/* ------------------------------------------------------------------------------------- cheap -- */

typedef struct costs_cheap {
    const char *name;
    weir_cu_result (*make)(probe_kit *kit);
} costs_cheap;

static weir_cu_result costs_get_current(probe_kit *kit)
{
    weir_cu_context context;
    return kit->rig->driver.context_get(&context);
}

static weir_cu_result costs_push_pop(probe_kit *kit)
{
    weir_cu_context context;
    weir_cu_result result = kit->rig->driver.context_push(kit->rig->context);
    return result ? result : kit->rig->driver.context_pop(&context);
}

static weir_cu_result costs_mode(probe_kit *kit)
{
    int mode = WEIR_CU_MODE_GLOBAL;
    return kit->rig->driver.capture_mode(&mode);
}

static weir_cu_result costs_event(probe_kit *kit)
{
    weir_cu_event event;
    weir_cu_result result = kit->rig->driver.event_create(&event, WEIR_CU_EVENT_NO_TIMING);
    return result ? result : kit->rig->driver.event_destroy(event);
}

static weir_cu_result costs_capture_info(probe_kit *kit)
{
    int status;
    return kit->rig->driver.stream_capture
               ? kit->rig->driver.stream_capture(kit->busy, &status, NULL, NULL, NULL, NULL)
               : WEIR_CU_NOT_SUPPORTED;
}

static weir_cu_result costs_launch(probe_kit *kit)
{
    uint64_t stream = (uint64_t)(uintptr_t)kit->other;
    return weir_cuda_work_spin(kit->rig->work, stream, 0) ? WEIR_CU_OK : WEIR_CU_LAUNCH_FAILED;
}

static weir_cu_result costs_hot_async(probe_kit *kit)
{
    uint64_t addr;
    const weir_driver *driver = &kit->rig->driver;
    weir_cu_result result = driver->alloc_async(&addr, PROBE_PIECE, kit->pool, kit->other);
    return result ? result : driver->free_async(addr, kit->other);
}

static const costs_cheap costs_table[] = {
    {"cuCtxGetCurrent", costs_get_current},
    {"cuCtxPushCurrent and cuCtxPopCurrent", costs_push_pop},
    {"cuThreadExchangeStreamCaptureMode", costs_mode},
    {"cuEventCreate and cuEventDestroy", costs_event},
    {"cuStreamGetCaptureInfo", costs_capture_info},
    {"cuLaunchKernel", costs_launch},
    {"cuMemAllocFromPoolAsync and cuMemFreeAsync", costs_hot_async},
};

static const char *const costs_of_calls[] = {
    "cuStreamGetId, this stream",       "cuStreamGetId, the legacy stream", "cuStreamIsCapturing",
    "cuStreamGetCtx, another stream",   "cuEventRecord, another stream",    "cuEventQuery, outside",
    "cuStreamWaitEvent, another stream"};

/* The median of batches, each of which starts on an idle stream. */
static void costs_time(probe_kit *kit, const char *name, weir_cu_result (*make)(probe_kit *kit))
{
    double batch[COSTS_BATCHES];
    weir_cu_result result = make(kit);
    for (unsigned i = 0; i < COSTS_BATCHES && result == WEIR_CU_OK; i++) {
        probe_must(kit->rig, kit->rig->driver.context_sync(), "the batch before");
        uint64_t start = hw_now_ns();
        for (unsigned j = 0; j < COSTS_ROUNDS && result == WEIR_CU_OK; j++) {
            result = make(kit);
        }
        batch[i] = (double)(hw_now_ns() - start) / COSTS_ROUNDS;
    }
    if (result == WEIR_CU_OK) {
        probe_fact("costs", "\"call\":\"%s\",\"ns\":%.1f", name,
                   probe_median(batch, COSTS_BATCHES));
    } else {
        probe_fact("costs", "\"call\":\"%s\",\"error\":\"%s\"", name,
                   probe_error(kit->rig, result));
    }
}

static const probe_call *costs_call(const char *name)
{
    size_t at = 0;
    while (at < probe_call_count && strcmp(probe_calls[at].name, name) != 0) {
        at++;
    }
    return &probe_calls[at];
}

/* ------------------------------------------------------------------------------------ memory -- */

/* Handles of one size through the seven steps of a life; the reservation and its end are per
 * handle too. */
static void costs_lives(probe_rig *rig, uint64_t bytes)
{
    static const char *const names[] = {"reserve", "create",  "map",    "access",
                                        "unmap",   "release", "va_free"};
    double took[7][COSTS_HANDLES];
    probe_kit kits[COSTS_HANDLES];
    for (unsigned i = 0; i < COSTS_HANDLES; i++) {
        memset(&kits[i], 0, sizeof(kits[i]));
        kits[i].rig = rig;
        kits[i].bytes = bytes;
    }
    for (unsigned step = 0; step < 7; step++) {
        for (unsigned i = 0; i < COSTS_HANDLES; i++) {
            uint64_t start = hw_now_ns();
            probe_must(rig, probe_calls[step].make(&kits[i]), probe_calls[step].name);
            took[step][i] = (double)(hw_now_ns() - start) / 1000;
        }
    }
    for (unsigned step = 0; step < 7; step++) {
        probe_fact("costs", "\"call\":\"%s\",\"mib\":%u,\"us\":%.2f", names[step],
                   (unsigned)(bytes / HW_MIB), probe_median(took[step], COSTS_HANDLES));
    }
}

/* As much as the device has at most: a stand-in for it is small. */
static uint64_t costs_most(probe_rig *rig)
{
    size_t free_bytes = 0, total_bytes = 0;
    probe_must(rig, rig->driver.memory_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    return free_bytes / 2;
}

void probe_costs(probe_rig *rig)
{
    const uint64_t sizes[] = {2, 64, 128};
    probe_kit kit;
    probe_kit_open(&kit, rig, PROBE_PIECE);
    for (size_t i = 0; i < sizeof(costs_table) / sizeof(costs_table[0]); i++) {
        costs_time(&kit, costs_table[i].name, costs_table[i].make);
    }
    for (size_t i = 0; i < sizeof(costs_of_calls) / sizeof(costs_of_calls[0]); i++) {
        const probe_call *call = costs_call(costs_of_calls[i]);
        probe_kit_ready(&kit, call);
        costs_time(&kit, call->name, call->make);
    }
    probe_kit_close(&kit);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] * HW_MIB * COSTS_HANDLES <= costs_most(rig)) {
            costs_lives(rig, sizes[i] * HW_MIB);
        }
    }
    hw_result("the costs of calls are measured", true, "");
}

/* ------------------------------------------------------------------------------------- waits -- */

/* The call beside a kernel: it has waited if the kernel is over when it returns. */
static void waits_one(probe_kit *kit, const probe_call *call)
{
    const weir_driver *driver = &kit->rig->driver;
    weir_cu_event over = NULL;
    char name[96];
    probe_must(kit->rig, driver->event_create(&over, WEIR_CU_EVENT_NO_TIMING), "an event");
    probe_kit_ready(kit, call);
    weir_cuda_work_spin(kit->rig->work, (uint64_t)(uintptr_t)kit->busy, PROBE_SPIN_US);
    probe_must(kit->rig, driver->event_record(over, kit->busy), "a record");
    uint64_t start = hw_now_ns();
    weir_cu_result result = call->make(kit);
    double took = (double)(hw_now_ns() - start) / 1000;
    bool waited = driver->event_query(over) == WEIR_CU_OK;
    probe_must(kit->rig, driver->context_sync(), "the kernel");
    driver->event_destroy(over);
    probe_fact("waits", "\"call\":\"%s\",\"us\":%.1f,\"waited\":%s,\"result\":\"%s\"", call->name,
               took, waited ? "true" : "false", probe_error(kit->rig, result));
    if (call->quick) {
        snprintf(name, sizeof(name), "%s does not wait for a kernel", call->name);
        hw_result(name, !waited, "%.0f us of %u", took, PROBE_SPIN_US);
    }
}

void probe_waits(probe_rig *rig)
{
    probe_kit kit;
    probe_kit_open(&kit, rig, 64 * HW_MIB);
    for (size_t i = 0; i < probe_call_count; i++) {
        waits_one(&kit, &probe_calls[i]);
    }
    probe_kit_close(&kit);
}
