/* SPDX-License-Identifier: MIT */
/*
 * A device that is lost is left alone (D1): whichever of its calls answers LOST first, in whatever
 * the pool was doing, no other is made after it; what needs the device fails, and blocks can still
 * be freed and the pool ended.
 */
#include "rig.h"

#include <string.h>

typedef struct gone {
    weir_sim *sim;
    const weir_device_ops *real;
    const char *only;   /* NULL, or which calls are counted */
    unsigned calls, at; /* the call of this number answers LOST */
    bool lost;
    const char *after; /* the first call made then */
} gone;

static void gone_note(gone *of, const char *call)
{
    if (of->lost && of->after == NULL) of->after = call;
}

/* Whether the call is to be made. */
static bool gone_enter(gone *of, const char *call)
{
    gone_note(of, call);
    if ((of->only == NULL || strcmp(of->only, call) == 0) && ++of->calls == of->at) of->lost = true;
    return !of->lost;
}

#define GONE(name, params, args) \
    static weir_status gone_##name params \
    { \
        gone *of = (gone *)self; \
        return gone_enter(of, #name) ? of->real->name args : WEIR_LOST; \
    }

GONE(va_reserve, (void *self, uint64_t bytes, weir_addr *base), (of->sim, bytes, base))
GONE(va_free, (void *self, weir_addr base, uint64_t bytes), (of->sim, base, bytes))
GONE(handle_create, (void *self, uint64_t bytes, weir_handle *handle), (of->sim, bytes, handle))
GONE(handle_release, (void *self, weir_handle handle, uint64_t bytes), (of->sim, handle, bytes))
GONE(map, (void *self, weir_addr addr, uint64_t bytes, weir_handle handle),
     (of->sim, addr, bytes, handle))
GONE(set_access, (void *self, weir_addr addr, uint64_t bytes), (of->sim, addr, bytes))
GONE(unmap, (void *self, weir_addr addr, uint64_t bytes), (of->sim, addr, bytes))
GONE(segment_alloc, (void *self, uint64_t bytes, weir_addr *addr), (of->sim, bytes, addr))
GONE(segment_free, (void *self, weir_addr addr, uint64_t bytes), (of->sim, addr, bytes))
GONE(event_create, (void *self, weir_event *event), (of->sim, event))
GONE(event_record, (void *self, weir_event event, uint64_t stream), (of->sim, event, stream))
GONE(event_query, (void *self, weir_event event, bool *passed), (of->sim, event, passed))
GONE(stream_wait, (void *self, uint64_t stream, weir_event event), (of->sim, stream, event))
GONE(event_wait, (void *self, weir_event event, uint64_t wait_us, bool *passed),
     (of->sim, event, wait_us, passed))
GONE(quiesce, (void *self, uint64_t wait_us), (of->sim, wait_us))
GONE(copy, (void *self, weir_addr to, weir_addr from, uint64_t bytes), (of->sim, to, from, bytes))
GONE(resume, (void *self), (of->sim))
GONE(memory_info, (void *self, uint64_t *free_bytes, uint64_t *total), (of->sim, free_bytes, total))

static weir_status gone_describe(void *self, weir_device_info *info)
{
    gone *of = (gone *)self;
    return of->real->describe(of->sim, info);
}

static void gone_event_destroy(void *self, weir_event event)
{
    gone *of = (gone *)self;
    gone_note(of, "event_destroy"); /* which has no answer to lose the device by */
    of->real->event_destroy(of->sim, event);
}

static weir_device_ops gone_ops(bool segments)
{
    weir_device_ops ops = {.size = sizeof(ops),
                           .describe = gone_describe,
                           .event_create = gone_event_create,
                           .event_destroy = gone_event_destroy,
                           .event_record = gone_event_record,
                           .event_query = gone_event_query,
                           .stream_wait = gone_stream_wait,
                           .event_wait = gone_event_wait,
                           .memory_info = gone_memory_info};
    if (segments) {
        ops.segment_alloc = gone_segment_alloc;
        ops.segment_free = gone_segment_free;
        return ops;
    }
    ops.va_reserve = gone_va_reserve;
    ops.va_free = gone_va_free;
    ops.handle_create = gone_handle_create;
    ops.handle_release = gone_handle_release;
    ops.map = gone_map;
    ops.set_access = gone_set_access;
    ops.unmap = gone_unmap;
    ops.quiesce = gone_quiesce;
    ops.copy = gone_copy;
    ops.resume = gone_resume;
    return ops;
}

/* ------------------------------------------------------------------------------------- a life -- */

#define GONE_BLOCKS 500u

typedef struct gone_life {
    sim_rig *rig;
    weir_addr addr[GONE_BLOCKS];
    weir_stream owner[GONE_BLOCKS];
} gone_life;

static void gone_alloc(gone_life *of, unsigned i, unsigned stream, uint64_t bytes)
{
    if (weir_alloc_on(of->rig->pool, of->rig->stream[stream], bytes, &of->addr[i]) != WEIR_OK) {
        of->addr[i] = 0;
        return;
    }
    of->owner[i] = of->rig->stream[stream];
    (void)weir_sim_write(of->rig->sim, of->rig->native[stream], of->addr[i], 0, 0);
}

static void gone_free(gone_life *of, unsigned i, unsigned stream)
{
    if (of->addr[i] == 0) return;
    ASSERT_OK(weir_free(of->rig->pool, of->addr[i], of->rig->stream[stream]));
    of->addr[i] = 0;
}

/* Growth, moves, waits between streams and of the host, uses elsewhere, a stream that ends, trims:
 * something of everything that calls the device. */
static void gone_live(gone_life *of)
{
    weir_pool *pool = of->rig->pool;
    for (unsigned i = 0; i < 24; i++) gone_alloc(of, i, i % 3, i % 2 == 0 ? 192 * KIB : 40 * KIB);
    for (unsigned i = 0; i < 6; i++)
        if (of->addr[i] != 0) (void)weir_use(pool, of->addr[i], of->rig->stream[3]);
    for (unsigned i = 0; i < 24; i += 2) gone_free(of, i, i % 4 == 0 ? 1 : i % 3);
    for (unsigned i = 24; i < 32; i++) gone_alloc(of, i, i % 3, 512 * KIB);
    for (unsigned i = 24; i < 32; i += 2) gone_free(of, i, 0);
    gone_alloc(of, 32, 1, 3 * MIB);
    gone_alloc(of, 33, 2, 2 * MIB);
    (void)weir_stream_retire(pool, of->rig->stream[3]);
    (void)weir_finish(pool, WEIR_FOREVER);
    if (of->addr[33] != 0) (void)weir_resize(pool, of->addr[33], 5 * MIB / 2);
    for (unsigned i = 1; i < 34; i++) gone_free(of, i, i % 3);
    (void)weir_trim(pool, MIB, 50, NULL);
    (void)weir_trim(pool, MIB, WEIR_FOREVER, NULL);
}

/* Every handle holds a little that lives, and a large block is asked for: a rescue. */
static void gone_press(gone_life *of)
{
    for (unsigned i = 0; i < GONE_BLOCKS; i++)
        gone_alloc(of, i, 0, i % 2 == 0 ? 64 * KIB : 192 * KIB);
    for (unsigned i = 1; i < GONE_BLOCKS; i += 2) gone_free(of, i, 0);
    gone_alloc(of, 1, 0, 44 * MIB);
    gone_free(of, 1, 0);
    (void)weir_limit_set(of->rig->pool, 32 * MIB);
}

typedef struct gone_kind {
    void (*live)(gone_life *of);
    uint64_t limit_bytes;
    bool segments;
    unsigned steps; /* between the calls that are tried, in parts of their number; 0: all */
    unsigned calls; /* at least */
} gone_kind;

/* Runs it with the k-th call lost; false once a life has fewer calls. */
static bool gone_run(const gone_kind *kind, const char *only, unsigned k)
{
    gone device = {.only = only, .at = k};
    gone_life life = {.rig = weir_rig_device(&(weir_sim_config){.memory_bytes = 64 * MIB,
                                                                .granule_bytes = 64 * KIB,
                                                                .lag_us = 100,
                                                                .no_virtual = kind->segments})};
    weir_device_ops ops = gone_ops(kind->segments);
    weir_config config = {.size = sizeof(config),
                          .ops = &ops,
                          .device_self = &device,
                          .platform = &life.rig->memory.platform,
                          .limit_bytes = kind->limit_bytes};
    device.sim = life.rig->sim;
    device.real = weir_sim_ops(life.rig->sim);
    ASSERT_OK(weir_pool_create(&config, &life.rig->pool));
    for (unsigned i = 0; i < 4; i++) weir_rig_attach(life.rig, i, i != 2);
    kind->live(&life);
    weir_rig_check(life.rig);
    for (unsigned i = 0; i < GONE_BLOCKS; i++) gone_free(&life, i, 0);
    if (device.lost) EXPECT_STATUS(weir_trim(life.rig->pool, 0, 0, NULL), WEIR_LOST);
    weir_rig_close_loose(life.rig);
    cr_expect_null(device.after, "call %u was lost, and then %s was called", k, device.after);
    return device.lost;
}

Test(gone, no_call_is_made_after_the_one_that_was_lost)
{
    static const gone_kind kinds[] = {{gone_live, 8 * MIB, false, 0, 600},
                                      {gone_live, 8 * MIB, true, 0, 100},
                                      {gone_press, 64 * MIB, false, 60, 1000}};
    for (unsigned i = 0; i < 3; i++) {
        unsigned k = 1;
        while (gone_run(&kinds[i], NULL, k))
            k += 1 + (kinds[i].steps == 0 ? 0 : k / kinds[i].steps);
        cr_expect_gt(k, kinds[i].calls, "hardly a life");
    }
    for (unsigned k = 1; gone_run(&kinds[2], "quiesce", k); k++) cr_expect_lt(k, 10);
    for (unsigned k = 1; gone_run(&kinds[2], "resume", k); k++) cr_expect_lt(k, 10);
    cr_expect(gone_run(&kinds[2], "quiesce", 1), "no rescue");
    cr_expect(gone_run(&kinds[2], "resume", 1), "no rescue");
}
