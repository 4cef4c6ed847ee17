/* SPDX-License-Identifier: MIT */
/*
 * Field reports of frameworks on top of a pool (CuPy, TensorFlow, JAX, numba, CUDA.jl, ONNX Runtime,
 * DALI, MLX, tinygrad and others), tried on Weir. README.md of this folder lists all reports.
 */
#include "rig.h"

#include "conf.h"
#include "host.h"

/* With a limit set, a request failed at the limit's check, before cached memory was released
 * (cupy/cupy#7678, #7679). */
Test(field_fw, fw_01_cached_memory_makes_room_under_the_limit)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = GIB});
    rig_free(&r, rig_alloc(&r, 0, 536870912), 0);
    rig_free(&r, rig_alloc(&r, 0, 805306368), 0);
    rig_close(&r);
}

/* The same where nothing may move and the cached memory belongs to another stream. */
Test(field_fw, fw_01_cached_segments_make_room_under_the_limit)
{
    rig r;
    rig_open(&r, (weir_sim_config){.no_virtual = true}, (weir_config){.limit_bytes = GIB});
    rig_free(&r, rig_alloc(&r, 1, 536870912), 1);
    rig_free(&r, rig_alloc(&r, 0, 805306368), 0);
    cr_expect_eq(rig_stats(&r).retries, 1);
    rig_close(&r);
}

/* The total was not lowered when all was freed, so that the limit was met too early
 * (cupy/cupy#3008). */
Test(field_fw, fw_04_a_trim_makes_room_under_the_limit_again)
{
    rig r;
    rig_open(&r, (weir_sim_config){.granule_bytes = 64 * KIB}, (weir_config){.limit_bytes = MIB});
    for (unsigned i = 0; i < 100; i++) {
        rig_free(&r, rig_alloc(&r, 0, 512 * KIB), 0);
        EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, NULL));
        cr_expect_eq(rig_reserved(&r), 0);
    }
    rig_free(&r, rig_alloc(&r, 0, MIB), 0);
    rig_close(&r);
}

/* A limit set for one device read as zero elsewhere. Each pool has its own, and one line of settings
 * gives the same to all (cupy/cupy#4866, #2113). */
Test(field_fw, fw_07_a_limit_belongs_to_its_pool)
{
    rig zero, one;
    rig_open(&zero, (weir_sim_config){0}, (weir_config){.limit_bytes = GIB});
    rig_open(&one, (weir_sim_config){0}, (weir_config){0});
    EXPECT_OK(weir_limit_set(zero.pool, 2 * GIB));
    cr_expect_eq(rig_stats(&zero).limit_bytes, 2 * GIB);
    cr_expect_eq(rig_stats(&one).limit_bytes, WEIR_NO_LIMIT);
    rig_close(&zero);
    rig_close(&one);
}

Test(field_fw, fw_07_one_line_of_settings_limits_every_device)
{
    weir_conf conf;
    char error[WEIR_CONF_ERROR_BYTES] = "";
    weir_conf_init(&conf);
    EXPECT_OK(weir_conf_parse(&conf, "limit_mb:50%", error));
    for (unsigned i = 1; i <= 3; i++) {
        rig r;
        weir_conf resolved = conf;
        EXPECT_OK(weir_conf_resolve(&resolved, i * 8 * GIB, error));
        rig_open(&r, (weir_sim_config){.memory_bytes = i * 8 * GIB}, resolved.pool);
        cr_expect_eq(rig_stats(&r).limit_bytes, i * 4 * GIB);
        rig_close(&r);
    }
}

/* Growing on demand ran out of memory where one large pool at the start did not: regions of several
 * driver calls did not join. Sizes rise by a twentieth from 64 MiB to 3 GiB, the next one taken
 * before the last is freed (tensorflow/tensorflow#6111, jax-ml/jax#788). */
static uint64_t fw09_reach(weir_config config)
{
    rig r;
    weir_addr last = 0, next = 0;
    uint64_t bytes = 64 * MIB;
    rig_open(&r, (weir_sim_config){.memory_bytes = 8 * GIB}, config);
    last = rig_alloc(&r, 0, bytes);
    while (bytes < 3 * GIB && rig_try(&r, 0, bytes + bytes / 20, &next) == WEIR_OK) {
        bytes += bytes / 20;
        rig_free(&r, last, 0);
        last = next;
    }
    rig_free(&r, last, 0);
    rig_close(&r);
    return bytes;
}

