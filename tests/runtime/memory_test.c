/* SPDX-License-Identifier: MIT */
/* Blocks, figures, limits and streams through the runtime. */
#include "runtime_rig.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

Test(memory, figures_are_those_of_a_hand_count)
{
    runtime_rig_open("unit_bytes:512", NULL);
    uint64_t small = runtime_rig_alloc(1000);
    uint64_t large = runtime_rig_alloc(3 * MIB + 1);
    weir_runtime_stats stats = runtime_rig_stats();
    cr_expect_eq(stats.allocations[0].current, 2);
    cr_expect_eq(stats.allocations[1].current, 1);
    cr_expect_eq(stats.allocations[2].current, 1);
    cr_expect_eq(stats.requested[0].current, 1000 + 3 * MIB + 1);
    cr_expect_eq(stats.requested[1].current, 3 * MIB + 1);
    cr_expect_eq(stats.allocated[2].current, 1024);
    cr_expect_eq(stats.allocated[1].current, 3 * MIB + 512);
    runtime_rig_free(large);
    stats = runtime_rig_stats();
    cr_expect_eq(stats.requested[1].current, 0);
    cr_expect_eq(stats.requested[1].peak, 3 * MIB + 1);
    cr_expect_eq(stats.requested[1].taken, 3 * MIB + 1);
    cr_expect_eq(stats.allocated[0].current, 1024);
    cr_expect_geq(stats.reserved.current, 3 * MIB);
    cr_expect_eq(stats.device_allocs, stats.segments.added);
    runtime_rig_free(small);
    runtime_rig_close();
}

Test(memory, peaks_and_totals_begin_again)
{
    runtime_rig_open(NULL, NULL);
    uint64_t first = runtime_rig_alloc(8 * MIB);
    uint64_t second = runtime_rig_alloc(4 * MIB);
    runtime_rig_free(first);
    ASSERT_OK(weir_runtime_stats_reset_peaks(0));
    ASSERT_OK(weir_runtime_stats_reset_totals(0));
    weir_runtime_stats stats = runtime_rig_stats();
    cr_expect_eq(stats.requested[0].peak, 4 * MIB);
    cr_expect_eq(stats.requested[0].added, 0);
    cr_expect_eq(stats.requested[0].taken, 0);
    cr_expect_eq(stats.reserved.added, 0);
    cr_expect_eq(stats.device_allocs, 0);
    runtime_rig_free(second);
    cr_expect_eq(runtime_rig_stats().requested[0].taken, 4 * MIB);
    runtime_rig_close();
}

Test(memory, what_is_no_live_block_is_not_freed)
{
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(4 * MIB);
    EXPECT_STATUS(weir_runtime_free(addr + 512, 0), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_runtime_free(0x1234, 0), WEIR_NOT_FOUND);
    EXPECT_SAYS("0x1234");
    runtime_rig_free(addr);
    EXPECT_STATUS(weir_runtime_free(addr, 0), WEIR_NOT_FOUND);
    cr_expect_eq(runtime_rig_stats().allocations[0].taken, 1);
    runtime_rig_close();
}

