/* SPDX-License-Identifier: MIT */
/* Making and ending a pool: which configs are refused, what is taken at once and left behind. */
#include "rig.h"

#include <string.h>

/* ----------------------------------------------------------------------------------- create -- */

static weir_status pool_create_with(weir_config config)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){.memory_bytes = 256 * MIB});
    weir_status status = weir_rig_pool(rig, config);
    if (status != WEIR_OK) cr_expect_null(rig->pool);
    weir_rig_close(rig);
    return status;
}

#define EXPECT_CONFIG(wanted, ...) \
    EXPECT_STATUS(pool_create_with((weir_config){__VA_ARGS__}), wanted)

Test(pool, fields_out_of_range_are_refused)
{
    EXPECT_CONFIG(WEIR_OK, .size = 0);
    EXPECT_CONFIG(WEIR_INVALID, .unit_bytes = 32);
    EXPECT_CONFIG(WEIR_INVALID, .unit_bytes = 8192);
    EXPECT_CONFIG(WEIR_INVALID, .unit_bytes = 96);
    EXPECT_CONFIG(WEIR_OK, .unit_bytes = 64);
    EXPECT_CONFIG(WEIR_OK, .unit_bytes = 4096);
    EXPECT_CONFIG(WEIR_INVALID, .growth_bytes = 3 * MIB);
    EXPECT_CONFIG(WEIR_OK, .growth_bytes = 4096);
    EXPECT_CONFIG(WEIR_INVALID, .limit_bytes = MIB, .initial_bytes = 2 * MIB);
    EXPECT_CONFIG(WEIR_INVALID, .move_above_permille = 999);
    EXPECT_CONFIG(WEIR_OK, .move_above_permille = 1000);
    EXPECT_CONFIG(WEIR_INVALID, .gc_permille = 1001);
    EXPECT_CONFIG(WEIR_INVALID, .roundup_divisions = {[7] = 3});
    EXPECT_CONFIG(WEIR_OK, .roundup_divisions = {[15] = 8});
}

Test(pool, structs_that_are_missing_or_too_short_are_refused)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){0});
    weir_config config = {.size = sizeof(config),
                          .ops = weir_sim_ops(rig->sim),
                          .device_self = rig->sim,
                          .platform = &rig->memory.platform};
    EXPECT_STATUS(weir_pool_create(NULL, &rig->pool), WEIR_INVALID);
    EXPECT_STATUS(weir_pool_create(&config, NULL), WEIR_INVALID);
    config.size = offsetof(weir_config, platform);
    EXPECT_STATUS(weir_pool_create(&config, &rig->pool), WEIR_INVALID);
    config.size = sizeof(config);
    config.platform = NULL;
    EXPECT_STATUS(weir_pool_create(&config, &rig->pool), WEIR_INVALID);
    config.platform = &rig->memory.platform;
    config.ops = NULL;
    EXPECT_STATUS(weir_pool_create(&config, &rig->pool), WEIR_INVALID);
    EXPECT_STATUS(weir_pool_destroy(NULL), WEIR_INVALID);
    cr_expect_null(rig->pool);
    weir_rig_close(rig);
}

Test(pool, a_platform_needs_memory_and_both_lock_hooks_or_none)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){0});
    weir_platform whole = rig->memory.platform;
    rig->memory.platform.mem_alloc = NULL;
    EXPECT_STATUS(weir_rig_pool(rig, (weir_config){0}), WEIR_INVALID);
    rig->memory.platform = whole;
    rig->memory.platform.mem_free = NULL;
    EXPECT_STATUS(weir_rig_pool(rig, (weir_config){0}), WEIR_INVALID);
    rig->memory.platform = whole;
    rig->memory.platform.unlock = NULL;
    EXPECT_STATUS(weir_rig_pool(rig, (weir_config){0}), WEIR_INVALID);
    rig->memory.platform.lock = NULL;
    ASSERT_OK(weir_rig_pool(rig, (weir_config){0}));
    weir_rig_attach(rig, 0, true);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, MIB));
    cr_expect_eq(rig->memory.locks, 0);
    weir_rig_close(rig);
}