Test(field_fw, fw_09_growth_reaches_as_far_as_one_large_pool)
{
    uint64_t grown = fw09_reach((weir_config){0});
    cr_expect_geq(grown, 3 * GIB);
    cr_expect_eq(grown, fw09_reach((weir_config){.initial_bytes = 8 * GIB}));
}

/* After two days a request of 300 MB failed with 1 GB free, and nothing said why. Where nothing may
 * be moved or copied, the report tells what is free, the longest run, and what shares a handle with
 * live blocks; with the defaults all granules without a live byte serve (jax-ml/jax#7913). */
typedef struct soak {
    weir_addr kept[4096];
    unsigned count;
} soak;

static void fw10_soak(rig *r, soak *long_lived)
{
    enum { SLOTS = 512 };
    static weir_addr addr[SLOTS];
    uint32_t random = 10;
    memset(addr, 0, sizeof(addr));
    long_lived->count = 0;
    for (unsigned i = 0; i < 100000; i++) {
        unsigned slot = rig_random(&random) % SLOTS;
        if (addr[slot] != 0) rig_free(r, addr[slot], 0);
        addr[slot] = 0;
        if (rig_try(r, 0, 64 * KIB + rig_random(&random) % (4 * MIB), &addr[slot]) != WEIR_OK)
            continue;
        if (i % 100 == 0 && long_lived->count < 400) {
            EXPECT_OK(weir_resize(r->pool, addr[slot], 64 * KIB));
            long_lived->kept[long_lived->count++] = addr[slot];
            addr[slot] = 0;
        }
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (addr[i] != 0) rig_free(r, addr[i], 0);
}

Test(field_fw, fw_10_a_refusal_says_what_is_free_and_what_is_stranded)
{
    static soak kept;
    rig r;
    weir_addr addr;
    rig_open(&r, (weir_sim_config){0},
             (weir_config){.limit_bytes = 1280 * MIB,
                           .no_moves = true,
                           .no_rescue = true,
                           .growth_bytes = 64 * MIB,
                           .initial_bytes = 1280 * MIB});
    fw10_soak(&r, &kept);
    EXPECT_STATUS(rig_try(&r, 0, 1200 * MIB, &addr), WEIR_NO_MEMORY);
    weir_oom oom = rig_oom(&r);
    rig_sums sums = rig_walk(&r);
    /* What was wholly free went back to the device, which did not help either. */
    cr_expect_geq(oom.free_bytes + (oom.limit_bytes - oom.reserved_bytes), 1024 * MIB);
    cr_expect_eq(oom.free_bytes + oom.allocated_bytes + rig_stats(&r).idle_bytes,
                 oom.reserved_bytes);
    cr_expect_eq(oom.largest_free_bytes, sums.longest_free);
    cr_expect_gt(oom.stranded_bytes, 0);
    cr_expect_eq(sums.live_blocks, kept.count);
    rig_free_all(&r, kept.kept, kept.count, 0);
    rig_close(&r);
}

typedef struct granules {
    uint64_t bytes; /* of granules that hold a live byte */
    uint64_t end;   /* of the last */
} granules;

static bool fw10_granule(void *self, const weir_block *block)
{
    granules *g = (granules *)self;
    uint64_t from = block->addr / GRANULE * GRANULE;
    uint64_t end = (block->addr + block->bytes + GRANULE - 1) / GRANULE * GRANULE;
    if (!block->live) return true;
    if (from < g->end) from = g->end;
    g->bytes += end - from;
    g->end = end;
    return true;
}

Test(field_fw, fw_10_with_the_defaults_every_granule_without_live_bytes_serves)
{
    static soak kept;
    granules live = {0, 0};
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 1280 * MIB});
    fw10_soak(&r, &kept);
    weir_walk_blocks(r.pool, fw10_granule, &live);
    cr_assert_lt(live.bytes, 1280 * MIB);
    weir_addr big = rig_alloc(&r, 0, 1280 * MIB - live.bytes);
    rig_check(&r);
    rig_free(&r, big, 0);
    rig_free_all(&r, kept.kept, kept.count, 0);
    rig_close(&r);
}

