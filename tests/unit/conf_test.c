/* SPDX-License-Identifier: MIT */
/*
 * The settings line: every key, its bounds, its messages, and contradictions between keys.
 */
#include "conf_help.h"

#include <inttypes.h>
#include <stdio.h>

Test(conf, nothing_is_the_default)
{
    weir_conf conf;
    weir_conf_init(&conf);
    cr_assert_eq(conf.backend, WEIR_CONF_AUTO);
    cr_assert_eq(conf.source, WEIR_CONF_VMM);
    cr_assert_eq(conf.pool.size, sizeof conf.pool);
    cr_assert_null(conf.pool.ops);
    cr_assert_eq(conf.pool.limit_bytes, 0);
    static const char *const empty[] = {NULL, "", "  \t\r\n "};
    for (size_t i = 0; i < 3; i++) {
        weir_conf read = conf_read(empty[i]);
        cr_assert(conf_same(&read, &conf));
    }
}

Test(conf, backends_and_sources)
{
    cr_assert_eq(conf_read("backend:auto").backend, WEIR_CONF_AUTO);
    cr_assert_eq(conf_read("backend:sim").backend, WEIR_CONF_SIM);
    cr_assert_eq(conf_read("backend:host").backend, WEIR_CONF_HOST);
    cr_assert_eq(conf_read("backend:cuda").backend, WEIR_CONF_CUDA);
    cr_assert_eq(conf_read("source:vmm").source, WEIR_CONF_VMM);
    cr_assert_eq(conf_read("source:async").source, WEIR_CONF_ASYNC);
    cr_assert_eq(conf_read("backend:cuda,source:malloc").source, WEIR_CONF_MALLOC);
    conf_refuses("backend:cudda", "backend:cudda", "backend:cuda");
    conf_refuses("backend:Sim", "backend:Sim", "backend:sim");
    conf_refuses("source:asinc", "source:asinc", "source:async");
}

Test(conf, names_of_pytorch_for_backends)
{
    weir_conf conf = conf_read("backend:cudaMallocAsync");
    cr_assert_eq(conf.backend, WEIR_CONF_CUDA);
    cr_assert_eq(conf.source, WEIR_CONF_ASYNC);
    cr_assert_eq(conf_read("source:async,backend:cudaMallocAsync").source, WEIR_CONF_ASYNC);
    conf = conf_read("backend:native");
    cr_assert_eq(conf.backend, WEIR_CONF_AUTO);
    cr_assert_eq(conf.source, WEIR_CONF_VMM);
    conf_refuses("backend:native,source:async", "source:async", "source:vmm");
    conf_refuses("source:malloc,backend:cudaMallocAsync", "source:malloc", "source:async");
}

Test(conf, a_backend_of_pytorch_replaces_an_earlier_source)
{
    weir_conf conf = conf_read("source:malloc");
    char error[WEIR_CONF_ERROR_BYTES];
    cr_assert_eq(weir_conf_parse(&conf, "backend:native", error), WEIR_OK);
    cr_assert_eq(conf.source, WEIR_CONF_VMM);
}

Test(conf, sizes_in_all_their_forms)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"limit_mb:512", 512 * MIB},        {"limit_mb:512M", 512 * MIB},
                 {"limit_mb:2GiB", 2 * GIB},         {"limit_mb:2gb", 2 * GIB},
                 {"limit_mb:2Gi", 2 * GIB},          {"limit_mb:1.5", 3 * MIB / 2},
                 {"limit:1.5G", 3 * GIB / 2},        {"limit:3T", 3 * 1024 * GIB},
                 {"limit:4096K", 4 * MIB},           {"limit:1048577B", MIB + 1},
                 {"limit: 1 . 5 G ", 3 * GIB / 2},   {"limit:0.1G", 107374182},
                 {"limit:1.500000000G", 3 * GIB / 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_conf conf = conf_read(cases[i].text);
        cr_assert_eq(conf.limit.bytes, cases[i].bytes, "%s gave %" PRIu64, cases[i].text,
                     conf.limit.bytes);
        cr_assert_eq(conf.limit.permille, 0);
    }
}