Test(pool, an_older_config_reads_as_all_defaults_behind_its_end)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){0});
    weir_config config = {.size = offsetof(weir_config, limit_bytes),
                          .ops = weir_sim_ops(rig->sim),
                          .device_self = rig->sim,
                          .platform = &rig->memory.platform,
                          .limit_bytes = 1,
                          .unit_bytes = 7};
    ASSERT_OK(weir_pool_create(&config, &rig->pool));
    cr_expect_eq(weir_rig_stats(rig).limit_bytes, WEIR_NO_LIMIT);
    weir_rig_close(rig);
}

Test(pool, a_device_that_lacks_calls_is_unsupported)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){0});
    weir_device_ops ops = *weir_sim_ops(rig->sim);
    ops.event_query = NULL;
    weir_config config = {.size = sizeof(config),
                          .ops = &ops,
                          .device_self = rig->sim,
                          .platform = &rig->memory.platform};
    EXPECT_STATUS(weir_pool_create(&config, &rig->pool), WEIR_UNSUPPORTED);
    weir_rig_close(rig);
}

/* Every host allocation that create makes fails once; nothing is left behind. */
Test(pool, create_survives_short_host_memory)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){0});
    weir_status status = WEIR_NO_METADATA;
    uint64_t k = 0;
    while (status != WEIR_OK && k < 200) {
        weir_host_memory_fail(&rig->memory, ++k, false);
        status = weir_rig_pool(rig, (weir_config){.initial_bytes = 8 * MIB});
        if (status == WEIR_OK) break;
        cr_assert_eq(status, WEIR_NO_METADATA, "at %llu: %s", (unsigned long long)k,
                     weir_status_name(status));
        cr_assert_eq(rig->memory.live_count, 0, "at %llu", (unsigned long long)k);
        cr_assert_null(weir_sim_balance(rig->sim), "at %llu: %s", (unsigned long long)k,
                       weir_sim_balance(rig->sim));
    }
    cr_expect_gt(k, 5);
    weir_host_memory_fail(&rig->memory, 0, false);
    weir_rig_close(rig);
}

Test(pool, create_gives_back_what_it_took_when_the_device_fails)
{
    static const weir_sim_call calls[] = {WEIR_SIM_va_reserve, WEIR_SIM_handle_create, WEIR_SIM_map,
                                          WEIR_SIM_set_access};
    for (size_t i = 0; i < 4; i++) {
        sim_rig *rig = weir_rig_device(&(weir_sim_config){0});
        weir_sim_fail(rig->sim, calls[i], 1, true, WEIR_DEVICE);
        EXPECT_STATUS(weir_rig_pool(rig, (weir_config){.initial_bytes = 32 * MIB}), WEIR_DEVICE);
        weir_rig_close(rig);
    }
}

/* ---------------------------------------------------------------------------------- initial -- */

Test(pool, initial_memory_is_there_before_the_first_call)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.initial_bytes = 33 * MIB}});
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 34 * MIB);
    uint64_t creates = weir_rig_calls(rig, WEIR_SIM_handle_create);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 34 * MIB));
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_handle_create), creates);
    weir_rig_close(rig);
}

Test(pool, initial_memory_that_cannot_be_had_is_no_pool)
{
    EXPECT_CONFIG(WEIR_NO_MEMORY, .initial_bytes = 512 * MIB);
    EXPECT_CONFIG(WEIR_NO_MEMORY, .initial_bytes = UINT64_MAX);
    EXPECT_CONFIG(WEIR_NO_MEMORY, .initial_bytes = UINT64_C(1) << 62);
    EXPECT_CONFIG(WEIR_NO_MEMORY, .initial_bytes = MIB + 1, .limit_bytes = MIB + 1);
}

Test(pool, the_whole_limit_may_be_taken_at_once)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.pool = {.initial_bytes = 64 * MIB, .limit_bytes = 64 * MIB}});
    weir_addr whole = weir_rig_alloc(rig, 0, 64 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 1)), WEIR_NO_MEMORY);
    weir_rig_free(rig, 0, whole);
    weir_rig_close(rig);
}