/* Memory whose free was deferred was still shown as used. It leaves the used bytes at the free,
 * counts as pending, and ends there once its uses have passed (numba/numba#1531). */
Test(field_fw, fw_14_pending_bytes_are_told_apart)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    weir_addr x = rig_alloc(&r, 1, 8 * MIB);
    weir_sim_stall(r.sim, r.native[2]);
    EXPECT_OK(weir_use(r.pool, x, r.stream[2]));
    rig_write(&r, 2, x, 8 * MIB, 1);
    rig_free(&r, x, 1);
    cr_expect_eq(rig_stats(&r).allocated.current, 0);
    cr_expect_eq(rig_stats(&r).pending.current, 8 * MIB);
    EXPECT_STATUS(weir_finish(r.pool, 0), WEIR_WOULD_WAIT);
    cr_expect_eq(rig_stats(&r).pending.current, 8 * MIB);
    weir_sim_go(r.sim, r.native[2]);
    weir_sim_sync(r.sim, 0);
    EXPECT_OK(weir_finish(r.pool, 0));
    cr_expect_eq(rig_stats(&r).pending.current, 0);
    cr_expect_eq(rig_walk(&r).free_mapped, rig_reserved(&r) - rig_stats(&r).idle_bytes);
    rig_close(&r);
}

/* A block allocated during a capture was freed outside it: an error, and each launch leaked. Memory
 * of a capture lies in a domain: its free is a free, and a hundred launches change nothing
 * (JuliaGPU/CUDA.jl#1230). */
Test(field_fw, fw_15_memory_of_a_capture_is_freed_and_replayed)
{
    rig r;
    weir_domain domain;
    weir_addr x = 0;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.limit_bytes = 64 * MIB});
    EXPECT_OK(weir_domain_create(r.pool, &domain));
    weir_request request = rig_request(&r, 0, 4 * MIB);
    request.domain = domain;
    request.flags = WEIR_NO_EVENTS;
    EXPECT_OK(weir_alloc(r.pool, &request, &x));
    rig_free(&r, x, 0);
    uint64_t reserved = rig_reserved(&r);
    for (unsigned launch = 0; launch < 100; launch++) {
        rig_write(&r, 0, x, 4 * MIB, launch);
        weir_addr eager = rig_alloc(&r, 0, 4 * MIB);
        cr_expect(eager + 4 * MIB <= x || eager >= x + 4 * MIB, "lent out of the domain");
        rig_write(&r, 0, eager, 4 * MIB, 1000 + launch);
        rig_read(&r, 0, x, 4 * MIB, launch);
        rig_free(&r, eager, 0);
        if (launch == 0) reserved = rig_reserved(&r);
        cr_expect_eq(rig_reserved(&r), reserved);
    }
    EXPECT_OK(weir_domain_release(r.pool, domain));
    rig_close(&r);
}

/* An arena that doubled took 32 GB for a model of 16. 17 GiB in steps of 256 MiB hold at most
 * 18 GiB (microsoft/onnxruntime#15983). */
Test(field_fw, fw_19_growth_does_not_double)
{
    rig r;
    weir_addr addr[68];
    rig_open(&r, (weir_sim_config){0}, (weir_config){0});
    for (unsigned i = 0; i < 68; i++) {
        addr[i] = rig_alloc(&r, 0, 256 * MIB);
        cr_expect_leq(rig_reserved(&r), (i + 1) * 256 * MIB + 64 * MIB);
    }
    cr_expect_leq(rig_reserved(&r), 18 * GIB);
    rig_free_all(&r, addr, 68, 0);
    rig_close(&r);
}

/* Blocks in the free lists of streams leaked when the pool ended, as only the shared list was given
 * back (NVIDIA/DALI#3402). */