Test(memory, a_block_of_no_bytes_is_a_block)
{
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(0);
    cr_expect_eq(runtime_rig_stats().allocations[2].current, 1);
    cr_expect_eq(runtime_rig_stats().requested[0].current, 0);
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(memory, a_block_is_found_by_any_address_in_it)
{
    int device = -1;
    uint64_t base = 0, bytes = 0;
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(3 * MIB);
    ASSERT_OK(weir_runtime_find(addr + MIB, &device, &base, &bytes));
    cr_expect_eq(device, 0);
    cr_expect_eq(base, addr);
    cr_expect_eq(bytes, 3 * MIB);
    base = bytes = 0;
    ASSERT_OK(weir_runtime_find(addr, NULL, &base, &bytes));
    cr_expect_eq(base, addr);
    cr_expect_eq(bytes, 3 * MIB);
    cr_expect_eq(weir_runtime_owns(addr), 1);
    cr_expect_eq(weir_runtime_owns(addr + MIB), 0);
    EXPECT_STATUS(weir_runtime_find(addr + 3 * MIB, NULL, NULL, NULL), WEIR_NOT_FOUND);
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(memory, out_of_memory_says_what_would_have_fitted)
{
    uint64_t addr = 0;
    char text[1024];
    runtime_rig_open("limit_mb:64", NULL);
    uint64_t live = runtime_rig_alloc(40 * MIB);
    EXPECT_STATUS(weir_runtime_alloc(0, 30 * MIB, 0, &addr), WEIR_NO_MEMORY);
    EXPECT_SAYS("CUDA out of memory");
    EXPECT_SAYS("30.00 MiB");
    EXPECT_SAYS("the limit is 64.00 MiB");
    EXPECT_SAYS("40.00 MiB are in live blocks");
    EXPECT_SAYS("would have fitted");
    (void)weir_runtime_oom(0, text, sizeof(text));
    cr_expect_str_eq(text, weir_runtime_why());
    cr_expect_eq(runtime_rig_stats().ooms, 1);
    runtime_rig_free(live);
    runtime_rig_close();
}

/* What a failure says would have fitted, in bytes. */
static uint64_t memory_said(void)
{
    double size = 0;
    char unit[4] = "";
    const char *at = strstr(weir_runtime_why(), "A request of up to ");
    cr_assert(at && sscanf(at, "A request of up to %lf %3[a-zA-Z]", &size, unit) == 2, "%s",
              weir_runtime_why());
    cr_expect_str_eq(unit, "MiB", "%s", weir_runtime_why()); /* whole ones here */
    return (uint64_t)size * MIB;
}

static void memory_fits(uint64_t least)
{
    uint64_t addr = 0;
    EXPECT_STATUS(weir_runtime_alloc(0, UINT64_C(1) << 40, 0, &addr), WEIR_NO_MEMORY);
    uint64_t said = memory_said();
    cr_expect_geq(said, least, "%s", weir_runtime_why());
    runtime_rig_free(runtime_rig_alloc(said));
}

/* And it does, on a device that is empty, under a limit, and where what is free lies scattered. */
Test(memory, what_is_said_to_have_fitted_fits)
{
    static const char *const settings[] = {"limit_mb:96", "limit_mb:96,moves:false",
                                           "limit_mb:96,growth_mb:4", "source:async,limit_mb:96"};
    for (unsigned k = 0; k < sizeof(settings) / sizeof(settings[0]); k++) {
        uint64_t addr[12];
        runtime_rig_open(NULL, NULL);
        memory_fits(500 * MIB); /* of 512 */
        ASSERT_OK(weir_runtime_stop(-1));
        ASSERT_OK(weir_runtime_configure(settings[k]));
        memory_fits(90 * MIB);
        for (unsigned i = 0; i < 12; i++) {
            addr[i] = runtime_rig_alloc((i % 3 + 4) * MIB);
        }
        memory_fits(30 * MIB);
        for (unsigned i = 0; i < 12; i += 2) {
            runtime_rig_free(addr[i]);
        }
        memory_fits(30 * MIB);
        for (unsigned i = 1; i < 12; i += 2) {
            runtime_rig_free(addr[i]);
            memory_fits(30 * MIB);
        }
        runtime_rig_close();
    }
}

Test(memory, a_limit_is_what_the_program_is_told)
{
    uint64_t left = 0, total = 0;
    runtime_rig_open("limit_mb:64", NULL);
    uint64_t live = runtime_rig_alloc(40 * MIB);
    ASSERT_OK(weir_runtime_memory(0, &left, &total));
    cr_expect_eq(total, 64 * MIB);
    cr_expect_eq(left, 24 * MIB);
    ASSERT_OK(weir_runtime_limit(0, 128 * MIB));
    ASSERT_OK(weir_runtime_memory(0, &left, &total));
    cr_expect_eq(total, 128 * MIB);
    EXPECT_STATUS(weir_runtime_limit_part(0, 0.0), WEIR_INVALID);
    EXPECT_STATUS(weir_runtime_limit_part(0, 1.5), WEIR_INVALID);
    runtime_rig_free(live);
    runtime_rig_close();
}

/* A framework's fraction of the device, of 512 MiB here. */
Test(memory, a_part_of_the_device_does_not_lift_the_limit_of_the_settings)
{
    runtime_rig_open("limit_mb:64", NULL);
    ASSERT_OK(weir_runtime_limit_part(0, 0.0625));
    cr_expect_eq(runtime_rig_stats().limit, 32 * MIB);
    ASSERT_OK(weir_runtime_limit_part(0, 0.5));
    cr_expect_eq(runtime_rig_stats().limit, 64 * MIB);
    ASSERT_OK(weir_runtime_limit_part(0, 1.0));
    cr_expect_eq(runtime_rig_stats().limit, 64 * MIB);
    ASSERT_OK(weir_runtime_stop(0));
    ASSERT_OK(weir_runtime_configure(NULL));
    ASSERT_OK(weir_runtime_limit_part(0, 0.5));
    cr_expect_eq(runtime_rig_stats().limit, 256 * MIB);
    ASSERT_OK(weir_runtime_limit_part(0, 1.0));
    cr_expect_eq(runtime_rig_stats().limit, WEIR_NO_LIMIT);
    runtime_rig_close();
}

Test(memory, callers_older_and_newer_than_the_library_read_figures)
{
    struct {
        weir_runtime_stats known;
        uint64_t unknown;
    } newer;
    runtime_rig_open(NULL, NULL);
    uint64_t live = runtime_rig_alloc(MIB);
    memset(&newer, 0xFF, sizeof(newer));
    newer.known.size = sizeof(newer);
    ASSERT_OK(weir_runtime_stats_read(0, &newer.known));
    cr_expect_eq(newer.known.size, sizeof(newer));
    cr_expect_eq(newer.known.allocations[0].current, 1);
    cr_expect_eq(newer.unknown, 0);
    memset(&newer, 0xFF, sizeof(newer));
    newer.known.size = offsetof(weir_runtime_stats, allocated);
    ASSERT_OK(weir_runtime_stats_read(0, &newer.known));
    cr_expect_eq(newer.known.allocations[0].current, 1);
    cr_expect_eq(newer.known.allocated[0].current, UINT64_MAX);
    newer.known.size = 0;
    EXPECT_STATUS(weir_runtime_stats_read(0, &newer.known), WEIR_INVALID);
    runtime_rig_free(live);
    runtime_rig_close();
}

/* Driver calls that an allocation and a free on a stream cost. */
static uint64_t memory_calls(uint64_t stream)
{
    uint64_t addr = 0, before = weir_fakecuda_calls(NULL);
    ASSERT_OK(weir_runtime_alloc(0, MIB, stream, &addr));
    ASSERT_OK(weir_runtime_free(addr, stream));
    return weir_fakecuda_calls(NULL) - before;
}

Test(memory, captures_that_are_told_cost_driver_calls_only_while_they_run)
{
    weir_runtime_promise(WEIR_RUNTIME_ENDS_TOLD | WEIR_RUNTIME_CAPTURES_TOLD);
    runtime_rig_open(NULL, NULL);
    EXPECT_STATUS(weir_runtime_capture_end(0), WEIR_NOT_FOUND);
    ASSERT_OK(weir_runtime_capture_begin(0)); /* before there is a pool */
    cr_expect_eq(weir_runtime_started(0), 1);
    uint64_t stream = runtime_rig_stream();
    (void)memory_calls(stream);
    cr_expect_gt(memory_calls(stream), 0);
    ASSERT_OK(weir_runtime_capture_end(0));
    cr_expect_eq(memory_calls(stream), 0);
    ASSERT_OK(weir_runtime_stream_end(stream));
    runtime_rig_stream_destroy(stream);
    runtime_rig_close();
}

Test(memory, a_trim_gives_free_memory_back)
{
    uint64_t released = 0;
    runtime_rig_open(NULL, NULL);
    runtime_rig_free(runtime_rig_alloc(40 * MIB));
    cr_expect_geq(weir_fakecuda_held(0), 40 * MIB);
    ASSERT_OK(weir_runtime_trim(-1, 0, &released));
    cr_expect_geq(released, 40 * MIB);
    cr_expect_eq(runtime_rig_stats().reserved.current, 0);
    runtime_rig_close();
}

/* While the other stream still works, its memory goes to nobody else. */
Test(memory, a_stream_that_uses_a_block_holds_it)
{
    uint64_t again = 0;
    runtime_rig_open("limit_mb:64,stream_reuse:false,wait_us:1", NULL);
    uint64_t stream = runtime_rig_stream();
    uint64_t addr = runtime_rig_alloc(40 * MIB);
    cr_assert_eq(weir_fakecuda_hold((weir_cu_stream)(uintptr_t)stream), WEIR_CU_OK);
    ASSERT_OK(weir_runtime_use(addr + MIB, stream));
    runtime_rig_free(addr);
    cr_expect_neq(weir_runtime_alloc(0, 40 * MIB, 0, &again), WEIR_OK);
    weir_fakecuda_go();
    weir_fakecuda_settle();
    again = runtime_rig_alloc(40 * MIB);
    runtime_rig_free(again);
    ASSERT_OK(weir_runtime_stream_end(stream));
    runtime_rig_stream_destroy(stream);
    runtime_rig_close();
}

Test(memory, a_block_outlives_its_stream)
{
    uint64_t addr = 0;
    weir_runtime_promise(WEIR_RUNTIME_ENDS_TOLD);
    runtime_rig_open(NULL, NULL);
    uint64_t stream = runtime_rig_stream();
    ASSERT_OK(weir_runtime_alloc(0, 4 * MIB, stream, &addr));
    ASSERT_OK(weir_runtime_stream_end(stream));
    runtime_rig_stream_destroy(stream);
    ASSERT_OK(weir_runtime_free(addr, 0));
    runtime_rig_close();
}

Test(memory, devices_have_pools_of_their_own)
{
    uint64_t addr[2];
    int device = -1;
    runtime_rig_open(NULL, NULL);
    ASSERT_OK(weir_runtime_alloc(0, MIB, 0, &addr[0]));
    cr_expect_eq(weir_runtime_started(1), 0);
    ASSERT_OK(weir_runtime_alloc(1, MIB, 0, &addr[1]));
    ASSERT_OK(weir_runtime_find(addr[1], &device, NULL, NULL));
    cr_expect_eq(device, 1);
    ASSERT_OK(weir_runtime_free(addr[1], 0));
    ASSERT_OK(weir_runtime_free(addr[0], 0));
    runtime_rig_close();
}

#define MEMORY_THREADS 4
#define MEMORY_ROUNDS 2000

static void *memory_thread(void *self)
{
    uint64_t stream = *(uint64_t *)self, addr[8] = {0};
    for (unsigned i = 0; i < MEMORY_ROUNDS; i++) {
        uint64_t *place = &addr[i % 8];
        if (*place != 0) {
            cr_assert_eq(weir_runtime_free(*place, stream), WEIR_OK);
        }
        cr_assert_eq(weir_runtime_alloc(0, 512 + 4096 * (i % 37), stream, place), WEIR_OK);
    }
    for (unsigned i = 0; i < 8; i++) {
        cr_assert_eq(weir_runtime_free(addr[i], stream), WEIR_OK);
    }
    return NULL;
}

Test(memory, threads_keep_one_set_of_books)
{
    pthread_t thread[MEMORY_THREADS];
    uint64_t stream[MEMORY_THREADS];
    runtime_rig_open(NULL, NULL);
    ASSERT_OK(weir_runtime_history(100));
    for (unsigned i = 0; i < MEMORY_THREADS; i++) {
        stream[i] = runtime_rig_stream();
        cr_assert_eq(pthread_create(&thread[i], NULL, memory_thread, &stream[i]), 0);
    }
    for (unsigned i = 0; i < MEMORY_THREADS; i++) {
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
        ASSERT_OK(weir_runtime_stream_end(stream[i]));
        runtime_rig_stream_destroy(stream[i]);
    }
    weir_runtime_stats stats = runtime_rig_stats();
    cr_expect_eq(stats.allocations[0].current, 0);
    cr_expect_eq(stats.allocations[0].added, MEMORY_THREADS * MEMORY_ROUNDS);
    ASSERT_OK(weir_runtime_history(0));
    runtime_rig_close();
}

Test(memory, a_peer_is_let_in_where_there_is_a_link)
{
    runtime_rig_open(NULL, NULL);
    uint64_t addr = runtime_rig_alloc(4 * MIB);
    ASSERT_OK(weir_runtime_peer(0, 1));
    ASSERT_OK(weir_runtime_peer(0, 1)); /* again */
    cr_expect_neq(weir_runtime_peer(0, 9), WEIR_OK);
    cr_expect_gt(strlen(weir_runtime_why()), 10);
    runtime_rig_free(addr);
    runtime_rig_close();
}

Test(memory, no_peer_is_let_in_without_a_link)
{
    runtime_rig_open(NULL, &(weir_fakecuda_config){.no_peers = true});
    cr_expect_neq(weir_runtime_peer(0, 1), WEIR_OK);
    cr_expect_gt(strlen(weir_runtime_why()), 10);
    runtime_rig_close();
}
