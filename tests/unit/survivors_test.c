/* SPDX-License-Identifier: MIT */
/*
 * What no test saw until a bug was planted there: each of these failed for one mutant of the core
 * that had survived all others (tests/mutants).
 */
#include "rig.h"

static rig_options survivors_segments(uint64_t limit_bytes)
{
    return (rig_options){.sim = {.no_virtual = true}, .pool = {.limit_bytes = limit_bytes}};
}

/* ------------------------------------------------------------------------ bugs of other pools -- */

typedef struct survivors_guest {
    sim_rig *rig;
    bool asked;
    weir_status status;
} survivors_guest;

/* Asks for memory while the call that caused the record still runs. */
static void survivors_ask(void *self, const weir_record *record)
{
    survivors_guest *guest = (survivors_guest *)self;
    if (record->what != WEIR_DID_MAP || guest->asked) return;
    guest->asked = true;
    guest->status = weir_rig_try(guest->rig, weir_rig_request(guest->rig, 0, 12 * MIB));
}

static void survivors_ask_meanwhile(rig_options options)
{
    sim_rig *rig = weir_rig_open(&options);
    survivors_guest guest = {.rig = rig};
    weir_observer_set(rig->pool, survivors_ask, &guest);
    weir_addr addr = weir_rig_alloc(rig, 0, 12 * MIB);
    weir_observer_set(rig->pool, NULL, NULL);
    cr_expect(guest.asked);
    cr_expect_eq(guest.status, WEIR_NO_MEMORY, "%s", weir_status_name(guest.status));
    cr_expect_leq(weir_rig_stats(rig).reserved.peak, 16 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(survivors, memory_that_is_being_taken_counts_against_the_limit)
{
    survivors_ask_meanwhile(survivors_segments(16 * MIB));
    survivors_ask_meanwhile((rig_options){.pool = {.limit_bytes = 16 * MIB}});
}

Test(survivors, a_domain_keeps_what_a_stream_that_may_end_frees)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.pool = {.limit_bytes = 16 * MIB}, .streams = 2, .short_lived = 3});
    weir_request request = weir_rig_request(rig, 0, 12 * MIB);
    weir_addr addr = 0;
    ASSERT_OK(weir_domain_create(rig->pool, &request.domain));
    for (unsigned by = 0; by < 2; by++) {
        ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
        weir_rig_free(rig, by, addr);
        EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_NO_MEMORY);
    }
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    ASSERT_OK(weir_domain_release(rig->pool, request.domain));
    weir_rig_close(rig);
}

/* A block that two streams use, which becomes free when both are done. */
static void survivors_wait(unsigned asking)
{
    sim_rig *rig =
        weir_rig_open(&(rig_options){.sim = {.lag_us = 1000},
                                     .streams = 3,
                                     .pool = {.limit_bytes = 16 * MIB, .no_stream_reuse = true}});
    weir_addr addr = weir_rig_alloc(rig, 0, 14 * MIB);
    weir_rig_write(rig, 0, addr, 14 * MIB, 1);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_rig_free(rig, 0, addr);
    weir_stats before = weir_rig_stats(rig);
    cr_expect_eq(weir_rig_alloc(rig, asking, 14 * MIB), addr);
    weir_stats after = weir_rig_stats(rig);
    cr_expect_gt(after.host_waits, before.host_waits);
    cr_expect_eq(after.unmaps + after.creates + after.maps,
                 before.unmaps + before.creates + before.maps, "the device was asked for memory");
    weir_rig_free(rig, asking, addr);
    weir_rig_close(rig);
}

Test(survivors, what_a_wait_of_the_host_frees_is_used_where_it_lies)
{
    for (unsigned asking = 1; asking < 3; asking++) survivors_wait(asking);
}

static bool survivors_count(void *self, const weir_segment *segment)
{
    *(uint64_t *)self += segment->handle != 0;
    return true;
}

Test(survivors, segments_are_counted_as_they_can_be_walked)
{
    for (unsigned with = 0; with < 2; with++) {
        rig_options options = survivors_segments(64 * MIB);
        options.sim.no_virtual = with == 0;
        sim_rig *rig = weir_rig_open(&options);
        weir_addr addr[4];
        for (unsigned i = 0; i < 4; i++) addr[i] = weir_rig_alloc(rig, 0, 8 * MIB);
        for (unsigned i = 0; i < 4; i++) {
            uint64_t walked = 0;
            weir_rig_free(rig, 0, addr[i]);
            ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
            weir_walk_segments(rig->pool, survivors_count, &walked);
            cr_expect_eq(weir_rig_stats(rig).segments.current, walked);
            cr_expect_eq(weir_rig_stats(rig).segments.total, weir_rig_stats(rig).creates);
        }
        cr_expect_eq(weir_rig_stats(rig).segments.current, 0);
        weir_rig_close(rig);
    }
}