Test(field_fw, fw_25_destroy_gives_back_what_streams_freed)
{
    rig r;
    rig_open(&r, (weir_sim_config){.lag_us = 1000}, (weir_config){0});
    for (unsigned s = 0; s < 8; s++) {
        weir_addr addr[4];
        uint64_t native = weir_sim_stream_create(r.sim);
        weir_stream stream = rig_attach(&r, native, s % 2 == 0);
        for (unsigned i = 0; i < 4; i++) {
            EXPECT_OK(weir_alloc_on(r.pool, stream, 8 * MIB, &addr[i]));
            weir_sim_write(r.sim, native, addr[i], 8 * MIB, s);
        }
        for (unsigned i = 0; i < 4; i++) EXPECT_OK(weir_free(r.pool, addr[i], stream));
    }
    cr_assert_gt(rig_reserved(&r), 0);
    EXPECT_OK(weir_pool_destroy(r.pool)); /* without any synchronisation before */
    rig_close_device(&r);
}

/* A free that named no stream handed memory on before its use was complete. The block is not given
 * to any stream before the work ends, unless that stream was made to wait (NVIDIA/DALI#2983). */
Test(field_fw, fw_26_a_free_without_a_stream_defers_reuse)
{
    rig r;
    rig_open(&r, (weir_sim_config){0}, (weir_config){.no_stream_reuse = true});
    weir_addr x = rig_alloc(&r, 1, 4 * MIB);
    weir_sim_stall(r.sim, r.native[1]);
    rig_write(&r, 1, x, 4 * MIB, 1);
    EXPECT_OK(weir_free(r.pool, x, 0));
    for (unsigned s = 0; s < RIG_STREAMS; s++) {
        weir_addr y = rig_alloc(&r, s, 4 * MIB);
        if (s != 1) cr_expect_neq(y, x, "stream %u got it", s);
        rig_write(&r, s, y, 4 * MIB, 10 + s);
        rig_free(&r, y, s);
    }
    weir_sim_go(r.sim, r.native[1]);
    rig_close(&r);
}

/* Allocation, release of the cache, making of an event, allocation: a circle under one lock. A
 * reclaimer frees a hundred blocks that need new events and allocates itself, inside a failing
 * allocation, and the observer allocates too; neither hangs, as both run unlocked
 * (ml-explore/mlx#2232). */
typedef struct fw27 {
    rig *r;
    weir_addr held[100], extra;
    unsigned asked, told;
    bool inside;
} fw27;

static bool fw27_reclaim(void *self, uint64_t bytes)
{
    fw27 *f = (fw27 *)self;
    cr_expect_gt(bytes, 0);
    if (f->asked++ != 0) return false;
    for (unsigned i = 0; i < 100; i++) rig_free(f->r, f->held[i], 1 + i % 3);
    f->extra = rig_alloc(f->r, 2, 64);
    return true;
}

static void fw27_observe(void *self, const weir_record *record)
{
    fw27 *f = (fw27 *)self;
    weir_addr addr;
    f->told += record->what == WEIR_DID_FREE;
    if (f->inside || record->what != WEIR_DID_FREE) return;
    f->inside = true;
    if (rig_try(f->r, 3, 64, &addr) == WEIR_OK) rig_free(f->r, addr, 3);
    f->inside = false;
}

Test(field_fw, fw_27_callbacks_may_allocate_and_free, .timeout = 5)
{
    rig r;
    fw27 f;
    memset(&f, 0, sizeof(f));
    f.r = &r;
    rig_open(&r, (weir_sim_config){.lag_us = 10}, (weir_config){.limit_bytes = 202 * MIB});
    for (unsigned i = 0; i < 100; i++) {
        f.held[i] = rig_alloc(&r, 1 + i % 3, 2 * MIB);
        rig_write(&r, 1 + i % 3, f.held[i], 2 * MIB, i);
    }
    weir_reclaimer_set(r.pool, fw27_reclaim, &f);
    weir_observer_set(r.pool, fw27_observe, &f);
    weir_addr big = rig_alloc(&r, 0, 150 * MIB);
    cr_expect_eq(f.asked, 1);
    cr_expect_geq(f.told, 100);
    cr_expect_eq(rig_stats(&r).reclaims, 1);
    rig_free(&r, big, 0);
    rig_free(&r, f.extra, 2);
    weir_observer_set(r.pool, NULL, NULL);
    weir_reclaimer_set(r.pool, NULL, NULL);
    rig_close(&r);
}

/* A ledger of its own said there was room, while another user had 30 % of the device: when the
 * device refuses, what is cached is given back or used, and the request tried again
 * (tinygrad/tinygrad#2175). */
