/* SPDX-License-Identifier: MIT */
/* Callbacks: every event of the observer, what it may do, and the reclaimer's turn. */
#include "rig.h"

#include <string.h>

#define OBSERVED_MAX 512

typedef struct observed {
    sim_rig *rig;
    weir_record record[OBSERVED_MAX];
    unsigned count;
    bool reenter;
} observed;

static void observer_note(void *self, const weir_record *record)
{
    observed *seen = (observed *)self;
    cr_assert_not(seen->rig->memory.held, "the lock is held in a callback");
    if (seen->count < OBSERVED_MAX) seen->record[seen->count++] = *record;
    if (seen->reenter) (void)weir_rig_stats(seen->rig);
}

static const weir_record *observer_find(const observed *seen, weir_what what)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->record[i].what == what) return &seen->record[i];
    return NULL;
}

static uint64_t observer_bytes(const observed *seen, weir_what what)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->record[i].what == what) bytes += seen->record[i].bytes;
    return bytes;
}

static sim_rig *observer_open(observed *seen, rig_options options)
{
    memset(seen, 0, sizeof(*seen));
    seen->reenter = true;
    seen->rig = weir_rig_open(&options);
    weir_observer_set(seen->rig->pool, observer_note, seen);
    return seen->rig;
}

Test(observer, allocs_and_frees_are_told)
{
    static observed seen; /* large, and stacks can be small */
    sim_rig *rig = observer_open(&seen, (rig_options){.streams = 2});
    weir_addr addr = weir_rig_alloc(rig, 0, 1000);
    const weir_record *told = observer_find(&seen, WEIR_DID_ALLOC);
    cr_assert_not_null(told);
    cr_expect_eq(told->addr, addr);
    cr_expect_eq(told->bytes, 1000);
    cr_expect_eq(told->stream, rig->stream[0]);
    cr_expect_eq(told->status, WEIR_OK);
    cr_expect_eq(told->domain, 0);
    weir_rig_free(rig, 1, addr);
    told = observer_find(&seen, WEIR_DID_FREE);
    cr_assert_not_null(told);
    cr_expect_eq(told->addr, addr);
    cr_expect_eq(told->bytes, 1000);
    cr_expect_eq(told->stream, rig->stream[1]);
    cr_expect_eq(weir_free(rig->pool, addr, 0), WEIR_NOT_FOUND);
    unsigned count = seen.count;
    weir_observer_set(rig->pool, NULL, NULL);
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 1000));
    cr_expect_eq(seen.count, count);
    weir_rig_close(rig);
}

Test(observer, failures_are_told_with_their_status)
{
    static observed seen; /* large, and stacks can be small */
    sim_rig *rig = observer_open(&seen, (rig_options){.pool = {.limit_bytes = 8 * MIB}});
    weir_addr addr = 0;
    EXPECT_STATUS(weir_alloc_on(rig->pool, rig->stream[0], 16 * MIB, &addr), WEIR_NO_MEMORY);
    const weir_record *told = observer_find(&seen, WEIR_DID_FAIL);
    cr_assert_not_null(told);
    cr_expect_eq(told->status, WEIR_NO_MEMORY);
    cr_expect_eq(told->bytes, 16 * MIB);
    cr_expect_eq(told->stream, rig->stream[0]);
    cr_expect_eq(told->addr, 0);
    weir_observer_set(rig->pool, NULL, NULL);
    weir_rig_close(rig);
}

Test(observer, memory_that_comes_and_goes_is_told)
{
    static observed seen; /* large, and stacks can be small */
    sim_rig *rig = observer_open(&seen, (rig_options){0});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 12 * MIB));
    cr_expect_eq(observer_bytes(&seen, WEIR_DID_MAP), weir_rig_stats(rig).reserved.current);
    uint64_t held = weir_rig_stats(rig).reserved.current;
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(observer_bytes(&seen, WEIR_WILL_UNMAP), held);
    weir_observer_set(rig->pool, NULL, NULL);
    weir_rig_close(rig);
}

Test(observer, segments_that_come_and_go_are_told)
{
    static observed seen; /* large, and stacks can be small */
    sim_rig *rig = observer_open(&seen, (rig_options){.sim = {.no_virtual = true}});
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 12 * MIB));
    cr_expect_eq(observer_bytes(&seen, WEIR_DID_MAP), weir_rig_stats(rig).reserved.current);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    cr_expect_eq(observer_bytes(&seen, WEIR_WILL_UNMAP), observer_bytes(&seen, WEIR_DID_MAP));
    weir_observer_set(rig->pool, NULL, NULL);
    weir_rig_close(rig);
}

