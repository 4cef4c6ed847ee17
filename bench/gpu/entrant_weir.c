/* SPDX-License-Identifier: MIT */
/*
 * Weir as a contestant: default settings, a pool with a lock, streams that outlive it. One device
 * serves all runs of a process; a reset makes a new pool on it.
 *
 *   weir-vmm      one launcher, which the race is: where all is short, live memory may be copied
 *   weir-shared   as if other threads launched work too: never copied
 *   weir-async, weir-malloc   the two sources of segments
 */
#include "entrants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_device.h"
#include "meter.h"
#include "platform.h"
#include "racer_gpu.h"

typedef struct entrant_weir {
    weir_cuda *cuda;
    weir_platform *platform;
    weir_pool *pool;
    weir_meter meter;
    bool metered;
    void *natives[RACER_STREAMS];
    weir_stream streams[RACER_STREAMS];
    char fault[160];
} entrant_weir;

static void weir_entrant_fault(entrant_weir *me, const char *call, weir_status status)
{
    if (me->fault[0] == '\0')
        (void)snprintf(me->fault, sizeof me->fault, "%s answered %s: %s", call,
                       weir_status_name(status), weir_status_text(status));
}

/* ---------------------------------------------------------------------------- open and reset -- */

static void weir_entrant_close(void *self)
{
    entrant_weir *me = self;

    if (me->pool != NULL) (void)weir_pool_destroy(me->pool);
    weir_platform_destroy(me->platform);
    weir_cuda_destroy(me->cuda);
    free(me);
}

static void *weir_entrant_open(racer_gpu *gpu, weir_conf_source source, bool one_launcher,
                               racer_why *why)
{
    weir_cuda_config config = {.size = sizeof config, .source = source, .strict = true};
    char text[WEIR_CUDA_WHY_BYTES] = "";
    entrant_weir *me = calloc(1, sizeof *me);

    if (me == NULL) return NULL;
    config.libcuda = gpu->libcuda;
    config.one_launcher = one_launcher;
    if (weir_cuda_create(&config, &me->cuda, text) != WEIR_OK) {
        (void)racer_why_set(why, "%s", text);
        free(me);
        return NULL;
    }
    for (uint32_t i = 0; i < RACER_STREAMS; i++) {
        me->natives[i] = racer_gpu_stream(gpu);
        if (me->natives[i] == NULL) (void)racer_why_set(why, "no stream %u", i);
    }
    if (why->text[0] == '\0') return me;
    weir_entrant_close(me);
    return NULL;
}

static void *weir_entrant_open_vmm(const racer_contestant *entry, racer_gpu *gpu, racer_why *why)
{
    (void)entry;
    return weir_entrant_open(gpu, WEIR_CONF_VMM, true, why);
}

static void *weir_entrant_open_shared(const racer_contestant *entry, racer_gpu *gpu, racer_why *why)
{
    (void)entry;
    return weir_entrant_open(gpu, WEIR_CONF_VMM, false, why);
}

static void *weir_entrant_open_async(const racer_contestant *entry, racer_gpu *gpu, racer_why *why)
{
    (void)entry;
    return weir_entrant_open(gpu, WEIR_CONF_ASYNC, true, why);
}

static void *weir_entrant_open_malloc(const racer_contestant *entry, racer_gpu *gpu, racer_why *why)
{
    (void)entry;
    return weir_entrant_open(gpu, WEIR_CONF_MALLOC, true, why);
}

/* The settings of `weir replay` without any given. */
static bool weir_entrant_config(entrant_weir *me, uint64_t cap_bytes, weir_config *config,
                                racer_why *why)
{
    const weir_device_ops *ops = weir_cuda_ops(me->cuda);
    weir_device_info info = {.size = sizeof info};
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf conf;

    weir_conf_init(&conf);
    if (ops->describe(me->cuda, &info) != WEIR_OK)
        return racer_why_set(why, "the device does not describe itself");
    if (weir_conf_resolve(&conf, info.memory_bytes, error) != WEIR_OK)
        return racer_why_set(why, "%s", error);
    *config = conf.pool;
    config->size = sizeof *config;
    config->ops = me->metered ? &me->meter.ops : ops;
    config->device_self = me->metered ? (void *)&me->meter : (void *)me->cuda;
    config->platform = me->platform;
    if (cap_bytes != 0) config->limit_bytes = cap_bytes;
    if (me->metered) weir_meter_init(&me->meter, ops, me->cuda, NULL);
    return true;
}

/* Only those that the run uses, as a program would: where memory is short, each stream that the
 * pool knows is asked how far it is. */
static bool weir_entrant_attach(entrant_weir *me, uint32_t streams, racer_why *why)
{
    for (uint32_t i = 0; i < streams; i++) {
        weir_stream_desc desc = {.size = sizeof desc};
        weir_status status = weir_cuda_stream(me->cuda, me->natives[i], &desc);
        desc.outlives = true;
        if (status == WEIR_OK) status = weir_stream_attach(me->pool, &desc, &me->streams[i]);
        if (status != WEIR_OK)
            return racer_why_set(why, "stream %u: %s", i, weir_status_text(status));
    }
    return true;
}

