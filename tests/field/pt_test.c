/* SPDX-License-Identifier: MIT */
/*
 * Field reports of PyTorch's caching allocator, tried on Weir: out of memory, partial failure,
 * capture, streams, provenance. Each test states its scenario and where it was met; README.md of
 * this folder lists them all.
 */
#include "rig.h"

/* Near a full device, mapped segments met the bound for splitting and the pool asserted instead of
 * reporting. 550 MiB are cached, then 110 MiB blocks are kept until the device is full
 * (pytorch/pytorch#119452, #123548). */
static void pt01_fill(weir_config config)
{
    rig r;
    weir_addr kept[64];
    rig_open(&r, (weir_sim_config){.memory_bytes = 4 * GIB}, config);
    rig_free(&r, rig_alloc(&r, 0, 550 * MIB), 0);
    unsigned count = rig_fill(&r, 0, 110 * MIB, kept, 64);
    cr_expect_geq(count, 36, "only %u of 37 blocks fit", count);
    rig_check(&r);
    rig_free_all(&r, kept, count, 0);
    rig_close(&r);
}

Test(field_pt, pt_01_a_full_device_with_max_split_is_a_plain_oom)
{
    pt01_fill((weir_config){.max_split_bytes = 500 * MIB});
}

Test(field_pt, pt_01_a_full_device_with_gc_threshold_is_a_plain_oom)
{
    pt01_fill((weir_config){.limit_bytes = 4 * GIB, .gc_permille = 800});
}

/* The threshold itself: beyond half of the limit, growth first gives back what is free. Without
 * moves the five free pieces of 60 MiB cannot serve 100 MiB, and 300 + 100 MiB are enough. */
Test(field_pt, pt_01_growth_beyond_the_gc_threshold_first_gives_back)
{
    rig r;
    weir_addr pieces[10], big;
    rig_open(&r, (weir_sim_config){0},
             (weir_config){.limit_bytes = 1000 * MIB, .gc_permille = 500, .no_moves = true});
    for (unsigned i = 0; i < 10; i++) pieces[i] = rig_alloc(&r, 0, 60 * MIB);
    for (unsigned i = 0; i < 10; i += 2) rig_free(&r, pieces[i], 0);
    big = rig_alloc(&r, 0, 100 * MIB);
    cr_expect_leq(rig_reserved(&r), 500 * MIB);
    rig_free(&r, big, 0);
    for (unsigned i = 1; i < 10; i += 2) rig_free(&r, pieces[i], 0);
    rig_close(&r);
}

/* The k-th create, map or access of a growth fails. Whatever k, no live block changes, nothing
 * leaks, and the same request succeeds next (pytorch/pytorch#188008). */
static void pt03_fail(weir_sim_call call, uint64_t k, weir_status answer)
{
    rig r;
    weir_addr kept, addr = 0;
    rig_open(&r, (weir_sim_config){0},
             (weir_config){.growth_bytes = GRANULE, .limit_bytes = 64 * MIB});
    kept = rig_alloc(&r, 0, 4 * MIB);
    rig_write(&r, 0, kept, 4 * MIB, 7);
    weir_sim_fail(r.sim, call, k, false, answer);
    uint64_t calls = rig_count(&r, call);
    weir_status status = rig_try(&r, 0, 16 * MIB, &addr);
    bool failed = rig_count(&r, call) - calls >= k;
    if (answer == WEIR_DEVICE)
        cr_expect_eq(status, failed ? WEIR_DEVICE : WEIR_OK, "%s %llu: %s",
                     weir_sim_call_name(call), (unsigned long long)k, weir_status_name(status));
    else cr_expect(status == WEIR_OK || status == WEIR_NO_MEMORY);
    weir_sim_fail(r.sim, call, 0, false, WEIR_OK);
    rig_check(&r);
    rig_check_counts(&r);
    if (status == WEIR_OK) rig_free(&r, addr, 0);
    addr = rig_alloc(&r, 0, 16 * MIB);
    rig_write(&r, 0, addr, 16 * MIB, 8);
    rig_read(&r, 0, kept, 4 * MIB, 7);
    rig_free(&r, addr, 0);
    rig_free(&r, kept, 0);
    rig_close(&r);
}