static void fw28_other_user(bool no_virtual)
{
    rig r;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB, .no_virtual = no_virtual},
             (weir_config){0});
    rig_free(&r, rig_alloc(&r, 1, 400 * MIB), 1);
    weir_sim_tenant(r.sim, 300 * MIB);
    weir_addr big = rig_alloc(&r, 0, 700 * MIB);
    cr_expect_leq(rig_totals(&r).held_bytes, 724 * MIB);
    rig_free(&r, big, 0);
    rig_close(&r);
}

Test(field_fw, fw_28_a_refusing_device_is_asked_again_after_giving_back)
{
    fw28_other_user(false);
    fw28_other_user(true);
}

/* A driver's pool returned zeroed buffers unless its threshold was at its highest. Two streams,
 * 600 rounds, real bytes on the host device, with memory kept and with all of it given back between
 * rounds (OpenNMT/CTranslate2#2090). */
static void fw30_patterns(bool give_back)
{
    weir_host *host = weir_host_create(&(weir_host_config){.memory_bytes = 64 * MIB});
    weir_platform *platform = weir_platform_create(true);
    weir_pool *pool = NULL;
    uint64_t native[2];
    weir_stream stream[2];
    if (host == NULL) cr_skip_test("this system gives no shared memory file");
    weir_config config = {.size = sizeof(config),
                          .ops = weir_host_ops(host),
                          .device_self = host,
                          .platform = platform,
                          .limit_bytes = 32 * MIB,
                          .keep_bounded = give_back};
    cr_assert_eq(weir_pool_create(&config, &pool), WEIR_OK);
    for (unsigned i = 0; i < 2; i++) {
        native[i] = weir_host_stream_create(host);
        weir_stream_desc desc = {.size = sizeof(desc),
                                 .native = native[i],
                                 .unique = weir_host_stream_unique(host, native[i])};
        EXPECT_OK(weir_stream_attach(pool, &desc, &stream[i]));
    }
    for (unsigned i = 0; i < 600; i++) {
        weir_addr addr[2];
        for (unsigned s = 0; s < 2; s++) {
            cr_assert_eq(weir_alloc_on(pool, stream[s], 300 * KIB, &addr[s]), WEIR_OK);
            weir_host_fill(host, native[s], addr[s], 300 * KIB, 2 * i + s);
            weir_host_verify(host, native[s], addr[s], 300 * KIB, 2 * i + s);
        }
        for (unsigned s = 0; s < 2; s++) EXPECT_OK(weir_free(pool, addr[s], stream[s]));
        if (i % 8 == 0) EXPECT_OK(weir_finish(pool, WEIR_FOREVER));
    }
    weir_host_sync(host, 0);
    cr_expect_eq(weir_host_errors(host), 0);
    EXPECT_OK(weir_check(pool, NULL));
    EXPECT_OK(weir_pool_destroy(pool));
    cr_expect_null(weir_host_balance(host));
    weir_host_destroy(host);
    weir_platform_destroy(platform);
}

Test(field_fw, fw_30_contents_stand_with_memory_kept, .timeout = 60)
{
    fw30_patterns(false);
}

Test(field_fw, fw_30_contents_stand_with_memory_given_back, .timeout = 60)
{
    fw30_patterns(true);
}

/* Two pools each reserved 92 % of what they were shown, and the second aborted. The second create
 * fails with a status and leaves nothing (Project-HAMi/HAMi#2375). */
Test(field_fw, fw_31_a_second_pool_that_does_not_fit_fails_cleanly)
{
    rig r;
    weir_pool *second = NULL;
    const uint64_t most = GIB / 100 * 92;
    rig_open(&r, (weir_sim_config){.memory_bytes = GIB}, (weir_config){.initial_bytes = most});
    uint64_t held = rig_totals(&r).held_bytes;
    cr_expect_geq(held, most);
    weir_config config = rig_config(&r, (weir_config){.initial_bytes = most});
    EXPECT_STATUS(weir_pool_create(&config, &second), WEIR_NO_MEMORY);
    cr_expect_null(second);
    cr_expect_eq(rig_totals(&r).held_bytes, held);
    rig_free(&r, rig_alloc(&r, 0, most), 0);
    rig_close(&r);
}
