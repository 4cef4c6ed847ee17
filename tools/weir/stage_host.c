/* SPDX-License-Identifier: MIT */
/* The stage of real memory: each stream is a thread, and its work is done on real bytes. */
#include "stage.h"

#include <inttypes.h>

#include "host.h"

static bool stage_host_open(weir_stage *stage, weir_fault *fault)
{
    weir_host_config config = {0};
    weir_host *host;

    config.memory_bytes = stage->setup.memory_bytes;
    config.no_virtual = stage->setup.segments;
    stage->real = host = weir_host_create(&config);
    if (host == NULL)
        return weir_fault_set(fault, "the system gives no memory file of %" PRIu64 " bytes",
                              stage->setup.memory_bytes);
    stage->ops = weir_host_ops(host);
    stage->self = host;
    for (uint32_t i = 0; i < stage->setup.streams; i++) {
        stage->natives[i] = weir_host_stream_create(host);
        if (stage->natives[i] == 0)
            return weir_fault_set(fault, "the system gives no thread for stream %u", i);
        stage->uniques[i] = weir_host_stream_unique(host, stage->natives[i]);
    }
    return true;
}

static bool stage_host_write(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes,
                             uint64_t tag)
{
    if (!stage->setup.oracle || bytes == 0) return true;
    return weir_host_fill(stage->real, native, addr, bytes, tag);
}

static bool stage_host_read(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes,
                            uint64_t tag)
{
    if (!stage->setup.oracle || bytes == 0) return true;
    return weir_host_verify(stage->real, native, addr, bytes, tag);
}

static void stage_host_settle(weir_stage *stage)
{
    uint64_t errors;

    weir_host_sync(stage->real, 0);
    errors = weir_host_errors(stage->real);
    if (errors > 0)
        (void)weir_fault_set(&stage->breach, "%" PRIu64 " words of live blocks were changed",
                             errors);
}

static const char *stage_host_balance(weir_stage *stage)
{
    return weir_host_balance(stage->real);
}

static void stage_host_shut(weir_stage *stage)
{
    if (stage->real != NULL) weir_host_destroy(stage->real);
}

const weir_stage_calls weir_stage_host = {stage_host_open,   stage_host_write,   stage_host_read,
                                          stage_host_settle, stage_host_balance, stage_host_shut};
