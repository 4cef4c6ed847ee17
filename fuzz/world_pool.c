/* SPDX-License-Identifier: MIT */
/* Operations on the pool, its streams and domains, on the device and its clock; what fails. */
#include "world.h"

#include <string.h>

void weir_world_order(world *of, uint32_t before, uint32_t after)
{
    if (before == after || before == MODEL_ORPHAN || of->lost) return;
    ASSERT_OK(of->real->event_record(of->rig.sim, of->event, of->rig.native[before]));
    ASSERT_OK(of->real->stream_wait(of->rig.sim, of->rig.native[after], of->event));
}

void weir_world_go_all(world *of)
{
    for (uint32_t i = 0; i < of->rig.streams; i++) weir_sim_go(of->rig.sim, of->rig.native[i]);
    of->stalled = 0;
}

/* ------------------------------------------------------------------------------------ device -- */

/* Not while another operation is under way: it may be about to wait without end. */
void weir_world_stall(world *of, uint8_t who)
{
    uint32_t stream = fuzz_of(who, of->rig.streams);
    if (of->depth != 1) return;
    if ((of->stalled >> stream & 1) != 0) weir_sim_go(of->rig.sim, of->rig.native[stream]);
    else weir_sim_stall(of->rig.sim, of->rig.native[stream]);
    of->stalled ^= 1u << stream;
}

void weir_world_time(world *of, uint8_t by)
{
    if (of->quiet) return;
    weir_sim_time_set(of->rig.sim, weir_sim_time(of->rig.sim) + by);
}

/* Another program takes a part of the device's memory. */
void weir_world_tenant(world *of, uint8_t part)
{
    weir_sim_tenant(of->rig.sim, part < 64 ? 0 : of->granule * part);
}

/* ------------------------------------------------------------------------------------ faults -- */

void weir_world_arm(world *of, uint8_t call, uint8_t k, uint8_t how)
{
    static const weir_status answers[] = {WEIR_DEVICE, WEIR_DEVICE, WEIR_NO_MEMORY,
                                          WEIR_NO_METADATA};
    weir_sim_call which =
        (weir_sim_call)(WEIR_SIM_va_reserve + fuzz_of(call, WEIR_SIM_CALLS - WEIR_SIM_va_reserve));
    world_fault *fault = &of->fault[which];
    fault->left = 1 + (k & 7);
    fault->on = (how & 0x30) == 0x30;
    fault->status = answers[how & 3];
    if (k >= 0xE0) fault->left = 0;
    if (how == 0xFF) fault->status = WEIR_LOST;
    bool takes_none = which == WEIR_SIM_event_record || which == WEIR_SIM_stream_wait ||
                      which == WEIR_SIM_quiesce;
    if (takes_none && (how & 4) != 0) fault->status = WEIR_WOULD_WAIT;
}

void weir_world_arm_host(world *of, uint8_t k, uint8_t how)
{
    if (of->depth != 1) return; /* what failed in this operation would be forgotten */
    weir_host_memory_fail(&of->rig.memory, k & 7, (how & 3) == 3);
}

void weir_world_nest(world *of, uint8_t at, uint8_t count)
{
    if (of->depth != 1) return;
    of->nest_in = 1 + (at & 15);
    of->nest_count = 1 + (count & 3);
}

/* -------------------------------------------------------------------------------------- pool -- */

void weir_world_trim(world *of, uint8_t keep, uint8_t wait)
{
    uint64_t released = UINT64_MAX;
    uint64_t held = weir_rig_stats(&of->rig).reserved.current;
    uint64_t least = held * keep >> 8;
    of->odd = true;
    weir_status status = weir_trim(of->rig.pool, least, wait & 63, &released);
    FUZZ_SAY(weir_world_allowed(of, status), "%s", weir_status_name(status));
    if (status != WEIR_OK) FUZZ_CHECK(released == UINT64_MAX);
    else if (of->depth == 1 && !of->nested)
        FUZZ_CHECK(weir_rig_stats(&of->rig).reserved.current == held - released);
}

void weir_world_finish(world *of, uint8_t wait)
{
    of->odd = true;
    weir_status status = weir_finish(of->rig.pool, wait);
    FUZZ_SAY(weir_world_allowed(of, status), "%s", weir_status_name(status));
    if (status == WEIR_OK && of->depth == 1 && !of->nested)
        FUZZ_CHECK(weir_rig_stats(&of->rig).pending.current == 0);
}

void weir_world_limit(world *of, uint8_t limit)
{
    uint64_t bytes = limit == 255 ? WEIR_NO_LIMIT : of->granule * (1 + limit) + limit % 3;
    of->odd = true;
    of->limit = bytes;
    if (bytes > of->limit_most) of->limit_most = bytes;
    weir_status status = weir_limit_set(of->rig.pool, bytes);
    FUZZ_SAY(weir_world_allowed(of, status), "%s", weir_status_name(status));
    FUZZ_CHECK(weir_rig_stats(&of->rig).limit_bytes == of->limit);
}

