/* SPDX-License-Identifier: MIT */
/*
 * Field reports of RMM, the memory manager of RAPIDS, and of the driver's own pools, tried on Weir.
 * README.md of this folder lists all reports.
 */
#include "rig.h"

#include <stdlib.h>

/* Merging the free list of A into that of B waited for A, but B's own event was not recorded again:
 * a third stream that took the block from B did not know of A. The dependency must travel with the
 * block: what C writes stands, and A's late write does not fall on it (rapidsai/rmm#2489, #2490). */
Test(field_rm, rm_01_a_dependency_travels_with_the_block_to_a_third_stream)
{
    rig r;
    weir_addr addr = 0;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 2 * GRANULE});
    weir_addr x = rig_alloc(&r, 1, MIB);
    weir_sim_stall(r.sim, r.native[1]);
    rig_write(&r, 1, x, MIB, 0xa);
    rig_free(&r, x, 1);
    weir_request merge = rig_request(&r, 2, 64 * MIB);
    merge.flags = WEIR_NOWAIT; /* B cannot be served, but joins with A in the attempt */
    weir_status status = weir_alloc(r.pool, &merge, &addr);
    cr_expect(status == WEIR_NO_MEMORY || status == WEIR_WOULD_WAIT);
    weir_request third = rig_request(&r, 3, 2 * GRANULE);
    third.flags = WEIR_NOWAIT;
    weir_addr y = 0;
    cr_assert_eq(weir_alloc(r.pool, &third, &y), WEIR_OK);
    rig_write(&r, 3, y, 2 * GRANULE, 0xc);
    weir_sim_go(r.sim, r.native[1]);
    rig_read(&r, 3, y, 2 * GRANULE, 0xc);
    rig_free(&r, y, 3);
    rig_close(&r);
}

/* The same after B itself had the block and gave it back without a use of its own. */
Test(field_rm, rm_01_a_block_handed_on_unused_keeps_its_dependency)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = GRANULE});
    weir_addr x = rig_alloc(&r, 1, GRANULE);
    weir_sim_stall(r.sim, r.native[1]);
    rig_write(&r, 1, x, GRANULE, 0xa);
    rig_free(&r, x, 1);
    rig_free(&r, rig_alloc(&r, 2, GRANULE), 2);
    weir_addr y = rig_alloc(&r, 3, GRANULE);
    rig_write(&r, 3, y, GRANULE, 0xc);
    weir_sim_go(r.sim, r.native[1]);
    rig_read(&r, 3, y, GRANULE, 0xc);
    rig_free(&r, y, 3);
    rig_close(&r);
}

/* Streams that freed memory were destroyed before the next allocation, and the free lists kept
 * their handles. After retire no call names them again, and their memory joins
 * (rapidsai/cuml#2632, rapidsai/rmm#510). */
Test(field_rm, rm_02_memory_of_retired_streams_joins_again)
{
    rig r;
    rig_open(&r, (weir_sim_config){.lag_us = 100}, (weir_config){.limit_bytes = 16 * MIB});
    for (unsigned i = 0; i < 16; i++) {
        weir_addr addr = 0;
        uint64_t native = weir_sim_stream_create(r.sim);
        weir_stream stream = rig_attach(&r, native, i % 2 == 0);
        EXPECT_OK(weir_alloc_on(r.pool, stream, MIB, &addr));
        weir_sim_write(r.sim, native, addr, MIB, i);
        EXPECT_OK(weir_free(r.pool, addr, stream));
        EXPECT_OK(weir_stream_retire(r.pool, stream));
        weir_sim_stream_destroy(r.sim, native);
        EXPECT_STATUS(weir_alloc_on(r.pool, stream, MIB, &addr), WEIR_STALE);
    }
    weir_addr all = rig_alloc(&r, 0, 16 * MIB);
    rig_write(&r, 0, all, 16 * MIB, 99);
    cr_expect_eq(rig_reserved(&r), 16 * MIB);
    rig_free(&r, all, 0);
    rig_close(&r);
}

/* A per-thread default stream has the same handle on every device; its event was made on the first
 * device and recorded on the second. Each pool keeps events of its own device
 * (rapidsai/rmm#1306, #1333). */
