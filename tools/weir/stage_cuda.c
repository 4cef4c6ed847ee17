/* SPDX-License-Identifier: MIT */
/*
 * The stage on a CUDA device: real memory, real streams, and kernels that write and check tags.
 *
 * The replay is the only one that queues work, so the pool is promised quiet while it waits. A
 * source that the device lacks is refused, not replaced: what is measured is what was asked for.
 */
#include "stage.h"

#ifdef WEIR_HAS_CUDA

#include <inttypes.h>
#include <stdlib.h>

#include "card.h"
#include "cuda_device.h"
#include "cuda_work.h"

typedef struct stage_cuda_parts {
    weir_cuda *cuda;
    weir_cuda_work *work;
} stage_cuda_parts;

/* What the driver's pool may keep. A part of the device's memory needs to know how much that is. */
static bool stage_cuda_threshold(const weir_stage *stage, uint64_t *bytes, weir_fault *fault)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf conf = *stage->setup.conf;
    weir_card card;
    weir_status status;

    *bytes = conf.release_threshold.bytes;
    if (conf.release_threshold.permille == 0) return true;
    if (!weir_card_open(&card, stage->setup.device, fault)) return false;
    status = weir_conf_resolve(&conf, card.total_bytes, error);
    weir_card_close(&card);
    if (status != WEIR_OK) return weir_fault_set(fault, "%s", error);
    *bytes = conf.pool.keep_bytes;
    return true;
}

static bool stage_cuda_create(weir_stage *stage, stage_cuda_parts *parts, weir_fault *fault)
{
    char why[WEIR_CUDA_WHY_BYTES];
    weir_cuda_config config = {.size = sizeof config, .strict = true, .one_launcher = true};

    config.device = stage->setup.device;
    config.libcuda = weir_card_library();
    if (stage->setup.conf != NULL) {
        config.source = stage->setup.conf->source;
        if (!stage_cuda_threshold(stage, &config.release_threshold_bytes, fault)) return false;
    }
    if (weir_cuda_create(&config, &parts->cuda, why) != WEIR_OK)
        return weir_fault_set(fault, "backend cuda: %s", why);
    stage->ops = weir_cuda_ops(parts->cuda);
    stage->self = parts->cuda;
    parts->work = weir_cuda_work_create(parts->cuda);
    if (parts->work == NULL)
        return weir_fault_set(fault, "the device takes no kernels: %s",
                              weir_cuda_error(parts->cuda));
    return true;
}

static bool stage_cuda_open(weir_stage *stage, weir_fault *fault)
{
    stage_cuda_parts *parts = calloc(1, sizeof *parts);

    stage->real = parts;
    if (parts == NULL) return weir_fault_set(fault, "not enough memory for the CUDA device");
    if (!stage_cuda_create(stage, parts, fault)) return false;
    for (uint32_t i = 0; i < stage->setup.streams; i++) {
        stage->natives[i] = weir_cuda_work_stream_create(parts->work);
        if (stage->natives[i] == 0)
            return weir_fault_set(fault, "the driver gives no stream %u: %s", i,
                                  weir_cuda_error(parts->cuda));
        stage->uniques[i] = weir_cuda_work_stream_unique(parts->work, stage->natives[i]);
    }
    return true;
}

static bool stage_cuda_write(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes,
                             uint64_t tag)
{
    const stage_cuda_parts *parts = stage->real;

    if (!stage->setup.oracle || bytes == 0) return true;
    return weir_cuda_work_fill(parts->work, native, addr, bytes, tag);
}

static bool stage_cuda_read(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes,
                            uint64_t tag)
{
    const stage_cuda_parts *parts = stage->real;

    if (!stage->setup.oracle || bytes == 0) return true;
    return weir_cuda_work_verify(parts->work, native, addr, bytes, tag);
}

static void stage_cuda_settle(weir_stage *stage)
{
    const stage_cuda_parts *parts = stage->real;
    uint64_t errors = weir_cuda_work_errors(parts->work);

    if (errors == UINT64_MAX)
        (void)weir_fault_set(&stage->breach, "the device reported an error: %s",
                             weir_cuda_error(parts->cuda));
    else if (errors > 0)
        (void)weir_fault_set(&stage->breach, "%" PRIu64 " words of live blocks were changed",
                             errors);
}

static const char *stage_cuda_balance(weir_stage *stage)
{
    const stage_cuda_parts *parts = stage->real;
    return weir_cuda_balance(parts->cuda);
}

static void stage_cuda_shut(weir_stage *stage)
{
    stage_cuda_parts *parts = stage->real;

    if (parts == NULL) return;
    if (parts->work != NULL) weir_cuda_work_destroy(parts->work);
    if (parts->cuda != NULL) weir_cuda_destroy(parts->cuda);
    free(parts);
}

const weir_stage_calls weir_stage_cuda = {stage_cuda_open,   stage_cuda_write,   stage_cuda_read,
                                          stage_cuda_settle, stage_cuda_balance, stage_cuda_shut};

#else

#include "card.h"

/* Says that the backend is not there. */
static bool stage_cuda_open(weir_stage *stage, weir_fault *fault)
{
    weir_card card;
    return weir_card_open(&card, stage->setup.device, fault);
}

static void stage_cuda_shut(weir_stage *stage)
{
    (void)stage;
}

/* No stage is ever open, so the other calls are never made. */
const weir_stage_calls weir_stage_cuda = {.open = stage_cuda_open, .shut = stage_cuda_shut};

#endif
