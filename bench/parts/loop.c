/* SPDX-License-Identifier: MIT */
/*
 * The measured loop. Every round is timed apart and the shortest counts, as whatever else a machine
 * does only adds. From a round's time goes what the device's calls took, by the meter, and what the
 * same steps take without a pool.
 */
#include "loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "probe.h"

typedef struct loop_run {
    const weir_bench_script *script;
    weir_bench_rig rig;
    weir_bench_player player;
    weir_bench_player alone; /* plays the same steps without a pool */
    uint64_t round_steps;
    uint64_t clock_ps;
} loop_run;

static void play_alone(weir_bench_player *player, const weir_bench_step *step,
                       const weir_bench_step *end)
{
    for (; step < end; step++)
        player->addrs[step->slot] = step->bytes == WEIR_BENCH_FREE ? 0 : step->bytes;
}

static void play_pool(weir_bench_player *player, const weir_bench_step *step,
                      const weir_bench_step *end)
{
    weir_status status = player->status;

    for (; step < end && status == WEIR_OK; step++) {
        weir_addr *addr = &player->addrs[step->slot];
        if (step->bytes == WEIR_BENCH_FREE) {
            status = weir_free(player->pool, *addr, 0);
            *addr = 0;
        } else {
            status = weir_alloc_on(player->pool, player->stream, step->bytes, addr);
        }
    }
    player->status = status;
}

void weir_bench_play(weir_bench_player *player, const weir_bench_script *script, uint64_t first,
                     uint64_t end)
{
    if (player->pool == NULL) play_alone(player, script->steps + first, script->steps + end);
    else play_pool(player, script->steps + first, script->steps + end);
}

void weir_bench_clear(weir_bench_player *player, uint32_t slots)
{
    for (uint32_t slot = 0; slot < slots; slot++) {
        weir_status status = WEIR_OK;
        if (player->addrs[slot] != 0) status = weir_free(player->pool, player->addrs[slot], 0);
        if (status != WEIR_OK) player->status = status;
        player->addrs[slot] = 0;
    }
}

/* ------------------------------------------------------------------------------------ rounds -- */

/* The pool's own time. A clocked device call lies between two looks at the clock, half of which its
 * interval holds already. */
static uint64_t loop_round_ns(loop_run *run, weir_bench_player *player, uint32_t round)
{
    uint64_t first = run->script->warm + round * run->round_steps;
    uint64_t device_ns = run->rig.meter.cost_ns;
    uint64_t calls = run->rig.meter.calls;
    uint64_t start = weir_clock_ns();

    weir_bench_play(player, run->script, first, first + run->round_steps);
    uint64_t ns = weir_clock_ns() - start;
    uint64_t away =
        run->rig.meter.cost_ns - device_ns + (run->rig.meter.calls - calls) * run->clock_ps / 1000;
    return ns > away ? ns - away : 0;
}

static uint64_t loop_least_ns(loop_run *run, weir_bench_player *player)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t round = 0; round < WEIR_BENCH_ROUNDS; round++) {
        uint64_t ns = loop_round_ns(run, player, round);
        if (ns < least) least = ns;
    }
    return least;
}

static double loop_time(loop_run *run)
{
    run->clock_ps = weir_clock_cost_ps();
    uint64_t with = loop_least_ns(run, &run->player);
    uint64_t without = loop_least_ns(run, &run->alone);
    return with > without ? (double)(with - without) / (double)run->round_steps : 0.0;
}

static void loop_probe(loop_run *run, const char *name)
{
    WEIR_BENCH_PROBE_BEGIN();
    weir_bench_play(&run->player, run->script, run->script->warm, run->script->count);
    WEIR_BENCH_PROBE_END(name);
}

/* ------------------------------------------------------------------------------------- whole -- */

static void loop_measure(loop_run *run, bool probed, weir_bench_result *result)
{
    weir_stats stats = {.size = sizeof stats};

    weir_bench_play(&run->player, run->script, 0, run->script->warm);
    uint64_t calls = weir_bench_rig_calls(&run->rig);
    if (probed) loop_probe(run, result->name);
    else result->ns_per_op = loop_time(run);
    result->device_calls = weir_bench_rig_calls(&run->rig) - calls;
    result->ops = run->script->count - run->script->warm;
    result->threads = 1;
    weir_stats_read(run->rig.pool, &stats);
    result->live_blocks = stats.blocks.current;
}

static bool loop_run_all(loop_run *run, bool probed, weir_bench_result *result, weir_fault *fault)
{
    const weir_bench_script *script = run->script;

    if (!weir_bench_rig_open(&run->rig, script->peak_bytes, 1, false, fault)) return false;
    run->player.pool = run->rig.pool;
    run->player.stream = run->rig.stream[0];
    loop_measure(run, probed, result);
    weir_bench_clear(&run->player, script->slots);
    if (run->player.status != WEIR_OK)
        return weir_fault_set(fault, "%s: a call of the pool failed: %s", result->name,
                              weir_status_text(run->player.status));
    return weir_bench_rig_close(&run->rig, fault);
}

bool weir_bench_loop(const char *name, const weir_bench_script *script, bool probed,
                     weir_bench_result *result, weir_fault *fault)
{
    loop_run run = {.script = script};
    bool good = false;

    memset(result, 0, sizeof *result);
    (void)snprintf(result->name, sizeof result->name, "%s", name);
    run.round_steps = (script->count - script->warm) / WEIR_BENCH_ROUNDS;
    run.player.addrs = calloc(script->slots, sizeof *run.player.addrs);
    run.alone.addrs = calloc(script->slots, sizeof *run.alone.addrs);
    if (run.player.addrs == NULL || run.alone.addrs == NULL)
        (void)weir_fault_set(fault, "%s: not enough memory", name);
    else good = loop_run_all(&run, probed, result, fault);
    free(run.player.addrs);
    free(run.alone.addrs);
    return good;
}
