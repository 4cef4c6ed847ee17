/* SPDX-License-Identifier: MIT */
/*
 * Field reports of users of virtual memory (vLLM, kvcached, llama.cpp, torch_memory_saver), of
 * exporters and of snapshots, as far as a pool alone answers them. README.md of this folder lists all
 * reports.
 */
#include "rig.h"

/* A free unmapped at once while kernels still ran. While the stream is held no trim unmaps, and when
 * it has gone on one does (vllm-project/vllm#43020). */
Test(field_vm, vm_03_nothing_is_unmapped_under_running_work)
{
    rig r;
    uint64_t released = 1;
    const uint64_t bytes = UINT64_C(2048) * 7168 * 4;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 200; i++) {
        weir_addr x = rig_alloc(&r, 1, bytes);
        weir_sim_stall(r.sim, r.native[1]);
        rig_write(&r, 1, x, bytes, i);
        rig_free(&r, x, 1);
        uint64_t unmaps = rig_count(&r, WEIR_SIM_unmap);
        EXPECT_OK(weir_trim(r.pool, 0, 0, &released));
        cr_expect_eq(released, 0);
        cr_expect_eq(rig_count(&r, WEIR_SIM_unmap), unmaps);
        weir_sim_go(r.sim, r.native[1]);
        weir_sim_sync(r.sim, 0);
        EXPECT_OK(weir_trim(r.pool, 0, 0, &released));
        cr_expect_geq(released, bytes);
        cr_expect_eq(rig_reserved(&r), 0);
    }
    rig_close(&r);
}

/* Unmapping gave nothing back to the device. What a trim reports is measured at the device; what the
 * device keeps is not reported as released but as quarantined (torch_memory_saver#83, #84). */
Test(field_vm, vm_10_what_the_device_keeps_is_not_reported_as_released)
{
    rig r;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){.growth_bytes = GRANULE});
    rig_free(&r, rig_alloc(&r, 0, 20 * MIB), 0);
    uint64_t before = rig_totals(&r).held_bytes, released = 0;
    EXPECT_OK(weir_trim(r.pool, 10 * MIB, WEIR_FOREVER, &released));
    cr_expect_eq(before - rig_totals(&r).held_bytes, released);
    weir_sim_fail(r.sim, WEIR_SIM_unmap, 1, true, WEIR_DEVICE);
    uint64_t held = rig_totals(&r).held_bytes;
    EXPECT_STATUS(weir_trim(r.pool, 0, WEIR_FOREVER, &released), WEIR_DEVICE);
    cr_expect_eq(rig_totals(&r).held_bytes, held);
    cr_expect_eq(rig_reserved(&r), held);
    cr_expect_neq(weir_native_error(r.pool), 0);
    weir_sim_fail(r.sim, WEIR_SIM_unmap, 0, false, WEIR_OK);
    rig_free(&r, rig_alloc(&r, 0, held), 0);
    EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, &released));
    cr_expect_eq(released, held);
    rig_close(&r);
}

/* The check said 76 pages were there, another process took them, and the allocation's failure killed
 * the engine. A failure after such a check is an ordinary out of memory (ovg-project/kvcached#262). */
Test(field_vm, vm_13_memory_that_went_after_the_check_is_a_plain_oom)
{
    rig r;
    uint64_t device_free = 0, total = 0;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){0});
    for (unsigned i = 0; i < 20; i++) {
        weir_sim_tenant(r.sim, 0);
        EXPECT_OK(weir_sim_ops(r.sim)->memory_info(r.sim, &device_free, &total));
        cr_assert_geq(device_free + rig_reserved(&r), 76 * GRANULE);
        weir_sim_tenant(r.sim, GIB - 76 * GRANULE + GRANULE * (1 + i % 8) - rig_reserved(&r));
        EXPECT_STATUS(rig_try(&r, 0, 76 * GRANULE, &addr), WEIR_NO_MEMORY);
        cr_expect_gt(rig_oom(&r).short_bytes, 0);
        rig_check(&r);
        rig_check_counts(&r);
    }
    weir_sim_tenant(r.sim, 0);
    rig_free(&r, rig_alloc(&r, 0, 76 * GRANULE), 0);
    rig_close(&r);
}

/* Free memory below the headroom came out as a huge number. Where another user holds more than is
 * left, the report says 0 free and a shortage that makes sense (ovg-project/kvcached#371). */