Test(field_pt, pt_03_a_growth_that_fails_at_any_call_leaves_no_trace)
{
    static const weir_sim_call calls[] = {WEIR_SIM_handle_create, WEIR_SIM_map,
                                          WEIR_SIM_set_access};
    for (unsigned c = 0; c < 3; c++)
        for (uint64_t k = 1; k <= 8; k++) {
            pt03_fail(calls[c], k, WEIR_DEVICE);
            pt03_fail(calls[c], k, WEIR_NO_MEMORY);
        }
}

Test(field_pt, pt_03_a_release_that_fails_is_quarantined_and_counted)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.growth_bytes = GRANULE});
    rig_free(&r, rig_alloc(&r, 0, 16 * MIB), 0);
    weir_sim_fail(r.sim, WEIR_SIM_handle_release, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_trim(r.pool, 0, WEIR_FOREVER, NULL), WEIR_DEVICE);
    weir_stats stats = rig_stats(&r);
    cr_expect_gt(stats.quarantined_bytes, 0);
    cr_expect_eq(stats.quarantined_bytes, rig_totals(&r).held_bytes);
    rig_close_pool(&r);
    cr_expect_eq(rig_totals(&r).breaches, 0, "%s", r.breach);
    cr_expect_eq(rig_totals(&r).held_bytes, stats.quarantined_bytes);
    cr_expect_not_null(weir_sim_balance(r.sim));
    weir_sim_destroy(r.sim);
    weir_platform_destroy(r.platform);
}

/* 80 streams on each of eight devices of 192 GiB needed 135 TiB of addresses, as each stream had a
 * range of its own. Here a device has one (pytorch/pytorch#192269). */
Test(field_pt, pt_05_eighty_streams_share_one_address_range)
{
    for (unsigned device = 0; device < 8; device++) {
        rig r;
        weir_addr addrs[80];
        rig_open(&r, (weir_sim_config){.memory_bytes = 192 * GIB, .va_bytes = 16 * TIB},
                 (weir_config){0});
        for (unsigned i = 0; i < 80; i++) {
            weir_stream stream = rig_attach(&r, weir_sim_stream_create(r.sim), true);
            cr_assert_eq(weir_alloc_on(r.pool, stream, 2 * MIB, &addrs[i]), WEIR_OK);
        }
        cr_expect_eq(rig_count(&r, WEIR_SIM_va_reserve), 1);
        for (unsigned i = 0; i < 80; i++) EXPECT_OK(weir_free(r.pool, addrs[i], 0));
        rig_close(&r);
    }
}

Test(field_pt, pt_05_with_few_addresses_left_a_smaller_range_is_taken)
{
    rig r;
    rig_open(&r, (weir_sim_config){.memory_bytes = 192 * GIB, .va_bytes = GIB, .lies = true},
             (weir_config){0});
    rig_free(&r, rig_alloc(&r, 0, 100 * MIB), 0);
    rig_close(&r);
}

/* A retry freed device memory while a stream was being captured, which spoils the capture. With
 * NO_EVENTS the request fails, and not one call is made that a capture forbids
 * (pytorch/pytorch#159594). */
Test(field_pt, pt_09_a_failing_request_leaves_a_capture_alone)
{
    rig r;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 256 * MIB});
    rig_free(&r, rig_alloc(&r, 0, 128 * MIB), 0);
    weir_request request = rig_request(&r, 1, 200 * MIB);
    request.flags = WEIR_NO_EVENTS;
    weir_sim_totals before = rig_totals(&r);
    weir_status status = weir_alloc(r.pool, &request, &addr);
    cr_expect(status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT, "%s",
              weir_status_name(status));
    weir_sim_totals after = rig_totals(&r);
    for (unsigned call = WEIR_SIM_event_create; call <= WEIR_SIM_quiesce; call++)
        cr_expect_eq(after.count[call], before.count[call], "%s during a capture",
                     weir_sim_call_name((weir_sim_call)call));
    cr_expect_eq(after.count[WEIR_SIM_handle_release], before.count[WEIR_SIM_handle_release]);
    cr_expect_eq(after.count[WEIR_SIM_unmap], before.count[WEIR_SIM_unmap]);
    rig_close(&r);
}

