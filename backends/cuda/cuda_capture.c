/* SPDX-License-Identifier: MIT */
/*
 * Captures: what is allocated while a graph is recorded, and until when it stays the graph's.
 *
 * Owns        a record for each capture that allocated: its domain, and a stream of the pool for
 *             each CUstream in it. A user object that the graph, its copies and its executable
 *             forms retain tells when the last of them is gone.
 * Invariants  Work recorded into a graph runs whenever the graph does, so no event can say that it
 *             has ended: the streams of a capture are gates, which take no event until the capture
 *             is dead. So nothing crosses between two streams of one capture, or out of it.
 *             The domain is released after that, when its blocks are free.
 *             The destructor calls nothing: it may run on the driver's threads, after the pool's end.
 * Cost        One driver call to see whether a stream captures; a walk over the captures that exist.
 */
#include "cuda_pool_internal.h"

#include <stdlib.h>

/* --------------------------------------------------------------------------------- ownership -- */

weir_cuda_bell *weir_cuda_bell_create(void)
{
    weir_cuda_bell *bell = (weir_cuda_bell *)calloc(1, sizeof(*bell));
    if (bell) {
        atomic_store(&bell->refs, 1);
    }
    return bell;
}

void weir_cuda_bell_drop(weir_cuda_bell *bell)
{
    if (bell && atomic_fetch_sub(&bell->refs, 1) == 1) {
        free(bell);
    }
}

static void capture_drop(weir_cuda_capture *capture)
{
    if (atomic_fetch_sub(&capture->refs, 1) == 1) {
        weir_cuda_bell_drop(capture->bell);
        free(capture->lanes);
        free(capture);
    }
}

/* The last graph is gone. Called by the driver. */
static void capture_died(void *self)
{
    weir_cuda_capture *capture = (weir_cuda_capture *)self;
    atomic_store(&capture->dead, true);
    atomic_store(&capture->bell->rung, true);
    capture_drop(capture);
}

/* ------------------------------------------------------------------------------------ making -- */

/* Ties the record's life to the graph's. The scope is entered. */
static weir_cu_result capture_tie(weir_cuda *cuda, weir_cuda_capture *capture, weir_cu_graph graph)
{
    weir_driver *driver = &cuda->driver;
    weir_cu_object object = NULL;
    atomic_fetch_add(&capture->refs, 1);
    weir_cu_result result =
        driver->object_create(&object, capture, capture_died, 1, WEIR_CU_OBJECT_NO_SYNC);
    if (result != WEIR_CU_OK) {
        capture_drop(capture);
        return result;
    }
    result = driver->graph_retain(graph, object, 1, WEIR_CU_GRAPH_MOVE_OBJECT);
    if (result != WEIR_CU_OK) {
        driver->object_release(object, 1); /* runs capture_died */
    }
    return result;
}

static weir_cuda_capture *capture_new(weir_cuda_pool *pool, uint64_t id)
{
    weir_cuda_capture *capture = (weir_cuda_capture *)calloc(1, sizeof(*capture));
    if (capture) {
        capture->id = id;
        capture->bell = pool->bell;
        atomic_fetch_add(&pool->bell->refs, 1);
        atomic_store(&capture->refs, 1);
    }
    return capture;
}

/* The lock is held, and the scope entered. */
static weir_status capture_make(weir_cuda_pool *pool, uint64_t id, weir_cu_graph graph,
                                weir_cuda_capture **made)
{
    const weir_driver *driver = &pool->cuda->driver;
    if (!driver->object_create || !driver->object_release || !driver->graph_retain) {
        return WEIR_UNSUPPORTED;
    }
    weir_cuda_capture *capture = capture_new(pool, id);
    if (!capture) {
        return WEIR_NO_METADATA;
    }
    weir_status status = weir_domain_create(pool->core, &capture->domain);
    if (status == WEIR_OK) {
        status = weir_cuda_answer(pool->cuda, capture_tie(pool->cuda, capture, graph));
        if (status != WEIR_OK) {
            (void)weir_domain_release(pool->core, capture->domain);
        }
    }
    if (status != WEIR_OK) {
        capture_drop(capture);
        return status;
    }
    capture->next = pool->captures;
    pool->captures = capture;
    atomic_fetch_add(&pool->cuda->captures, 1);
    *made = capture;
    return WEIR_OK;
}

/* The lock is held, and the scope entered. */
static weir_status capture_find(weir_cuda_pool *pool, uint64_t id, weir_cu_graph graph,
                                weir_cuda_capture **found)
{
    for (weir_cuda_capture *at = pool->captures; at; at = at->next) {
        if (at->id == id) {
            *found = at;
            return WEIR_OK;
        }
    }
    return capture_make(pool, id, graph, found);
}

/* ------------------------------------------------------------------------------------- using -- */

/* What the driver says of a stream. Of the legacy stream it refuses to, while a blocking stream is
 * captured: it is not in a capture itself. */