Test(field_vm, vm_16_no_figure_wraps_on_an_overbooked_device)
{
    rig r;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){.memory_bytes = 64 * MIB},
             (weir_config){.limit_bytes = 32 * MIB});
    weir_addr live = rig_alloc(&r, 0, 24 * MIB);
    weir_sim_tenant(r.sim, 80 * MIB);
    EXPECT_OK(weir_limit_set(r.pool, 8 * MIB)); /* below what is live */
    EXPECT_STATUS(rig_try(&r, 0, 16 * MIB, &addr), WEIR_NO_MEMORY);
    weir_oom oom = rig_oom(&r);
    cr_expect_eq(oom.device_free_bytes, 0);
    cr_expect_eq(oom.short_bytes, 16 * MIB);
    cr_expect_eq(oom.limit_bytes, 8 * MIB);
    rig_free(&r, live, 0);
    EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, NULL));
    EXPECT_OK(weir_limit_set(r.pool, 32 * MIB));
    rig_close(&r);
}

/* A fixed reservation of 32 or 64 GiB of addresses failed on small devices, and aborted. A smaller
 * one is tried, down to what the request needs (ggml-org/llama.cpp#4680, node-llama-cpp#580). */
Test(field_vm, vm_18_a_refused_address_range_is_tried_smaller)
{
    rig r;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){.memory_bytes = 24 * GIB, .va_bytes = 8 * GIB, .lies = true},
             (weir_config){.va_bytes = 64 * GIB});
    weir_addr a = rig_alloc(&r, 0, 4 * GIB);
    cr_expect_gt(rig_count(&r, WEIR_SIM_va_reserve), 1);
    EXPECT_STATUS(rig_try(&r, 0, 16 * GIB, &addr), WEIR_NO_MEMORY);
    rig_free(&r, a, 0);
    rig_close(&r);
}

/* A constant of 32 GB broke a device of 64. With va_bytes of 32 GiB, 40 GiB are served from a second
 * range (ggml-org/llama.cpp#23094). */
Test(field_vm, vm_19_more_than_one_address_range_is_used_when_needed)
{
    rig r;
    weir_addr addr[10];
    rig_open(&r, (weir_sim_config){.memory_bytes = 64 * GIB}, (weir_config){.va_bytes = 32 * GIB});
    for (unsigned i = 0; i < 10; i++) addr[i] = rig_alloc(&r, 0, 4 * GIB);
    cr_expect_eq(rig_count(&r, WEIR_SIM_va_reserve), 2);
    for (unsigned i = 0; i < 10; i++) rig_write(&r, 0, addr[i], 4 * GIB, i);
    for (unsigned i = 0; i < 10; i++) rig_read(&r, 0, addr[i], 4 * GIB, i);
    rig_check(&r);
    rig_free_all(&r, addr, 10, 0);
    rig_close(&r);
}

/* One device's memory summed over several series came out more than once. Two pools on one device
 * and three domains: what the pools reserve is what the device holds, what the domains use is what the
 * pool has allocated (NVIDIA/dcgm-exporter#725). */
typedef struct by_domain {
    weir_domain domain[3];
    uint64_t bytes[3], other;
} by_domain;

static bool mx03_block(void *self, const weir_block *block)
{
    by_domain *by = (by_domain *)self;
    unsigned i = 0;
    if (!block->live) return true;
    while (i < 3 && by->domain[i] != block->domain) i++;
    if (i < 3) by->bytes[i] += block->bytes;
    else by->other += block->bytes;
    return true;
}

Test(field_vm, mx_03_sums_over_pools_and_domains_count_once)
{
    rig one;
    weir_pool *two = NULL;
    weir_stream stream;
    weir_addr addr[3], other = 0;
    by_domain by;
    memset(&by, 0, sizeof(by));
    rig_open(&one, (weir_sim_config){0}, (weir_config){0});
    weir_config config = rig_config(&one, (weir_config){0});
    weir_platform *platform = weir_platform_create(false);
    config.platform = platform;
    cr_assert_eq(weir_pool_create(&config, &two), WEIR_OK);
    weir_stream_desc desc = {.size = sizeof(desc), .native = one.native[0], .unique = 1};
    EXPECT_OK(weir_stream_attach(two, &desc, &stream));
    EXPECT_OK(weir_alloc_on(two, stream, 30 * MIB, &other));
    for (unsigned i = 0; i < 3; i++) {
        weir_request request = rig_request(&one, 0, (i + 1) * 3 * MIB);
        EXPECT_OK(weir_domain_create(one.pool, &by.domain[i]));
        request.domain = by.domain[i];
        EXPECT_OK(weir_alloc(one.pool, &request, &addr[i]));
    }
    weir_stats second = {.size = sizeof(second)};
    weir_stats_read(two, &second);
    cr_expect_eq(rig_reserved(&one) + second.reserved.current, rig_totals(&one).held_bytes);
    weir_walk_blocks(one.pool, mx03_block, &by);
    for (unsigned i = 0; i < 3; i++) cr_expect_eq(by.bytes[i], (i + 1) * 3 * MIB);
    cr_expect_eq(by.other, 0);
    cr_expect_eq(by.bytes[0] + by.bytes[1] + by.bytes[2], rig_stats(&one).allocated.current);
    rig_free_all(&one, addr, 3, 0);
    EXPECT_OK(weir_free(two, other, 0));
    EXPECT_OK(weir_pool_destroy(two));
    weir_platform_destroy(platform);
    rig_close(&one);
}