/* Lists of blocks disagreed while frees were pending on events. A block whose free is pending is
 * listed as such, and the walk always adds up to what is held (pytorch/pytorch#126125, #174444). */
Test(field_pt, pt_11_a_pending_block_is_listed_and_the_walk_adds_up)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 20 * MIB});
    weir_addr x = rig_alloc(&r, 0, 16 * MIB);
    EXPECT_OK(weir_use(r.pool, x, r.stream[1]));
    weir_sim_stall(r.sim, r.native[1]);
    rig_write(&r, 1, x, 16 * MIB, 1);
    rig_free(&r, x, 0);
    rig_sums sums = rig_walk(&r);
    cr_expect_eq(sums.pending, 16 * MIB);
    cr_expect_eq(sums.pending, rig_stats(&r).pending.current);
    cr_expect_eq(sums.live + sums.free_mapped + rig_stats(&r).idle_bytes, rig_reserved(&r));
    weir_sim_go(r.sim, r.native[1]);
    rig_close(&r);
}

/* The device is full, and the only block that fits is free but its use on another stream has not
 * ended. After waiting for that use the pool itself must be searched, not only the driver asked
 * (pytorch/pytorch#189504). */
Test(field_pt, pt_12_a_pending_fitting_block_is_found_before_oom)
{
    rig r;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){0});
    weir_addr x = rig_alloc(&r, 1, 600 * MIB);
    rig_write(&r, 1, x, 600 * MIB, 1);
    rig_order(&r, 1, 2);
    EXPECT_OK(weir_use(r.pool, x, r.stream[2]));
    weir_sim_busy_until(r.sim, r.native[2], 5000);
    rig_read(&r, 2, x, 600 * MIB, 1);
    rig_free(&r, x, 1);
    weir_addr y = rig_alloc(&r, 1, 600 * MIB);
    rig_write(&r, 1, y, 600 * MIB, 2);
    cr_expect_leq(rig_reserved(&r), GIB);
    rig_free(&r, y, 1);
    rig_close(&r);
}

/* A host that runs ahead stacked up memory, because a block used on a second stream came back only
 * when the host polled its event. A wait between the streams suffices: 48 rounds of 256 MiB stay
 * within three blocks, and the host never waits (pytorch/pytorch#147168, #181191). */
Test(field_pt, pt_14_a_host_that_runs_ahead_stays_within_three_blocks)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 3 * 256 * MIB});
    weir_sim_stall(r.sim, r.native[1]);
    weir_sim_stall(r.sim, r.native[2]);
    for (unsigned i = 0; i < 48; i++) {
        weir_request request = rig_request(&r, 1, 256 * MIB);
        weir_addr x = 0;
        request.flags = WEIR_NOWAIT;
        cr_assert_eq(weir_alloc(r.pool, &request, &x), WEIR_OK, "round %u", i);
        rig_write(&r, 1, x, 256 * MIB, i);
        rig_order(&r, 1, 2);
        EXPECT_OK(weir_use(r.pool, x, r.stream[2]));
        rig_read(&r, 2, x, 256 * MIB, i);
        rig_free(&r, x, 2);
    }
    cr_expect_eq(rig_totals(&r).host_waits, 0);
    weir_sim_go(r.sim, r.native[1]);
    weir_sim_go(r.sim, r.native[2]);
    rig_close(&r);
}

/* A huge cached block was split by small ones that live long; then nothing as huge fitted although
 * half of the device was unused (pytorch/pytorch#35901, #44742). */
