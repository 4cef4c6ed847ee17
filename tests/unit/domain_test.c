/* SPDX-License-Identifier: MIT */
/* Domains: what they hold is lent to nobody else until they are released. */
#include "rig.h"

static weir_domain domain_make(sim_rig *rig)
{
    weir_domain domain = 0;
    ASSERT_OK(weir_domain_create(rig->pool, &domain));
    cr_assert_neq(domain, 0);
    return domain;
}

static weir_request domain_request(sim_rig *rig, weir_domain domain, uint64_t bytes)
{
    weir_request request = weir_rig_request(rig, 0, bytes);
    request.domain = domain;
    return request;
}

static weir_addr domain_alloc(sim_rig *rig, weir_domain domain, uint64_t bytes)
{
    weir_request request = domain_request(rig, domain, bytes);
    weir_addr addr = 0;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    return addr;
}

Test(domain, free_memory_of_a_domain_is_its_own)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 32 * MIB}});
    weir_domain domain = domain_make(rig);
    weir_addr addr = domain_alloc(rig, domain, 24 * MIB);
    cr_expect_eq(weir_rig_find(rig, addr).domain, domain);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_geq(weir_rig_oom(rig).domain_bytes, 24 * MIB);
    cr_expect_eq(weir_rig_oom(rig).domain, 0);
    EXPECT_STATUS(weir_rig_try(rig, domain_request(rig, domain, 24 * MIB)), WEIR_OK);
    ASSERT_OK(weir_domain_release(rig->pool, domain));
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 24 * MIB)), WEIR_OK);
    weir_rig_close(rig);
}

/* Not as addresses, but as handles that move in; what a domain holds does not move out. */
Test(domain, the_pools_free_handles_move_into_a_domain)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.initial_bytes = 16 * MIB}});
    weir_domain domain = domain_make(rig);
    uint64_t held = weir_rig_stats(rig).reserved.current;
    weir_addr addr = domain_alloc(rig, domain, 4 * MIB);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, held);
    cr_expect_gt(weir_rig_stats(rig).moved_handles, 0);
    cr_expect_eq(weir_rig_find(rig, addr).domain, domain);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(domain, a_domain_with_live_blocks_is_busy)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_domain domain = domain_make(rig);
    weir_addr addr = domain_alloc(rig, domain, 512);
    EXPECT_STATUS(weir_domain_release(rig->pool, domain), WEIR_BUSY);
    cr_expect_eq(weir_rig_find(rig, addr).domain, domain);
    weir_rig_free(rig, 0, addr);
    EXPECT_STATUS(weir_domain_release(rig->pool, domain), WEIR_OK);
    EXPECT_STATUS(weir_domain_release(rig->pool, domain), WEIR_STALE);
    EXPECT_STATUS(weir_rig_try(rig, domain_request(rig, domain, 1)), WEIR_STALE);
    weir_rig_close(rig);
}

Test(domain, numbers_that_are_no_domains)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_domain domain;
    EXPECT_STATUS(weir_domain_create(NULL, &domain), WEIR_INVALID);
    EXPECT_STATUS(weir_domain_create(rig->pool, NULL), WEIR_INVALID);
    EXPECT_STATUS(weir_domain_release(NULL, 1), WEIR_INVALID);
    for (weir_domain number = 0; number < 5; number++)
        EXPECT_STATUS(weir_domain_release(rig->pool, number), WEIR_STALE);
    EXPECT_STATUS(weir_domain_release(rig->pool, 1u << 16 | 1), WEIR_STALE);
    EXPECT_STATUS(weir_domain_release(rig->pool, UINT32_MAX), WEIR_STALE);
    weir_rig_close(rig);
}

Test(domain, a_released_number_comes_back_as_another)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_domain last = 0;
    for (uint32_t i = 0; i < 300; i++) {
        weir_domain domain = domain_make(rig);
        cr_assert_neq(domain, last);
        EXPECT_STATUS(weir_rig_try(rig, domain_request(rig, domain, 3 * MIB)), WEIR_OK);
        ASSERT_OK(weir_domain_release(rig->pool, domain));
        if (last != 0) EXPECT_STATUS(weir_domain_release(rig->pool, last), WEIR_STALE);
        last = domain;
    }
    cr_expect_leq(weir_rig_stats(rig).reserved.peak, 32 * MIB);
    weir_rig_check(rig);
    weir_rig_close(rig);
}

