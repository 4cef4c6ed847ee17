/* SPDX-License-Identifier: MIT */
/* What a program that vendors Weir looks like: a pool on the simulated device, one block. */
#include "platform.h"
#include "sim.h"
#include "weir.h"

#include <stdio.h>

static int main_fail(const char *step)
{
    fprintf(stderr, "%s went wrong\n", step);
    return 1;
}

int main(void)
{
    weir_sim *sim = weir_sim_create(NULL);
    weir_platform *platform = weir_platform_create(true);
    weir_config config = {.size = sizeof config, .platform = platform, .device_self = sim};
    weir_stats stats = {.size = sizeof stats};
    weir_pool *pool;
    weir_stream stream;
    weir_addr addr;

    if (sim == NULL || platform == NULL) return main_fail("create");
    config.ops = weir_sim_ops(sim);
    if (weir_pool_create(&config, &pool) != WEIR_OK) return main_fail("weir_pool_create");
    uint64_t native = weir_sim_stream_create(sim);
    weir_stream_desc desc = {sizeof desc, native, weir_sim_stream_unique(sim, native), true};
    if (weir_stream_attach(pool, &desc, &stream) != WEIR_OK) return main_fail("attach");
    if (weir_alloc_on(pool, stream, 1 << 20, &addr) != WEIR_OK) return main_fail("weir_alloc_on");
    weir_stats_read(pool, &stats);
    if (stats.requested.current != 1 << 20 || stats.blocks.current != 1) return main_fail("stats");
    if (weir_free(pool, addr, stream) != WEIR_OK) return main_fail("weir_free");
    weir_stats_read(pool, &stats);
    if (stats.requested.current != 0 || stats.frees != 1) return main_fail("stats after the free");
    if (weir_pool_destroy(pool) != WEIR_OK) return main_fail("weir_pool_destroy");
    if (weir_sim_balance(sim) != NULL) return main_fail(weir_sim_balance(sim));
    weir_platform_destroy(platform);
    weir_sim_destroy(sim);
    puts("ok");
    return 0;
}
