/* SPDX-License-Identifier: MIT */
/*
 * Field reports of suballocators (VMA, D3D12MA, TLSF, OffsetAllocator, Umpire, CUB, gpu-alloc) and of
 * the unified memory framework, tried on Weir. README.md of this folder lists all reports.
 */
#include "rig.h"

#include "base.h"

/* The provider was told to free zero bytes, failed, and the memory leaked. Each segment is given
 * back with the size it was taken with; the simulator stops at any other
 * (oneapi-src/unified-memory-framework#481, #63). */
static void um01_mixed(bool no_virtual)
{
    enum { SLOTS = 64 };
    weir_addr addr[SLOTS] = {0};
    uint32_t random = 1;
    rig r;
    rig_open(&r, (weir_sim_config){.no_virtual = no_virtual, .lag_us = 3},
             (weir_config){.keep_bounded = true});
    for (unsigned i = 0; i < 10000; i++) {
        unsigned slot = rig_random(&random) % SLOTS;
        weir_request request = rig_request(&r, slot % RIG_STREAMS, rig_random(&random) % (6 * MIB));
        request.align = UINT64_C(1) << rig_random(&random) % 22;
        if (slot % 3 == 0) request.bytes %= 5000;
        if (addr[slot] != 0) rig_free(&r, addr[slot], rig_random(&random) % RIG_STREAMS);
        EXPECT_OK(weir_alloc(r.pool, &request, &addr[slot]));
        if (i % 100 == 0) EXPECT_OK(weir_finish(r.pool, WEIR_FOREVER));
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (addr[i] != 0) rig_free(&r, addr[i], i % RIG_STREAMS);
    rig_close(&r);
}

Test(field_sa, um_01_the_device_gets_back_what_it_gave_in_segments)
{
    um01_mixed(true);
}

Test(field_sa, um_01_the_device_gets_back_what_it_gave_in_handles)
{
    um01_mixed(false);
}

/* Sizes near the end of 64 bits wrapped when they were rounded up. Each is refused, and nothing is
 * in use afterwards (oneapi-src/unified-memory-framework#587, mattconte/tlsf#22). */
Test(field_sa, um_06_sizes_near_the_end_of_64_bits_are_refused)
{
    static const uint64_t sizes[] = {
        UINT64_MAX,        UINT64_MAX - 1,    UINT64_MAX - 255, UINT64_MAX - GRANULE + 1,
        UINT64_C(1) << 63, UINT64_MAX - 4095, (uint64_t)-8,     UINT64_C(1) << 46,
        UINT64_MAX / 2};
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.roundup_divisions = {4, 4}});
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        weir_addr addr = 1;
        weir_request request = rig_request(&r, 0, sizes[i]);
        EXPECT_STATUS(rig_try(&r, 0, sizes[i], &addr), WEIR_NO_MEMORY);
        EXPECT_STATUS(weir_alloc(r.pool, &request, &addr), WEIR_NO_MEMORY);
        request.align = 8192;
        EXPECT_STATUS(weir_alloc(r.pool, &request, &addr), WEIR_NO_MEMORY);
        cr_expect_eq(addr, 1, "a result was written");
    }
    cr_expect_eq(rig_stats(&r).fails, 3 * sizeof(sizes) / sizeof(sizes[0]));
    cr_expect_eq(rig_oom(&r).asked_bytes, UINT64_MAX / 2);
    cr_expect_gt(rig_oom(&r).short_bytes, UINT64_C(1) << 62);
    cr_expect_eq(rig_stats(&r).allocated.current, 0);
    cr_expect_eq(rig_stats(&r).reserved.current, 0);
    rig_close(&r);
}

/* A pool poisoned device memory with a host sanitizer. The simulated addresses are no host memory:
 * one touch would fault (oneapi-src/unified-memory-framework#634, #1119). */
Test(field_sa, um_10_the_pool_never_touches_what_it_manages)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 10; i++) rig_free(&r, rig_alloc(&r, 0, MIB), 0);
    rig_close(&r);
}

/* The index of a free list lay beyond their number. The sizes of the report, then each size from 1
 * to 4096 between live neighbours (GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator#231, #230). */
