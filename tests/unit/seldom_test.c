/* SPDX-License-Identifier: MIT */
/* What seldom happens: settings, devices and layouts that few programs have, through weir.h. */
#include "pool.h"
#include "rig.h"

/* ------------------------------------------------------------------------------------ devices -- */

typedef struct seldom_device {
    weir_sim *sim;
    const weir_device_ops *real;
    uint64_t memory_bytes, va_bytes;
} seldom_device;

static weir_status seldom_describe(void *self, weir_device_info *info)
{
    const seldom_device *of = (const seldom_device *)self;
    weir_status status = of->real->describe(of->sim, info);
    info->memory_bytes = of->memory_bytes;
    info->va_bytes = of->va_bytes;
    return status;
}

#define SELDOM(name, params, args) \
    static weir_status seldom_##name params \
    { \
        const seldom_device *of = (const seldom_device *)self; \
        return of->real->name args; \
    }

SELDOM(va_reserve, (void *self, uint64_t bytes, weir_addr *base), (of->sim, bytes, base))
SELDOM(va_free, (void *self, weir_addr base, uint64_t bytes), (of->sim, base, bytes))
SELDOM(handle_create, (void *self, uint64_t bytes, weir_handle *to), (of->sim, bytes, to))
SELDOM(handle_release, (void *self, weir_handle handle, uint64_t bytes), (of->sim, handle, bytes))
SELDOM(map, (void *self, weir_addr addr, uint64_t bytes, weir_handle handle),
       (of->sim, addr, bytes, handle))
SELDOM(set_access, (void *self, weir_addr addr, uint64_t bytes), (of->sim, addr, bytes))
SELDOM(unmap, (void *self, weir_addr addr, uint64_t bytes), (of->sim, addr, bytes))
SELDOM(event_create, (void *self, weir_event *event), (of->sim, event))
SELDOM(event_record, (void *self, weir_event event, uint64_t stream), (of->sim, event, stream))
SELDOM(event_query, (void *self, weir_event event, bool *passed), (of->sim, event, passed))
SELDOM(stream_wait, (void *self, uint64_t stream, weir_event event), (of->sim, stream, event))

static void seldom_event_destroy(void *self, weir_event event)
{
    const seldom_device *of = (const seldom_device *)self;
    of->real->event_destroy(of->sim, event);
}

static const weir_device_ops seldom_ops = {.size = sizeof(seldom_ops),
                                           .describe = seldom_describe,
                                           .va_reserve = seldom_va_reserve,
                                           .va_free = seldom_va_free,
                                           .handle_create = seldom_handle_create,
                                           .handle_release = seldom_handle_release,
                                           .map = seldom_map,
                                           .set_access = seldom_set_access,
                                           .unmap = seldom_unmap,
                                           .event_create = seldom_event_create,
                                           .event_destroy = seldom_event_destroy,
                                           .event_record = seldom_event_record,
                                           .event_query = seldom_event_query,
                                           .stream_wait = seldom_stream_wait};

/* No optional call, and figures of its own: the first address range that it is asked for. */
static uint64_t seldom_span(uint64_t memory_bytes, uint64_t va_bytes)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){.va_bytes = UINT64_C(1) << 48});
    seldom_device device = {rig->sim, weir_sim_ops(rig->sim), memory_bytes, va_bytes};
    weir_config config = {.size = sizeof(config),
                          .ops = &seldom_ops,
                          .device_self = &device,
                          .platform = &rig->memory.platform};
    ASSERT_OK(weir_pool_create(&config, &rig->pool));
    weir_rig_attach(rig, 0, true);
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    uint64_t bytes = rig->pool->pages.span[0].bytes;
    weir_sim_fail(rig->sim, WEIR_SIM_map, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 64 * MIB)), WEIR_DEVICE);
    cr_expect_eq(weir_native_error(rig->pool), 0, "it has no codes");
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
    return bytes;
}

Test(seldom, an_arena_follows_what_the_device_says_of_itself)
{
    cr_expect_eq(seldom_span(GIB, UINT64_C(1) << 47), 8 * GIB, "eight times its memory");
    cr_expect_eq(seldom_span(0, UINT64_C(1) << 47), UINT64_C(1) << 43, "as if it had a tebibyte");
    cr_expect_eq(seldom_span(GIB, 0), 8 * GIB, "no bound on addresses is known");
    cr_expect_eq(seldom_span(UINT64_C(1) << 45, UINT64_C(1) << 48), UINT64_C(1) << 47);
    cr_expect_eq(seldom_span(UINT64_C(1) << 44, UINT64_C(1) << 48), UINT64_C(1) << 47);
    cr_expect_eq(seldom_span(GIB, 100 * MIB), 100 * MIB);
}

static bool seldom_largest(void *self, const weir_segment *segment)
{
    uint64_t *largest = (uint64_t *)self;
    if (segment->bytes > *largest) *largest = segment->bytes;
    return true;
}