Test(field_rm, rm_05_one_stream_handle_on_two_devices)
{
    rig zero, one;
    rig_open(&zero, (weir_sim_config){.lag_us = 50}, (weir_config){0});
    rig_open(&one, (weir_sim_config){.lag_us = 50}, (weir_config){0});
    cr_assert_eq(zero.native[1], one.native[1]);
    weir_addr a = rig_alloc(&zero, 1, 16), b = rig_alloc(&one, 1, 16);
    rig_write(&zero, 1, a, 16, 1);
    rig_write(&one, 1, b, 16, 2);
    rig_free(&one, b, 1);
    rig_free(&zero, a, 1);
    cr_expect_gt(rig_count(&one, WEIR_SIM_event_record), 0);
    cr_expect_gt(rig_count(&zero, WEIR_SIM_event_record), 0);
    rig_close(&zero);
    rig_close(&one);
}

/* Two streams were enough for a pool to run out of memory that lay free in the other's list, also
 * when that stream was gone (rapidsai/rmm#2039). */
static void rm07_other_stream(bool retired)
{
    rig r;
    weir_addr blocks[256];
    rig_open(&r, (weir_sim_config){.lag_us = 10}, (weir_config){.limit_bytes = GIB});
    for (unsigned i = 0; i < 256; i++) {
        blocks[i] = rig_alloc(&r, 1, 2 * MIB);
        rig_write(&r, 1, blocks[i], 2 * MIB, i);
    }
    rig_free_all(&r, blocks, 256, 1);
    if (retired) {
        EXPECT_OK(weir_stream_retire(r.pool, r.stream[1]));
        weir_sim_stream_destroy(r.sim, r.native[1]);
    }
    weir_addr big = rig_alloc(&r, 2, 700 * MIB);
    rig_write(&r, 2, big, 700 * MIB, 1000);
    rig_free(&r, big, 2);
    rig_close(&r);
}

Test(field_rm, rm_07_memory_of_an_idle_stream_serves_another)
{
    rm07_other_stream(false);
}

Test(field_rm, rm_07_memory_of_a_retired_stream_serves_another)
{
    rm07_other_stream(true);
}

/* 32 bytes aligned to 32 came to 32 + 32 - 256 bytes, which wrapped. Every alignment up to the
 * granule with sizes around the corners; beyond it the request is refused
 * (rapidsai/rmm#2002, #2003). */
Test(field_rm, rm_09_alignment_below_the_unit_does_not_wrap)
{
    static const uint64_t sizes[] = {0, 1, 31, 32, 255, 256, 257};
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (uint64_t align = 1; align <= GRANULE; align *= 2)
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            weir_addr addr = 0;
            weir_block block;
            weir_request request = rig_request(&r, 0, sizes[i]);
            request.align = align;
            EXPECT_OK(weir_alloc(r.pool, &request, &addr));
            EXPECT_OK(weir_block_find(r.pool, addr, &block));
            cr_expect_eq(addr % align, 0);
            cr_expect_geq(block.bytes, sizes[i]);
            cr_expect_leq(block.bytes, 512);
            rig_write(&r, 0, addr, sizes[i], align);
            rig_free(&r, addr, 0);
        }
    weir_addr addr;
    weir_request request = rig_request(&r, 0, 32);
    request.align = 2 * GRANULE;
    EXPECT_STATUS(weir_alloc(r.pool, &request, &addr), WEIR_INVALID);
    request.align = 48;
    EXPECT_STATUS(weir_alloc(r.pool, &request, &addr), WEIR_INVALID);
    rig_close(&r);
}

/* Layers for limits, traces and tenants passed a fixed alignment on. Here they are one call: with a
 * limit, an observer and a domain the block is aligned as asked, and its free tells the same bytes
 * (rapidsai/rmm#2402). */
typedef struct heard {
    weir_record alloc, free;
} heard;

static void heard_note(void *self, const weir_record *record)
{
    heard *h = (heard *)self;
    if (record->what == WEIR_DID_ALLOC) h->alloc = *record;
    if (record->what == WEIR_DID_FREE) h->free = *record;
}

