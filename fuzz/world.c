/* SPDX-License-Identifier: MIT */
/* The world: making it as the head of an input says, what holds after every operation, its end. */
#include "world.h"

#include <string.h>

#define WORLD_LIMITS 8u

bool weir_world_host_failed(const world *of)
{
    return of->rig.memory.fail_at != 0 && of->rig.memory.calls >= of->rig.memory.fail_at;
}

/* What went wrong below decides what may be answered. */
bool weir_world_allowed(const world *of, weir_status status)
{
    switch (status) {
    case WEIR_OK:
    case WEIR_NO_MEMORY:
    case WEIR_WOULD_WAIT:
        return true;
    case WEIR_DEVICE:
        return of->hits != 0;
    case WEIR_NO_METADATA: /* also where the table of spans is full */
        return of->hits != 0 || weir_world_host_failed(of) ||
               of->calls[WEIR_SIM_va_reserve] + of->calls[WEIR_SIM_segment_alloc] > 250;
    case WEIR_LOST: /* also where a rescue could not be undone */
        return of->lost || of->hits != 0;
    default:
        return false;
    }
}

/* ------------------------------------------------------------------------------------ checks -- */

void weir_world_compare_all(world *of)
{
    for (uint32_t i = 0; i < of->model.count; i++)
        if (of->model.block[i].addr != of->busy)
            weir_model_compare_block(&of->model.block[i], &of->rig);
}

static void world_mapped(world *of)
{
    for (uint32_t i = 0; i < of->model.count; i++) {
        const model_block *block = &of->model.block[i];
        if (block->addr != of->busy)
            FUZZ_CHECK(weir_sim_mapped(of->rig.sim, block->addr, block->bytes));
    }
}

/* The pool's count of calls is ours. */
static void world_counts(const world *of, const weir_stats *stats)
{
    const uint64_t *calls = of->calls;
    FUZZ_CHECK(stats->creates == calls[WEIR_SIM_handle_create] + calls[WEIR_SIM_segment_alloc]);
    FUZZ_CHECK(stats->releases == calls[WEIR_SIM_handle_release] + calls[WEIR_SIM_segment_free]);
    FUZZ_CHECK(stats->maps == calls[WEIR_SIM_map]);
    FUZZ_CHECK(stats->unmaps == calls[WEIR_SIM_unmap]);
    FUZZ_CHECK(stats->event_records == calls[WEIR_SIM_event_record]);
    FUZZ_CHECK(stats->event_queries == calls[WEIR_SIM_event_query]);
    FUZZ_CHECK(stats->copies == calls[WEIR_SIM_copy]);
    FUZZ_CHECK(stats->allocs == of->served);
    FUZZ_CHECK(stats->frees == of->freed);
    if (of->observed) FUZZ_CHECK(of->told[0] == of->served && of->told[1] == of->freed);
}

/* The pool may have lost the device by itself where undoing failed. */
static void world_learn_lost(world *of)
{
    if (of->hits != 0 && !of->lost)
        of->lost = weir_trim(of->rig.pool, UINT64_MAX, 0, NULL) == WEIR_LOST;
}

static void world_check(world *of)
{
    weir_sim_totals totals;
    FUZZ_SAY(!of->rig.memory.held, "the lock is left held");
    world_learn_lost(of);
    weir_model_compare(&of->model, &of->rig);
    if (!of->lost) {
        world_mapped(of);
        weir_world_pins_check(of);
    }
    weir_stats stats = weir_rig_stats(&of->rig);
    weir_sim_totals_read(of->rig.sim, &totals);
    FUZZ_CHECK(stats.reserved.current == totals.held_bytes);
    if (!of->undone_less && !of->lost) FUZZ_CHECK(stats.quarantined_bytes == 0);
    uint64_t reserved = stats.reserved.current;
    FUZZ_SAY(reserved <= of->limit_most || reserved <= of->reserved, "beyond the limit");
    world_counts(of, &stats);
    of->reserved = reserved;
    of->limit_most = of->limit;
    if (of->odd) weir_world_compare_all(of);
    if (of->odd || of->every) weir_rig_check(&of->rig);
    of->odd = false;
    of->nested = false;
    of->hits = 0;
}

bool weir_world_run(world *of, bool (*step)(world *of))
{
    if (of->in.left == 0) return false;
    of->depth++;
    bool more = step(of);
    of->depth--;
    if (of->depth == 0 && !of->unseen) world_check(of);
    else if (of->every) weir_rig_check(&of->rig);
    of->unseen = false;
    return more;
}