Test(field_sa, sa_01_every_small_size_finds_its_bin)
{
    rig r;
    weir_addr fence[2];
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 50331648, .unit_bytes = 64});
    weir_addr a = rig_alloc(&r, 0, 576), b = rig_alloc(&r, 0, 648);
    rig_free(&r, a, 0);
    a = rig_alloc(&r, 0, 720);
    rig_free(&r, a, 0);
    rig_free(&r, b, 0);
    for (uint64_t bytes = 1; bytes <= 4096; bytes++) {
        fence[0] = rig_alloc(&r, 0, 64);
        a = rig_alloc(&r, 0, bytes);
        fence[1] = rig_alloc(&r, 0, 64);
        rig_free(&r, a, 0);
        cr_expect_eq(rig_alloc(&r, 0, bytes), a, "%llu bytes", (unsigned long long)bytes);
        rig_free(&r, a, 0);
        rig_free_all(&r, fence, 2, 0);
        if (bytes % 256 == 0) rig_check(&r);
    }
    cr_expect_eq(rig_stats(&r).segments.total, 1);
    rig_close(&r);
}

/* A size of 32400 fell into class 42 instead of 7: a bit scan gave another result with one compiler
 * (GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator#367). */
static uint32_t sa02_naive(uint64_t value)
{
    uint32_t high = 0;
    while ((value >>= 1) != 0) high++;
    return high;
}

Test(field_sa, sa_02_bit_scans_agree_with_a_loop)
{
    for (uint32_t k = 0; k < 64; k++)
        for (unsigned d = 0; d < 3; d++) {
            uint64_t value = (UINT64_C(1) << k) + d - 1;
            if (value != 0) cr_expect_eq(weir_bit_high(value), sa02_naive(value));
        }
    cr_expect_eq(weir_bit_high(32400), 14);
}

Test(field_sa, sa_02_size_classes_rise_with_size)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (uint32_t k = 9; k < 30; k++)
        for (unsigned d = 0; d < 3; d++) {
            uint64_t bytes = (UINT64_C(1) << k) + d - 1;
            weir_addr addr = rig_alloc(&r, 0, bytes);
            uint32_t wanted = sa02_naive(bytes | 512) - 9;
            cr_expect_eq(rig_stats(&r).by_class[wanted].current, 1, "%llu bytes",
                         (unsigned long long)bytes);
            rig_free(&r, addr, 0);
        }
    rig_close(&r);
}

/* Guard bytes around blocks broke the merge of free neighbours. A hundred blocks, freed upwards,
 * downwards and in a mixed order, leave one free run as long as the pool
 * (GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator#276). */
Test(field_sa, sa_03_neighbours_merge_in_any_order_of_frees)
{
    enum { BLOCKS = 100 };
    rig r;
    weir_addr addr[BLOCKS];
    rig_open(&r, (weir_sim_config){0}, (weir_config){.initial_bytes = GRANULE, .small_bytes = 512});
    for (unsigned order = 0; order < 3; order++) {
        for (unsigned i = 0; i < BLOCKS; i++) addr[i] = rig_alloc(&r, 0, 1000);
        for (unsigned i = 0; i < BLOCKS; i++) {
            unsigned which = order == 0 ? i : order == 1 ? BLOCKS - 1 - i : i * 37 % BLOCKS;
            rig_free(&r, addr[which], 0);
        }
        rig_sums sums = rig_walk(&r);
        EXPECT_OK(weir_finish(r.pool, WEIR_FOREVER));
        cr_expect_eq(sums.live_blocks, 0);
        cr_expect_eq(rig_alloc(&r, 0, GRANULE), addr[0], "order %u", order);
        rig_free(&r, addr[0], 0);
        sums = rig_walk(&r);
        cr_expect_eq(sums.free_blocks, 1);
        cr_expect_eq(sums.longest_free, GRANULE);
    }
    rig_close(&r);
}

/* The driver was asked for 16,777,224 bytes of a heap of 16,777,216, and reported a budget of
 * 16 EiB. Up to the limit every byte can be had; past it the device is not even asked
 * (GPUOpen-LibrariesAndSDKs/VulkanMemoryAllocator#157, #229, gpu-allocator#60). */