Test(conf, parts_of_the_device)
{
    cr_assert_eq(conf_read("limit_mb:40%").limit.permille, 400);
    cr_assert_eq(conf_read("limit:12.5%").limit.permille, 125);
    cr_assert_eq(conf_read("limit:100%").limit.permille, 1000);
    cr_assert_eq(conf_read("limit:0.1%").limit.permille, 1);
    cr_assert_eq(conf_read("per_process_memory_fraction:0.5").limit.permille, 500);
    cr_assert_eq(conf_read("per_process_memory_fraction:1.0").limit.permille, 1000);
    cr_assert_eq(conf_read("initial_pool_size_mb:5%").initial.permille, 50);
    conf_refuses("limit:101%", "limit:101%", "limit:100%");
    conf_refuses("limit:99999999999999999999999%", "limit:", "limit:100%");
    conf_refuses("limit:0%", "limit:0%", "limit:0.1%");
    conf_refuses("limit:12.55%", "limit:12.55%", "limit:12.5%");
    conf_refuses("per_process_memory_fraction:1.2", "per_process_memory_fraction:1.2",
                 "per_process_memory_fraction:1");
    conf_refuses("per_process_memory_fraction:0", "per_process_memory_fraction:0",
                 "per_process_memory_fraction:0.001");
    conf_refuses("per_process_memory_fraction:0.3333", "per_process_memory_fraction:0.3333",
                 "per_process_memory_fraction:0.333");
    conf_refuses("per_process_memory_fraction:half", "per_process_memory_fraction:half", "0.5");
}

Test(conf, bad_sizes)
{
    conf_refuses("limit_mb:", "limit_mb:", "limit_mb:8192");
    conf_refuses("limit_mb:lots", "limit_mb:lots", "limit_mb:8192");
    conf_refuses("limit_mb:-5", "limit_mb:-5", "limit_mb:8192");
    conf_refuses("limit_mb:5X", "limit_mb:5X", "limit_mb:8192");
    conf_refuses("limit_mb:5MiBs", "limit_mb:5MiBs", "limit_mb:8192");
    conf_refuses("limit_mb:5.", "limit_mb:5.", "limit_mb:8192");
    conf_refuses("limit_mb:0x10", "limit_mb:0x10", "limit_mb:8192");
    conf_refuses("limit_mb:1:2", "limit_mb:1:2", "limit_mb:8192");
    conf_refuses("limit:8", "limit:8", "limit:8GiB");
    conf_refuses("limit_mb:0", "limit_mb:0", "limit_mb:1");
    conf_refuses("limit:0B", "limit:0B", "limit:1M");
    conf_refuses("limit:2097152.5B", "limit:2097152.5B", "limit:2M");
    conf_refuses("limit_mb:1.0000001", "limit_mb:1.0000001", "limit_mb:1");
}

Test(conf, sizes_that_overflow)
{
    conf_refuses("limit_mb:18446744073709551616", "limit_mb:1844", "limit_mb:68719476736");
    conf_refuses("limit_mb:17592186044416", "limit_mb:17592186044416", "limit_mb:68719476736");
    conf_refuses("limit:16777216T", "limit:16777216T", "limit:68719476736M");
    conf_refuses("limit_mb:68719476737", "limit_mb:68719476737", "limit_mb:68719476736");
    cr_assert_eq(conf_read("limit_mb:68719476736").limit.bytes, UINT64_C(1) << 56);
    conf_refuses("max_blocks:4294967296", "max_blocks:4294967296", "max_blocks:4294967295");
    conf_refuses("max_blocks:99999999999999999999", "max_blocks:9999", "max_blocks:4294967295");
    conf_refuses("move_above:99999999999999999999", "move_above:9999", "move_above:100");
    conf_refuses("move_above:4294968", "move_above:4294968", "move_above:100");
    conf_refuses("wait_us:18446744073709551615", "wait_us:184", "wait_us:18446744073709551614");
}

Test(conf, one_size_by_itself)
{
    uint64_t bytes = 5;
    cr_assert_eq(weir_conf_size("512", &bytes), WEIR_OK);
    cr_assert_eq(bytes, 512);
    cr_assert_eq(weir_conf_size("512M", &bytes), WEIR_OK);
    cr_assert_eq(bytes, 512 * MIB);
    cr_assert_eq(weir_conf_size("1.5GiB", &bytes), WEIR_OK);
    cr_assert_eq(bytes, 3 * GIB / 2);
    cr_assert_eq(weir_conf_size("18446744073709551615", &bytes), WEIR_OK);
    cr_assert_eq(bytes, UINT64_MAX);
    static const char *const bad[] = {
        NULL, "", "M", "5%", "5 M", "1.5", "16777216T", "18446744073709551616", "5Mi5", "+5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bytes = 5;
        cr_assert_eq(weir_conf_size(bad[i], &bytes), WEIR_INVALID, "%zu", i);
        cr_assert_eq(bytes, 5);
    }
    cr_assert_eq(weir_conf_size("5", NULL), WEIR_INVALID);
}

