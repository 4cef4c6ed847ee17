/* SPDX-License-Identifier: MIT */
/*
 * Field reports of PyTorch's caching allocator, tried on Weir: figures, settings and what observers
 * are told. README.md of this folder lists all reports.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "rig.h"

#include "conf.h"

#include <stdlib.h>

/* One name of an option was ignored in silence, and misspelt ones always are. A key that is not
 * known is an error that names the nearest; each accepted name shows in what is in force
 * (pytorch/pytorch#183387, mosaicml/llm-foundry#1088). */
static void pt18_refuses(const char *text, const char *nearest)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_conf_init(&conf);
    cr_expect_eq(weir_conf_parse(&conf, text, error), WEIR_INVALID, "%s was accepted", text);
    cr_expect_not_null(strstr(error, nearest), "'%s' does not name %s", error, nearest);
}

static void pt18_shows(const char *text, const char *wanted)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "", line[1024];
    weir_conf_init(&conf);
    cr_expect_eq(weir_conf_parse(&conf, text, error), WEIR_OK, "%s: %s", text, error);
    cr_expect_lt(weir_conf_print(&conf, line, sizeof(line)), sizeof(line));
    cr_expect_not_null(strstr(line, wanted), "'%s' lacks %s", line, wanted);
}

Test(field_pt, pt_18_no_setting_is_ignored_in_silence)
{
    pt18_refuses("expandeable_segments:True", "expandable_segments");
    pt18_refuses("max_split_size:128", "max_split_size_mb");
    pt18_refuses("garbage_collection_treshold:0.8", "garbage_collection_threshold");
    pt18_refuses("limit_mb:64,limit_mb:64", "limit_mb");
    pt18_refuses("expandable_segments:Yes", "true");
    pt18_refuses("garbage_collection_threshold:80", "garbage_collection_threshold");
}

Test(field_pt, pt_18_each_setting_shows_in_what_is_in_force)
{
    pt18_shows("max_split_size_mb:128", "max_split_size_mb:128");
    pt18_shows("garbage_collection_threshold:0.8", "garbage_collection_threshold:0.8");
    pt18_shows("limit:512M", "limit");
    pt18_shows("roundup_power2_divisions:4", "roundup_power2_divisions");
    pt18_shows("stream_reuse:false", "stream_reuse:false");
}

Test(field_pt, pt_18_the_environment_is_read_as_strictly)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    cr_assert_eq(setenv("WEIR_CONF", "limit:100M", 1), 0);
    weir_conf_init(&conf);
    EXPECT_OK(weir_conf_environment(&conf, error));
    cr_expect_eq(conf.limit.bytes, 100 * MIB);
    cr_assert_eq(setenv("WEIR_CONF", "expandeable_segments:True", 1), 0);
    EXPECT_STATUS(weir_conf_environment(&conf, error), WEIR_INVALID);
    cr_expect_not_null(strstr(error, "expandable_segments"));
    cr_expect_eq(conf.limit.bytes, 100 * MIB);
    cr_assert_eq(unsetenv("WEIR_CONF"), 0);
}

/* A limit of 100 MB, and 430 MB in use on the device: the rest was outside the pool. The report
 * keeps apart what the pool holds and what the device still has (pytorch/pytorch#58466, #107667). */
Test(field_pt, pt_20_what_is_outside_the_pool_is_told_apart)
{
    rig r;
    weir_addr blocks[64];
    uint64_t device_free = 0, device_total = 0;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){.limit_bytes = 100 * MIB});
    weir_sim_tenant(r.sim, 330 * MIB);
    unsigned count = rig_fill(&r, 0, 4 * MIB, blocks, 64);
    cr_expect_eq(count, 25);
    weir_oom oom = rig_oom(&r);
    EXPECT_OK(weir_sim_ops(r.sim)->memory_info(r.sim, &device_free, &device_total));
    cr_expect_eq(oom.limit_bytes, 100 * MIB);
    cr_expect_eq(oom.reserved_bytes, 100 * MIB);
    cr_expect_eq(oom.allocated_bytes, 100 * MIB);
    cr_expect_eq(oom.device_free_bytes, device_free);
    cr_expect_eq(device_total - oom.device_free_bytes - oom.reserved_bytes, 330 * MIB);
    rig_free_all(&r, blocks, count, 0);
    rig_close(&r);
}

/* A tracked figure fell below zero. A million random operations with alignments and rounded sizes:
 * after each, requested <= allocated <= reserved, and in the end all is zero
 * (pytorch/pytorch#135726). */