static void sa05_exact(weir_sim_config device, weir_config config)
{
    rig r;
    weir_addr addr;
    rig_open(&r, device, config);
    weir_addr all = rig_alloc(&r, 0, 16 * MIB);
    rig_free(&r, all, 0);
    uint64_t creates = rig_count(&r, WEIR_SIM_handle_create);
    EXPECT_STATUS(rig_try(&r, 0, 16 * MIB + 8, &addr), WEIR_NO_MEMORY);
    cr_expect_geq(rig_oom(&r).short_bytes, 8);
    if (device.memory_bytes != 0) cr_expect_leq(rig_oom(&r).device_free_bytes, 16 * MIB);
    if (config.limit_bytes != 0) cr_expect_eq(rig_count(&r, WEIR_SIM_handle_create), creates);
    all = rig_alloc(&r, 0, 16 * MIB);
    rig_free(&r, all, 0);
    rig_close(&r);
}

Test(field_sa, sa_05_a_request_past_the_limit_asks_the_device_for_nothing)
{
    sa05_exact((weir_sim_config){0}, (weir_config){.limit_bytes = 16 * MIB});
}

Test(field_sa, sa_05_a_request_past_the_device_is_an_oom)
{
    sa05_exact((weir_sim_config){.memory_bytes = 16 * MIB}, (weir_config){0});
}

Test(field_sa, sa_05_a_device_that_lies_about_its_size_is_survived)
{
    sa05_exact((weir_sim_config){.memory_bytes = 16 * MIB, .lies = true}, (weir_config){0});
}

/* Compaction of 18,000 allocations took 45 ms a pass and did not end. A trim gives back what was
 * asked for and then stops: its device calls follow the bytes, not the blocks
 * (GPUOpen-LibrariesAndSDKs/D3D12MemoryAllocator#91). */
Test(field_sa, sa_09_a_small_trim_is_a_few_calls_among_many_blocks)
{
    enum { BLOCKS = 18000 };
    static weir_addr addr[BLOCKS];
    rig r;
    uint64_t released = 0;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.growth_bytes = GRANULE});
    for (unsigned i = 0; i < BLOCKS; i++) addr[i] = rig_alloc(&r, 0, 80 * KIB);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % 128 < 64) rig_free(&r, addr[i], 0);
    weir_stats before = rig_stats(&r);
    cr_assert_gt(before.segments.current, 600);
    EXPECT_OK(weir_trim(r.pool, before.reserved.current - 10 * GRANULE, WEIR_FOREVER, &released));
    cr_expect_eq(released, 10 * GRANULE);
    cr_expect_eq(rig_stats(&r).unmaps - before.unmaps, 10);
    cr_expect_eq(rig_stats(&r).releases - before.releases, 10);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % 128 >= 64) rig_free(&r, addr[i], 0);
    rig_close(&r);
}

/* A capacity of two allocations allowed fewer than two. Exactly max_blocks are allowed; one more is
 * NO_METADATA, until one is freed (sebbbi/OffsetAllocator#3, #10). */
Test(field_sa, sa_10_exactly_max_blocks_can_be_live)
{
    static const uint32_t caps[] = {1, 2, 3, 1024};
    static weir_addr addr[1024];
    for (unsigned c = 0; c < 4; c++) {
        rig r;
        weir_addr more = 0;
        rig_open(&r, (weir_sim_config){0}, (weir_config){.max_blocks = caps[c]});
        for (unsigned i = 0; i < caps[c]; i++) addr[i] = rig_alloc(&r, 0, 700);
        EXPECT_STATUS(rig_try(&r, 0, 700, &more), WEIR_NO_METADATA);
        rig_free(&r, addr[0], 0);
        addr[0] = rig_alloc(&r, 0, 700);
        EXPECT_STATUS(rig_try(&r, 0, 0, &more), WEIR_NO_METADATA);
        cr_expect_eq(rig_stats(&r).fails, 2);
        rig_free_all(&r, addr, caps[c], 0);
        rig_close(&r);
    }
}