Test(observer, moves_are_told_and_the_old_places_before_they_go)
{
    static observed seen; /* large, and stacks can be small */
    sim_rig *rig = observer_open(&seen, (rig_options){.pool = {.limit_bytes = 40 * MIB,
                                                               .growth_bytes = 2 * MIB,
                                                               .no_rescue = true}});
    weir_addr addr[10];
    for (unsigned i = 0; i < 10; i++) addr[i] = weir_rig_alloc(rig, 0, 4 * MIB);
    for (unsigned i = 1; i < 10; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_addr large = weir_rig_alloc(rig, 0, 16 * MIB);
    const weir_record *told = observer_find(&seen, WEIR_DID_MOVE);
    cr_assert_not_null(told);
    cr_expect(told->addr >= large && told->addr + told->bytes <= large + 16 * MIB);
    cr_expect_gt(weir_rig_stats(rig).moved_handles, 0);
    cr_expect_gt(weir_rig_stats(rig).shadowed_bytes, 0);
    uint64_t shadowed = weir_rig_stats(rig).shadowed_bytes;
    uint64_t told_before = observer_bytes(&seen, WEIR_WILL_UNMAP);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).shadowed_bytes, 0);
    cr_expect_eq(observer_bytes(&seen, WEIR_WILL_UNMAP) - told_before, shadowed,
                 "physical memory left these addresses unannounced");
    weir_observer_set(rig->pool, NULL, NULL);
    for (unsigned i = 0; i < 10; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_rig_free(rig, 0, large);
    weir_rig_close(rig);
}

Test(observer, a_domain_is_named_as_its_owner_knows_it)
{
    static observed seen; /* large, and stacks can be small */
    sim_rig *rig = observer_open(&seen, (rig_options){0});
    weir_domain domain = 0;
    weir_addr addr = 0;
    ASSERT_OK(weir_domain_create(rig->pool, &domain));
    weir_request request = weir_rig_request(rig, 0, 512);
    request.domain = domain;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    cr_expect_eq(observer_find(&seen, WEIR_DID_ALLOC)->domain, domain);
    weir_rig_free(rig, 0, addr);
    weir_observer_set(rig->pool, NULL, NULL);
    weir_rig_close(rig);
}

/* -------------------------------------------------------------------------------- reclaimer -- */

typedef struct reclaiming {
    sim_rig *rig;
    weir_addr held[8];
    unsigned count;
    unsigned asked;
    uint64_t bytes;
} reclaiming;

static bool observer_reclaim(void *self, uint64_t bytes)
{
    reclaiming *with = (reclaiming *)self;
    cr_assert_not(with->rig->memory.held, "the lock is held in a callback");
    with->asked++;
    with->bytes = bytes;
    if (with->count == 0) return false;
    while (with->count != 0) weir_rig_free(with->rig, 0, with->held[--with->count]);
    return true;
}

Test(observer, the_reclaimer_is_asked_once_before_an_allocation_fails)
{
    reclaiming with = {.rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 32 * MIB}})};
    weir_reclaimer_set(with.rig->pool, observer_reclaim, &with);
    while (with.count < 4) with.held[with.count++] = weir_rig_alloc(with.rig, 0, 8 * MIB);
    weir_addr addr = weir_rig_alloc(with.rig, 0, 24 * MIB);
    cr_expect_eq(with.asked, 1);
    cr_expect_eq(with.bytes, 24 * MIB);
    cr_expect_eq(weir_rig_stats(with.rig).reclaims, 1);
    EXPECT_STATUS(weir_rig_try(with.rig, weir_rig_request(with.rig, 0, 24 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(with.asked, 2);
    weir_reclaimer_set(with.rig->pool, NULL, NULL);
    EXPECT_STATUS(weir_rig_try(with.rig, weir_rig_request(with.rig, 0, 24 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(with.asked, 2);
    weir_rig_free(with.rig, 0, addr);
    weir_rig_close(with.rig);
}

static bool observer_reclaim_nothing(void *self, uint64_t bytes)
{
    (void)bytes;
    ++*(unsigned *)self;
    return true;
}

Test(observer, a_reclaimer_that_freed_nothing_does_not_hang_the_call)
{
    unsigned asked = 0;
    sim_rig *rig = weir_rig_open(
        &(rig_options){.pool = {.limit_bytes = 8 * MIB, .reclaimer = observer_reclaim_nothing,
                                .reclaimer_self = &asked}});
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(asked, 1);
    weir_rig_close(rig);
}
