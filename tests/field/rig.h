/* SPDX-License-Identifier: MIT */
/*
 * What the field reports are tried on: a pool on the simulated device, with its oracle.
 *
 * Owns     the simulator, the platform, the pool and RIG_STREAMS streams; stream 0 outlives the
 *          pool, the others may end before it.
 * General oracle, by rig_close: the simulator saw no breach, the pool's invariants hold, no block
 * is live and no byte pending, the limit was never passed, and after destroy handles, ranges,
 * mappings and events are all given back. The simulated addresses are no host memory, so a pool
 * that touched a block would fault.
 */
#ifndef WEIR_FIELD_RIG_H
#define WEIR_FIELD_RIG_H

#include <criterion/criterion.h>

#include <string.h>

#include "platform.h"
#include "sim.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define GRANULE (2 * MIB)
#define RIG_STREAMS 4u

typedef struct rig {
    weir_sim *sim;
    weir_platform *platform;
    weir_pool *pool;
    uint64_t native[RIG_STREAMS];
    weir_stream stream[RIG_STREAMS];
    char breach[1024]; /* the first */
} rig;

#define EXPECT_OK(call) rig_expect((call), WEIR_OK, #call, __LINE__)
#define EXPECT_STATUS(call, wanted) rig_expect((call), (wanted), #call, __LINE__)

static inline void rig_expect(weir_status got, weir_status wanted, const char *call, int line)
{
    cr_expect_eq(got, wanted, "line %d: %s is %s, not %s", line, call, weir_status_name(got),
                 weir_status_name(wanted));
}

static inline void rig_breach(void *self, const char *text)
{
    rig *r = (rig *)self;
    if (r->breach[0] == '\0') strncpy(r->breach, text, sizeof(r->breach) - 1);
}

/* A device of its own, without a pool. */
static inline void rig_open_device(rig *r, weir_sim_config device)
{
    memset(r, 0, sizeof(*r));
    device.oracle = true;
    device.breach = rig_breach;
    device.breach_self = r;
    r->sim = weir_sim_create(&device);
    r->platform = weir_platform_create(true);
    cr_assert_not_null(r->sim);
    cr_assert_not_null(r->platform);
}

static inline weir_config rig_config(const rig *r, weir_config config)
{
    config.size = sizeof(config);
    if (config.ops == NULL) config.ops = weir_sim_ops(r->sim);
    if (config.device_self == NULL) config.device_self = r->sim;
    config.platform = r->platform;
    return config;
}

static inline weir_stream rig_attach(rig *r, uint64_t native, bool outlives)
{
    weir_stream stream = 0;
    weir_stream_desc desc = {.size = sizeof(desc),
                             .native = native,
                             .unique = weir_sim_stream_unique(r->sim, native),
                             .outlives = outlives};
    EXPECT_OK(weir_stream_attach(r->pool, &desc, &stream));
    return stream;
}

static inline void rig_open_pool(rig *r, weir_config config)
{
    config = rig_config(r, config);
    weir_status status = weir_pool_create(&config, &r->pool);
    cr_assert_eq(status, WEIR_OK, "create: %s", weir_status_name(status));
    for (unsigned i = 0; i < RIG_STREAMS; i++) {
        r->native[i] = weir_sim_stream_create(r->sim);
        r->stream[i] = rig_attach(r, r->native[i], i == 0);
    }
}

static inline void rig_open(rig *r, weir_sim_config device, weir_config config)
{
    rig_open_device(r, device);
    rig_open_pool(r, config);
}

static inline weir_stats rig_stats(const rig *r)
{
    weir_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.size = sizeof(stats);
    weir_stats_read(r->pool, &stats);
    return stats;
}

static inline weir_sim_totals rig_totals(const rig *r)
{
    weir_sim_totals totals;
    weir_sim_totals_read(r->sim, &totals);
    return totals;
}

static inline uint64_t rig_count(const rig *r, weir_sim_call call)
{
    return rig_totals(r).count[call];
}

static inline uint64_t rig_reserved(const rig *r)
{
    return rig_stats(r).reserved.current;
}

static inline void rig_check(const rig *r)
{
    const char *why = NULL;
    cr_expect_eq(weir_check(r->pool, &why), WEIR_OK, "%s", why != NULL ? why : "");
}

/* Sizes, events and calls as the pool counts them are those that the device saw. */
static inline void rig_check_counts(const rig *r)
{
    weir_stats stats = rig_stats(r);
    weir_sim_totals totals = rig_totals(r);
    cr_expect_eq(stats.reserved.current, totals.held_bytes);
    cr_expect_leq(stats.reserved.peak, stats.limit_bytes);
    cr_expect_leq(stats.requested.current, stats.allocated.current);
    cr_expect_leq(stats.allocated.current, stats.reserved.current);
    cr_expect_eq(stats.allocs - stats.frees, stats.blocks.current);
}

