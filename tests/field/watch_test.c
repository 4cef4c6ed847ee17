/* SPDX-License-Identifier: MIT */
/*
 * A field report that needs a device of its own: one that watches the pool's lock. README.md of this
 * folder lists all reports.
 */
#include "rig.h"

/* Internal objects were made under the lock that their making needed (ml-explore/mlx#2232; fw_test.c
 * has the same from above). A device call that is made with the pool's lock held could come back to it.
 * Only the calls that weir.h marks are made so; each of the others is made unlocked. */
typedef struct watch {
    weir_sim *sim;
    const weir_device_ops *inner;
    weir_platform platform, *base;
    bool held;
    char wrong[128]; /* the calls that were made with the lock held */
} watch;

static void watch_unlocked(watch *w, const char *call)
{
    if (!w->held || strstr(w->wrong, call) != NULL) return;
    strncat(w->wrong, call, sizeof(w->wrong) - strlen(w->wrong) - 1);
}

#define WATCH(call, parameters, arguments) \
    static weir_status watch_##call parameters \
    { \
        watch *w = (watch *)self; \
        watch_unlocked(w, " " #call); \
        return w->inner->call arguments; \
    }

WATCH(describe, (void *self, weir_device_info *info), (w->sim, info))
WATCH(va_reserve, (void *self, uint64_t n, weir_addr *at), (w->sim, n, at))
WATCH(va_free, (void *self, weir_addr at, uint64_t n), (w->sim, at, n))
WATCH(handle_create, (void *self, uint64_t n, weir_handle *h), (w->sim, n, h))
WATCH(handle_release, (void *self, weir_handle h, uint64_t n), (w->sim, h, n))
WATCH(map, (void *self, weir_addr at, uint64_t n, weir_handle h), (w->sim, at, n, h))
WATCH(set_access, (void *self, weir_addr at, uint64_t n), (w->sim, at, n))
WATCH(unmap, (void *self, weir_addr at, uint64_t n), (w->sim, at, n))
WATCH(event_wait, (void *self, weir_event e, uint64_t us, bool *p), (w->sim, e, us, p))
WATCH(memory_info, (void *self, uint64_t *f, uint64_t *t), (w->sim, f, t))

/* Those marked are passed on as they are. */
static void watch_event_destroy(void *self, weir_event event)
{
    watch *w = (watch *)self;
    w->inner->event_destroy(w->sim, event);
}

static weir_status watch_event_create(void *self, weir_event *event)
{
    watch *w = (watch *)self;
    return w->inner->event_create(w->sim, event);
}

static weir_status watch_event_record(void *self, weir_event event, uint64_t stream)
{
    watch *w = (watch *)self;
    return w->inner->event_record(w->sim, event, stream);
}

static weir_status watch_event_query(void *self, weir_event event, bool *passed)
{
    watch *w = (watch *)self;
    return w->inner->event_query(w->sim, event, passed);
}

static weir_status watch_stream_wait(void *self, uint64_t stream, weir_event event)
{
    watch *w = (watch *)self;
    return w->inner->stream_wait(w->sim, stream, event);
}

static void *watch_alloc(void *self, size_t bytes)
{
    watch *w = (watch *)self;
    return w->base->mem_alloc(w->base->self, bytes);
}

static void watch_free(void *self, void *mem, size_t bytes)
{
    watch *w = (watch *)self;
    w->base->mem_free(w->base->self, mem, bytes);
}

static void watch_lock(void *self)
{
    watch *w = (watch *)self;
    cr_expect(!w->held, "the lock was taken twice");
    w->held = true;
}

static void watch_unlock(void *self)
{
    watch *w = (watch *)self;
    w->held = false;
}

static const weir_device_ops watch_ops = {
    .size = sizeof(weir_device_ops),
    .describe = watch_describe,
    .va_reserve = watch_va_reserve,
    .va_free = watch_va_free,
    .handle_create = watch_handle_create,
    .handle_release = watch_handle_release,
    .map = watch_map,
    .set_access = watch_set_access,
    .unmap = watch_unmap,
    .event_create = watch_event_create,
    .event_destroy = watch_event_destroy,
    .event_record = watch_event_record,
    .event_query = watch_event_query,
    .stream_wait = watch_stream_wait,
    .event_wait = watch_event_wait,
    .memory_info = watch_memory_info,
};

Test(field_watch, fw_27_device_calls_that_are_not_marked_run_unlocked)
{
    rig r;
    watch w;
    weir_addr addr;
    memset(&w, 0, sizeof(w));
    rig_open_device(&r, (weir_sim_config){.lag_us = 10});
    w.sim = r.sim;
    w.inner = weir_sim_ops(r.sim);
    w.base = r.platform;
    w.platform =
        (weir_platform){.size = sizeof(w.platform), .self = &w, .mem_alloc = watch_alloc,
                        .mem_free = watch_free, .lock = watch_lock, .unlock = watch_unlock};
    r.platform = &w.platform;
    rig_open_pool(&r, (weir_config){.ops = &watch_ops,
                                    .device_self = &w,
                                    .limit_bytes = 64 * MIB,
                                    .no_stream_reuse = true});
    for (unsigned i = 0; i < 8; i++) {
        weir_addr x = rig_alloc(&r, i % RIG_STREAMS, 40 * MIB);
        rig_write(&r, i % RIG_STREAMS, x, 40 * MIB, i);
        rig_free(&r, x, i % RIG_STREAMS);
    }
    EXPECT_STATUS(rig_try(&r, 0, GIB, &addr), WEIR_NO_MEMORY);
    EXPECT_OK(weir_trim(r.pool, 0, WEIR_FOREVER, NULL));
    cr_expect_str_eq(w.wrong, "", "with the lock held:%s", w.wrong);
    rig_close_pool(&r);
    r.platform = w.base;
    rig_close_device(&r);
}