/* 67 units were refused with 69 left, as the search rounded up what the insert had rounded down;
 * rounding both the same way made blocks overlap (sebbbi/OffsetAllocator#11). Here in granules of
 * 4 KiB, then at random with the oracle watching. */
Test(field_sa, sa_11_what_is_left_can_be_had)
{
    rig r;
    rig_open(&r, (weir_sim_config){.granule_bytes = 4 * KIB},
             (weir_config){.limit_bytes = 324 * 4 * KIB, .small_bytes = 64, .unit_bytes = 4 * KIB});
    weir_addr a = rig_alloc(&r, 0, 255 * 4 * KIB), b = rig_alloc(&r, 0, 67 * 4 * KIB);
    weir_addr c = rig_alloc(&r, 0, 2 * 4 * KIB);
    rig_free(&r, a, 0);
    rig_free(&r, b, 0);
    rig_free(&r, c, 0);
    rig_close(&r);
}

Test(field_sa, sa_11_random_sizes_never_overlap)
{
    enum { SLOTS = 100 };
    weir_addr addr[SLOTS] = {0};
    uint64_t bytes[SLOTS];
    uint32_t random = 11;
    rig r;
    rig_open(&r, (weir_sim_config){.granule_bytes = 4 * KIB},
             (weir_config){.limit_bytes = 324 * 4 * KIB, .unit_bytes = 64});
    for (unsigned i = 0; i < 20000; i++) {
        unsigned slot = rig_random(&random) % SLOTS;
        if (addr[slot] != 0) {
            rig_read(&r, 0, addr[slot], bytes[slot], slot);
            rig_free(&r, addr[slot], 0);
            addr[slot] = 0;
            continue;
        }
        bytes[slot] = 1 + rig_random(&random) % (UINT64_C(64) << rig_random(&random) % 12);
        if (rig_try(&r, 0, bytes[slot], &addr[slot]) != WEIR_OK) continue;
        rig_write(&r, 0, addr[slot], bytes[slot], slot);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (addr[i] != 0) rig_free(&r, addr[i], 0);
    rig_close(&r);
}

/* A request of SIZE_MAX became a block of 12 bytes, in realloc too. A resize to such a size is
 * refused and the block stays as it was (mattconte/tlsf#22, redis/redis#9681). */
Test(field_sa, sa_14_a_resize_to_a_size_that_wraps_is_refused)
{
    static const uint64_t sizes[] = {UINT64_MAX, (uint64_t)-8, UINT64_C(1) << 63, UINT64_MAX - 511};
    rig r;
    weir_block block;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    weir_addr a = rig_alloc(&r, 0, 300000);
    for (unsigned i = 0; i < 4; i++) {
        EXPECT_STATUS(weir_resize(r.pool, a, sizes[i]), WEIR_NO_MEMORY);
        EXPECT_OK(weir_block_find(r.pool, a, &block));
        cr_expect_eq(block.requested_bytes, 300000);
    }
    EXPECT_OK(weir_resize(r.pool, a, UINT64_C(0xffffffff)));
    EXPECT_OK(weir_block_find(r.pool, a, &block));
    cr_expect_geq(block.bytes, UINT64_C(0xffffffff));
    rig_free(&r, a, 0);
    rig_close(&r);
}

/* A realloc that moved the block lost its alignment. A resize never moves it: it grows in place or
 * is refused (mattconte/tlsf#36). */
Test(field_sa, sa_16_a_resize_keeps_address_alignment_and_contents)
{
    static const uint64_t aligns[] = {128, GRANULE};
    for (unsigned i = 0; i < 2; i++) {
        rig r;
        weir_addr a = 0;
        weir_block block;
        rig_open(&r, (weir_sim_config){0}, (weir_config){0});
        weir_request request = rig_request(&r, 0, 1000);
        request.align = aligns[i];
        EXPECT_OK(weir_alloc(r.pool, &request, &a));
        rig_write(&r, 0, a, 1000, 5);
        EXPECT_OK(weir_resize(r.pool, a, 4000));
        EXPECT_OK(weir_block_find(r.pool, a, &block));
        cr_expect_eq(block.addr % aligns[i], 0);
        cr_expect_eq(block.requested_bytes, 4000);
        weir_addr next = rig_alloc(&r, 0, 1000);
        if (next == a + block.bytes) EXPECT_STATUS(weir_resize(r.pool, a, 8000), WEIR_NO_MEMORY);
        rig_read(&r, 0, a, 1000, 5);
        rig_free(&r, next, 0);
        rig_free(&r, a, 0);
        rig_close(&r);
    }
}

/* The total of free bytes was not updated on every way out, and underflowed at the end. After each
 * operation the sums are those of a walk, padding for alignment included
 * (zakarumych/gpu-alloc#44, #45). */
Test(field_sa, sa_19_sums_match_a_walk_after_each_operation)
{
    enum { SLOTS = 48 };
    weir_addr addr[SLOTS] = {0};
    uint32_t random = 19;
    rig r;
    rig_open(&r, (weir_sim_config){.lag_us = 5}, (weir_config){.limit_bytes = 256 * MIB});
    for (unsigned i = 0; i < 4000; i++) {
        unsigned slot = rig_random(&random) % SLOTS;
        weir_request request = rig_request(&r, slot % RIG_STREAMS, rig_random(&random) % (4 * MIB));
        request.align = UINT64_C(1) << rig_random(&random) % 22;
        if (addr[slot] != 0) rig_free(&r, addr[slot], rig_random(&random) % RIG_STREAMS);
        addr[slot] = 0;
        weir_status status = weir_alloc(r.pool, &request, &addr[slot]);
        cr_expect(status == WEIR_OK || status == WEIR_NO_MEMORY);
        rig_sums sums = rig_walk(&r);
        weir_stats stats = rig_stats(&r);
        cr_assert_eq(sums.live, stats.allocated.current);
        cr_assert_eq(sums.requested, stats.requested.current);
        cr_assert_eq(sums.live_blocks, stats.blocks.current);
        cr_assert_eq(sums.live + sums.free_mapped + stats.idle_bytes,
                     stats.reserved.current + stats.shadowed_bytes, "operation %u", i);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (addr[i] != 0) rig_free(&r, addr[i], 0);
    rig_close(&r);
}

/* One figure counted requested bytes, another aligned ones, so the pool never had enough and took
 * memory in every round. After two rounds no more is taken (llnl/Umpire#906, #908). */
static void sa20_rounds(uint64_t bytes)
{
    rig r;
    uint64_t creates = 0;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 5; i++) {
        weir_addr p1 = rig_alloc(&r, 0, bytes), p2 = rig_alloc(&r, 0, bytes);
        rig_free(&r, p2, 0);
        rig_free(&r, p1, 0);
        if (i == 1) creates = rig_count(&r, WEIR_SIM_handle_create);
    }
    cr_expect_eq(rig_count(&r, WEIR_SIM_handle_create), creates);
    rig_close(&r);
}

Test(field_sa, sa_20_equal_rounds_stop_taking_memory)
{
    sa20_rounds(1032);
    sa20_rounds(MIB + MIB / 4);
}

/* A free coalesced by a new large allocation, at teardown, and ran out of memory. A free and a
 * destroy take nothing from the device: all that could give memory fails meanwhile
 * (llnl/Umpire#844). */
Test(field_sa, sa_22_frees_and_destroy_take_nothing_from_the_device)
{
    static const weir_sim_call takes[] = {WEIR_SIM_va_reserve, WEIR_SIM_handle_create, WEIR_SIM_map,
                                          WEIR_SIM_set_access};
    static weir_addr addr[1000];
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 1000; i++) addr[i] = rig_alloc(&r, i % RIG_STREAMS, 1 + i * 997);
    weir_sim_totals before = rig_totals(&r);
    for (unsigned i = 0; i < 4; i++) weir_sim_fail(r.sim, takes[i], 1, true, WEIR_NO_MEMORY);
    for (unsigned i = 0; i < 1000; i++) rig_free(&r, addr[i], (i + 1) % RIG_STREAMS);
    rig_close_pool(&r);
    for (unsigned i = 0; i < 4; i++) cr_expect_eq(rig_count(&r, takes[i]), before.count[takes[i]]);
    rig_close_device(&r);
}