Test(field_pt, pt_15_a_huge_block_fits_again_after_small_ones_split_it)
{
    static const uint64_t sizes[3] = {16515072, 18191360, 11400192};
    const uint64_t huge = UINT64_C(11643387904);
    weir_addr small[40];
    rig r;
    rig_open(&r, (weir_sim_config){.memory_bytes = 24 * GIB}, (weir_config){0});
    rig_free(&r, rig_alloc(&r, 0, huge), 0);
    for (unsigned i = 0; i < 40; i++) small[i] = rig_alloc(&r, 0, sizes[i % 3]);
    for (unsigned i = 0; i < 40; i += 2) rig_free(&r, small[i], 0);
    weir_addr first = rig_alloc(&r, 0, huge), second = rig_alloc(&r, 0, huge);
    rig_check(&r);
    rig_free(&r, first, 0);
    rig_free(&r, second, 0);
    for (unsigned i = 1; i < 40; i += 2) rig_free(&r, small[i], 0);
    rig_close(&r);
}

/* Memory of a custom provider was released with the default one, because the provider was looked
 * up at the release. A pool's memory goes back to the device it came from, whatever other pools do
 * meanwhile (pytorch/pytorch#146431). */
Test(field_pt, pt_26_memory_goes_back_to_the_provider_it_came_from)
{
    rig other, x;
    rig_open(&other, (weir_sim_config){0}, (weir_config){0});
    rig_open(&x, (weir_sim_config){.no_virtual = true}, (weir_config){0});
    weir_addr a = rig_alloc(&x, 0, 8 * MIB);
    weir_addr b = rig_alloc(&other, 0, 8 * MIB);
    uint64_t others =
        rig_count(&other, WEIR_SIM_unmap) + rig_count(&other, WEIR_SIM_handle_release);
    rig_free(&x, a, 0);
    EXPECT_OK(weir_trim(x.pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(rig_count(&x, WEIR_SIM_segment_alloc), 1);
    cr_expect_eq(rig_count(&x, WEIR_SIM_segment_free), 1);
    cr_expect_eq(rig_count(&other, WEIR_SIM_unmap) + rig_count(&other, WEIR_SIM_handle_release),
                 others);
    rig_free(&other, b, 0);
    rig_close(&x);
    rig_close(&other);
}

/* A pool made while device 0 was current broke when device 1 was. A pool names its device itself:
 * what was used last does not matter (pytorch/pytorch#149802). */
Test(field_pt, pt_28_a_pool_keeps_its_device)
{
    rig zero, one;
    rig_open(&zero, (weir_sim_config){0}, (weir_config){0});
    rig_open(&one, (weir_sim_config){0}, (weir_config){0});
    weir_addr last = rig_alloc(&one, 0, MIB);
    uint64_t held = rig_totals(&one).held_bytes;
    weir_addr a = rig_alloc(&zero, 0, MIB);
    cr_expect_gt(rig_totals(&zero).held_bytes, 0);
    cr_expect_eq(rig_totals(&one).held_bytes, held);
    rig_free(&zero, a, 0);
    rig_free(&one, last, 0);
    rig_close(&zero);
    rig_close(&one);
}

/* Zero bytes reached the driver, which left the result unset; that garbage was freed later. Here
 * zero is a request like any other: its own address, to be freed once
 * (pytorch/pytorch#159892, alpaka-group/alpaka#1868). */
Test(field_pt, pt_31_zero_bytes_have_an_address_of_their_own)
{
    rig r;
    weir_addr last = 0;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 1000; i++) {
        weir_addr a = 0xdead, b = 0xdead;
        EXPECT_OK(rig_try(&r, 0, 0, &a));
        EXPECT_OK(rig_try(&r, 0, 0, &b));
        cr_expect_neq(a, 0xdead);
        cr_expect_neq(a, 0);
        cr_expect_neq(a, b);
        rig_free(&r, a, 0);
        rig_free(&r, b, 0);
        last = b;
    }
    EXPECT_STATUS(weir_free(r.pool, last, r.stream[0]), WEIR_NOT_FOUND);
    cr_expect_eq(rig_stats(&r).segments.total, 1);
    rig_close(&r);
}

/* Virtual memory and a custom provider excluded each other in silence. A device without mappings
 * is asked for each segment; one with half a group of calls is refused when the pool is made
 * (pytorch/pytorch#147851, #148378). */
Test(field_pt, pt_34_a_provider_is_used_or_refused)
{
    rig r;
    weir_pool *none = NULL;
    rig_open(&r, (weir_sim_config){.no_virtual = true}, (weir_config){0});
    weir_addr a = rig_alloc(&r, 0, 4 * MIB);
    cr_expect_eq(rig_count(&r, WEIR_SIM_segment_alloc), 1);
    weir_device_ops half = *weir_sim_ops(r.sim);
    half.segment_free = NULL;
    weir_config config = rig_config(&r, (weir_config){.ops = &half});
    EXPECT_STATUS(weir_pool_create(&config, &none), WEIR_INVALID);
    half.segment_alloc = NULL;
    EXPECT_STATUS(weir_pool_create(&config, &none), WEIR_UNSUPPORTED);
    cr_expect_null(none);
    rig_free(&r, a, 0);
    rig_close(&r);
}

/* A plain out of memory became an assertion, because the query for the message was not permitted
 * (pytorch/pytorch#112377, #197312, #185240). */
Test(field_pt, pt_35_oom_stays_oom_when_the_device_will_not_say_more)
{
    rig r;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){0});
    weir_addr a = rig_alloc(&r, 0, 100 * MIB);
    weir_sim_fail(r.sim, WEIR_SIM_memory_info, 1, true, WEIR_UNSUPPORTED);
    EXPECT_STATUS(rig_try(&r, 0, 2 * GIB, &addr), WEIR_NO_MEMORY);
    weir_oom oom = rig_oom(&r);
    cr_expect_eq(oom.status, WEIR_NO_MEMORY);
    cr_expect_eq(oom.asked_bytes, 2 * GIB);
    cr_expect_eq(oom.allocated_bytes, 100 * MIB);
    cr_expect_eq(oom.device_free_bytes, 0);
    rig_free(&r, a, 0);
    rig_close(&r);
}