/* -------------------------------------------------------------------------------------- open -- */

static void world_observe(void *self, const weir_record *record)
{
    world *of = (world *)self;
    FUZZ_SAY(!of->rig.memory.held, "the observer is called with the lock held");
    of->told[0] += record->what == WEIR_DID_ALLOC;
    of->told[1] += record->what == WEIR_DID_FREE;
}

static bool world_reclaims(void *self, uint64_t bytes)
{
    world *of = (world *)self;
    (void)bytes;
    FUZZ_SAY(!of->rig.memory.held, "the reclaimer is called with the lock held");
    return weir_world_reclaim(of);
}

static weir_sim_config world_device_config(world *of, const uint8_t head[WORLD_HEAD])
{
    of->granule = UINT64_C(4096) << (head[0] & 3);
    of->segments = (head[3] & 7) == 7;
    return (weir_sim_config){.memory_bytes = of->granule * (head[1] < 32 ? 40 : 1024),
                             .granule_bytes = of->granule,
                             .handle_bytes_max = (head[3] & 0xC0) == 0xC0 ? 8 * of->granule : 0,
                             .lag_us = UINT64_C(1) << (head[6] >> 4) >> 1,
                             .no_virtual = of->segments,
                             .no_event_wait = (head[3] & 0x18) == 0x18,
                             .no_rescue = (head[3] & 0x20) != 0,
                             .no_memory_info = (head[3] & 0x10) != 0,
                             .lies = (head[0] & 0x30) == 0x30,
                             .oracle = true};
}

static void world_pool_policy(const world *of, const uint8_t head[WORLD_HEAD], weir_config *pool)
{
    static const uint64_t growth[] = {0, 1, 2, 4, 8, 16, 32, 64};
    pool->growth_bytes = growth[head[4] & 7] * of->granule;
    pool->unit_bytes = (head[4] & 0x38) == 0 ? 0 : UINT64_C(64) << ((head[4] >> 3 & 7) - 1);
    if (pool->unit_bytes > 4096) pool->unit_bytes = 4096;
    pool->small_bytes = (head[4] & 0xC0) == 0 ? 1 : 0;
    if ((head[5] & 7) == 7) pool->max_split_bytes = of->granule * 4;
    if ((head[5] & 0x18) == 0x18) pool->gc_permille = 600;
    if ((head[5] & 0x60) == 0x60) pool->keep_bytes = of->granule * 4;
    pool->keep_bounded = (head[5] & 0x80) != 0;
    if ((head[7] & 0x0C) == 0x0C) pool->roundup_divisions[0] = 4;
    if ((head[7] & 0x30) == 0x30) pool->move_above_permille = 1500;
    pool->no_moves = (head[2] & 3) == 3;
    pool->no_rescue = (head[2] & 0x0C) == 0x0C;
    pool->no_stream_reuse = (head[2] & 0x30) == 0x30;
}

static weir_config world_pool_config(world *of, const uint8_t head[WORLD_HEAD])
{
    static const uint64_t limits[WORLD_LIMITS] = {0, 9, 24, 33, 64, 100, 256, 512};
    static const uint64_t waits[] = {1, 20, 500, 100000};
    weir_config pool = {.size = sizeof(pool),
                        .ops = &of->ops,
                        .device_self = of,
                        .platform = &of->rig.memory.platform,
                        .va_bytes = of->granule * ((head[1] & 8) != 0 ? 64 : 1024),
                        .wait_us = waits[head[7] & 3]};
    pool.limit_bytes = of->granule * limits[head[1] & 7];
    world_pool_policy(of, head, &pool);
    pool.no_growth = (head[2] & 0xC0) == 0xC0;
    if (pool.no_growth) pool.initial_bytes = 8 * of->granule;
    of->observed = (head[7] & 0x40) != 0;
    if (of->observed) pool.observer = world_observe;
    if ((head[7] & 0x80) != 0) pool.reclaimer = world_reclaims;
    pool.observer_self = of;
    pool.reclaimer_self = of;
    of->limit = pool.limit_bytes == 0 ? WEIR_NO_LIMIT : pool.limit_bytes;
    of->limit_most = of->limit;
    of->plain_sizes = pool.roundup_divisions[0] == 0;
    of->grows = !pool.no_growth && head[1] >= 32 && !(of->segments && (head[3] & 0xC0) == 0xC0);
    return pool;
}