static inline void rig_close_device(rig *r)
{
    cr_expect_eq(rig_totals(r).breaches, 0, "%s", r->breach);
    const char *left = weir_sim_balance(r->sim);
    cr_expect_null(left, "%s", left != NULL ? left : "");
    weir_sim_destroy(r->sim);
    weir_platform_destroy(r->platform);
}

static inline void rig_close_pool(rig *r)
{
    weir_sim_sync(r->sim, 0);
    EXPECT_OK(weir_finish(r->pool, WEIR_FOREVER));
    rig_check(r);
    weir_stats stats = rig_stats(r);
    cr_expect_eq(stats.blocks.current, 0);
    cr_expect_eq(stats.requested.current, 0);
    cr_expect_eq(stats.allocated.current, 0);
    cr_expect_eq(stats.pending.current, 0);
    cr_expect_leq(stats.reserved.peak, stats.limit_bytes);
    EXPECT_OK(weir_pool_destroy(r->pool));
    r->pool = NULL;
}

static inline void rig_close(rig *r)
{
    rig_close_pool(r);
    rig_close_device(r);
}

static inline weir_status rig_try(rig *r, unsigned s, uint64_t bytes, weir_addr *addr)
{
    return weir_alloc_on(r->pool, r->stream[s], bytes, addr);
}

/* A block that there must be. */
static inline weir_addr rig_alloc(rig *r, unsigned s, uint64_t bytes)
{
    weir_addr addr = 0;
    weir_status status = rig_try(r, s, bytes, &addr);
    cr_assert_eq(status, WEIR_OK, "%llu bytes on stream %u: %s", (unsigned long long)bytes, s,
                 weir_status_name(status));
    return addr;
}

static inline weir_request rig_request(const rig *r, unsigned s, uint64_t bytes)
{
    weir_request request = {.size = sizeof(request), .bytes = bytes, .stream = r->stream[s]};
    return request;
}

static inline void rig_free(rig *r, weir_addr addr, unsigned s)
{
    EXPECT_OK(weir_free(r->pool, addr, r->stream[s]));
}

static inline void rig_write(rig *r, unsigned s, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    cr_expect(weir_sim_write(r->sim, r->native[s], addr, bytes, tag), "%s", r->breach);
}

static inline void rig_read(rig *r, unsigned s, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    cr_expect(weir_sim_read(r->sim, r->native[s], addr, bytes, tag), "%s", r->breach);
}

/* Stream `s` waits for all that is queued on `before`, as its program would order the two. */
static inline void rig_order(rig *r, unsigned before, unsigned s)
{
    const weir_device_ops *ops = weir_sim_ops(r->sim);
    weir_event event = 0;
    EXPECT_OK(ops->event_create(r->sim, &event));
    EXPECT_OK(ops->event_record(r->sim, event, r->native[before]));
    EXPECT_OK(ops->stream_wait(r->sim, r->native[s], event));
    ops->event_destroy(r->sim, event);
}

static inline weir_oom rig_oom(const rig *r)
{
    weir_oom oom;
    memset(&oom, 0, sizeof(oom));
    oom.size = sizeof(oom);
    EXPECT_OK(weir_oom_read(r->pool, &oom));
    return oom;
}

/* Allocates pieces of `bytes` until one is refused; how many there are. */
static inline unsigned rig_fill(rig *r, unsigned s, uint64_t bytes, weir_addr *addrs, unsigned room)
{
    unsigned count = 0;
    weir_status status = WEIR_OK;
    while (count < room && (status = rig_try(r, s, bytes, &addrs[count])) == WEIR_OK) count++;
    EXPECT_STATUS(status, WEIR_NO_MEMORY);
    return count;
}

static inline void rig_free_all(rig *r, const weir_addr *addrs, unsigned count, unsigned s)
{
    for (unsigned i = 0; i < count; i++) rig_free(r, addrs[i], s);
}

static inline uint32_t rig_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* What a walk over all blocks finds. */
typedef struct rig_sums {
    uint64_t live, free_mapped, pending, unmapped, requested;
    uint64_t live_blocks, free_blocks;
    uint64_t longest_free;
} rig_sums;

static inline bool rig_sum_block(void *self, const weir_block *block)
{
    rig_sums *sums = (rig_sums *)self;
    if (block->live) {
        sums->live += block->bytes;
        sums->requested += block->requested_bytes;
        sums->live_blocks++;
    } else if (!block->mapped) {
        sums->unmapped += block->bytes;
    } else {
        sums->free_mapped += block->bytes;
        sums->free_blocks++;
        if (block->pending) sums->pending += block->bytes;
        if (block->bytes > sums->longest_free) sums->longest_free = block->bytes;
    }
    return true;
}

static inline rig_sums rig_walk(const rig *r)
{
    rig_sums sums;
    memset(&sums, 0, sizeof(sums));
    weir_walk_blocks(r->pool, rig_sum_block, &sums);
    return sums;
}

#endif
