/* SPDX-License-Identifier: MIT */
/*
 * Figures: what the books know is counted at each block, what the core knows is asked when read.
 * Totals that were reset are differences from what the core said then.
 */
#include "runtime_internal.h"

#include <string.h>

static void stats_raise(weir_runtime_amount *amount, uint64_t by)
{
    amount->current += by;
    amount->added += by;
    if (amount->current > amount->peak) {
        amount->peak = amount->current;
    }
}

static void stats_lower(weir_runtime_amount *amount, uint64_t by)
{
    amount->current -= by;
    amount->taken += by;
}

static unsigned stats_kind(const weir_rt_block *block)
{
    return block->requested >= WEIR_RT_LARGE ? 1 : 2;
}

void weir_rt_stats_add(weir_rt_device *on, const weir_rt_block *block)
{
    unsigned kinds[2] = {0, stats_kind(block)};
    for (unsigned i = 0; i < 2; i++) {
        stats_raise(&on->stats.allocations[kinds[i]], 1);
        stats_raise(&on->stats.allocated[kinds[i]], block->bytes);
        stats_raise(&on->stats.requested[kinds[i]], block->requested);
    }
}

void weir_rt_stats_take(weir_rt_device *on, const weir_rt_block *block)
{
    unsigned kinds[2] = {0, stats_kind(block)};
    for (unsigned i = 0; i < 2; i++) {
        stats_lower(&on->stats.allocations[kinds[i]], 1);
        stats_lower(&on->stats.allocated[kinds[i]], block->bytes);
        stats_lower(&on->stats.requested[kinds[i]], block->requested);
    }
}

/* What the core counted since the totals were reset. */
static weir_runtime_amount stats_of_core(const weir_amount *now, const weir_amount *zero)
{
    weir_runtime_amount amount = {.current = now->current, .peak = now->peak};
    amount.added = now->total - zero->total;
    amount.taken = (now->total - now->current) - (zero->total - zero->current);
    return amount;
}

static weir_stats stats_core(weir_rt_device *on)
{
    weir_stats core = {.size = sizeof(core)};
    weir_stats_read(weir_rt_core(on), &core);
    return core;
}

int weir_runtime_stats_read(int device, weir_runtime_stats *stats)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    if (!stats || stats->size < sizeof(stats->size)) {
        return weir_rt_fail(WEIR_INVALID, "the size of the figures is not set");
    }
    weir_stats core = stats_core(on);
    pthread_mutex_lock(&on->lock);
    weir_runtime_stats full = on->stats;
    const weir_stats zero = on->zero;
    pthread_mutex_unlock(&on->lock);
    full.size = stats->size;
    full.reserved = stats_of_core(&core.reserved, &zero.reserved);
    full.segments = stats_of_core(&core.segments, &zero.segments);
    full.pending = stats_of_core(&core.pending, &zero.pending);
    full.limit = core.limit_bytes == 0 ? WEIR_NO_LIMIT : core.limit_bytes;
    full.retries = core.retries - zero.retries;
    full.device_allocs = core.creates - zero.creates;
    full.device_frees = core.releases - zero.releases;
    full.host_waits = core.host_waits - zero.host_waits;
    full.stream_waits = core.stream_waits - zero.stream_waits;
    full.moves = core.moved_handles - zero.moved_handles;
    full.rescues = core.rescues - zero.rescues;
    size_t known = stats->size < sizeof(full) ? (size_t)stats->size : sizeof(full);
    memset((char *)stats + known, 0, (size_t)full.size - known);
    memcpy(stats, &full, known);
    return WEIR_OK;
}

int weir_runtime_stats_reset_peaks(int device)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    weir_stats_reset_peaks(weir_rt_core(on));
    pthread_mutex_lock(&on->lock);
    for (unsigned i = 0; i < 3; i++) {
        on->stats.allocations[i].peak = on->stats.allocations[i].current;
        on->stats.allocated[i].peak = on->stats.allocated[i].current;
        on->stats.requested[i].peak = on->stats.requested[i].current;
    }
    pthread_mutex_unlock(&on->lock);
    return WEIR_OK;
}

static void stats_forget(weir_runtime_amount *amount)
{
    amount->added = 0;
    amount->taken = 0;
}

int weir_runtime_stats_reset_totals(int device)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    weir_stats core = stats_core(on);
    pthread_mutex_lock(&on->lock);
    on->zero = core;
    on->stats.ooms = 0;
    for (unsigned i = 0; i < 3; i++) {
        stats_forget(&on->stats.allocations[i]);
        stats_forget(&on->stats.allocated[i]);
        stats_forget(&on->stats.requested[i]);
    }
    pthread_mutex_unlock(&on->lock);
    return WEIR_OK;
}