Test(field_rm, rm_11_limit_observer_and_domain_keep_the_alignment)
{
    rig r;
    weir_domain domain;
    weir_addr addr = 0, off = 0;
    heard h;
    memset(&h, 0, sizeof(h));
    rig_open(&r, (weir_sim_config){0},
             (weir_config){.limit_bytes = 64 * MIB, .observer = heard_note, .observer_self = &h});
    EXPECT_OK(weir_domain_create(r.pool, &domain));
    weir_request request = rig_request(&r, 0, 700);
    request.domain = domain;
    EXPECT_OK(weir_alloc(r.pool, &request, &off));
    request.bytes = 1000;
    request.align = 4096;
    EXPECT_OK(weir_alloc(r.pool, &request, &addr));
    cr_expect_eq(addr % 4096, 0);
    cr_expect_eq(h.alloc.addr, addr);
    cr_expect_eq(h.alloc.bytes, 1000);
    cr_expect_eq(h.alloc.domain, domain);
    rig_free(&r, addr, 0);
    cr_expect_eq(h.free.addr, addr);
    cr_expect_eq(h.free.bytes, 1000);
    cr_expect_eq(h.free.domain, domain);
    rig_free(&r, off, 0);
    rig_close(&r);
}

/* A pool in a static object touched the device after its end, in most exits. Weir does nothing at
 * exit by itself: a program that returns with pending frees ends with 0
 * (rapidsai/rmm#2366, #2203, #2202). */
static rig rm15_static;

Test(field_rm, rm_15_an_exit_without_destroy_is_quiet, .exit_code = 42)
{
    rig_open(&rm15_static, (weir_sim_config){0}, (weir_config){0});
    for (unsigned s = 1; s < RIG_STREAMS; s++) {
        weir_addr addr = rig_alloc(&rm15_static, s, MIB);
        weir_sim_stall(rm15_static.sim, rm15_static.native[s]);
        rig_write(&rm15_static, s, addr, MIB, s);
        rig_free(&rm15_static, addr, 0);
    }
    cr_assert_gt(rig_stats(&rm15_static).pending.current, 0);
    exit(42);
}

/* Reuse across streams that relied on the driver corrupted memory with old drivers, and had to be
 * turned off. With no_stream_reuse what one stream freed is never handed to another by a wait
 * between them, only once its work has passed (rapidsai/rmm#993, NVIDIA/DALI#4931). */
Test(field_rm, rm_16_reuse_between_streams_can_be_turned_off)
{
    rig r;
    weir_addr addr = 0;
    rig_open(&r, (weir_sim_config){0},
             (weir_config){.limit_bytes = 4 * MIB, .no_stream_reuse = true});
    weir_addr x = rig_alloc(&r, 1, 4 * MIB);
    weir_sim_stall(r.sim, r.native[1]);
    rig_write(&r, 1, x, 4 * MIB, 1);
    rig_free(&r, x, 1);
    weir_request request = rig_request(&r, 2, 4 * MIB);
    request.flags = WEIR_NOWAIT;
    EXPECT_STATUS(weir_alloc(r.pool, &request, &addr), WEIR_WOULD_WAIT);
    cr_expect_eq(rig_count(&r, WEIR_SIM_stream_wait), 0);
    weir_sim_go(r.sim, r.native[1]);
    weir_sim_sync(r.sim, 0);
    EXPECT_OK(weir_alloc(r.pool, &request, &addr));
    cr_expect_eq(rig_count(&r, WEIR_SIM_stream_wait), 0);
    rig_free(&r, addr, 2);
    rig_close(&r);
}

/* A pool that was trimmed at each synchronisation mapped and unmapped 1.47 TiB. By default a finish
 * gives nothing back; a bound of 0 gives back all, each time (rapidsai/rmm#2510). */
static uint64_t rm17_creates(weir_config config)
{
    rig r;
    rig_open(&r, (weir_sim_config){.lag_us = 20}, config);
    uint64_t first = 0;
    for (unsigned i = 0; i < 1000; i++) {
        weir_addr addr = rig_alloc(&r, 1, 256 * MIB);
        rig_write(&r, 1, addr, 256 * MIB, i);
        rig_free(&r, addr, 1);
        EXPECT_OK(weir_finish(r.pool, WEIR_FOREVER));
        if (i == 0) first = rig_count(&r, WEIR_SIM_handle_create);
    }
    uint64_t creates = rig_count(&r, WEIR_SIM_handle_create);
    rig_close(&r);
    cr_assert_gt(first, 0);
    return creates / first;
}