static bool weir_entrant_reset(void *self, uint64_t cap_bytes, uint32_t streams, racer_why *why)
{
    entrant_weir *me = self;
    weir_status status = me->pool != NULL ? weir_pool_destroy(me->pool) : WEIR_OK;
    weir_config config;

    if (status != WEIR_OK)
        return racer_why_set(why, "the pool does not end: %s", weir_status_text(status));
    me->pool = NULL;
    me->fault[0] = '\0';
    weir_platform_destroy(me->platform);
    me->platform = weir_platform_create(true);
    if (me->platform == NULL) return racer_why_set(why, "not enough memory");
    if (!weir_entrant_config(me, cap_bytes, &config, why)) return false;
    status = weir_pool_create(&config, &me->pool);
    if (status != WEIR_OK)
        return racer_why_set(why, "the pool cannot be made: %s", weir_status_text(status));
    return weir_entrant_attach(me, streams, why);
}

/* ------------------------------------------------------------------------------------- calls -- */

static uint64_t weir_entrant_alloc(void *self, uint32_t stream, uint64_t bytes)
{
    entrant_weir *me = self;
    weir_addr addr = 0;
    weir_status status = weir_alloc_on(me->pool, me->streams[stream], bytes, &addr);

    if (status != WEIR_OK && status != WEIR_NO_MEMORY)
        weir_entrant_fault(me, "weir_alloc_on", status);
    return status == WEIR_OK ? addr : 0;
}

static void weir_entrant_free(void *self, uint64_t addr, uint64_t bytes, uint32_t stream)
{
    entrant_weir *me = self;
    weir_status status = weir_free(me->pool, addr, me->streams[stream]);

    (void)bytes;
    if (status != WEIR_OK) weir_entrant_fault(me, "weir_free", status);
}

static void weir_entrant_use(void *self, uint64_t addr, uint32_t owner, uint32_t side)
{
    entrant_weir *me = self;
    weir_status status = weir_use(me->pool, addr, me->streams[side]);

    (void)owner;
    if (status != WEIR_OK) weir_entrant_fault(me, "weir_use", status);
}

static weir_stats weir_entrant_stats(void *self)
{
    entrant_weir *me = self;
    weir_stats stats = {.size = sizeof stats};

    weir_stats_read(me->pool, &stats);
    return stats;
}

static uint64_t weir_entrant_reserved(void *self)
{
    return weir_entrant_stats(self).reserved.current;
}

static uint64_t weir_entrant_reserved_peak(void *self)
{
    return weir_entrant_stats(self).reserved.peak;
}

static void weir_entrant_trim(void *self)
{
    entrant_weir *me = self;
    weir_status status = weir_trim(me->pool, 0, 0, NULL);

    if (status != WEIR_OK) weir_entrant_fault(me, "weir_trim", status);
}

static void *weir_entrant_stream(void *self, uint32_t stream)
{
    entrant_weir *me = self;
    return me->natives[stream];
}

static const char *weir_entrant_fault_text(void *self)
{
    entrant_weir *me = self;
    return me->fault[0] != '\0' ? me->fault : NULL;
}

/* ------------------------------------------------------------------------------------- meter -- */

static void weir_entrant_meter(void *self, bool on)
{
    entrant_weir *me = self;
    me->metered = on;
}

static void weir_entrant_counts(void *self, racer_counts *counts)
{
    entrant_weir *me = self;
    weir_stats stats = weir_entrant_stats(self);

    memset(counts, 0, sizeof *counts);
    for (; counts->kinds < WEIR_SIM_CALLS; counts->kinds++) {
        counts->name[counts->kinds] = weir_sim_call_name((weir_sim_call)counts->kinds);
        counts->count[counts->kinds] = me->meter.count[counts->kinds];
        counts->ns[counts->kinds] = me->meter.call_ns[counts->kinds];
    }
    counts->driver_ns = me->meter.cost_ns;
    counts->moved_handles = stats.moved_handles;
    counts->rescues = stats.rescues;
    counts->host_waits = stats.host_waits;
}

_Static_assert(WEIR_SIM_CALLS <= RACER_KINDS_MAX, "counts must have room for every kind of call");

#define WEIR_ENTRANT(variable, key_, name_, open_) \
    const racer_contestant variable = {.key = key_, \
                                       .name = name_, \
                                       .traits = RACER_CAPS, \
                                       .open = open_, \
                                       .close = weir_entrant_close, \
                                       .reset = weir_entrant_reset, \
                                       .alloc = weir_entrant_alloc, \
                                       .free = weir_entrant_free, \
                                       .use = weir_entrant_use, \
                                       .reserved = weir_entrant_reserved, \
                                       .reserved_peak = weir_entrant_reserved_peak, \
                                       .trim = weir_entrant_trim, \
                                       .stream = weir_entrant_stream, \
                                       .fault = weir_entrant_fault_text, \
                                       .meter = weir_entrant_meter, \
                                       .counts = weir_entrant_counts}

WEIR_ENTRANT(racer_weir_vmm, "weir-vmm", "Weir vmm", weir_entrant_open_vmm);
WEIR_ENTRANT(racer_weir_shared, "weir-shared", "Weir vmm, no rescue", weir_entrant_open_shared);
WEIR_ENTRANT(racer_weir_async, "weir-async", "Weir async", weir_entrant_open_async);
WEIR_ENTRANT(racer_weir_malloc, "weir-malloc", "Weir malloc", weir_entrant_open_malloc);
