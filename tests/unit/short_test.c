/* SPDX-License-Identifier: MIT */
/*
 * Host memory that is short at any moment: whatever a call was doing, it says so, or does without,
 * and changes nothing else. All spare nodes are set aside, so that each call that may need some asks
 * for more.
 */
#include "pool.h"
#include "rig.h"

#define SHORT_BLOCKS 12u

typedef struct shortage {
    sim_rig *rig;
    weir_addr addr[SHORT_BLOCKS];
    weir_domain domain;
    weir_status status; /* of the call that is tried */
} shortage;

static void short_open(shortage *of, rig_options options)
{
    options.streams = 2;
    of->rig = weir_rig_open(&options);
    ASSERT_OK(weir_domain_create(of->rig->pool, &of->domain));
    for (unsigned i = 0; i < SHORT_BLOCKS; i++) {
        of->addr[i] = weir_rig_alloc(of->rig, 0, 2 * MIB);
        weir_rig_write(of->rig, 0, of->addr[i], 2 * MIB, i);
    }
    for (unsigned i = 1; i < SHORT_BLOCKS; i += 2) weir_rig_free(of->rig, 0, of->addr[i]);
}

static void short_close(shortage *of)
{
    for (unsigned i = 0; i < SHORT_BLOCKS; i += 2) {
        weir_rig_read(of->rig, 0, of->addr[i], 2 * MIB, i);
        weir_rig_free(of->rig, 0, of->addr[i]);
    }
    (void)weir_domain_release(of->rig->pool, of->domain);
    weir_rig_close(of->rig);
}

/* Tries a call with the k-th piece of host memory refused, for every k that it comes to. */
static void short_sweep(rig_options options, void (*call)(shortage *of))
{
    bool told = false;
    for (uint64_t k = 1; k < 40; k++) {
        shortage of;
        short_open(&of, options);
        weir_range *range = &of.rig->pool->range;
        uint32_t aside = range->spare;
        range->reserve += aside;
        weir_host_memory_fail(&of.rig->memory, k, false);
        uint64_t calls = of.rig->memory.calls;
        call(&of);
        bool struck = of.rig->memory.calls - calls >= k;
        weir_host_memory_fail(&of.rig->memory, 0, false);
        range->reserve -= aside;
        weir_rig_check(of.rig);
        cr_expect(of.status == WEIR_OK || of.status == WEIR_NO_METADATA, "at %u: %s", (unsigned)k,
                  weir_status_name(of.status));
        told = told || of.status == WEIR_NO_METADATA;
        short_close(&of);
        if (!struck) break;
        cr_expect_lt(k, 39);
    }
    cr_expect(told, "no shortage was ever told");
}

static rig_options short_options(void)
{
    return (rig_options){.pool = {.limit_bytes = 32 * MIB, .growth_bytes = 2 * MIB}};
}

static void short_try(shortage *of, weir_request request)
{
    weir_addr addr = 0;
    of->status = weir_alloc(of->rig->pool, &request, &addr);
    if (of->status == WEIR_OK) ASSERT_OK(weir_free(of->rig->pool, addr, 0));
    else cr_expect_eq(addr, 0);
}

static void short_growth(shortage *of)
{
    short_try(of, weir_rig_request(of->rig, 0, 9 * MIB));
}

Test(short, a_growth)
{
    short_sweep(short_options(), short_growth);
}

static void short_move(shortage *of)
{
    weir_pool_lock(of->rig->pool);
    weir_pool_press(of->rig->pool, true);
    weir_pool_unlock(of->rig->pool);
    short_try(of, weir_rig_request(of->rig, 1, 10 * MIB));
}

Test(short, a_move)
{
    rig_options options = short_options();
    options.pool.limit_bytes = 24 * MIB;
    short_sweep(options, short_move);
}

static void short_pin(shortage *of)
{
    weir_request request = weir_rig_request(of->rig, 0, 2 * MIB);
    request.flags = WEIR_PINNED;
    short_try(of, request);
}