Test(conf, pool_sizes)
{
    cr_assert_eq(conf_read("initial_pool_size_mb:2048").initial.bytes, 2 * GIB);
    cr_assert_eq(conf_read("initial_pool_size_mb:0").initial.bytes, 0);
    cr_assert_eq(conf_read("max_split_size_mb:128").max_split.bytes, 128 * MIB);
    cr_assert_eq(conf_read("max_split_size_mb:21").max_split.bytes, 21 * MIB);
    conf_refuses("max_split_size_mb:20", "max_split_size_mb:20", "max_split_size_mb:21");
    cr_assert_eq(conf_read("growth_mb:32").growth.bytes, 32 * MIB);
    conf_refuses("growth_mb:40", "growth_mb:40 is no power of two", "growth_mb:32");
    conf_refuses("growth_mb:60", "growth_mb:60 is no power of two", "growth_mb:64");
    conf_refuses("growth_mb:0", "growth_mb:0", "growth_mb:1");
    conf_refuses("growth_mb:10%", "growth_mb:10%", "growth_mb:64");
    cr_assert_eq(conf_read("small_kb:32").small.bytes, 32 * 1024);
    conf_refuses("small_kb:0", "small_kb:0", "small_kb:1");
    conf_refuses("small_kb:2M", "small_kb:2M is too large", "small_kb:1024");
    conf_refuses("small_kb:5%", "small_kb:5%", "small_kb:64");
    weir_conf conf = conf_read("release_threshold_mb:0");
    cr_assert(conf.release_threshold_set);
    cr_assert_eq(conf.release_threshold.bytes, 0);
    cr_assert_eq(conf_read("release_threshold_mb:25%").release_threshold.permille, 250);
    cr_assert_not(conf_read("limit_mb:5").release_threshold_set);
}

Test(conf, ratios)
{
    cr_assert_eq(conf_read("garbage_collection_threshold:0.8").pool.gc_permille, 800);
    cr_assert_eq(conf_read("garbage_collection_threshold:0.999").pool.gc_permille, 999);
    conf_refuses("garbage_collection_threshold:1.0", "garbage_collection_threshold:1.0",
                 "garbage_collection_threshold:0.999");
    conf_refuses("garbage_collection_threshold:0.0", "garbage_collection_threshold:0.0",
                 "garbage_collection_threshold:0.001");
    conf_refuses("garbage_collection_threshold:.8", "garbage_collection_threshold:.8",
                 "garbage_collection_threshold:0.8");
    cr_assert_eq(conf_read("move_above:1.02").pool.move_above_permille, 1020);
    cr_assert_eq(conf_read("move_above:1").pool.move_above_permille, 1000);
    conf_refuses("move_above:0.9", "move_above:0.9", "move_above:1");
    conf_refuses("move_above:1.0005", "move_above:1.0005", "move_above:1");
}

Test(conf, flags)
{
    static const struct {
        const char *value;
        bool on;
    } cases[] = {{"true", true},   {"True", true},   {"1", true},
                 {"false", false}, {"False", false}, {"0", false}};
    char text[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool off = !cases[i].on;
        snprintf(text, sizeof text, "initial_pool_size_mb:8,expandable_segments:%s",
                 cases[i].value);
        cr_assert_eq(conf_read(text).pool.no_growth, off);
        snprintf(text, sizeof text, "moves:%s", cases[i].value);
        cr_assert_eq(conf_read(text).pool.no_moves, off);
        snprintf(text, sizeof text, "rescue:%s", cases[i].value);
        cr_assert_eq(conf_read(text).pool.no_rescue, off);
        snprintf(text, sizeof text, "stream_reuse:%s", cases[i].value);
        cr_assert_eq(conf_read(text).pool.no_stream_reuse, off);
    }
}

Test(conf, flags_that_are_none)
{
    conf_refuses("moves:", "moves:", "moves:");
    conf_refuses("moves:yes", "moves:yes", "setting is moves:true");
    conf_refuses("moves:on", "moves:on", "setting is moves:true");
    conf_refuses("moves:no", "moves:no", "setting is moves:false");
    conf_refuses("moves:off", "moves:off", "setting is moves:false");
    conf_refuses("expandable_segments:Ture", "expandable_segments:Ture",
                 "setting is expandable_segments:true");
    conf_refuses("expandable_segments:Fals", "expandable_segments:Fals",
                 "setting is expandable_segments:false");
}