static bool pool_domain_busy(const world *of, uint32_t domain)
{
    for (uint32_t i = 0; i < of->model.count; i++)
        if (of->model.block[i].domain == domain + 1) return true;
    return false;
}

void weir_world_domain(world *of, uint8_t which)
{
    uint32_t index = which % WORLD_DOMAINS;
    weir_domain *domain = &of->domain[index];
    of->odd = true;
    if (*domain == 0) {
        weir_status status = weir_domain_create(of->rig.pool, domain);
        FUZZ_CHECK(status == WEIR_OK || weir_world_host_failed(of));
        return;
    }
    weir_status status = weir_domain_release(of->rig.pool, *domain);
    if (of->depth != 1 || pool_domain_busy(of, index)) FUZZ_CHECK(status == WEIR_BUSY);
    else FUZZ_CHECK(status == WEIR_OK || weir_world_host_failed(of));
    if (status != WEIR_OK) return;
    ASSERT_STATUS(weir_domain_release(of->rig.pool, *domain), WEIR_STALE);
    *domain = 0;
}

/* ----------------------------------------------------------------------------------- streams -- */

/* Every block of a stream that ends has lost its owner; other streams go on using it. */
static void pool_orphan(world *of, uint32_t stream)
{
    for (uint32_t i = 0; i < of->model.count; i++) {
        model_block *block = &of->model.block[i];
        if (block->owner == stream) block->owner = MODEL_ORPHAN;
        block->users &= ~(1u << stream);
    }
}

/* Retires or forgets a stream, ends it once its work has ended, and attaches another. */
void weir_world_end_stream(world *of, uint8_t who, uint8_t how)
{
    uint32_t stream = fuzz_of(who, of->rig.streams);
    weir_stream name = of->rig.stream[stream];
    if (of->depth != 1 || of->lost) return;
    of->odd = true;
    weir_status status = (how & 1) != 0 ? weir_stream_forget(of->rig.pool, name)
                                        : weir_stream_retire(of->rig.pool, name);
    if (status != WEIR_OK) {
        FUZZ_SAY(weir_world_allowed(of, status), "%s", weir_status_name(status));
        FUZZ_SAY(of->hits != 0 || weir_world_host_failed(of), "%s", weir_status_name(status));
        return;
    }
    weir_world_go_all(of); /* it may wait for another */
    weir_sim_sync(of->rig.sim, of->rig.native[stream]);
    weir_sim_stream_destroy(of->rig.sim, of->rig.native[stream]);
    pool_orphan(of, stream);
    of->stale = name;
    weir_host_memory_fail(&of->rig.memory, 0, false);
    weir_rig_attach(&of->rig, stream, (how & 2) != 0);
}

/* ------------------------------------------------------------------------------------- looks -- */

typedef struct pool_look {
    world *of;
    weir_addr end;
    uint32_t live;
    uint64_t segments;
} pool_look;

static const model_block *pool_known(const world *of, weir_addr addr)
{
    for (uint32_t i = 0; i < of->model.count; i++)
        if (of->model.block[i].addr == addr) return &of->model.block[i];
    return NULL;
}

/* Blocks come in the order of addresses without overlap, and those that live are the model's. */
static bool pool_look_block(void *self, const weir_block *block)
{
    pool_look *look = (pool_look *)self;
    FUZZ_CHECK(block->addr >= look->end);
    look->end = block->addr + block->bytes;
    if (!block->live) {
        if (block->mapped && !look->of->lost && look->of->depth == 1)
            FUZZ_CHECK(weir_sim_mapped(look->of->rig.sim, block->addr, block->bytes));
        return true;
    }
    const model_block *known = pool_known(look->of, block->addr);
    if (known == NULL) {
        FUZZ_SAY(look->of->depth > 1, "a block lives that nobody has");
        return true;
    }
    look->live++;
    FUZZ_CHECK(known->bytes == block->bytes || look->of->busy == known->addr);
    FUZZ_CHECK(known->requested == block->requested_bytes || look->of->busy == known->addr);
    return true;
}

static bool pool_look_segment(void *self, const weir_segment *segment)
{
    pool_look *look = (pool_look *)self;
    look->segments += segment->bytes;
    if (segment->addr != 0 && !segment->quarantined && !look->of->lost)
        FUZZ_CHECK(weir_sim_mapped(look->of->rig.sim, segment->addr, segment->bytes));
    return true;
}

void weir_world_look(world *of)
{
    pool_look look = {.of = of};
    weir_walk_blocks(of->rig.pool, pool_look_block, &look);
    FUZZ_CHECK(look.live == of->model.count);
    weir_walk_segments(of->rig.pool, pool_look_segment, &look);
    if (of->depth == 1) {
        FUZZ_CHECK(look.segments == weir_rig_stats(&of->rig).reserved.current);
        weir_world_compare_all(of);
    }
}
