/* SPDX-License-Identifier: MIT */
/*
 * The stage, simulated or of real memory.
 *
 * Invariant  Work on `side` is ordered after the owner's work by the program's own event, as a
 *            correct program does; so any breach is the pool's.
 */
#include "stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void stage_breach(void *self, const char *text)
{
    weir_stage *stage = self;
    (void)weir_fault_set(&stage->breach, "%s", text);
}

static bool stage_open_sim(weir_stage *stage, weir_fault *fault)
{
    weir_sim_config config = {0};

    config.memory_bytes = stage->setup.memory_bytes;
    config.lag_us = stage->setup.lag_us;
    config.no_virtual = stage->setup.segments;
    config.oracle = stage->setup.oracle;
    config.breach = stage_breach;
    config.breach_self = stage;
    stage->sim = weir_sim_create(&config);
    if (stage->sim == NULL)
        return weir_fault_set(fault, "not enough memory for the simulated device");
    stage->ops = weir_sim_ops(stage->sim);
    stage->self = stage->sim;
    for (uint32_t i = 0; i < stage->setup.streams; i++) {
        stage->natives[i] = weir_sim_stream_create(stage->sim);
        stage->uniques[i] = weir_sim_stream_unique(stage->sim, stage->natives[i]);
    }
    return true;
}

static bool stage_open_host(weir_stage *stage, weir_fault *fault)
{
    weir_host_config config = {0};

    config.memory_bytes = stage->setup.memory_bytes;
    config.no_virtual = stage->setup.segments;
    stage->host = weir_host_create(&config);
    if (stage->host == NULL)
        return weir_fault_set(fault, "the system gives no memory file of %" PRIu64 " bytes",
                              stage->setup.memory_bytes);
    stage->ops = weir_host_ops(stage->host);
    stage->self = stage->host;
    for (uint32_t i = 0; i < stage->setup.streams; i++) {
        stage->natives[i] = weir_host_stream_create(stage->host);
        if (stage->natives[i] == 0)
            return weir_fault_set(fault, "the system gives no thread for stream %u", i);
        stage->uniques[i] = weir_host_stream_unique(stage->host, stage->natives[i]);
    }
    return true;
}

static bool stage_open_device(weir_stage *stage, weir_fault *fault)
{
    weir_status status;

    if (stage->natives == NULL || stage->uniques == NULL)
        return weir_fault_set(fault, "not enough memory for %u streams", stage->setup.streams);
    if (!(stage->setup.kind == WEIR_STAGE_SIM ? stage_open_sim(stage, fault)
                                              : stage_open_host(stage, fault)))
        return false;
    status = stage->ops->event_create(stage->self, &stage->event);
    if (status != WEIR_OK)
        return weir_fault_set(fault, "the device made no event: %s", weir_status_text(status));
    return true;
}

static void stage_release(weir_stage *stage)
{
    if (stage->sim != NULL) weir_sim_destroy(stage->sim);
    if (stage->host != NULL) weir_host_destroy(stage->host);
    free(stage->natives);
    free(stage->uniques);
    stage->sim = NULL;
    stage->host = NULL;
    stage->ops = NULL;
    stage->natives = stage->uniques = NULL;
}

bool weir_stage_open(weir_stage *stage, const weir_stage_setup *setup, weir_fault *fault)
{
    memset(stage, 0, sizeof *stage);
    stage->setup = *setup;
    stage->natives = calloc(setup->streams, sizeof *stage->natives);
    stage->uniques = calloc(setup->streams, sizeof *stage->uniques);
    if (stage_open_device(stage, fault)) return true;
    stage_release(stage);
    return false;
}

void weir_stage_close(weir_stage *stage)
{
    const char *left;

    if (stage->host != NULL) {
        weir_host_sync(stage->host, 0);
        if (weir_host_errors(stage->host) > 0)
            (void)weir_fault_set(&stage->breach, "%" PRIu64 " words of live blocks were changed",
                                 weir_host_errors(stage->host));
    }
    stage->ops->event_destroy(stage->self, stage->event);
    left = stage->sim != NULL ? weir_sim_balance(stage->sim) : weir_host_balance(stage->host);
    if (left != NULL)
        (void)weir_fault_set(&stage->breach, "not all was given back to the device: %s", left);
    stage_release(stage);
}

static void stage_queued(weir_stage *stage, bool queued)
{
    if (!queued) (void)weir_fault_set(&stage->breach, "the device took no work");
}

void weir_stage_write(weir_stage *stage, uint32_t stream, weir_addr addr, uint64_t bytes,
                      uint64_t tag)
{
    uint64_t native = stage->natives[stream];

    if (stage->sim != NULL) /* a breach comes through its callback */
        (void)weir_sim_write(stage->sim, native, addr, stage->setup.oracle ? bytes : 0, tag);
    else if (stage->setup.oracle && bytes > 0)
        stage_queued(stage, weir_host_fill(stage->host, native, addr, bytes, tag));
}

void weir_stage_read(weir_stage *stage, uint32_t stream, weir_addr addr, uint64_t bytes,
                     uint64_t tag)
{
    uint64_t native = stage->natives[stream];

    if (stage->sim != NULL)
        (void)weir_sim_read(stage->sim, native, addr, stage->setup.oracle ? bytes : 0, tag);
    else if (stage->setup.oracle && bytes > 0)
        stage_queued(stage, weir_host_verify(stage->host, native, addr, bytes, tag));
}

void weir_stage_side(weir_stage *stage, uint32_t owner, uint32_t side, uint64_t until_us,
                     weir_addr addr, uint64_t bytes, uint64_t tag)
{
    if (stage->ops->event_record(stage->self, stage->event, stage->natives[owner]) != WEIR_OK ||
        stage->ops->stream_wait(stage->self, stage->natives[side], stage->event) != WEIR_OK)
        (void)weir_fault_set(&stage->breach, "the device refused a wait between streams");
    if (stage->sim != NULL) {
        uint64_t waited_us = weir_sim_time(stage->sim) - stage->set_us;
        weir_sim_busy_until(stage->sim, stage->natives[side], until_us + waited_us);
    }
    weir_stage_read(stage, side, addr, bytes, tag);
}