Test(conf, counts)
{
    cr_assert_eq(conf_read("wait_us:5000").pool.wait_us, 5000);
    cr_assert_eq(conf_read("wait_us:forever").pool.wait_us, 0);
    cr_assert_eq(conf_read("wait_us:0").pool.wait_us, 1);
    conf_refuses("wait_us:5ms", "wait_us:5ms", "wait_us:5000");
    cr_assert_eq(conf_read("unit_bytes:64").pool.unit_bytes, 64);
    cr_assert_eq(conf_read("unit_bytes:4096").pool.unit_bytes, 4096);
    conf_refuses("unit_bytes:32", "unit_bytes:32", "unit_bytes:64");
    conf_refuses("unit_bytes:8192", "unit_bytes:8192", "unit_bytes:4096");
    conf_refuses("unit_bytes:500", "unit_bytes:500", "unit_bytes:512");
    conf_refuses("unit_bytes:512B", "unit_bytes:512B", "unit_bytes:512");
    cr_assert_eq(conf_read("max_blocks:4294967295").pool.max_blocks, UINT32_MAX);
    conf_refuses("max_blocks:0", "max_blocks:0", "max_blocks:1");
}

static void conf_roundup_is(const char *value, const uint32_t steps[16])
{
    char text[256];
    snprintf(text, sizeof text, "roundup_power2_divisions:%s", value);
    weir_conf conf = conf_read(text);
    for (size_t i = 0; i < 16; i++) {
        cr_assert_eq(conf.pool.roundup_divisions[i], steps[i], "%s at %zu: %u", value, i,
                     conf.pool.roundup_divisions[i]);
    }
}