Test(pool, without_growth_the_initial_memory_is_all)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.pool = {.initial_bytes = 16 * MIB, .no_growth = true}});
    weir_addr half = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_addr rest = weir_rig_alloc(rig, 0, 8 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_stats(rig).reserved.total, 16 * MIB);
    weir_rig_free(rig, 0, half);
    weir_rig_free(rig, 0, rest);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 16 * MIB));
    weir_rig_close(rig);
}

/* ---------------------------------------------------------------------------------- destroy -- */

Test(pool, live_blocks_keep_a_pool_alive)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    weir_rig_write(rig, 0, addr, MIB, 1);
    EXPECT_STATUS(weir_pool_destroy(rig->pool), WEIR_BUSY);
    weir_rig_read(rig, 0, addr, MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

static void pool_destroy_inside(void *self, const weir_record *record)
{
    sim_rig *rig = (sim_rig *)self;
    if (record->what != WEIR_DID_MAP) return;
    EXPECT_STATUS(weir_pool_destroy(rig->pool), WEIR_BUSY);
}

Test(pool, running_calls_keep_a_pool_alive)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_observer_set(rig->pool, pool_destroy_inside, rig);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 4 * MIB));
    weir_rig_close(rig);
}

Test(pool, destroy_waits_for_work)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 1000}, .streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_rig_write(rig, 0, addr, 4 * MIB, 1);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_rig_free(rig, 0, addr);
    ASSERT_OK(weir_pool_destroy(rig->pool));
    rig->pool = NULL;
    cr_expect_geq(weir_sim_time(rig->sim), 1000);
    weir_rig_close(rig);
}

Test(pool, a_lost_device_is_asked_nothing_more)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr addr = weir_rig_alloc(rig, 0, MIB);
    uint64_t released;
    weir_sim_lose(rig->sim);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 512 * MIB)), WEIR_LOST);
    uint64_t maps = weir_rig_calls(rig, WEIR_SIM_map) + weir_rig_calls(rig, WEIR_SIM_unmap) +
                    weir_rig_calls(rig, WEIR_SIM_handle_create);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 512 * MIB)), WEIR_LOST);
    EXPECT_STATUS(weir_trim(rig->pool, 0, 0, &released), WEIR_LOST);
    EXPECT_STATUS(weir_finish(rig->pool, 0), WEIR_LOST);
    EXPECT_STATUS(weir_free(rig->pool, addr, rig->stream[0]), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).blocks.current, 0);
    cr_expect_eq(maps, weir_rig_calls(rig, WEIR_SIM_map) + weir_rig_calls(rig, WEIR_SIM_unmap) +
                           weir_rig_calls(rig, WEIR_SIM_handle_create));
    weir_rig_close(rig);
}

/* ----------------------------------------------------------------------------------- spans -- */

Test(pool, address_space_that_is_short_is_asked_for_in_less)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = GIB, .va_bytes = 96 * MIB,
                                                        .lies = true}});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    cr_expect_gt(weir_rig_calls(rig, WEIR_SIM_va_reserve), 1);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 512 * MIB)), WEIR_NO_MEMORY);
    weir_rig_close(rig);
}

Test(pool, arenas_of_the_given_size_are_added_as_they_fill)
{
    weir_addr addr[6];
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.va_bytes = 16 * MIB}});
    for (unsigned i = 0; i < 6; i++) addr[i] = weir_rig_alloc(rig, 0, 10 * MIB);
    cr_expect_geq(weir_rig_stats(rig).va_reserves, 6);
    weir_rig_check(rig);
    for (unsigned i = 0; i < 6; i++) weir_rig_free(rig, 0, addr[i]);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 40 * MIB));
    weir_rig_close(rig);
}

Test(pool, a_device_that_lies_about_its_size_is_believed_no_further_than_it_gives)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.memory_bytes = 64 * MIB, .lies = true}});
    weir_addr most = weir_rig_alloc(rig, 0, 60 * MIB);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 32 * MIB)), WEIR_NO_MEMORY);
    weir_rig_check(rig);
    weir_rig_free(rig, 0, most);
    weir_rig_close(rig);
}