Test(field_rm, rm_17_by_default_a_finish_keeps_memory)
{
    cr_expect_eq(rm17_creates((weir_config){0}), 1);
}

Test(field_rm, rm_17_a_bound_of_zero_gives_back_at_each_finish)
{
    cr_expect_eq(rm17_creates((weir_config){.keep_bounded = true}), 1000);
}

/* Making a pool failed where a feature was missing that it could have done without. Any set of
 * missing optional calls: the pool is made, and serves (rapidsai/rmm#1029, rapidsai/cudf#9427). */
Test(field_rm, rm_18_a_pool_makes_do_with_what_a_device_has)
{
    for (unsigned missing = 0; missing < 16; missing++) {
        rig r;
        rig_open(&r,
                 (weir_sim_config){.no_virtual = (missing & 1) != 0,
                                   .no_event_wait = (missing & 2) != 0,
                                   .no_rescue = (missing & 4) != 0,
                                   .no_memory_info = (missing & 8) != 0,
                                   .memory_bytes = 256 * MIB},
                 (weir_config){0});
        weir_addr a = rig_alloc(&r, 1, 32 * MIB), b = 0;
        rig_write(&r, 1, a, 32 * MIB, 1);
        rig_free(&r, a, 2);
        a = rig_alloc(&r, 2, 32 * MIB);
        rig_write(&r, 2, a, 32 * MIB, 2);
        EXPECT_STATUS(rig_try(&r, 3, 512 * MIB, &b), WEIR_NO_MEMORY);
        rig_free(&r, a, 2);
        rig_close(&r);
    }
}

/* Without any way to get memory, or to order streams, the answer is UNSUPPORTED at create. */
Test(field_rm, rm_18_a_device_that_lacks_the_needed_is_refused_at_create)
{
    rig r;
    weir_pool *pool = NULL;
    rig_open(&r, (weir_sim_config){.no_virtual = true}, (weir_config){0});
    weir_device_ops none = *weir_sim_ops(r.sim);
    none.segment_alloc = NULL;
    none.segment_free = NULL;
    weir_config config = rig_config(&r, (weir_config){.ops = &none});
    EXPECT_STATUS(weir_pool_create(&config, &pool), WEIR_UNSUPPORTED);
    none = *weir_sim_ops(r.sim);
    none.stream_wait = NULL;
    EXPECT_STATUS(weir_pool_create(&config, &pool), WEIR_UNSUPPORTED);
    cr_expect_null(pool);
    rig_close(&r);
}

/* A stream-ordered pool reported out of memory with 31 GB of 84.5 free, because the frees were
 * pending; one synchronisation and a retry served it. Sizes by 1/100; the wait is made once, and
 * counted (rapidsai/rmm#1245, openxla/xla#6398, ml-explore/mlx#2869). */
Test(field_rm, dr_01_pending_frees_are_waited_for_once)
{
    rig r;
    weir_addr live[107], pending[60];
    rig_open(&r, (weir_sim_config){.lag_us = 5000},
             (weir_config){.limit_bytes = 846 * MIB, .no_stream_reuse = true});
    for (unsigned i = 0; i < 107; i++) live[i] = rig_alloc(&r, 1, 5 * MIB);
    for (unsigned i = 0; i < 60; i++) pending[i] = rig_alloc(&r, 2, 5 * MIB);
    for (unsigned i = 0; i < 60; i++) rig_write(&r, 2, pending[i], 5 * MIB, i);
    rig_free_all(&r, pending, 60, 2);
    weir_addr addr = rig_alloc(&r, 1, 132870728);
    cr_expect_eq(rig_totals(&r).host_waits, 1);
    cr_expect_eq(rig_stats(&r).host_waits, 1);
    rig_free(&r, addr, 1);
    rig_free_all(&r, live, 107, 1);
    rig_close(&r);
}

/* The message of an out of memory printed no limit as 17179869184.00 GiB. No limit has a name of its
 * own, and the parts of the report add up (pytorch/pytorch#110194). */