/* On an exhausted device the allocator crashed instead of answering. Three refusals in a row with
 * cached blocks of mixed sizes about, then one free and all is well (NVIDIA/cub#705). */
Test(field_sa, sa_25_refusals_in_a_row_leave_the_pool_usable)
{
    rig r;
    weir_addr addr[64], more;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){0});
    for (unsigned i = 0; i < 24; i++) addr[i] = rig_alloc(&r, 1, (i + 1) * 900 * KIB);
    rig_free_all(&r, addr, 24, 1);
    unsigned count = rig_fill(&r, 0, 64 * MIB, addr, 64);
    cr_expect_geq(count, 15);
    for (unsigned i = 0; i < 3; i++) EXPECT_STATUS(rig_try(&r, 0, 64 * MIB, &more), WEIR_NO_MEMORY);
    cr_expect_eq(rig_stats(&r).fails, 4);
    rig_free(&r, addr[0], 0);
    addr[0] = rig_alloc(&r, 0, 64 * MIB);
    rig_free_all(&r, addr, count, 0);
    rig_close(&r);
}

/* Logging looked at a record after it was erased. An observer that asks the pool about every record
 * sees live blocks only, and changes no address (NVIDIA/cub#45). */
static void sa26_ask(void *self, const weir_record *record)
{
    weir_pool *const *pool = (weir_pool *const *)self;
    weir_block block;
    if (record->what == WEIR_DID_ALLOC) {
        EXPECT_OK(weir_block_find(*pool, record->addr, &block));
        cr_expect_eq(block.requested_bytes, record->bytes);
    }
    if (record->what == WEIR_DID_FREE)
        EXPECT_STATUS(weir_block_find(*pool, record->addr, &block), WEIR_NOT_FOUND);
}

