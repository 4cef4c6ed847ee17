/* SPDX-License-Identifier: MIT */
/*
 * Calls that are made while another call is at the device, from an observer: what two threads do to
 * each other, without the chance.
 */
#include "pool.h"
#include "rig.h"

typedef struct meanwhile {
    sim_rig *rig;
    weir_what when; /* the first record of this kind */
    void (*act)(struct meanwhile *of);
    bool done;
    weir_status status;
    weir_addr addr;
} meanwhile;

static void meanwhile_hear(void *self, const weir_record *record)
{
    meanwhile *of = (meanwhile *)self;
    if (of->done || record->what != of->when) return;
    of->done = true;
    of->act(of);
}

static void meanwhile_watch(meanwhile *of)
{
    weir_observer_set(of->rig->pool, meanwhile_hear, of);
}

static void meanwhile_end(meanwhile *of)
{
    cr_expect(of->done, "it was never heard of");
    weir_observer_set(of->rig->pool, NULL, NULL);
    weir_rig_check(of->rig);
}

static void meanwhile_alloc(meanwhile *of)
{
    of->status = weir_alloc_on(of->rig->pool, of->rig->stream[0], 2 * MIB, &of->addr);
}

Test(meanwhile, a_block_beyond_max_blocks_is_undone)
{
    meanwhile of = {.when = WEIR_DID_MAP, .act = meanwhile_alloc};
    of.rig = weir_rig_open(&(rig_options){.pool = {.max_blocks = 1, .growth_bytes = 2 * MIB}});
    weir_addr addr = 77;
    meanwhile_watch(&of);
    EXPECT_STATUS(weir_alloc_on(of.rig->pool, of.rig->stream[0], 2 * MIB, &addr), WEIR_NO_METADATA);
    meanwhile_end(&of);
    cr_expect_eq(of.status, WEIR_OK);
    cr_expect_eq(addr, 77);
    cr_expect_eq(weir_rig_oom(of.rig).status, WEIR_NO_METADATA);
    cr_expect_eq(weir_rig_stats(of.rig).blocks.current, 1);
    weir_rig_free(of.rig, 0, of.addr);
    weir_rig_close(of.rig);
}

/* ---------------------------------------------------------------------------------- streams -- */

static void meanwhile_retire(meanwhile *of)
{
    of->status = weir_stream_retire(of->rig->pool, of->rig->stream[1]);
}

/* The stream of the call itself: its block is given out, and freed by another. */
Test(meanwhile, a_stream_ends_while_its_own_call_grows)
{
    for (unsigned outlives = 0; outlives < 2; outlives++) {
        meanwhile of = {.when = WEIR_DID_MAP, .act = meanwhile_retire};
        of.rig = weir_rig_open(&(rig_options){.streams = 2, .short_lived = outlives == 0 ? 2 : 0});
        meanwhile_watch(&of);
        weir_addr addr = weir_rig_alloc(of.rig, 1, 2 * MIB);
        meanwhile_end(&of);
        cr_expect_eq(of.status, WEIR_OK);
        EXPECT_STATUS(weir_free(of.rig->pool, addr, of.rig->stream[1]), WEIR_STALE);
        weir_rig_free(of.rig, 0, addr);
        weir_rig_close(of.rig);
    }
}

/* ------------------------------------------------------------------------------ checks, loss -- */

static void meanwhile_check(meanwhile *of)
{
    const char *why = "";
    of->status = weir_check(of->rig->pool, &why);
    cr_expect_eq(of->status, WEIR_OK, "%s", why);
}

static void meanwhile_moves(sim_rig *rig, weir_addr *addr, weir_addr *large)
{
    for (unsigned i = 0; i < 12; i++) addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
    for (unsigned i = 1; i < 12; i += 2) weir_rig_free(rig, 0, addr[i]);
    *large = weir_rig_alloc(rig, 0, 10 * MIB);
    cr_assert_gt(weir_rig_stats(rig).shadowed_bytes, 0);
}

