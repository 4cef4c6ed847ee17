/* SPDX-License-Identifier: MIT */
/*
 * ladder: what an allocation tries when no free block fits, cheapest first.
 *
 *   1 settle    learn what has passed; a fit in any lane's memory that may be used now
 *   2 back      a window with idle handles, new ones or moved ones, by the pool's share over its
 *               peak; with other lanes about, new ones only up to SPARING_PERMILLE of it
 *   3 join      a wait between streams, then 1 and 2 again
 *   4 wait      the host waits for pending uses, then 1 and 2 again
 *   5 rescue    with the device quiet, copy live granules of sparse handles together; 1 and 2 again
 *   6 squeeze   2 with every means at once, down to the last granule under the limit
 *   7 return    give free memory back to the device that could not be used, then 1, 2 and 6 again
 *   8 reclaim   ask the caller's reclaimer, and begin again once
 * Every rung that may have made memory free is followed by a search. 3 and 7 are left out with
 * NO_EVENTS, 4 and 5 where the caller allows no wait.
 */
#include "pool.h"

/* A rung's answer that means: try the next one. */
static inline bool rung_missed(weir_status status)
{
    return status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT;
}

static inline bool joins_allowed(const weir_pool *pool, const weir_ask *ask)
{
    return (ask->flags & WEIR_NO_EVENTS) == 0 && !pool->config.no_stream_reuse &&
           pool->order.lane_count > 1;
}

static weir_status rung_search(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    weir_status status = weir_gather(pool, ask);
    if (status != WEIR_OK) return status;
    if ((ask->flags & WEIR_ONE_HANDLE) != 0) return WEIR_NO_MEMORY; /* place looks for itself */
    *index = weir_gather_fit(pool, ask, false);
    return *index != 0 ? WEIR_OK : WEIR_NO_MEMORY;
}

static weir_status rung_back(weir_pool *pool, weir_ask *ask, uint32_t sparing, uint32_t *index)
{
    const uint32_t all = WEIR_PLACE_IDLE | WEIR_PLACE_GROW | WEIR_PLACE_MOVE | sparing;
    weir_status status = weir_place(pool, ask, all, index);
    if (status == WEIR_NO_MEMORY)
        status = weir_place(pool, ask, all & ~(uint32_t)WEIR_PLACE_GROW, index);
    if (status == WEIR_NO_MEMORY)
        status = weir_place(pool, ask, all & ~(uint32_t)WEIR_PLACE_MOVE, index);
    return status;
}

/* garbage_collection_threshold: before growth beyond a part of the bound, what is free and passed
 * goes back to the device. */
static weir_status rung_collect(weir_pool *pool, const weir_ask *ask)
{
    uint64_t released;
    uint64_t threshold = weir_part(weir_place_bound(pool), pool->config.gc_permille);
    if (pool->config.gc_permille == 0 || (ask->flags & WEIR_NO_EVENTS) != 0) return WEIR_NO_MEMORY;
    if (pool->pages.held_bytes + ask->bytes <= threshold) return WEIR_NO_MEMORY;
    weir_status status = weir_trim_to(pool, threshold - weir_min(threshold, ask->bytes), &released);
    return status == WEIR_OK ? WEIR_NO_MEMORY : status;
}

static weir_status rungs_search_and_back(weir_pool *pool, weir_ask *ask, uint32_t sparing,
                                         uint32_t *index)
{
    weir_status status = rung_search(pool, ask, index);
    if (status == WEIR_NO_MEMORY) status = rung_collect(pool, ask);
    if (status == WEIR_NO_MEMORY) status = rung_back(pool, ask, sparing, index);
    if (status != WEIR_NO_MEMORY || (ask->flags & WEIR_ONE_HANDLE) != 0) return status;
    *index = weir_gather_fit(pool, ask, true);
    return *index != 0 ? WEIR_OK : WEIR_NO_MEMORY;
}

static weir_status rungs_without_wait(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    return rungs_search_and_back(pool, ask, 0, index);
}

/* Where other lanes may hold what a wait would free, growth has a bound until that was tried. */
static weir_status rungs_sparing(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    uint32_t sparing = joins_allowed(pool, ask) ? WEIR_PLACE_SPARING : 0;
    return rungs_search_and_back(pool, ask, sparing, index);
}

static weir_status rung_join(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    if (!joins_allowed(pool, ask)) return WEIR_NO_MEMORY;
    weir_status status = weir_gather_join(pool, ask);
    return status == WEIR_OK ? rungs_without_wait(pool, ask, index) : status;
}