Test(short, a_pinned_block)
{
    short_sweep(short_options(), short_pin);
}

static void short_small(shortage *of)
{
    short_try(of, weir_rig_request(of->rig, 1, 100));
}

/* The region of small blocks can't grow: the block may lie among the others, if their set can be
 * made. */
Test(short, a_small_block)
{
    rig_options options = short_options();
    options.pool.limit_bytes = 24 * MIB;
    short_sweep(options, short_small);
}

static void short_resize(shortage *of)
{
    of->status = weir_resize(of->rig->pool, of->addr[2], 3 * MIB);
    uint64_t bytes = weir_rig_find(of->rig, of->addr[2]).requested_bytes;
    cr_expect_eq(bytes, of->status == WEIR_OK ? 3 * MIB : 2 * MIB);
    if (of->status == WEIR_OK) ASSERT_OK(weir_resize(of->rig->pool, of->addr[2], 2 * MIB));
}

Test(short, a_resize)
{
    short_sweep(short_options(), short_resize);
}

static void short_trim(shortage *of)
{
    of->status = weir_trim(of->rig->pool, 0, WEIR_FOREVER, NULL);
}

Test(short, a_trim)
{
    short_sweep(short_options(), short_trim);
}

/* What the domain's stream freed there has no set in the pool itself yet. */
static void short_release(shortage *of)
{
    weir_host_memory_fail(&of->rig->memory, 0, false);
    weir_request request = weir_rig_request(of->rig, 1, 2 * MIB);
    weir_addr addr;
    request.domain = of->domain;
    ASSERT_OK(weir_alloc(of->rig->pool, &request, &addr));
    weir_rig_free(of->rig, 1, addr);
    uint64_t calls = of->rig->memory.calls;
    weir_host_memory_fail(&of->rig->memory, 1, false);
    of->status = weir_domain_release(of->rig->pool, of->domain);
    cr_expect_eq(of->status, WEIR_NO_METADATA);
    cr_expect_eq(of->rig->memory.calls, calls + 1);
    EXPECT_STATUS(weir_domain_release(of->rig->pool, of->domain), WEIR_OK);
}

Test(short, a_domain_that_ends)
{
    shortage of;
    short_open(&of, short_options());
    short_release(&of);
    short_close(&of);
}

/* One more than the tables of streams hold; each of the tables may be the one that can't grow. */
Test(short, streams_beyond_the_tables)
{
    for (uint64_t k = 1; k <= 3; k++) {
        sim_rig *rig = weir_rig_open(&(rig_options){0});
        weir_stream stream = 0;
        weir_status status = WEIR_OK;
        for (unsigned i = 0; i < 60 && status == WEIR_OK; i++) {
            uint64_t native = weir_sim_stream_create(rig->sim);
            weir_stream_desc desc = {.size = sizeof(desc),
                                     .native = native,
                                     .outlives = true,
                                     .unique = weir_sim_stream_unique(rig->sim, native)};
            if (i == 5) weir_host_memory_fail(&rig->memory, k, false);
            stream = 0;
            status = weir_stream_attach(rig->pool, &desc, &stream);
            cr_expect_eq(stream == 0, status != WEIR_OK);
            if (status == WEIR_OK) continue;
            EXPECT_STATUS(status, WEIR_NO_METADATA);
            ASSERT_OK(weir_stream_attach(rig->pool, &desc, &stream));
            EXPECT_STATUS(weir_rig_try(rig, (weir_request){.size = sizeof(weir_request),
                                                           .bytes = MIB,
                                                           .stream = stream}),
                          WEIR_OK);
        }
        cr_expect_eq(status, WEIR_NO_METADATA);
        weir_rig_close(rig);
    }
}

static void short_segment(shortage *of)
{
    short_try(of, weir_rig_request(of->rig, 0, 9 * MIB));
}

Test(short, a_segment)
{
    rig_options options = short_options();
    options.sim.no_virtual = true;
    options.pool.limit_bytes = 48 * MIB;
    short_sweep(options, short_segment);
}