/* The last peak was shown as what is in use. Current and peak are two figures: the one falls to zero,
 * the other stays until it is reset (volcano-vgpu-device-plugin#130, HAMi#128, #1458). */
Test(field_vm, mx_05_current_falls_and_the_peak_stays)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    rig_free(&r, rig_alloc(&r, 0, 40 * MIB), 0);
    EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, NULL));
    weir_stats stats = rig_stats(&r);
    cr_expect_eq(stats.allocated.current, 0);
    cr_expect_eq(stats.reserved.current, 0);
    cr_expect_eq(stats.allocated.peak, 40 * MIB);
    cr_expect_geq(stats.reserved.peak, 40 * MIB);
    weir_stats_reset_peaks(r.pool);
    cr_expect_eq(rig_stats(&r).allocated.peak, 0);
    cr_expect_eq(rig_stats(&r).reserved.peak, 0);
    cr_expect_eq(rig_stats(&r).allocated.total, 40 * MIB);
    rig_close(&r);
}

/* Blocks from before the recording were drawn as new. A late observer hears of their frees; a walk
 * when it starts tells which they are, and the live total comes out right
 * (pytorch/pytorch#179489). */
typedef struct history {
    unsigned allocs, frees, known;
    uint64_t live;
} history;

static bool tr02_known(void *self, const weir_block *block)
{
    history *h = (history *)self;
    h->known += block->live;
    h->live += block->requested_bytes;
    return true;
}

static void tr02_hear(void *self, const weir_record *record)
{
    history *h = (history *)self;
    h->allocs += record->what == WEIR_DID_ALLOC;
    h->frees += record->what == WEIR_DID_FREE;
    if (record->what == WEIR_DID_ALLOC) h->live += record->bytes;
    if (record->what == WEIR_DID_FREE) h->live -= record->bytes;
}

Test(field_vm, tr_02_a_late_observer_ends_with_the_right_total)
{
    rig r;
    history h = {0, 0, 0, 0};
    weir_addr old[100], new[100];
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 100; i++) old[i] = rig_alloc(&r, 0, 1000 * (i + 1));
    weir_walk_blocks(r.pool, tr02_known, &h);
    weir_observer_set(r.pool, tr02_hear, &h);
    cr_expect_eq(h.known, 100);
    rig_free_all(&r, old, 100, 0);
    cr_expect_eq(h.live, 0);
    for (unsigned i = 0; i < 100; i++) new[i] = rig_alloc(&r, 0, 700 * (i + 1));
    cr_expect_eq(h.allocs, 100);
    cr_expect_eq(h.frees, 100);
    cr_expect_eq(h.live, rig_stats(&r).requested.current);
    rig_free_all(&r, new, 100, 0);
    weir_observer_set(r.pool, NULL, NULL);
    rig_close(&r);
}

/* A snapshot was empty because recording had never been turned on. A walk needs no recording
 * (NVIDIA-NeMo/Megatron-Bridge#3487). */
Test(field_vm, tr_04_a_walk_lists_all_blocks_without_any_recording)
{
    rig r;
    weir_addr addr[50];
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 50; i++) addr[i] = rig_alloc(&r, i % RIG_STREAMS, 100 + i * 40000);
    rig_sums sums = rig_walk(&r);
    cr_expect_eq(sums.live_blocks, 50);
    cr_expect_eq(sums.requested, 50 * 100 + UINT64_C(40000) * 49 * 50 / 2);
    for (unsigned i = 0; i < 50; i++) {
        weir_block block;
        EXPECT_OK(weir_block_find(r.pool, addr[i], &block));
        cr_expect_eq(block.stream, r.stream[i % RIG_STREAMS]);
        cr_expect_eq(block.requested_bytes, 100 + i * 40000);
    }
    for (unsigned i = 0; i < 50; i++) EXPECT_OK(weir_free(r.pool, addr[i], 0));
    rig_close(&r);
}