Test(field_rm, dr_02_no_limit_is_told_as_none)
{
    rig r;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){.memory_bytes = 8 * GIB}, (weir_config){0});
    weir_addr live = rig_alloc(&r, 0, 2 * GIB);
    rig_free(&r, rig_alloc(&r, 0, GIB), 0);
    EXPECT_STATUS(rig_try(&r, 0, 7 * GIB, &addr), WEIR_NO_MEMORY);
    weir_oom oom = rig_oom(&r);
    cr_expect_eq(oom.limit_bytes, WEIR_NO_LIMIT);
    cr_expect_eq(oom.reserved_bytes + oom.device_free_bytes, 8 * GIB);
    cr_expect_eq(oom.allocated_bytes + oom.free_bytes + rig_stats(&r).idle_bytes,
                 oom.reserved_bytes);
    cr_expect_gt(oom.short_bytes, 0);
    rig_free(&r, live, 0);
    rig_close(&r);
}

/* A call on a pool that could not do it crashed. No pool, or nonsense, is a status
 * (NVIDIA/cuda-python#2568). */
Test(field_rm, dr_07_calls_without_a_pool_answer_a_status)
{
    weir_addr addr;
    weir_block block;
    weir_oom oom = {.size = sizeof(oom)};
    weir_stream stream;
    weir_domain domain;
    weir_pool *pool = NULL;
    weir_request request = {.size = sizeof(request)};
    weir_stream_desc desc = {.size = sizeof(desc)};
    weir_config config = {.size = 4};
    EXPECT_STATUS(weir_pool_create(NULL, &pool), WEIR_INVALID);
    EXPECT_STATUS(weir_pool_create(&config, &pool), WEIR_INVALID);
    config.size = sizeof(config);
    EXPECT_STATUS(weir_pool_create(&config, &pool), WEIR_INVALID);
    EXPECT_STATUS(weir_pool_destroy(NULL), WEIR_INVALID);
    EXPECT_STATUS(weir_limit_set(NULL, GIB), WEIR_INVALID);
    EXPECT_STATUS(weir_trim(NULL, 0, 0, NULL), WEIR_INVALID);
    EXPECT_STATUS(weir_finish(NULL, 0), WEIR_INVALID);
    EXPECT_STATUS(weir_stream_attach(NULL, &desc, &stream), WEIR_INVALID);
    EXPECT_STATUS(weir_stream_retire(NULL, 1), WEIR_INVALID);
    EXPECT_STATUS(weir_alloc(NULL, &request, &addr), WEIR_INVALID);
    EXPECT_STATUS(weir_alloc_on(NULL, 1, 1, &addr), WEIR_INVALID);
    EXPECT_STATUS(weir_free(NULL, 1, 1), WEIR_INVALID);
    EXPECT_STATUS(weir_use(NULL, 1, 1), WEIR_INVALID);
    EXPECT_STATUS(weir_resize(NULL, 1, 1), WEIR_INVALID);
    EXPECT_STATUS(weir_pin(NULL, 1), WEIR_INVALID);
    EXPECT_STATUS(weir_unpin(NULL, 1), WEIR_INVALID);
    EXPECT_STATUS(weir_block_find(NULL, 1, &block), WEIR_INVALID);
    EXPECT_STATUS(weir_domain_create(NULL, &domain), WEIR_INVALID);
    EXPECT_STATUS(weir_domain_release(NULL, 2), WEIR_INVALID);
    EXPECT_STATUS(weir_oom_read(NULL, &oom), WEIR_INVALID);
    EXPECT_STATUS(weir_check(NULL, NULL), WEIR_INVALID);
    cr_expect_null(pool);
}

/* A buffer of one stream was freed on the default stream, with its work still queued. A free that
 * names no stream means the allocating one, so reuse comes after its work
 * (NVIDIA/cuda-python#1032, #2020). */
Test(field_rm, dr_08_a_free_without_a_stream_is_ordered_after_the_allocating_one)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 2 * MIB});
    weir_addr x = rig_alloc(&r, 1, 2 * MIB);
    weir_sim_stall(r.sim, r.native[1]);
    rig_write(&r, 1, x, 2 * MIB, 1);
    EXPECT_OK(weir_free(r.pool, x, 0));
    weir_addr y = rig_alloc(&r, 0, 2 * MIB);
    rig_write(&r, 0, y, 2 * MIB, 2);
    cr_expect_gt(rig_count(&r, WEIR_SIM_stream_wait), 0);
    weir_sim_go(r.sim, r.native[1]);
    rig_read(&r, 0, y, 2 * MIB, 2);
    rig_free(&r, y, 0);
    rig_close(&r);
}