Test(domain, many_at_once_stay_apart)
{
    weir_domain domain[40];
    weir_addr addr[40];
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    for (uint32_t i = 0; i < 40; i++) {
        domain[i] = domain_make(rig);
        addr[i] = domain_alloc(rig, domain[i], 1 + i * 100 * KIB);
        weir_rig_write(rig, 0, addr[i], 1 + i * 100 * KIB, i);
    }
    weir_rig_check(rig);
    for (uint32_t i = 0; i < 40; i++) {
        cr_expect_eq(weir_rig_find(rig, addr[i]).domain, domain[i]);
        weir_rig_read(rig, 0, addr[i], 1 + i * 100 * KIB, i);
        weir_rig_free(rig, 0, addr[i]);
        if (i % 2 == 0) ASSERT_OK(weir_domain_release(rig->pool, domain[i]));
    }
    weir_rig_close(rig);
}

Test(domain, pending_frees_of_a_domain_go_to_the_pool_with_it)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.lag_us = 100}, .streams = 2});
    weir_domain domain = domain_make(rig);
    weir_addr addr = domain_alloc(rig, domain, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    ASSERT_OK(weir_use(rig->pool, addr, rig->stream[1]));
    weir_sim_stall(rig->sim, rig->native[1]);
    weir_rig_free(rig, 0, addr);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 8 * MIB);
    ASSERT_OK(weir_domain_release(rig->pool, domain));
    weir_rig_check(rig);
    weir_sim_go(rig->sim, rig->native[1]);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    cr_expect_eq(weir_rig_stats(rig).pending.current, 0);
    uint64_t held = weir_rig_stats(rig).reserved.current;
    weir_rig_free(rig, 0, weir_rig_alloc(rig, 0, 8 * MIB));
    cr_expect_eq(weir_rig_stats(rig).reserved.current, held, "the memory did not come back");
    weir_rig_close(rig);
}

Test(domain, trim_leaves_domains_alone)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_domain domain = domain_make(rig);
    uint64_t released = 0;
    weir_rig_free(rig, 0, domain_alloc(rig, domain, 8 * MIB));
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, &released));
    cr_expect_eq(released, 0);
    ASSERT_OK(weir_domain_release(rig->pool, domain));
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, &released));
    cr_expect_geq(released, 8 * MIB);
    cr_expect_eq(weir_rig_stats(rig).reserved.current, 0);
    weir_rig_close(rig);
}

Test(domain, destroy_releases_open_domains)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_rig_free(rig, 0, domain_alloc(rig, domain_make(rig), 8 * MIB));
    weir_rig_close(rig);
}

Test(domain, a_failure_in_a_domain_names_it)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.limit_bytes = 8 * MIB}});
    weir_domain domain = domain_make(rig);
    EXPECT_STATUS(weir_rig_try(rig, domain_request(rig, domain, 16 * MIB)), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_oom(rig).domain, domain);
    weir_rig_close(rig);
}

Test(domain, short_host_memory_is_told)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_domain domain = 0;
    for (uint64_t k = 1; k <= 3; k++) {
        weir_host_memory_fail(&rig->memory, k, false);
        weir_status status = weir_domain_create(rig->pool, &domain);
        cr_expect(status == WEIR_OK || status == WEIR_NO_METADATA, "%s", weir_status_name(status));
        weir_rig_check(rig);
    }
    weir_host_memory_fail(&rig->memory, 0, false);
    domain = domain_make(rig);
    EXPECT_STATUS(weir_rig_try(rig, domain_request(rig, domain, MIB)), WEIR_OK);
    weir_rig_close(rig);
}

typedef struct release_during {
    weir_pool *pool;
    weir_domain domain;
    weir_status answer;
    unsigned asked;
} release_during;

static void release_while_mapping(void *self, const weir_record *record)
{
    release_during *of = (release_during *)self;
    if (record->what != WEIR_DID_MAP) return;
    of->answer = weir_domain_release(of->pool, of->domain);
    of->asked++;
}

/* The first block of a domain is on its way while the lock is released: nothing of it is live yet. */
Test(domain, one_that_a_running_call_allocates_in_is_busy)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    release_during of = {.pool = rig->pool, .domain = domain_make(rig)};
    weir_observer_set(rig->pool, release_while_mapping, &of);
    weir_addr addr = domain_alloc(rig, of.domain, 4 * MIB);
    weir_observer_set(rig->pool, NULL, NULL);
    cr_expect_gt(of.asked, 0);
    EXPECT_STATUS(of.answer, WEIR_BUSY);
    cr_expect_eq(weir_rig_find(rig, addr).domain, of.domain);
    weir_rig_free(rig, 0, addr);
    ASSERT_OK(weir_domain_release(rig->pool, of.domain));
    weir_rig_close(rig);
}