static weir_status rung_wait(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    if ((ask->flags & WEIR_NO_EVENTS) != 0) return WEIR_NO_MEMORY;
    if (pool->order.lane_count == 1) return WEIR_NO_MEMORY;
    weir_status status = weir_gather_wait(pool, &ask->wait_us);
    if (status == WEIR_WOULD_WAIT && weir_place_possible(pool, ask->bytes))
        ask->waits_would_help = true;
    if (status != WEIR_OK && status != WEIR_WOULD_WAIT && status != WEIR_BUSY) return status;
    return rungs_without_wait(pool, ask, index);
}

static weir_status rung_rescue(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    weir_status status = weir_rescue(pool, ask, ask->bytes);
    if (status == WEIR_WOULD_WAIT) ask->waits_would_help = true;
    return status == WEIR_OK ? rungs_without_wait(pool, ask, index) : status;
}

/* With every means at once, no byte more than is missing, and what was kept for rescues. */
static weir_status rung_squeeze(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    return weir_place(
        pool, ask, WEIR_PLACE_IDLE | WEIR_PLACE_GROW | WEIR_PLACE_MOVE | WEIR_PLACE_TIGHT, index);
}

static weir_status rung_return(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    uint64_t released = 0;
    uint64_t wanted = weir_round_up(ask->bytes, weir_pool_granule(pool));
    uint64_t most = weir_min(pool->pages.held_bytes, weir_place_bound(pool)); /* it may be above */
    if ((ask->flags & WEIR_ONE_HANDLE) != 0) wanted = weir_place_slot(pool, ask->bytes);
    if ((ask->flags & WEIR_NO_EVENTS) != 0) return WEIR_NO_MEMORY;
    weir_status status = weir_trim_to(pool, most > wanted ? most - wanted : 0, &released);
    if (status != WEIR_OK) return status;
    if (released == 0) return WEIR_NO_MEMORY;
    pool->retries++;
    status = rungs_without_wait(pool, ask, index);
    return status == WEIR_NO_MEMORY ? rung_squeeze(pool, ask, index) : status;
}

static weir_status rung_reclaim(weir_pool *pool, weir_ask *ask)
{
    weir_reclaimer reclaimer = pool->config.reclaimer;
    void *self = pool->config.reclaimer_self;
    if (reclaimer == NULL) return WEIR_NO_MEMORY;
    pool->reclaims++;
    weir_calls calls = weir_pool_release(pool);
    bool freed = reclaimer(self, ask->bytes);
    weir_pool_acquire(pool, &calls);
    return freed ? WEIR_OK : WEIR_NO_MEMORY;
}

typedef weir_status (*rung)(weir_pool *pool, weir_ask *ask, uint32_t *index);

static weir_status climb_once(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    static const rung rungs[] = {rungs_sparing, rung_join,    rung_wait,
                                 rung_rescue,   rung_squeeze, rung_return};
    weir_status status = WEIR_NO_MEMORY;
    for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]) && rung_missed(status); i++)
        status = rungs[i](pool, ask, index);
    return status;
}

/* A small block gets a stretch for its kind while memory is easily had; under pressure it lies
 * among the others like any block. */
static weir_status climb(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    if (ask->zone == WEIR_ZONE_SMALL) {
        uint16_t set;
        weir_status status = rungs_without_wait(pool, ask, index);
        if (!rung_missed(status)) return status;
        ask->zone = WEIR_ZONE_MAIN;
        status = weir_pool_set(pool, ask->zone, ask->lane + 1, &set);
        if (status != WEIR_OK) return status;
    }
    return climb_once(pool, ask, index);
}

weir_status weir_ladder_climb(weir_pool *pool, weir_ask *ask, uint32_t *index)
{
    if (pool->shadows.count >= WEIR_SHADOWS_KEPT && (ask->flags & WEIR_NO_EVENTS) == 0)
        (void)weir_shadow_drain(pool, WEIR_SHADOWS_KEPT);
    weir_status status = climb(pool, ask, index);
    if (rung_missed(status) && rung_reclaim(pool, ask) == WEIR_OK) status = climb(pool, ask, index);
    if ((ask->flags & WEIR_NO_EVENTS) == 0) weir_order_pay(&pool->order, ask->lane);
    if (status == WEIR_NO_MEMORY && ask->waits_would_help) status = WEIR_WOULD_WAIT;
    return status;
}