Test(seldom, handles_are_no_larger_than_the_device_can_make)
{
    for (uint64_t most = 4 * MIB; most <= 64 * MIB; most *= 2) {
        sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.handle_bytes_max = most}});
        weir_addr addr = weir_rig_alloc(rig, 0, 200 * MIB);
        uint64_t largest = 0;
        weir_walk_segments(rig->pool, seldom_largest, &largest);
        cr_expect_eq(largest, most);
        weir_rig_free(rig, 0, addr);
        weir_rig_close(rig);
    }
}

Test(seldom, a_platform_without_all_that_is_needed_is_refused)
{
    sim_rig *rig = weir_rig_device(&(weir_sim_config){.memory_bytes = GIB});
    rig->memory.platform.size = offsetof(weir_platform, now_us) - 1;
    EXPECT_STATUS(weir_rig_pool(rig, (weir_config){0}), WEIR_INVALID);
    rig->memory.platform.size = offsetof(weir_platform, now_us);
    EXPECT_STATUS(weir_rig_pool(rig, (weir_config){0}), WEIR_OK);
    weir_rig_close(rig);
}

Test(seldom, segments_whose_uses_cannot_be_waited_for_stay_with_the_device)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.sim = {.no_virtual = true, .lag_us = 100}});
    weir_addr addr = weir_rig_alloc(rig, 0, 8 * MIB);
    weir_rig_write(rig, 0, addr, 8 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_sim_fail(rig->sim, WEIR_SIM_event_wait, 1, true, WEIR_DEVICE);
    weir_sim_fail(rig->sim, WEIR_SIM_event_query, 1, true, WEIR_DEVICE);
    ASSERT_OK(weir_pool_destroy(rig->pool));
    rig->pool = NULL;
    cr_expect_eq(weir_rig_calls(rig, WEIR_SIM_segment_free), 0);
    weir_rig_close_loose(rig);
}

/* ----------------------------------------------------------------------------------- requests -- */

Test(seldom, impossible_sizes_are_refused_in_every_zone)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_request request = weir_rig_request(rig, 0, UINT64_MAX);
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_NO_MEMORY);
    request.flags = WEIR_ONE_HANDLE;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_NO_MEMORY);
    request.flags = 0;
    ASSERT_OK(weir_domain_create(rig->pool, &request.domain));
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_oom(rig).domain, request.domain);
    cr_expect_eq(weir_rig_oom(rig).asked_bytes, UINT64_MAX);
    ASSERT_OK(weir_domain_release(rig->pool, request.domain));
    weir_rig_close(rig);
}

/* A domain's place is used again, its name is not. */
Test(seldom, the_name_of_an_ended_domain_stays_stale)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_request request = weir_rig_request(rig, 0, MIB);
    weir_domain old = 0, next = 0;
    ASSERT_OK(weir_domain_create(rig->pool, &old));
    ASSERT_OK(weir_domain_release(rig->pool, old));
    ASSERT_OK(weir_domain_create(rig->pool, &next));
    cr_expect_eq(next & 0xFFFF, old & 0xFFFF, "the same place");
    request.domain = old;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_STALE);
    EXPECT_STATUS(weir_domain_release(rig->pool, old), WEIR_STALE);
    request.domain = next;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    for (weir_domain bad = 0; bad < 2; bad++)
        EXPECT_STATUS(weir_domain_release(rig->pool, bad), WEIR_STALE);
    EXPECT_STATUS(weir_domain_release(rig->pool, 7), WEIR_STALE);
    ASSERT_OK(weir_domain_release(rig->pool, next));
    weir_rig_close(rig);
}

/* The start that the alignment asks for may lie beyond the free memory's end. */
Test(seldom, one_handle_and_a_large_alignment)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 4 * MIB}});
    weir_addr low = weir_rig_alloc(rig, 0, MIB + 64 * KIB);
    weir_addr middle = weir_rig_alloc(rig, 0, 128 * KIB);
    weir_addr high = weir_rig_alloc(rig, 0, 4 * MIB);
    weir_request request = weir_rig_request(rig, 0, 100 * KIB);
    weir_addr addr = 0;
    weir_rig_free(rig, 0, middle);
    request.flags = WEIR_ONE_HANDLE;
    request.align = 2 * MIB;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    cr_expect_eq(addr % (2 * MIB), 0);
    weir_rig_write(rig, 0, addr, 100 * KIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_free(rig, 0, low);
    weir_rig_free(rig, 0, high);
    weir_rig_close(rig);
}

Test(seldom, one_handle_where_addresses_run_out)
{
    rig_options options = {.sim = {.va_bytes = 16 * MIB}, .pool = {.va_bytes = 8 * MIB}};
    sim_rig *rig = weir_rig_open(&options);
    weir_request request = weir_rig_request(rig, 0, 8 * MIB);
    weir_addr addr[4] = {0};
    unsigned count = 0;
    request.flags = WEIR_ONE_HANDLE;
    while (count < 4 && weir_alloc(rig->pool, &request, &addr[count]) == WEIR_OK) count++;
    cr_expect_lt(count, 4);
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_NO_MEMORY);
    weir_rig_check(rig);
    while (count > 0) weir_rig_free(rig, 0, addr[--count]);
    weir_rig_close(rig);
}