void weir_world_open(world *of, const uint8_t head[WORLD_HEAD], world_step step, fuzz_input in)
{
    memset(of, 0, offsetof(world, model.block));
    of->model.count = 0;
    of->step = step;
    of->in = in;
    of->every = (head[6] & 1) != 0;
    weir_sim_config sim = world_device_config(of, head);
    of->rig.sim = weir_sim_create(&sim);
    FUZZ_CHECK(of->rig.sim != NULL);
    weir_host_memory_init(&of->rig.memory);
    weir_world_device(of);
    weir_config pool = world_pool_config(of, head);
    ASSERT_OK(weir_pool_create(&pool, &of->rig.pool));
    of->rig.streams = 1 + (head[0] >> 2 & 3);
    for (unsigned i = 0; i < of->rig.streams; i++)
        weir_rig_attach(&of->rig, i, (head[6] >> (i + 1) & 1) == 0);
    ASSERT_OK(of->real->event_create(of->rig.sim, &of->event));
    world_check(of);
}

/* ------------------------------------------------------------------------------------- close -- */

/* With nothing live and nothing failed, all that the limit allows can be had at once. */
static void world_whole(world *of)
{
    uint64_t bytes = of->limit & ~(of->granule - 1);
    weir_request request = weir_rig_request(&of->rig, 0, bytes);
    weir_addr addr = 0;
    request.wait_us = WEIR_FOREVER;
    request.domain = 0;
    if (of->hits_all != 0 || of->lost || !of->grows || !of->plain_sizes) return;
    if (of->limit == WEIR_NO_LIMIT || bytes == 0) return;
    ASSERT_OK(weir_alloc(of->rig.pool, &request, &addr));
    weir_rig_write(&of->rig, 0, addr, bytes, ++of->tag);
    ASSERT_OK(weir_free(of->rig.pool, addr, 0));
    of->served++;
    of->freed++;
    world_check(of);
}

static void world_clear_faults(world *of)
{
    memset(of->fault, 0, sizeof(of->fault));
    of->script = 0;
    of->nest_in = 0;
    of->nest_count = 0;
    of->hits = 0;
    weir_host_memory_fail(&of->rig.memory, 0, false);
    weir_sim_tenant(of->rig.sim, 0);
    weir_world_go_all(of);
}

static void world_end(world *of, const weir_stats *stats)
{
    weir_sim_totals totals;
    if (of->lost) weir_sim_lose(of->rig.sim);
    ASSERT_OK(weir_pool_destroy(of->rig.pool));
    FUZZ_SAY(of->rig.memory.live_count == 0, "host memory is left over");
    FUZZ_CHECK(!of->rig.memory.held);
    of->real->event_destroy(of->rig.sim, of->event);
    weir_sim_totals_read(of->rig.sim, &totals);
    if (!of->lost) FUZZ_CHECK(totals.held_bytes <= stats->reserved.current);
    if (of->hits_all == 0) {
        const char *left = weir_sim_balance(of->rig.sim);
        FUZZ_SAY(left == NULL, "%s", left);
    }
    weir_sim_destroy(of->rig.sim);
}

/* Everything goes on, every block is read once more and freed, and all is given back. */
void weir_world_close(world *of)
{
    world_clear_faults(of);
    of->depth = 1;
    while (of->model.count != 0) weir_world_free(of, 0, 0, 0);
    of->depth = 0;
    for (uint32_t i = 0; i < WORLD_DOMAINS; i++)
        if (of->domain[i] != 0) ASSERT_OK(weir_domain_release(of->rig.pool, of->domain[i]));
    weir_sim_sync(of->rig.sim, 0);
    weir_status status = weir_finish(of->rig.pool, WEIR_FOREVER);
    FUZZ_SAY(status == (of->lost ? WEIR_LOST : WEIR_OK), "%s", weir_status_name(status));
    of->odd = true;
    world_check(of);
    world_whole(of);
    weir_sim_sync(of->rig.sim, 0);
    if (!of->lost) ASSERT_OK(weir_trim(of->rig.pool, 0, WEIR_FOREVER, NULL));
    weir_stats stats = weir_rig_stats(&of->rig);
    if (of->hits_all == 0) FUZZ_CHECK(stats.reserved.current == 0);
    world_end(of, &stats);
}