Test(meanwhile, a_pool_is_sound_whenever_it_is_heard_of)
{
    static const weir_what whens[] = {WEIR_DID_MAP, WEIR_DID_MOVE, WEIR_WILL_UNMAP};
    for (unsigned i = 0; i < 3; i++) {
        weir_addr addr[12], large;
        meanwhile of = {.when = whens[i], .act = meanwhile_check};
        of.rig = weir_rig_open(
            &(rig_options){.pool = {.limit_bytes = 24 * MIB, .growth_bytes = 2 * MIB}});
        if (whens[i] != WEIR_WILL_UNMAP) meanwhile_watch(&of);
        meanwhile_moves(of.rig, addr, &large);
        if (whens[i] == WEIR_WILL_UNMAP) meanwhile_watch(&of);
        ASSERT_OK(weir_finish(of.rig->pool, WEIR_FOREVER));
        meanwhile_end(&of);
        for (unsigned k = 0; k < 12; k += 2) weir_rig_free(of.rig, 0, addr[k]);
        weir_rig_free(of.rig, 0, large);
        weir_rig_close(of.rig);
    }
}

static void meanwhile_lose(meanwhile *of)
{
    weir_sim_lose(of->rig->sim);
    meanwhile_alloc(of);
}

Test(meanwhile, what_one_call_loses_is_lost_to_the_one_that_runs)
{
    meanwhile of = {.when = WEIR_DID_MAP, .act = meanwhile_lose};
    of.rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    meanwhile_watch(&of);
    weir_addr addr = weir_rig_alloc(of.rig, 0, 2 * MIB);
    meanwhile_end(&of);
    cr_expect_eq(of.status, WEIR_LOST);
    weir_addr other;
    EXPECT_STATUS(weir_alloc_on(of.rig->pool, of.rig->stream[0], 8 * MIB, &other), WEIR_LOST);
    EXPECT_STATUS(weir_trim(of.rig->pool, 0, 0, NULL), WEIR_LOST);
    weir_rig_free(of.rig, 0, addr);
    weir_rig_close_loose(of.rig);
}

/* ------------------------------------------------------------------------------------- rescue -- */

static void meanwhile_large(meanwhile *of)
{
    of->status = weir_rig_try(of->rig, weir_rig_request(of->rig, 0, 46 * MIB));
}

/* The device is quiet for one call at a time. */
Test(meanwhile, a_second_rescue_does_not_begin_in_the_first)
{
    meanwhile of = {.when = WEIR_WILL_UNMAP, .act = meanwhile_large};
    static weir_addr keep[600];
    unsigned count = 0;
    of.rig = weir_rig_open(
        &(rig_options){.sim = {.granule_bytes = 64 * KIB}, .pool = {.limit_bytes = 64 * MIB}});
    while (weir_rig_stats(of.rig).allocated.current < 62 * MIB && count < 600) {
        keep[count++] = weir_rig_alloc(of.rig, 0, 64 * KIB);
        keep[count++] = weir_rig_alloc(of.rig, 0, 192 * KIB);
    }
    for (unsigned i = 1; i < count; i += 2) weir_rig_free(of.rig, 0, keep[i]);
    (void)weir_finish(of.rig->pool, WEIR_FOREVER);
    meanwhile_watch(&of);
    weir_addr large = weir_rig_alloc(of.rig, 0, 44 * MIB);
    meanwhile_end(&of);
    cr_expect_eq(of.status, WEIR_WOULD_WAIT, "%s", weir_status_name(of.status));
    cr_expect_eq(weir_rig_stats(of.rig).rescues, 1);
    weir_rig_free(of.rig, 0, large);
    for (unsigned i = 0; i < count; i += 2) weir_rig_free(of.rig, 0, keep[i]);
    weir_rig_close(of.rig);
}
