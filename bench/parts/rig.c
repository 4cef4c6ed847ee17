/* SPDX-License-Identifier: MIT */
/*
 * Opens and closes the rig. Memory is twice what the script needs at most, so that the pool is
 * never short; addresses are there for several arenas of that.
 */
#include "rig.h"

#include <string.h>

#include "platform.h"

#define RIG_GIB (UINT64_C(1) << 30)

static bool rig_wrong(weir_fault *fault, const char *what, weir_status status)
{
    return weir_fault_set(fault, "%s: %s: %s", what, weir_status_name(status),
                          weir_status_text(status));
}

static bool rig_open_pool(weir_bench_rig *rig, bool locked, weir_fault *fault)
{
    weir_config config = {.size = sizeof config};

    config.ops = locked ? weir_sim_ops(rig->sim) : &rig->meter.ops;
    config.device_self = locked ? (void *)rig->sim : (void *)&rig->meter;
    config.platform = rig->platform;
    weir_status status = weir_pool_create(&config, &rig->pool);
    return status == WEIR_OK || rig_wrong(fault, "the pool cannot be made", status);
}

static bool rig_attach(weir_bench_rig *rig, weir_fault *fault)
{
    for (uint32_t i = 0; i < rig->streams; i++) {
        weir_stream_desc desc = {.size = sizeof desc, .outlives = true};
        desc.native = weir_sim_stream_create(rig->sim);
        desc.unique = weir_sim_stream_unique(rig->sim, desc.native);
        weir_status status = weir_stream_attach(rig->pool, &desc, &rig->stream[i]);
        if (status != WEIR_OK) return rig_wrong(fault, "a stream cannot be attached", status);
    }
    return true;
}

bool weir_bench_rig_open(weir_bench_rig *rig, uint64_t peak_bytes, uint32_t streams, bool locked,
                         weir_fault *fault)
{
    weir_sim_config sim = {.memory_bytes = (2 * (peak_bytes / RIG_GIB) + 16) * RIG_GIB};

    sim.va_bytes = 16 * sim.memory_bytes;
    sim.locked = locked;
    memset(rig, 0, sizeof *rig);
    rig->streams = streams;
    rig->sim = weir_sim_create(&sim);
    rig->platform = weir_platform_create(locked);
    bool good = rig->sim != NULL && rig->platform != NULL;
    if (!good) (void)weir_fault_set(fault, "not enough memory for the simulated device");
    if (good) weir_meter_init(&rig->meter, weir_sim_ops(rig->sim), rig->sim, NULL);
    good = good && rig_open_pool(rig, locked, fault) && rig_attach(rig, fault);
    if (!good) (void)weir_bench_rig_close(rig, fault);
    return good;
}

bool weir_bench_rig_close(weir_bench_rig *rig, weir_fault *fault)
{
    weir_status status = rig->pool != NULL ? weir_pool_destroy(rig->pool) : WEIR_OK;

    if (status != WEIR_OK) return rig_wrong(fault, "the pool does not end", status);
    weir_platform_destroy(rig->platform);
    if (rig->sim != NULL) weir_sim_destroy(rig->sim);
    memset(rig, 0, sizeof *rig);
    return true;
}

uint64_t weir_bench_rig_calls(const weir_bench_rig *rig)
{
    weir_sim_totals totals;
    uint64_t calls = 0;

    weir_sim_totals_read(rig->sim, &totals);
    for (int call = 0; call < WEIR_SIM_CALLS; call++) calls += totals.count[call];
    return calls;
}
