/* SPDX-License-Identifier: MIT */
/*
 * The pool that speaks CUDA: its making and its calls.
 *
 * Owns        the device, the platform, the pool, and the names of streams.
 * Invariants  With streams_told a name is found by the handle alone, since it is taken away before
 *             the driver can give the handle again. Without, the driver is asked each time, and a
 *             handle that has become another stream ends the name of the one before.
 * Cost        On top of the core: with both told, one look into a table; else some driver calls of
 *             ten nanoseconds each.
 */
#include "cuda_pool_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------ making -- */

static weir_status pool_settings(const weir_cuda_pool_config *config, weir_conf *conf, char *why)
{
    weir_status status = WEIR_OK;
    if (config->conf) {
        *conf = *config->conf;
    } else {
        weir_conf_init(conf);
        status = weir_conf_environment(conf, why);
    }
    if (status == WEIR_OK && conf->backend != WEIR_CONF_AUTO && conf->backend != WEIR_CONF_CUDA) {
        snprintf(why, WEIR_CUDA_WHY_BYTES,
                 "the settings name a backend other than cuda; leave the key out, or write "
                 "backend:cuda");
        status = WEIR_INVALID;
    }
    return status;
}

static weir_status pool_open_core(weir_cuda_pool *pool, const weir_conf *conf, char *why)
{
    weir_config config = conf->pool;
    config.size = sizeof(config);
    config.ops = weir_cuda_ops(pool->cuda);
    config.device_self = pool->cuda;
    config.platform = pool->platform;
    weir_status status = weir_pool_create(&config, &pool->core);
    if (status != WEIR_OK) {
        snprintf(why, WEIR_CUDA_WHY_BYTES, "the pool cannot be made: %s", weir_status_text(status));
    }
    return status;
}

static weir_status pool_open(weir_cuda_pool *pool, weir_cuda_config device, weir_conf *conf,
                             char *why)
{
    pool->bell = weir_cuda_bell_create();
    pool->platform = weir_platform_create(true);
    if (!pool->bell || !pool->platform) {
        snprintf(why, WEIR_CUDA_WHY_BYTES, "not enough host memory");
        return WEIR_NO_METADATA;
    }
    device.size = sizeof(device);
    device.source = conf->source;
    weir_status status = weir_cuda_create(&device, &pool->cuda, why);
    if (status == WEIR_OK) {
        status = weir_conf_resolve(conf, pool->cuda->probe.memory_bytes, why);
    }
    if (status == WEIR_OK) {
        pool->cuda->config.release_threshold_bytes = conf->pool.keep_bytes;
        status = pool_open_core(pool, conf, why);
    }
    return status;
}