static uint64_t sa26_run(weir_observer observer)
{
    enum { SLOTS = 64 };
    weir_addr addr[SLOTS] = {0};
    uint32_t random = 26;
    uint64_t hash = 0;
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 64 * MIB});
    weir_observer_set(r.pool, observer, &r.pool);
    for (unsigned i = 0; i < 5000; i++) {
        unsigned slot = rig_random(&random) % SLOTS;
        uint64_t bytes = rig_random(&random) % (3 * MIB);
        if (addr[slot] != 0) rig_free(&r, addr[slot], slot % RIG_STREAMS);
        addr[slot] = 0;
        (void)rig_try(&r, slot % RIG_STREAMS, bytes, &addr[slot]);
        hash = hash * 31 + addr[slot];
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (addr[i] != 0) rig_free(&r, addr[i], 0);
    rig_close(&r);
    return hash;
}

Test(field_sa, sa_26_an_observer_sees_live_blocks_and_changes_nothing)
{
    cr_expect_eq(sa26_run(sa26_ask), sa26_run(NULL));
}

/* The figure for what could be released was wrong. What a trim says it gave back is what the device
 * got, and with three partly used segments exactly the free ones go (llnl/Umpire#491). */
Test(field_sa, sa_27_a_trim_gives_back_what_it_says)
{
    rig r;
    weir_addr part[3], whole[5];
    uint64_t released = 0;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.growth_bytes = GRANULE});
    for (unsigned i = 0; i < 3; i++) part[i] = rig_alloc(&r, 0, GRANULE);
    for (unsigned i = 0; i < 5; i++) whole[i] = rig_alloc(&r, 0, GRANULE);
    for (unsigned i = 0; i < 3; i++) EXPECT_OK(weir_resize(r.pool, part[i], MIB));
    rig_free_all(&r, whole, 5, 0);
    uint64_t held = rig_totals(&r).held_bytes;
    EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, &released));
    cr_expect_eq(released, 5 * GRANULE);
    cr_expect_eq(rig_totals(&r).held_bytes, held - released);
    cr_expect_eq(rig_reserved(&r), 3 * GRANULE);
    rig_free_all(&r, part, 3, 0);
    rig_close(&r);
}