Test(field_pt, pt_38_figures_stay_in_order_over_a_million_operations, .timeout = 120)
{
    enum { SLOTS = 256, OPS = 1000000 };
    static weir_addr addr[SLOTS];
    static uint64_t bytes[SLOTS];
    uint32_t random = 38;
    uint64_t requested = 0;
    rig r;
    rig_open(&r, (weir_sim_config){0},
             (weir_config){.limit_bytes = 4 * GIB, .roundup_divisions = {4, 4, 8, 0}});
    for (unsigned i = 0; i < OPS; i++) {
        unsigned slot = rig_random(&random) % SLOTS;
        if (addr[slot] != 0) {
            rig_free(&r, addr[slot], 0);
            requested -= bytes[slot];
            addr[slot] = 0;
        } else {
            weir_request request =
                rig_request(&r, 0, rig_random(&random) >> rig_random(&random) % 24);
            request.align = UINT64_C(1) << rig_random(&random) % 13;
            bytes[slot] = request.bytes;
            cr_assert_eq(weir_alloc(r.pool, &request, &addr[slot]), WEIR_OK, "operation %u", i);
            requested += bytes[slot];
        }
        weir_stats stats = rig_stats(&r);
        cr_assert_eq(stats.requested.current, requested);
        cr_assert_leq(stats.requested.current, stats.allocated.current);
        cr_assert_leq(stats.allocated.current, stats.reserved.current);
        if (i % 50000 == 0) rig_check(&r);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (addr[i] != 0) rig_free(&r, addr[i], 0);
    rig_close(&r);
}

/* The figure for fragmentation was always zero with mapped segments. Sixteen blocks of 1 MiB, each
 * second one freed: 8 MiB are free, in runs of 1 MiB (pytorch/pytorch#159564). */
Test(field_pt, pt_40_free_runs_between_live_blocks_are_told)
{
    rig r;
    weir_addr blocks[16];
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 16 * MIB});
    for (unsigned i = 0; i < 16; i++) blocks[i] = rig_alloc(&r, 0, MIB);
    for (unsigned i = 0; i < 16; i += 2) rig_free(&r, blocks[i], 0);
    weir_stats stats = rig_stats(&r);
    cr_expect_eq(stats.reserved.current - stats.allocated.current, 8 * MIB);
    cr_expect_eq(stats.largest_free_bytes, MIB);
    for (unsigned i = 1; i < 16; i += 2) rig_free(&r, blocks[i], 0);
    cr_expect_eq(rig_stats(&r).largest_free_bytes, 16 * MIB);
    rig_close(&r);
}

/* The pool counted what was asked for, the device whole pages. What is reserved is a multiple of
 * the granule and what the device sees (pytorch/pytorch#17120). */
Test(field_pt, pt_42_reserved_is_what_the_device_sees)
{
    rig r;
    weir_addr blocks[100];
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 100; i++) {
        blocks[i] = rig_alloc(&r, 0, MIB + MIB / 4);
        weir_stats stats = rig_stats(&r);
        cr_expect_eq(stats.reserved.current % GRANULE, 0);
        cr_expect_eq(stats.reserved.current, rig_totals(&r).held_bytes);
        cr_expect_geq(stats.reserved.current, stats.allocated.current);
    }
    rig_free_all(&r, blocks, 100, 0);
    rig_close(&r);
}

/* Segments that came after the registration of a communicator were not registered with it. A late
 * observer learns what is there by a walk, then hears of each segment: of its mapping after, of its
 * unmapping before it happens (pytorch/pytorch#150684, #112850). */
typedef struct registry {
    rig *r;
    unsigned known, came, went;
} registry;

static bool registry_walk(void *self, const weir_segment *segment)
{
    registry *reg = (registry *)self;
    if (segment->addr != 0) reg->known++;
    return true;
}

static void registry_hear(void *self, const weir_record *record)
{
    registry *reg = (registry *)self;
    if (record->what != WEIR_DID_MAP && record->what != WEIR_WILL_UNMAP) return;
    cr_expect(weir_sim_mapped(reg->r->sim, record->addr, record->bytes));
    reg->came += record->what == WEIR_DID_MAP;
    reg->went += record->what == WEIR_WILL_UNMAP;
}

Test(field_pt, pt_44_an_observer_hears_of_every_segment)
{
    rig r;
    weir_addr blocks[5];
    registry reg = {.r = &r};
    rig_open(&r, (weir_sim_config){0}, (weir_config){.growth_bytes = GRANULE});
    for (unsigned i = 0; i < 2; i++) blocks[i] = rig_alloc(&r, 0, GRANULE);
    weir_observer_set(r.pool, registry_hear, &reg);
    weir_walk_segments(r.pool, registry_walk, &reg);
    cr_expect_eq(reg.known, 2);
    for (unsigned i = 2; i < 5; i++) blocks[i] = rig_alloc(&r, 0, GRANULE);
    cr_expect_eq(reg.came, 3);
    rig_free_all(&r, blocks, 5, 0);
    EXPECT_OK(weir_trim(r.pool, GRANULE, WEIR_FOREVER, NULL));
    cr_expect_eq(reg.went, 4);
    cr_expect_eq(rig_stats(&r).segments.current, 1);
    weir_observer_set(r.pool, NULL, NULL);
    rig_close(&r);
}