Test(conf, roundup_divisions)
{
    conf_roundup_is("4", (uint32_t[16]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    conf_roundup_is("0", (uint32_t[16]){0});
    conf_roundup_is("[256:1,512:2,1024:4,>:8]",
                    (uint32_t[16]){1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8});
    conf_roundup_is("[4:2, 16:8]", (uint32_t[16]){2, 2, 2, 0, 8});
    conf_roundup_is("[>:16]",
                    (uint32_t[16]){16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16});
    conf_roundup_is("[32768:2,>:4]",
                    (uint32_t[16]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
    conf_roundup_is("[1:1024]", (uint32_t[16]){1024});
}

Test(conf, bad_roundup_divisions)
{
    static const char *const bad[] = {
        "",
        "3",
        "2048",
        "x",
        "[",
        "[]",
        "[256:1",
        "[256]",
        "[256:1,]",
        "[:1]",
        "[256:]",
        "[256:1]x",
        "[300:1]",
        "[0:1]",
        "[65536:1]",
        "[256:3]",
        "[256:1:2]",
        "[512:1,256:2]",
        "[256:1,256:2]",
        "[>:2,256:1]",
        "[>:2,>:4]",
        "[256:1,>:5]",
        "[a:1]",
        "]",
        "[111111111111111111111111111:1]",
    };
    char text[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "roundup_power2_divisions:%s", bad[i]);
        conf_refuses(text, "roundup_power2_divisions:", "[256:1,512:2,>:4]");
    }
}

Test(conf, a_list_ends_where_its_bracket_closes)
{
    weir_conf conf = conf_read("roundup_power2_divisions:[256:1,512:2],limit_mb:7");
    cr_assert_eq(conf.limit.bytes, 7 * MIB);
    cr_assert_eq(conf.pool.roundup_divisions[9], 2);
}

Test(conf, misspelt_keys_are_named_with_the_nearest)
{
    conf_refuses("expandeable_segments:True", "expandeable_segments:True",
                 "key is expandable_segments");
    conf_refuses("limti_mb:5", "limti_mb:5", "key is limit_mb");
    conf_refuses("Limit:5M", "Limit:5M", "key is limit");
    conf_refuses("max_split_size:128", "max_split_size:128", "key is max_split_size_mb");
    conf_refuses("garbage_collection_treshold:0.8", "garbage_collection_treshold:0.8",
                 "key is garbage_collection_threshold");
    conf_refuses("max_split_size_mb:128,mvoes:true", "mvoes:true", "key is moves");
    char text[3000];
    memset(text, 'k', sizeof text);
    memcpy(text + sizeof text - 3, ":1", 3);
    conf_refuses(text, "kkkk", "key is ");
}

Test(conf, keys_without_counterpart_say_why)
{
    conf_refuses("max_non_split_rounding_mb:64", "max_non_split_rounding_mb:64", "take it out");
    conf_refuses("pinned_use_cuda_host_register:True", "pinned_use_cuda_host_register:True",
                 "no pinned host memory");
    conf_refuses("pinned_num_register_threads:8", "pinned_num_register_threads:8", "take it out");
    conf_refuses("pinned_use_background_threads:True", "pinned_use_background_threads:True",
                 "take it out");
    conf_refuses("pinned_reserve_segment_size_mb:64", "pinned_reserve_segment_size_mb:64",
                 "take it out");
    conf_refuses("graph_capture_record_stream_reuse:True", "graph_capture_record_stream_reuse:True",
                 "domain");
    conf_refuses("throw_on_cudamalloc_oom:False", "throw_on_cudamalloc_oom:False", "take it out");
    conf_read("release_lock_on_cudamalloc:True");
    conf_refuses("release_lock_on_cudamalloc:False", "release_lock_on_cudamalloc:False",
                 "release_lock_on_cudamalloc:true");
    conf_refuses("release_lock_on_cudamalloc:x", "release_lock_on_cudamalloc:x",
                 "release_lock_on_cudamalloc:true");
}

Test(conf, entries_that_are_no_entries)
{
    conf_refuses("limit_mb=512", "limit_mb=512", "key is limit_mb:");
    conf_refuses("moves", "moves", "key is moves:");
    conf_refuses(":5", ":5", "key:value");
    conf_refuses("limit_mb:5,", "empty", "comma");
    conf_refuses(",limit_mb:5", "empty", "comma");
    conf_refuses("limit_mb:5,,moves:true", "empty", "comma");
    conf_refuses("limit_mb:5\a", "character 11", "ASCII");
    conf_refuses("limit_mb:5\xc3\xa9", "character 11", "ASCII");
    char text[5001];
    memset(text, 'x', 5000);
    text[5000] = '\0';
    conf_refuses(text, "longer than 4095", "take some out");
}

Test(conf, the_longest_line_is_read_and_blanks_do_not_count)
{
    char text[9000];
    memset(text, ' ', sizeof text);
    memcpy(text, "limit_mb:", 9);
    memcpy(text + sizeof text - 2, "5", 2);
    cr_assert_eq(conf_read(text).limit.bytes, 5 * MIB);
    memset(text, '0', 4095);
    memcpy(text, "limit_mb:", 9);
    memcpy(text + 4094, "5", 2);
    cr_assert_eq(conf_read(text).limit.bytes, 5 * MIB);
}

Test(conf, keys_given_twice)
{
    conf_refuses("limit_mb:5,limit_mb:5", "limit_mb:5 comes after", "keep one");
    conf_refuses("moves:true,limit_mb:5,moves:false", "moves:false comes after", "keep one");
    conf_refuses("limit_mb:5,limit:5M", "limit_mb, limit", "keep one");
    conf_refuses("limit_mb:5,per_process_memory_fraction:0.5", "per_process_memory_fraction",
                 "keep one");
}

Test(conf, contradictions)
{
    conf_refuses("expandable_segments:false", "initial_pool_size_mb", "expandable_segments:true");
    conf_refuses("expandable_segments:false,initial_pool_size_mb:0", "initial_pool_size_mb",
                 "expandable_segments:true");
    conf_read("expandable_segments:false,initial_pool_size_mb:10%");
    conf_refuses("source:async,backend:sim", "source:async", "backend:cuda");
    conf_refuses("backend:host,source:malloc", "backend:host", "backend:cuda");
    conf_read("backend:sim,source:vmm");
    conf_refuses("moves:false,move_above:1.1", "move_above", "moves:false");
    conf_refuses("move_above:1.1,source:malloc", "move_above", "source:vmm");
    conf_refuses("limit_mb:100,initial_pool_size_mb:101", "initial_pool_size_mb:101",
                 "initial_pool_size_mb:100");
    conf_refuses("limit_mb:40%,initial_pool_size_mb:41%", "initial_pool_size_mb:41%",
                 "initial_pool_size_mb:40%");
    conf_read("limit_mb:100,initial_pool_size_mb:100");
    conf_read("limit_mb:40%,initial_pool_size_mb:40%");
    conf_read("limit_mb:40%,initial_pool_size_mb:99999");
    conf_read("initial_pool_size_mb:41%,limit_mb:5");
}

Test(conf, a_later_text_reads_over_an_earlier_one)
{
    weir_conf conf = conf_read("limit_mb:40%,moves:false");
    char error[WEIR_CONF_ERROR_BYTES];
    cr_assert_eq(weir_conf_parse(&conf, "limit:8M", error), WEIR_OK);
    cr_assert_eq(conf.limit.bytes, 8 * MIB);
    cr_assert_eq(conf.limit.permille, 0);
    cr_assert(conf.pool.no_moves);
    cr_assert_eq(weir_conf_parse(&conf, "move_above:1.5", error), WEIR_INVALID);
    cr_assert_eq(weir_conf_parse(&conf, "per_process_memory_fraction:0.25", error), WEIR_OK);
    cr_assert_eq(conf.limit.bytes, 0);
    cr_assert_eq(conf.limit.permille, 250);
}
