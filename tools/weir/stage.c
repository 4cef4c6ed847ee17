/* SPDX-License-Identifier: MIT */
/*
 * What all kinds of stage have in common.
 *
 * Invariant  Work on `side` is ordered after the owner's work by the program's own event, as a
 *            correct program does; so any breach is the pool's.
 */
#include "stage.h"

#include <stdlib.h>
#include <string.h>

const char *weir_stage_name(weir_stage_kind kind)
{
    static const char *const names[] = {"sim", "host", "cuda"};
    return names[kind];
}

const char *weir_stage_source(weir_conf_source source)
{
    static const char *const names[] = {"vmm", "async", "malloc"};
    return names[source];
}

static const weir_stage_calls *stage_calls(weir_stage_kind kind)
{
    switch (kind) {
    case WEIR_STAGE_HOST:
        return &weir_stage_host;
    case WEIR_STAGE_CUDA:
        return &weir_stage_cuda;
    case WEIR_STAGE_SIM:
    default:
        return &weir_stage_sim;
    }
}

static bool stage_open_device(weir_stage *stage, weir_fault *fault)
{
    weir_status status;

    if (stage->natives == NULL || stage->uniques == NULL)
        return weir_fault_set(fault, "not enough memory for %u streams", stage->setup.streams);
    if (!stage->calls->open(stage, fault)) return false;
    status = stage->ops->event_create(stage->self, &stage->event);
    if (status != WEIR_OK)
        return weir_fault_set(fault, "the device made no event: %s", weir_status_text(status));
    return true;
}

static void stage_release(weir_stage *stage)
{
    stage->calls->shut(stage);
    free(stage->natives);
    free(stage->uniques);
    stage->sim = NULL;
    stage->real = NULL;
    stage->ops = NULL;
    stage->natives = stage->uniques = NULL;
}

bool weir_stage_open(weir_stage *stage, const weir_stage_setup *setup, weir_fault *fault)
{
    memset(stage, 0, sizeof *stage);
    stage->setup = *setup;
    stage->calls = stage_calls(setup->kind);
    stage->natives = calloc(setup->streams, sizeof *stage->natives);
    stage->uniques = calloc(setup->streams, sizeof *stage->uniques);
    if (stage_open_device(stage, fault)) return true;
    stage_release(stage);
    return false;
}

void weir_stage_close(weir_stage *stage)
{
    const char *left;

    stage->calls->settle(stage);
    stage->ops->event_destroy(stage->self, stage->event);
    left = stage->calls->balance(stage);
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
    stage_queued(stage, stage->calls->write(stage, stage->natives[stream], addr, bytes, tag));
}

void weir_stage_read(weir_stage *stage, uint32_t stream, weir_addr addr, uint64_t bytes,
                     uint64_t tag)
{
    stage_queued(stage, stage->calls->read(stage, stage->natives[stream], addr, bytes, tag));
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