/* Joined with the free memory before it, the request would go to the beginning of both. */
Test(survivors, the_block_freed_last_is_kept_by_what_it_occupies)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_addr low = weir_rig_alloc(rig, 0, 3 * MIB - 100);
    weir_addr high = weir_rig_alloc(rig, 0, 3 * MIB - 100);
    weir_rig_free(rig, 0, low);
    weir_rig_free(rig, 0, high);
    cr_expect_eq(weir_rig_alloc(rig, 0, 3 * MIB - 100), high);
    weir_rig_free(rig, 0, high);
    weir_rig_close(rig);
}

static weir_status survivors_bogus(void *self, uint64_t *free_bytes, uint64_t *total_bytes)
{
    (void)self;
    *free_bytes = UINT64_MAX - 4095;
    *total_bytes = 8 * MIB;
    return WEIR_OK;
}

Test(survivors, a_device_cannot_have_more_free_than_it_has)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){.memory_bytes = 8 * MIB});
    weir_device_ops ops = *weir_sim_ops(rig->sim);
    ops.memory_info = survivors_bogus;
    weir_config config = {.size = sizeof(config),
                          .ops = &ops,
                          .device_self = rig->sim,
                          .platform = &rig->memory.platform};
    ASSERT_OK(weir_pool_create(&config, &rig->pool));
    weir_rig_attach(rig, 0, true);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_oom(rig).device_free_bytes, 8 * MIB);
    cr_expect_eq(weir_rig_oom(rig).short_bytes, 8 * MIB);
    weir_rig_close(rig);
}

/* ----------------------------------------------------------------------------------- locking -- */

#define SURVIVORS_LOCKS(rig, call) \
    do { \
        uint64_t before_ = (rig)->memory.locks; \
        (void)(call); \
        cr_expect_gt((rig)->memory.locks, before_, "no lock: %s", #call); \
        cr_expect_not((rig)->memory.held, "the lock is left held: %s", #call); \
    } while (0)

static bool survivors_no_block(void *self, const weir_block *block)
{
    (void)self, (void)block;
    return false;
}

Test(survivors, every_call_takes_the_lock_and_gives_it_back)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.streams = 2});
    weir_request request = weir_rig_request(rig, 0, MIB);
    weir_addr addr = 0, other = 0;
    weir_domain domain = 0;
    weir_block block;
    weir_stats stats = {.size = sizeof(stats)};
    weir_oom oom = {.size = sizeof(oom)};
    uint64_t none = 0;
    SURVIVORS_LOCKS(rig, weir_alloc_on(rig->pool, rig->stream[0], MIB, &addr));
    SURVIVORS_LOCKS(rig, weir_alloc(rig->pool, &request, &other));
    SURVIVORS_LOCKS(rig, weir_use(rig->pool, addr, rig->stream[1]));
    SURVIVORS_LOCKS(rig, weir_pin(rig->pool, addr));
    SURVIVORS_LOCKS(rig, weir_unpin(rig->pool, addr));
    SURVIVORS_LOCKS(rig, weir_resize(rig->pool, other, 2 * MIB));
    SURVIVORS_LOCKS(rig, weir_block_find(rig->pool, addr, &block));
    SURVIVORS_LOCKS(rig, weir_free(rig->pool, addr, rig->stream[1]));
    SURVIVORS_LOCKS(rig, weir_free(rig->pool, other, rig->stream[0]));
    SURVIVORS_LOCKS(rig, weir_alloc_on(rig->pool, rig->stream[0], 2 * MIB, &addr));
    SURVIVORS_LOCKS(rig, weir_free(rig->pool, addr, 0));
    SURVIVORS_LOCKS(rig, weir_domain_create(rig->pool, &domain));
    SURVIVORS_LOCKS(rig, weir_domain_release(rig->pool, domain));
    SURVIVORS_LOCKS(rig, weir_finish(rig->pool, WEIR_FOREVER));
    SURVIVORS_LOCKS(rig, weir_trim(rig->pool, 0, 0, &none));
    SURVIVORS_LOCKS(rig, weir_limit_set(rig->pool, GIB));
    SURVIVORS_LOCKS(rig, (weir_observer_set(rig->pool, NULL, NULL), 0));
    SURVIVORS_LOCKS(rig, (weir_reclaimer_set(rig->pool, NULL, NULL), 0));
    SURVIVORS_LOCKS(rig, (weir_stats_read(rig->pool, &stats), 0));
    SURVIVORS_LOCKS(rig, (weir_stats_reset_peaks(rig->pool), 0));
    SURVIVORS_LOCKS(rig, weir_oom_read(rig->pool, &oom));
    SURVIVORS_LOCKS(rig, weir_native_error(rig->pool));
    SURVIVORS_LOCKS(rig, (weir_walk_blocks(rig->pool, survivors_no_block, NULL), 0));
    SURVIVORS_LOCKS(rig, (weir_walk_segments(rig->pool, survivors_count, &none), 0));
    SURVIVORS_LOCKS(rig, weir_check(rig->pool, NULL));
    SURVIVORS_LOCKS(rig, weir_stream_retire(rig->pool, rig->stream[1]));
    SURVIVORS_LOCKS(rig, weir_stream_forget(rig->pool, rig->stream[0]));
    weir_rig_close(rig);
}
