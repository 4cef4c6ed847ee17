/* SPDX-License-Identifier: MIT */
/* rig: see rig.h. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

sim_rig *weir_rig_device(const weir_sim_config *sim)
{
    weir_sim_config config = *sim;
    sim_rig *made = (sim_rig *)calloc(1, sizeof(*made));
    cr_assert_not_null(made);
    config.oracle = true;
    made->sim = weir_sim_create(&config);
    cr_assert_not_null(made->sim);
    weir_host_memory_init(&made->memory);
    return made;
}

weir_status weir_rig_pool(sim_rig *rig, weir_config config)
{
    config.size = sizeof(config);
    config.ops = weir_sim_ops(rig->sim);
    config.device_self = rig->sim;
    config.platform = &rig->memory.platform;
    return weir_pool_create(&config, &rig->pool);
}

void weir_rig_attach(sim_rig *rig, unsigned stream, bool outlives)
{
    rig->native[stream] = weir_sim_stream_create(rig->sim);
    weir_stream_desc desc = {.size = sizeof(desc),
                             .native = rig->native[stream],
                             .unique = weir_sim_stream_unique(rig->sim, rig->native[stream]),
                             .outlives = outlives};
    ASSERT_OK(weir_stream_attach(rig->pool, &desc, &rig->stream[stream]));
}

sim_rig *weir_rig_open(const rig_options *options)
{
    sim_rig *made = weir_rig_device(&options->sim);
    ASSERT_OK(weir_rig_pool(made, options->pool));
    made->streams = options->streams == 0 ? 1 : options->streams;
    for (unsigned i = 0; i < made->streams; i++)
        weir_rig_attach(made, i, (options->short_lived >> i & 1) == 0);
    return made;
}

static void rig_end(sim_rig *rig)
{
    if (rig->pool != NULL) ASSERT_OK(weir_pool_destroy(rig->pool));
    rig->pool = NULL;
    cr_expect_eq(rig->memory.live_count, 0, "host memory is left over");
    cr_expect_not(rig->memory.held, "the lock is left held");
}

static void rig_drop(sim_rig *rig)
{
    weir_sim_destroy(rig->sim);
    free(rig);
}

void weir_rig_close(sim_rig *rig)
{
    if (rig->pool != NULL) {
        weir_rig_check(rig);
        cr_expect_eq(weir_rig_stats(rig).blocks.current, 0);
        cr_expect_eq(weir_rig_stats(rig).requested.current, 0);
        cr_expect_eq(weir_rig_stats(rig).allocated.current, 0);
    }
    weir_sim_sync(rig->sim, 0);
    rig_end(rig);
    const char *left = weir_sim_balance(rig->sim);
    cr_expect_null(left, "%s", left == NULL ? "" : left);
    rig_drop(rig);
}

void weir_rig_close_loose(sim_rig *rig)
{
    weir_sim_sync(rig->sim, 0);
    rig_end(rig);
    rig_drop(rig);
}

void weir_rig_check(sim_rig *rig)
{
    const char *why = "";
    weir_status status = weir_check(rig->pool, &why);
    cr_assert_eq(status, WEIR_OK, "%s", why);
}

weir_addr weir_rig_alloc(sim_rig *rig, unsigned stream, uint64_t bytes)
{
    weir_addr addr = 0;
    weir_status status = weir_alloc_on(rig->pool, rig->stream[stream], bytes, &addr);
    cr_assert_eq(status, WEIR_OK, "%llu bytes on stream %u: %s", (unsigned long long)bytes, stream,
                 weir_status_name(status));
    return addr;
}

void weir_rig_free(sim_rig *rig, unsigned stream, weir_addr addr)
{
    ASSERT_OK(weir_free(rig->pool, addr, rig->stream[stream]));
}

weir_request weir_rig_request(const sim_rig *rig, unsigned stream, uint64_t bytes)
{
    return (weir_request){.size = sizeof(weir_request),
                          .bytes = bytes,
                          .stream = rig->stream[stream]};
}

/* Frees again what it got. */
weir_status weir_rig_try(sim_rig *rig, weir_request request)
{
    weir_addr addr = 0;
    weir_status status = weir_alloc(rig->pool, &request, &addr);
    if (status == WEIR_OK) ASSERT_OK(weir_free(rig->pool, addr, 0));
    else cr_expect_eq(addr, 0, "a failed call wrote its result");
    return status;
}

void weir_rig_write(sim_rig *rig, unsigned stream, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    cr_assert(weir_sim_write(rig->sim, rig->native[stream], addr, bytes, tag));
}

void weir_rig_read(sim_rig *rig, unsigned stream, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    cr_assert(weir_sim_read(rig->sim, rig->native[stream], addr, bytes, tag));
}

weir_stats weir_rig_stats(sim_rig *rig)
{
    weir_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.size = sizeof(stats);
    weir_stats_read(rig->pool, &stats);
    return stats;
}

weir_oom weir_rig_oom(sim_rig *rig)
{
    weir_oom oom;
    memset(&oom, 0, sizeof(oom));
    oom.size = sizeof(oom);
    ASSERT_OK(weir_oom_read(rig->pool, &oom));
    return oom;
}

uint64_t weir_rig_calls(const sim_rig *rig, weir_sim_call call)
{
    weir_sim_totals totals;
    weir_sim_totals_read(rig->sim, &totals);
    return totals.count[call];
}

weir_block weir_rig_find(sim_rig *rig, weir_addr addr)
{
    weir_block block;
    memset(&block, 0, sizeof(block));
    ASSERT_OK(weir_block_find(rig->pool, addr, &block));
    return block;
}
