/* SPDX-License-Identifier: MIT */
/*
 * What becomes of settings that were read: resolved against the size of a device, taken from the
 * environment, and printed as a line that reads back to the same.
 */
#define _GNU_SOURCE /* setenv */
#include "conf_help.h"

#include <stdlib.h>

static weir_conf conf_resolved(const char *text, uint64_t memory_bytes)
{
    weir_conf conf = conf_read(text);
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_status status = weir_conf_resolve(&conf, memory_bytes, error);
    cr_assert_eq(status, WEIR_OK, "%s: %s", text, error);
    return conf;
}

static void conf_refuses_on(const char *text, uint64_t memory_bytes, const char *part)
{
    weir_conf conf = conf_read(text);
    weir_conf before = conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    cr_assert_eq(weir_conf_resolve(&conf, memory_bytes, error), WEIR_INVALID, "%s", text);
    cr_assert(conf_same(&conf, &before));
    cr_assert_not_null(strstr(error, part), "%s: '%s' does not say '%s'", text, error, part);
}

Test(conf_apply, resolving_fills_the_pool)
{
    weir_conf conf = conf_resolved("limit_mb:50%,initial_pool_size_mb:64,max_split_size_mb:10%,"
                                   "growth_mb:32,small_kb:16,release_threshold_mb:25%",
                                   GIB + 7);
    cr_assert_eq(conf.pool.limit_bytes, GIB / 2 + 3);
    cr_assert_eq(conf.pool.initial_bytes, 64 * MIB);
    cr_assert_eq(conf.pool.max_split_bytes, (GIB + 7) / 10);
    cr_assert_eq(conf.pool.growth_bytes, 32 * MIB);
    cr_assert_eq(conf.pool.small_bytes, 16 * 1024);
    cr_assert_eq(conf.pool.keep_bytes, (GIB + 7) / 4);
    cr_assert(conf.pool.keep_bounded);
    conf = conf_resolved("", 0);
    cr_assert_eq(conf.pool.limit_bytes, 0);
    cr_assert_not(conf.pool.keep_bounded);
    cr_assert_eq(conf_resolved("limit:100%", UINT64_MAX).pool.limit_bytes, UINT64_MAX);
}

Test(conf_apply, resolving_twice_follows_the_device)
{
    weir_conf conf = conf_resolved("limit_mb:50%", 8 * GIB);
    char error[WEIR_CONF_ERROR_BYTES];
    cr_assert_eq(conf.pool.limit_bytes, 4 * GIB);
    cr_assert_eq(weir_conf_resolve(&conf, 2 * GIB, error), WEIR_OK);
    cr_assert_eq(conf.pool.limit_bytes, GIB);
}

Test(conf_apply, a_limit_above_the_device_is_lowered)
{
    cr_assert_eq(conf_resolved("limit_mb:4096", GIB).pool.limit_bytes, GIB);
    cr_assert_eq(conf_resolved("limit_mb:4096", 0).pool.limit_bytes, 4 * GIB);
    cr_assert_eq(conf_resolved("", GIB).pool.limit_bytes, 0);
}

Test(conf_apply, garbage_collection_without_a_limit_counts_the_device)
{
    cr_assert_eq(conf_resolved("garbage_collection_threshold:0.8", GIB).pool.limit_bytes, GIB);
    weir_conf conf = conf_resolved("garbage_collection_threshold:0.8,limit_mb:512", GIB);
    cr_assert_eq(conf.pool.limit_bytes, GIB / 2);
    conf_refuses_on("garbage_collection_threshold:0.8", 0, "limit:8GiB");
}

Test(conf_apply, what_only_the_device_can_refuse)
{
    conf_refuses_on("limit_mb:40%", 0, "limit_mb");
    conf_refuses_on("initial_pool_size_mb:40%", 0, "initial_pool_size_mb");
    conf_refuses_on("max_split_size_mb:40%", 0, "max_split_size_mb");
    conf_refuses_on("release_threshold_mb:40%", 0, "release_threshold_mb");
    conf_refuses_on("initial_pool_size_mb:2048", GIB, "initial_pool_size_mb:1024");
    conf_refuses_on("initial_pool_size_mb:600,limit_mb:50%", GIB, "initial_pool_size_mb:512");
    conf_refuses_on("initial_pool_size_mb:60%,limit_mb:512", GIB, "limit");
    conf_refuses_on("max_split_size_mb:1%", GIB, "max_split_size_mb:21");
    conf_resolved("max_split_size_mb:10%", GIB);
}