/* A counter of a private pool was not lowered on one of two ways out. Each way out is taken, and
 * the segments are those of the walk and of the device (pytorch/pytorch#61567). */
static bool pt46_count(void *self, const weir_segment *segment)
{
    (void)segment;
    ++*(uint64_t *)self;
    return true;
}

static void pt46_same(const rig *r)
{
    uint64_t walked = 0;
    weir_stats stats = rig_stats(r);
    weir_walk_segments(r->pool, pt46_count, &walked);
    cr_expect_eq(walked, stats.segments.current);
    rig_check(r);
    rig_check_counts(r);
}

Test(field_pt, pt_46_segments_add_up_on_every_way_out)
{
    rig r;
    weir_domain domain;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){.memory_bytes = 256 * MIB}, (weir_config){0});
    EXPECT_OK(weir_domain_create(r.pool, &domain));
    weir_request request = rig_request(&r, 0, 64 * MIB);
    request.domain = domain;
    EXPECT_OK(weir_alloc(r.pool, &request, &addr));
    rig_free(&r, addr, 0);
    pt46_same(&r);
    EXPECT_STATUS(rig_try(&r, 0, 250 * MIB, &addr), WEIR_NO_MEMORY); /* the domain keeps its own */
    cr_expect_eq(rig_oom(&r).domain_bytes, 64 * MIB);
    pt46_same(&r);
    EXPECT_OK(weir_domain_release(r.pool, domain));
    addr = rig_alloc(&r, 1, 250 * MIB); /* what was the domain's goes back, or is used */
    pt46_same(&r);
    EXPECT_STATUS(weir_domain_release(r.pool, domain), WEIR_STALE);
    rig_free(&r, addr, 1);
    EXPECT_OK(weir_trim(r.pool, 100 * MIB, WEIR_FOREVER, NULL));
    pt46_same(&r);
    EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(rig_stats(&r).segments.current, 0);
    pt46_same(&r);
    rig_close(&r);
}