static weir_status capture_look(weir_cuda *cuda, void *stream, uint64_t *id, weir_cu_graph *graph,
                                bool *active)
{
    weir_driver *driver = &cuda->driver;
    int state = WEIR_CU_CAPTURE_NONE;
    weir_cu_result result = driver->stream_capturing(stream, &state);
    if (result == WEIR_CU_OK && state == WEIR_CU_CAPTURE_ACTIVE) {
        if (!driver->stream_capture) {
            return WEIR_UNSUPPORTED;
        }
        result = driver->stream_capture(stream, &state, id, graph, NULL, NULL);
    }
    *active = result == WEIR_CU_OK && state == WEIR_CU_CAPTURE_ACTIVE;
    if (result == WEIR_CU_CAPTURE_IMPLICIT) {
        return WEIR_OK;
    }
    if (result == WEIR_CU_OK && state == WEIR_CU_CAPTURE_BROKEN) {
        result = WEIR_CU_CAPTURE_INVALIDATED;
    }
    return weir_cuda_answer(cuda, result);
}

/* A handle, unlike a default stream, can be asked whatever context is current. */
static bool capture_none(weir_cuda *cuda, void *stream)
{
    int state = WEIR_CU_CAPTURE_ACTIVE;
    return ((uintptr_t)stream & WEIR_CUDA_KIND) == 0 &&
           cuda->driver.stream_capturing(stream, &state) == WEIR_CU_OK &&
           state == WEIR_CU_CAPTURE_NONE;
}

weir_status weir_cuda_capture_of(weir_cuda_pool *pool, void *stream, weir_cuda_capture **capture)
{
    weir_cuda_scope scope;
    uint64_t id = 0;
    weir_cu_graph graph = NULL;
    bool active = false;
    *capture = NULL;
    if (capture_none(pool->cuda, stream)) {
        return WEIR_OK;
    }
    weir_cu_result result = weir_cuda_enter(pool->cuda, &scope);
    if (result != WEIR_CU_OK) {
        return weir_cuda_answer(pool->cuda, result);
    }
    weir_status status = capture_look(pool->cuda, stream, &id, &graph, &active);
    if (status == WEIR_OK && active) {
        pthread_mutex_lock(&pool->lock);
        status = capture_find(pool, id, graph, capture);
        pthread_mutex_unlock(&pool->lock);
    }
    weir_cuda_leave(pool->cuda, &scope);
    return status;
}

/* The lock is held. */
static weir_status capture_attach(weir_cuda_pool *pool, weir_cuda_capture *capture, void *stream,
                                  weir_stream *name)
{
    if (capture->count == capture->room) {
        size_t room = capture->room ? capture->room * 2 : 4;
        weir_cuda_lane *lanes =
            (weir_cuda_lane *)realloc(capture->lanes, room * sizeof(*capture->lanes));
        if (!lanes) {
            return WEIR_NO_METADATA;
        }
        capture->lanes = lanes;
        capture->room = room;
    }
    weir_stream_desc desc = {sizeof(desc), (uint64_t)(uintptr_t)&capture->gate | WEIR_CUDA_GATE,
                             WEIR_CUDA_UNIQUE_OWN | pool->unique_next, true};
    weir_status status = weir_stream_attach(pool->core, &desc, name);
    if (status == WEIR_OK) {
        pool->unique_next++;
        capture->lanes[capture->count].stream = stream;
        capture->lanes[capture->count++].name = *name;
    }
    return status;
}

weir_status weir_cuda_capture_lane(weir_cuda_pool *pool, weir_cuda_capture *capture, void *stream,
                                   weir_stream *name)
{
    weir_status status = WEIR_OK;
    size_t at = 0;
    pthread_mutex_lock(&pool->lock);
    while (at < capture->count && capture->lanes[at].stream != stream) {
        at++;
    }
    if (at < capture->count) {
        *name = capture->lanes[at].name;
    } else {
        status = capture_attach(pool, capture, stream, name);
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* ------------------------------------------------------------------------------------ ending -- */

/* Takes back what a dead capture left. The lock is held. */
static weir_status capture_end(weir_cuda_pool *pool, weir_cuda_capture *capture)
{
    weir_status status = WEIR_OK;
    atomic_store(&capture->gate.open, true);
    while (capture->count > 0 && status == WEIR_OK) {
        status = weir_stream_retire(pool->core, capture->lanes[capture->count - 1].name);
        capture->count -= status == WEIR_OK;
    }
    return status == WEIR_OK ? weir_domain_release(pool->core, capture->domain) : status;
}

weir_status weir_cuda_pool_settle(weir_cuda_pool *pool)
{
    weir_status status = WEIR_OK;
    if (!pool) {
        return WEIR_INVALID;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->bell->rung, false);
    for (weir_cuda_capture **link = &pool->captures; *link;) {
        weir_cuda_capture *capture = *link;
        weir_status one = WEIR_OK;
        bool dead = atomic_load(&capture->dead);
        if (dead && (one = capture_end(pool, capture)) == WEIR_OK) {
            *link = capture->next;
            atomic_fetch_sub(&pool->cuda->captures, 1);
            capture_drop(capture);
            continue;
        }
        if (one != WEIR_OK) {
            status = one;
            atomic_store(&pool->bell->rung, true);
        }
        link = &capture->next;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void weir_cuda_captures_drop(weir_cuda_pool *pool)
{
    while (pool->captures) {
        weir_cuda_capture *capture = pool->captures;
        pool->captures = capture->next;
        capture_drop(capture);
    }
}
