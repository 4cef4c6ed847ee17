/* SPDX-License-Identifier: MIT */
/*
 * A pass: stage, meter, pool, player are opened in this order, used, and closed in the opposite
 * one.
 *
 * Invariant  Totals of the loop are taken before anything is torn down, so what the teardown costs
 *            or waits for is told apart.
 */
#include "pass.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "platform.h"

#define PASS_MEMORY_BYTES (UINT64_C(64) << 20)

typedef struct pass_run {
    const weir_pass_setup *setup;
    weir_pass_result *result;
    weir_fault *fault;
    weir_stage stage;
    weir_meter meter;
    weir_platform *platform;
    weir_pool *pool;
    weir_plain *plain;
    weir_stream *names;
    weir_player player;
} pass_run;

/* ----------------------------------------------------------------------------------- opening -- */

static bool pass_config(pass_run *run, weir_config *config)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf conf = *run->setup->conf;
    uint64_t capacity = run->setup->capacity_bytes;
    weir_device_info info = {.size = sizeof info};
    weir_status status = run->stage.ops->describe(run->stage.self, &info);

    if (status != WEIR_OK)
        return weir_fault_set(run->fault, "the device does not describe itself: %s",
                              weir_status_text(status));
    if (weir_conf_resolve(&conf, info.memory_bytes, error) != WEIR_OK)
        return weir_fault_set(run->fault, "%s", error);
    *config = conf.pool;
    config->size = sizeof *config;
    config->ops = &run->meter.ops;
    config->device_self = &run->meter;
    config->platform = run->platform;
    if (capacity != 0 && (config->limit_bytes == 0 || config->limit_bytes > capacity))
        config->limit_bytes = capacity;
    return true;
}

static bool pass_attach(pass_run *run)
{
    for (uint32_t i = 0; i < run->stage.setup.streams; i++) {
        weir_stream_desc desc = {.size = sizeof desc};
        weir_status status;
        desc.native = run->stage.natives[i];
        desc.unique = run->stage.uniques[i];
        desc.outlives = true;
        status = weir_stream_attach(run->pool, &desc, &run->names[i]);
        if (status != WEIR_OK)
            return weir_fault_set(run->fault, "stream %u cannot be attached: %s", i,
                                  weir_status_text(status));
    }
    return true;
}

static bool pass_open_pool(pass_run *run)
{
    weir_config config;
    weir_status status;

    run->platform = weir_platform_create(false);
    run->names = calloc(run->stage.setup.streams, sizeof *run->names);
    if (run->platform == NULL || run->names == NULL)
        return weir_fault_set(run->fault, "not enough memory for the pool");
    if (!pass_config(run, &config)) return false;
    status = weir_pool_create(&config, &run->pool);
    if (status != WEIR_OK)
        return weir_fault_set(run->fault, "the pool cannot be made: %s: %s",
                              weir_status_name(status), weir_status_text(status));
    return pass_attach(run);
}

static bool pass_open_plain(pass_run *run)
{
    run->plain = weir_plain_create(&run->meter.ops, &run->meter, run->stage.natives,
                                   run->stage.setup.streams, run->setup->trace->slots);
    if (run->plain == NULL)
        return weir_fault_set(run->fault, "not enough memory for the plain policy");
    return true;
}

static bool pass_open_policy(pass_run *run)
{
    switch (run->setup->policy) {
    case WEIR_PASS_WEIR:
        return pass_open_pool(run);
    case WEIR_PASS_PLAIN:
        return pass_open_plain(run);
    case WEIR_PASS_NOTHING:
    default:
        return true;
    }
}

static bool pass_open_player(pass_run *run)
{
    const weir_pass_setup *setup = run->setup;
    weir_player *player = &run->player;

    player->trace = setup->trace;
    player->stage = &run->stage;
    player->meter = &run->meter;
    player->pool = run->pool;
    player->plain = run->plain;
    player->names = run->names;
    player->hooks = setup->hooks;
    player->works = setup->oracle || setup->lag_us > 0;
    player->hashed = setup->hashed;
    player->stop_on_failure = setup->stop_on_failure;
    if (setup->pool != NULL) *setup->pool = run->pool;
    if (!weir_player_init(player))
        return weir_fault_set(run->fault, "not enough memory to play the trace");
    return true;
}

