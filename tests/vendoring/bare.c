/* SPDX-License-Identifier: MIT */
/*
 * The core alone, with a device of one's own: host memory in plain segments, whose work ends at
 * once, so that every event has passed. This is the smallest backend there can be.
 */
#include "weir.h"

#include <stdio.h>
#include <stdlib.h>

#define GRANULE (UINT64_C(1) << 16)

static weir_status bare_describe(void *self, weir_device_info *info)
{
    (void)self;
    *info = (weir_device_info){.size = sizeof *info, .granule_bytes = GRANULE};
    return WEIR_OK;
}

static weir_status bare_segment_alloc(void *self, uint64_t bytes, weir_addr *addr)
{
    (void)self;
    *addr = (uintptr_t)aligned_alloc(GRANULE, (size_t)bytes);
    return *addr == 0 ? WEIR_NO_MEMORY : WEIR_OK;
}

static weir_status bare_segment_free(void *self, weir_addr addr, uint64_t bytes)
{
    (void)self;
    (void)bytes;
    free((void *)(uintptr_t)addr);
    return WEIR_OK;
}

static weir_status bare_event_create(void *self, weir_event *event)
{
    (void)self;
    *event = 1;
    return WEIR_OK;
}

static void bare_event_destroy(void *self, weir_event event)
{
    (void)self;
    (void)event;
}

static weir_status bare_event_record(void *self, weir_event event, uint64_t stream)
{
    (void)self;
    (void)event;
    (void)stream;
    return WEIR_OK;
}

static weir_status bare_event_query(void *self, weir_event event, bool *passed)
{
    (void)self;
    (void)event;
    *passed = true;
    return WEIR_OK;
}

static weir_status bare_stream_wait(void *self, uint64_t stream, weir_event event)
{
    (void)self;
    (void)stream;
    (void)event;
    return WEIR_OK;
}

static void *bare_mem_alloc(void *self, size_t bytes)
{
    (void)self;
    return malloc(bytes);
}

static void bare_mem_free(void *self, void *mem, size_t bytes)
{
    (void)self;
    (void)bytes;
    free(mem);
}

static const weir_device_ops bare_ops = {
    .size = sizeof bare_ops,
    .describe = bare_describe,
    .segment_alloc = bare_segment_alloc,
    .segment_free = bare_segment_free,
    .event_create = bare_event_create,
    .event_destroy = bare_event_destroy,
    .event_record = bare_event_record,
    .event_query = bare_event_query,
    .stream_wait = bare_stream_wait,
};

static const weir_platform bare_platform = {
    .size = sizeof bare_platform, .mem_alloc = bare_mem_alloc, .mem_free = bare_mem_free};

static int bare_fail(const char *step)
{
    fprintf(stderr, "%s went wrong\n", step);
    return 1;
}

int main(void)
{
    weir_config config = {.size = sizeof config, .ops = &bare_ops, .platform = &bare_platform};
    weir_stream_desc desc = {.size = sizeof desc, .native = 1, .unique = 1, .outlives = true};
    weir_stats stats = {.size = sizeof stats};
    weir_pool *pool;
    weir_stream stream;
    weir_addr addr;

    if (weir_pool_create(&config, &pool) != WEIR_OK) return bare_fail("weir_pool_create");
    if (weir_stream_attach(pool, &desc, &stream) != WEIR_OK) return bare_fail("attach");
    if (weir_alloc_on(pool, stream, 1000, &addr) != WEIR_OK) return bare_fail("weir_alloc_on");
    ((char *)(uintptr_t)addr)[999] = 1;
    weir_stats_read(pool, &stats);
    if (stats.requested.current != 1000 || stats.blocks.current != 1) return bare_fail("stats");
    if (weir_free(pool, addr, stream) != WEIR_OK) return bare_fail("weir_free");
    if (weir_free(pool, addr, stream) != WEIR_NOT_FOUND) return bare_fail("the second free");
    if (weir_pool_destroy(pool) != WEIR_OK) return bare_fail("weir_pool_destroy");
    puts("ok");
    return 0;
}