Test(seldom, a_resize_takes_nothing_where_nothing_may_grow)
{
    rig_options options = {.pool = {.initial_bytes = 8 * MIB, .no_growth = true, .no_moves = true}};
    sim_rig *rig = weir_rig_open(&options);
    weir_addr addr = weir_rig_alloc(rig, 0, 6 * MIB);
    ASSERT_OK(weir_resize(rig->pool, addr, 8 * MIB));
    EXPECT_STATUS(weir_resize(rig->pool, addr, 10 * MIB), WEIR_NO_MEMORY);
    cr_expect_eq(weir_rig_find(rig, addr).requested_bytes, 8 * MIB);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

/* ------------------------------------------------------------------------------------- ladder -- */

static sim_rig *seldom_collected(weir_addr *addr)
{
    sim_rig *rig = weir_rig_open(&(rig_options){
        .pool = {.limit_bytes = 32 * MIB, .growth_bytes = 2 * MIB, .gc_permille = 500}});
    for (unsigned i = 0; i < 6; i++) addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
    for (unsigned i = 1; i < 6; i += 2) weir_rig_free(rig, 0, addr[i]);
    return rig;
}

static void seldom_collected_close(sim_rig *rig, const weir_addr *addr)
{
    for (unsigned i = 0; i < 6; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_rig_close(rig);
}

Test(seldom, a_call_without_events_does_not_collect)
{
    weir_addr addr[6];
    sim_rig *rig = seldom_collected(addr);
    weir_request request = weir_rig_request(rig, 0, 8 * MIB);
    request.flags = WEIR_NO_EVENTS;
    EXPECT_STATUS(weir_rig_try(rig, request), WEIR_OK);
    cr_expect_eq(weir_rig_stats(rig).releases, 0);
    seldom_collected_close(rig, addr);
}

Test(seldom, a_collection_that_fails_is_told)
{
    weir_addr addr[6];
    sim_rig *rig = seldom_collected(addr);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 1, true, WEIR_DEVICE);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_DEVICE);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 0, false, WEIR_OK);
    weir_rig_check(rig);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 8 * MIB)), WEIR_OK);
    seldom_collected_close(rig, addr);
}

/* Two holes with a backed run between them: two stretches, of which the first is refused. */
Test(seldom, access_refused_to_the_first_of_two_stretches)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 2 * MIB}});
    weir_addr addr[4];
    for (unsigned i = 0; i < 4; i++) addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
    weir_rig_free(rig, 0, addr[0]);
    weir_rig_free(rig, 0, addr[2]);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    weir_rig_free(rig, 0, addr[1]);
    uint64_t accesses = weir_rig_stats(rig).accesses;
    weir_sim_fail(rig->sim, WEIR_SIM_set_access, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 6 * MIB)), WEIR_DEVICE);
    cr_expect_eq(weir_rig_stats(rig).accesses, accesses + 1, "the second is not asked for");
    weir_rig_check(rig);
    weir_addr large = weir_rig_alloc(rig, 0, 6 * MIB);
    weir_rig_write(rig, 0, large, 6 * MIB, 1);
    weir_rig_free(rig, 0, large);
    weir_rig_free(rig, 0, addr[3]);
    weir_rig_close(rig);
}

/* A point that can't be taken ends the settling of all; the frees stay pending. */
Test(seldom, a_failing_record_leaves_all_in_limbo)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.lag_us = 100}, .streams = 3, .pool = {.limit_bytes = 16 * MIB}});
    weir_addr addr[2];
    for (unsigned i = 0; i < 2; i++) {
        addr[i] = weir_rig_alloc(rig, 0, 4 * MIB);
        weir_rig_write(rig, 0, addr[i], 4 * MIB, 1);
        ASSERT_OK(weir_use(rig->pool, addr[i], rig->stream[1]));
    }
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, true, WEIR_DEVICE);
    for (unsigned i = 0; i < 2; i++) weir_rig_free(rig, 0, addr[i]);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 2, 12 * MIB)), WEIR_DEVICE);
    cr_expect_eq(weir_rig_stats(rig).pending.current, 8 * MIB);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 0, false, WEIR_OK);
    EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 2, 12 * MIB)), WEIR_OK);
    weir_rig_close(rig);
}

/* A stream that takes no event now does not keep the rest from going back. */
Test(seldom, a_trim_goes_on_without_a_stream_that_takes_no_event)
{
    sim_rig *rig = weir_rig_open(
        &(rig_options){.sim = {.lag_us = 100}, .streams = 2, .pool = {.growth_bytes = 2 * MIB}});
    weir_addr mine = weir_rig_alloc(rig, 0, 4 * MIB), its = weir_rig_alloc(rig, 1, 4 * MIB);
    weir_rig_write(rig, 1, its, 4 * MIB, 1);
    weir_rig_free(rig, 0, mine);
    ASSERT_OK(weir_finish(rig->pool, WEIR_FOREVER));
    weir_rig_free(rig, 1, its);
    uint64_t released = 0;
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 1, true, WEIR_WOULD_WAIT);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, &released));
    cr_expect_eq(released, 4 * MIB);
    weir_sim_fail(rig->sim, WEIR_SIM_event_record, 0, false, WEIR_OK);
    weir_rig_close(rig);
}
