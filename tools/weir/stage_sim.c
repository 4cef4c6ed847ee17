/* SPDX-License-Identifier: MIT */
/* The simulated stage. Its breaches come through the simulator's callback. */
#include "stage.h"

static void stage_sim_breach(void *self, const char *text)
{
    weir_stage *stage = self;
    (void)weir_fault_set(&stage->breach, "%s", text);
}

static bool stage_sim_open(weir_stage *stage, weir_fault *fault)
{
    weir_sim_config config = {0};

    config.memory_bytes = stage->setup.memory_bytes;
    config.lag_us = stage->setup.lag_us;
    config.no_virtual = stage->setup.segments;
    config.oracle = stage->setup.oracle;
    config.breach = stage_sim_breach;
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

static bool stage_sim_write(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes,
                            uint64_t tag)
{
    (void)weir_sim_write(stage->sim, native, addr, stage->setup.oracle ? bytes : 0, tag);
    return true;
}

static bool stage_sim_read(weir_stage *stage, uint64_t native, weir_addr addr, uint64_t bytes,
                           uint64_t tag)
{
    (void)weir_sim_read(stage->sim, native, addr, stage->setup.oracle ? bytes : 0, tag);
    return true;
}

/* Work was checked as it was queued. */
static void stage_sim_settle(weir_stage *stage)
{
    (void)stage;
}

static const char *stage_sim_balance(weir_stage *stage)
{
    return weir_sim_balance(stage->sim);
}

static void stage_sim_shut(weir_stage *stage)
{
    if (stage->sim != NULL) weir_sim_destroy(stage->sim);
}

const weir_stage_calls weir_stage_sim = {stage_sim_open,   stage_sim_write,   stage_sim_read,
                                         stage_sim_settle, stage_sim_balance, stage_sim_shut};