static void pool_close(weir_cuda_pool *pool)
{
    weir_cuda_captures_drop(pool);
    weir_cuda_names_free(atomic_load(&pool->names));
    weir_cuda_destroy(pool->cuda);
    weir_platform_destroy(pool->platform);
    weir_cuda_bell_drop(pool->bell);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

weir_status weir_cuda_pool_create(const weir_cuda_pool_config *config, weir_cuda_pool **out,
                                  char why[WEIR_CUDA_WHY_BYTES])
{
    char unread[WEIR_CUDA_WHY_BYTES];
    weir_cuda_pool_config full;
    weir_conf conf;
    char *text = why ? why : unread;
    memset(&full, 0, sizeof(full));
    if (config) {
        memcpy(&full, config, config->size < sizeof(full) ? config->size : sizeof(full));
    }
    weir_status status = pool_settings(&full, &conf, text);
    if (status != WEIR_OK) {
        return status;
    }
    weir_cuda_pool *pool = (weir_cuda_pool *)calloc(1, sizeof(*pool));
    if (!pool || pthread_mutex_init(&pool->lock, NULL) != 0) {
        free(pool);
        snprintf(text, WEIR_CUDA_WHY_BYTES, "not enough host memory");
        return WEIR_NO_METADATA;
    }
    pool->streams_told = full.streams_told;
    pool->captures_told = full.captures_told;
    status = pool_open(pool, full.device, &conf, text);
    if (status != WEIR_OK) {
        pool_close(pool);
        return status;
    }
    *out = pool;
    return WEIR_OK;
}

/* A lost device destroys no graphs any more. */
static bool pool_is_lost(const weir_cuda_pool *pool)
{
    return weir_driver_status(atomic_load(&pool->cuda->native_error)) == WEIR_LOST;
}

weir_status weir_cuda_pool_destroy(weir_cuda_pool *pool)
{
    if (!pool) {
        return WEIR_INVALID;
    }
    (void)weir_cuda_pool_settle(pool);
    if (pool->captures && !pool_is_lost(pool)) {
        return WEIR_BUSY;
    }
    weir_status status = weir_pool_destroy(pool->core);
    if (status == WEIR_OK) {
        pool_close(pool);
    }
    return status;
}

weir_pool *weir_cuda_pool_core(weir_cuda_pool *pool)
{
    return pool->core;
}

weir_cuda *weir_cuda_pool_device(weir_cuda_pool *pool)
{
    return pool->cuda;
}

/* What every call begins with: the memory of dead graphs, and whether the stream is captured. */
static weir_status pool_begin(weir_cuda_pool *pool, void *stream, weir_cuda_capture **capture)
{
    *capture = NULL;
    if (atomic_load_explicit(&pool->bell->rung, memory_order_relaxed)) {
        (void)weir_cuda_pool_settle(pool);
    }
    if (pool->captures_told && atomic_load_explicit(&pool->capturing, memory_order_relaxed) == 0) {
        return WEIR_OK;
    }
    return weir_cuda_capture_of(pool, stream ? stream : WEIR_CU_STREAM_LEGACY, capture);
}

/* ----------------------------------------------------------------------------------- streams -- */

/* Attaches a stream that has no name, or whose handle another one had. The lock is held. */
static weir_status pool_attach(weir_cuda_pool *pool, const weir_stream_desc *desc,
                               weir_stream *name)
{
    weir_cuda_name *slot = weir_cuda_name_take(&pool->names, desc->native);
    if (!slot) {
        return WEIR_NO_METADATA;
    }
    weir_stream old = atomic_load(&slot->name);
    if (old != 0 && atomic_load(&slot->unique) == desc->unique) {
        *name = old;
        return WEIR_OK;
    }
    if (old != 0) {
        (void)weir_stream_forget(pool->core, old);
        atomic_store(&slot->name, 0);
    }
    weir_status status = weir_stream_attach(pool->core, desc, name);
    if (status == WEIR_OK) {
        atomic_store(&slot->unique, desc->unique);
        atomic_store(&slot->name, *name);
    }
    return status;
}

static weir_status pool_meet(weir_cuda_pool *pool, void *stream, weir_stream *name)
{
    weir_stream_desc desc;
    weir_status status = weir_cuda_stream(pool->cuda, stream, &desc);
    if (status != WEIR_OK) {
        return status;
    }
    if ((desc.native & WEIR_CUDA_KIND) == 0) {
        desc.outlives = pool->streams_told;
    }
    pthread_mutex_lock(&pool->lock);
    status = pool_attach(pool, &desc, name);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* The name of a stream that was met before; 0 where that can't be told. A handle, unlike a default
 * stream, can be asked for its id whatever context is current. */
static weir_stream pool_known(weir_cuda_pool *pool, void *stream)
{
    weir_cuda_names *names = atomic_load_explicit(&pool->names, memory_order_acquire);
    const weir_driver *driver = &pool->cuda->driver;
    uint64_t key = (uint64_t)(uintptr_t)stream;
    unsigned long long id = 0;
    if (stream == WEIR_CU_STREAM_PER_THREAD) {
        return 0;
    }
    if (pool->streams_told || stream == WEIR_CU_STREAM_LEGACY) {
        return weir_cuda_name_find(names, key);
    }
    if (!driver->stream_id || driver->stream_id(stream, &id) != WEIR_CU_OK) {
        return 0;
    }
    return weir_cuda_name_known(names, key, id);
}

/* Of a stream that is not being captured. */
static weir_status pool_name(weir_cuda_pool *pool, void *stream, weir_stream *name)
{
    void *named = stream ? stream : WEIR_CU_STREAM_LEGACY;
    *name = pool_known(pool, named);
    return *name != 0 ? WEIR_OK : pool_meet(pool, named, name);
}

weir_status weir_cuda_pool_stream(weir_cuda_pool *pool, void *stream, weir_stream *name)
{
    weir_cuda_capture *capture;
    if (!pool || !name) {
        return WEIR_INVALID;
    }
    weir_status status = pool_begin(pool, stream, &capture);
    if (status == WEIR_OK && capture) {
        status = WEIR_INVALID;
    }
    return status == WEIR_OK ? pool_name(pool, stream, name) : status;
}

weir_status weir_cuda_pool_stream_end(weir_cuda_pool *pool, void *stream)
{
    if (!pool) {
        return WEIR_INVALID;
    }
    weir_status status = WEIR_OK;
    uint64_t key = (uint64_t)(uintptr_t)stream;
    if ((key & WEIR_CUDA_KIND) != 0 || key == 0) {
        return WEIR_OK; /* default streams end with their context or thread */
    }
    pthread_mutex_lock(&pool->lock);
    weir_stream name = weir_cuda_name_find(atomic_load(&pool->names), key);
    if (name != 0) {
        status = weir_stream_retire(pool->core, name);
    }
    if (name != 0 && status == WEIR_OK) {
        atomic_store(&weir_cuda_name_take(&pool->names, key)->name, 0);
    }
    pthread_mutex_unlock(&pool->lock);
    return status == WEIR_WOULD_WAIT ? WEIR_BUSY : status;
}

/* A captured stream can't be asked who it is. If its handle has a name, that is good: the handle's
 * present stream is what an event will be recorded on. If not, it gets one until it can be asked. A
 * thread's default stream can't be told from another's, but the legacy stream comes after it. */
static weir_status pool_meet_captured(weir_cuda_pool *pool, void *stream, weir_stream *name)
{
    weir_stream_desc desc = {sizeof(desc), (uint64_t)(uintptr_t)stream, 0, pool->streams_told};
    if (((uintptr_t)stream & WEIR_CUDA_KIND) != 0 || !stream) {
        return pool_name(pool, WEIR_CU_STREAM_LEGACY, name);
    }
    pthread_mutex_lock(&pool->lock);
    *name = weir_cuda_name_find(atomic_load(&pool->names), desc.native);
    weir_status status = WEIR_OK;
    if (*name == 0) {
        desc.unique = WEIR_CUDA_UNIQUE_OWN | pool->unique_next++;
        status = pool_attach(pool, &desc, name);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void weir_cuda_pool_capture_begin(weir_cuda_pool *pool)
{
    atomic_fetch_add(&pool->cuda->captures, 1); /* no rescue from now on */
    atomic_fetch_add(&pool->capturing, 1);
}

void weir_cuda_pool_capture_end(weir_cuda_pool *pool)
{
    atomic_fetch_sub(&pool->capturing, 1);
    atomic_fetch_sub(&pool->cuda->captures, 1);
}

/* ------------------------------------------------------------------------------------ blocks -- */

static weir_status pool_alloc_captured(weir_cuda_pool *pool, uint64_t bytes,
                                       weir_cuda_capture *capture, void *stream, weir_addr *addr)
{
    weir_request request;
    memset(&request, 0, sizeof(request));
    request.size = sizeof(request);
    request.bytes = bytes;
    request.domain = capture->domain;
    request.flags = WEIR_NO_EVENTS;
    weir_status status = weir_cuda_capture_lane(pool, capture, stream, &request.stream);
    return status == WEIR_OK ? weir_alloc(pool->core, &request, addr) : status;
}

weir_status weir_cuda_pool_alloc(weir_cuda_pool *pool, uint64_t bytes, void *stream,
                                 weir_addr *addr)
{
    weir_cuda_capture *capture;
    weir_stream name;
    if (!pool) {
        return WEIR_INVALID;
    }
    weir_status status = pool_begin(pool, stream, &capture);
    if (status == WEIR_OK && capture) {
        return pool_alloc_captured(pool, bytes, capture, stream, addr);
    }
    if (status == WEIR_OK) {
        status = pool_name(pool, stream, &name);
    }
    return status == WEIR_OK ? weir_alloc_on(pool->core, name, bytes, addr) : status;
}

/* The name under which a stream uses a block: inside a capture, for the capture's own memory, that
 * of the capture's stream. A broken capture is none, and of a lost device the block's own stream is
 * as good as any: what is live can always be freed. */
static weir_status pool_name_for(weir_cuda_pool *pool, weir_addr addr, void *stream,
                                 weir_stream *name)
{
    weir_cuda_capture *capture;
    weir_block block = {0, 0, 0, 0, 0, 0, false, false, false, false};
    weir_status status = pool_begin(pool, stream, &capture);
    if (status == WEIR_OK && capture) {
        status = weir_block_find(pool->core, addr, &block);
        if (status != WEIR_OK) {
            return status;
        }
        return block.domain == capture->domain ? weir_cuda_capture_lane(pool, capture, stream, name)
                                               : pool_meet_captured(pool, stream, name);
    }
    status = status == WEIR_OK || status == WEIR_LOST ? pool_name(pool, stream, name)
                                                      : pool_meet_captured(pool, stream, name);
    if (status == WEIR_LOST) {
        *name = 0;
        status = WEIR_OK;
    }
    return status;
}

weir_status weir_cuda_pool_free(weir_cuda_pool *pool, weir_addr addr, void *stream)
{
    weir_stream name;
    if (!pool) {
        return WEIR_INVALID;
    }
    weir_status status = pool_name_for(pool, addr, stream, &name);
    return status == WEIR_OK ? weir_free(pool->core, addr, name) : status;
}

weir_status weir_cuda_pool_use(weir_cuda_pool *pool, weir_addr addr, void *stream)
{
    weir_stream name;
    if (!pool) {
        return WEIR_INVALID;
    }
    weir_status status = pool_name_for(pool, addr, stream, &name);
    return status == WEIR_OK ? weir_use(pool->core, addr, name) : status;
}

weir_status weir_cuda_pool_share(weir_cuda_pool *pool, weir_addr addr, weir_cuda_share as,
                                 weir_cuda_shared *shared)
{
    weir_block block;
    if (!pool || !shared) {
        return WEIR_INVALID;
    }
    weir_status status = weir_pin(pool->core, addr);
    if (status == WEIR_OK) {
        status = weir_block_find(pool->core, addr, &block);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_cuda_export(pool->cuda, addr, block.bytes, as, shared);
    if (status != WEIR_OK) {
        (void)weir_unpin(pool->core, addr);
    }
    return status;
}