/* Host memory has no default large enough for every trace; a file of it takes what is touched. */
static uint64_t pass_memory(const weir_pass_setup *setup)
{
    uint64_t peak = setup->trace->peak_requested_bytes;

    if (setup->memory_bytes != 0) return setup->memory_bytes;
    if (setup->capacity_bytes != 0 || setup->kind != WEIR_STAGE_HOST) return setup->capacity_bytes;
    return peak / 4 > PASS_MEMORY_BYTES ? peak * 2 : peak + 4 * PASS_MEMORY_BYTES;
}

static bool pass_open(pass_run *run)
{
    const weir_pass_setup *setup = run->setup;
    weir_stage_setup stage = {0};

    stage.kind = setup->kind;
    stage.streams = weir_player_streams(setup->trace);
    stage.memory_bytes = pass_memory(setup);
    stage.lag_us = setup->lag_us;
    stage.segments = setup->segments || setup->policy == WEIR_PASS_PLAIN;
    stage.oracle = setup->oracle;
    stage.device = setup->device;
    stage.conf = setup->conf;
    if (!weir_stage_open(&run->stage, &stage, run->fault)) return false;
    weir_meter_init(&run->meter, run->stage.ops, run->stage.self,
                    setup->clocked ? NULL : run->stage.sim);
    return pass_open_policy(run) && pass_open_player(run);
}

/* ----------------------------------------------------------------------------------- playing -- */

static void pass_totals(pass_run *run)
{
    weir_pass_result *result = run->result;

    result->driver_ns = run->meter.cost_ns;
    result->driver_calls = run->meter.calls;
    result->growth_ns = run->player.growth_ns;
    result->held_peak_bytes = run->meter.held_peak_bytes;
    result->held_mean_bytes = weir_player_mean_bytes(&run->player);
    result->returned_bytes = run->meter.returned_bytes;
    result->failed = run->player.failed;
    result->layout_hash = run->player.layout_hash;
    memcpy(result->count, run->meter.count, sizeof result->count);
    memcpy(result->call_ns, run->meter.call_ns, sizeof result->call_ns);
    if (run->stage.sim != NULL) {
        weir_sim_totals totals;
        weir_sim_totals_read(run->stage.sim, &totals);
        result->host_waits = totals.host_waits;
        result->waited_us = totals.waited_us;
    }
    if (run->pool != NULL) {
        weir_stats stats = {.size = sizeof stats};
        weir_stats_read(run->pool, &stats);
        result->moved_handles = stats.moved_handles;
        if (run->stage.sim == NULL) {
            result->host_waits = stats.host_waits;
            result->waited_us = run->meter.wait_ns / 1000;
        }
    }
}

static void pass_play(pass_run *run)
{
    uint64_t start = weir_clock_ns();

    weir_player_play(&run->player);
    run->result->wall_ns = weir_clock_ns() - start;
    pass_totals(run);
    weir_player_clear(&run->player);
    if (run->player.wrong.text[0] != '\0')
        (void)weir_fault_set(&run->result->breach, "%s", run->player.wrong.text);
}

/* ----------------------------------------------------------------------------------- closing -- */

/* A pool that does not end is left as it is: its memory is better lost than used after its free. */
static void pass_close_policy(pass_run *run)
{
    weir_status status = WEIR_OK;

    if (run->pool != NULL) status = weir_pool_destroy(run->pool);
    else if (run->plain != NULL) status = weir_plain_destroy(run->plain);
    if (status != WEIR_OK)
        (void)weir_fault_set(&run->result->breach, "the end of the pool answered %s: %s",
                             weir_status_name(status), weir_status_text(status));
    else if (run->platform != NULL) weir_platform_destroy(run->platform);
    run->result->teardown_ns = run->meter.cost_ns - run->result->driver_ns;
}

static void pass_close(pass_run *run)
{
    pass_close_policy(run);
    weir_player_fini(&run->player);
    free(run->names);
    weir_stage_close(&run->stage);
    if (run->stage.breach.text[0] != '\0')
        (void)weir_fault_set(&run->result->breach, "%s", run->stage.breach.text);
}

bool weir_pass_run(const weir_pass_setup *setup, weir_pass_result *result, weir_fault *fault)
{
    pass_run run;
    bool opened;

    memset(&run, 0, sizeof run);
    memset(result, 0, sizeof *result);
    run.setup = setup;
    run.result = result;
    run.fault = fault;
    opened = pass_open(&run);
    if (opened) pass_play(&run);
    if (run.stage.ops != NULL) pass_close(&run);
    return opened;
}