Test(conf_apply, the_environment)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_conf_init(&conf);
    unsetenv("WEIR_CONF");
    cr_assert_eq(weir_conf_environment(&conf, error), WEIR_OK);
    cr_assert_eq(conf.limit.bytes, 0);
    setenv("WEIR_CONF", "backend:sim, limit_mb:64", 1);
    cr_assert_eq(weir_conf_environment(&conf, error), WEIR_OK);
    cr_assert_eq(conf.backend, WEIR_CONF_SIM);
    cr_assert_eq(conf.limit.bytes, 64 * MIB);
    setenv("WEIR_CONF", "limit_mbs:64", 1);
    cr_assert_eq(weir_conf_environment(&conf, error), WEIR_INVALID);
    cr_assert_eq(strncmp(error, "WEIR_CONF: limit_mbs:64", 23), 0, "%s", error);
    cr_assert_eq(conf.limit.bytes, 64 * MIB);
}

static void conf_survives(const char *text, const char *printed)
{
    weir_conf conf = conf_read(text);
    char line[1024];
    size_t length = weir_conf_print(&conf, line, sizeof line);
    cr_assert_eq(length, strlen(line));
    cr_assert_str_eq(line, printed);
    weir_conf again = conf_read(line);
    cr_assert(conf_same(&again, &conf), "%s became %s", text, line);
}

Test(conf_apply, a_printed_line_reads_back_to_the_same)
{
    conf_survives("", "backend:auto,source:vmm");
    conf_survives("backend:cudaMallocAsync,limit:3G", "backend:cuda,source:async,limit_mb:3072");
    conf_survives("backend:native,limit:2097153B", "backend:auto,source:vmm,limit_mb:2097153B");
    conf_survives("limit:12.5%,initial_pool_size_mb:10%",
                  "backend:auto,source:vmm,limit_mb:12.5%,initial_pool_size_mb:10%");
    conf_survives("max_split_size_mb:64,growth_mb:32,small_kb:1.5,release_threshold_mb:0",
                  "backend:auto,source:vmm,max_split_size_mb:64,growth_mb:32,small_kb:1536B,"
                  "release_threshold_mb:0");
    conf_survives("garbage_collection_threshold:0.85,move_above:1.1",
                  "backend:auto,source:vmm,garbage_collection_threshold:0.85,move_above:1.1");
    conf_survives("move_above:10", "backend:auto,source:vmm,move_above:10");
    conf_survives("initial_pool_size_mb:8,expandable_segments:0,moves:0,rescue:0,stream_reuse:0",
                  "backend:auto,source:vmm,initial_pool_size_mb:8,expandable_segments:false,"
                  "moves:false,rescue:false,stream_reuse:false");
    conf_survives("wait_us:0,unit_bytes:256,max_blocks:9,small_kb:1M",
                  "backend:auto,source:vmm,small_kb:1024,wait_us:1,unit_bytes:256,max_blocks:9");
    conf_survives("small_kb:1537B", "backend:auto,source:vmm,small_kb:1537B");
    conf_survives("moves:true,rescue:1,wait_us:forever,roundup_power2_divisions:0",
                  "backend:auto,source:vmm");
}

Test(conf_apply, printed_roundup_divisions)
{
    conf_survives("roundup_power2_divisions:8",
                  "backend:auto,source:vmm,roundup_power2_divisions:8");
    conf_survives("roundup_power2_divisions:[4:2,16:8]",
                  "backend:auto,source:vmm,roundup_power2_divisions:[4:2,16:8]");
    conf_survives("roundup_power2_divisions:[8192:1,>:4]",
                  "backend:auto,source:vmm,roundup_power2_divisions:[8192:1,16384:4,32768:4]");
    conf_survives("roundup_power2_divisions:[16:0,>:4]",
                  "backend:auto,source:vmm,roundup_power2_divisions:[16:0,32:4,64:4,128:4,256:4,"
                  "512:4,1024:4,2048:4,4096:4,8192:4,16384:4,32768:4]");
}

Test(conf_apply, printing_into_little_room)
{
    weir_conf conf = conf_read("");
    char line[8] = "zzzzzzz";
    cr_assert_eq(weir_conf_print(&conf, NULL, 0), strlen("backend:auto,source:vmm"));
    cr_assert_eq(weir_conf_print(&conf, line, 5), strlen("backend:auto,source:vmm"));
    cr_assert_str_eq(line, "back");
    cr_assert_eq(line[5], 'z');
    cr_assert_eq(weir_conf_print(&conf, line, 1), strlen("backend:auto,source:vmm"));
    cr_assert_str_eq(line, "");
    conf.pool.wait_us = WEIR_FOREVER;
    cr_assert_eq(weir_conf_print(&conf, NULL, 0), strlen("backend:auto,source:vmm"));
}
