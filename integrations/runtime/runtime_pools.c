/* SPDX-License-Identifier: MIT */
/*
 * Pools of the caller, each a domain of the core's: PyTorch's private pools.
 *
 * Invariants  A pool's number stays its own until it is released and its last block is gone; only
 *             then its domain is given back. Blocks of captured streams are not counted here: the
 *             pool that speaks CUDA keeps them with their graph.
 * Cost        Nothing but one look at a counter while no pool is begun; else a look at each pool.
 */
#include "runtime_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------- the table -- */

/* The lock is held for all of these. 0: there is none. */
static uint32_t pools_find(const weir_rt_device *on, uint64_t hi, uint64_t lo)
{
    for (uint32_t i = 1; i < on->pool_room; i++) {
        if (on->pools[i].open && on->pools[i].hi == hi && on->pools[i].lo == lo) {
            return i;
        }
    }
    return 0;
}

static uint32_t pools_take(weir_rt_device *on)
{
    for (uint32_t i = 1; i < on->pool_room; i++) {
        if (!on->pools[i].open) {
            return i;
        }
    }
    uint32_t room = on->pool_room == 0 ? 8 : 2 * on->pool_room;
    weir_rt_pool *more = (weir_rt_pool *)realloc(on->pools, room * sizeof(*more));
    if (!more) {
        return 0;
    }
    uint32_t first = on->pool_room == 0 ? 1 : on->pool_room;
    memset(more + on->pool_room, 0, (room - on->pool_room) * sizeof(*more));
    on->pools = more;
    on->pool_room = room;
    return first;
}

static uint32_t pools_open(weir_rt_device *on, uint64_t hi, uint64_t lo)
{
    uint32_t at = pools_find(on, hi, lo);
    if (at == 0 && (at = pools_take(on)) != 0) {
        memset(&on->pools[at], 0, sizeof(on->pools[at]));
        on->pools[at].hi = hi;
        on->pools[at].lo = lo;
        on->pools[at].open = true;
    }
    return at;
}

/* Whether the pool may go now; its domain is the caller's to release then. */
static bool pools_close(weir_rt_pool *pool, weir_domain *domain)
{
    if (!pool->open || !pool->released || pool->blocks != 0 || pool->begun != 0) {
        return false;
    }
    *domain = pool->domain;
    pool->open = false;
    return true;
}

/* BUSY is an answer only while another call is at the device: nothing of the domain is live. */
static void pools_give_back(weir_rt_device *on, weir_domain domain)
{
    while (domain != 0 && weir_domain_release(weir_rt_core(on), domain) == WEIR_BUSY) {
        sched_yield();
    }
}

void weir_rt_pool_of(weir_rt_device *on, weir_domain domain, uint64_t *hi, uint64_t *lo)
{
    *hi = 0;
    *lo = 0;
    pthread_mutex_lock(&on->lock);
    for (uint32_t i = 1; domain != 0 && i < on->pool_room; i++) {
        if (on->pools[i].open && on->pools[i].domain == domain) {
            *hi = on->pools[i].hi;
            *lo = on->pools[i].lo;
        }
    }
    pthread_mutex_unlock(&on->lock);
}

/* -------------------------------------------------------------------------------- public calls -- */

int weir_runtime_pool_begin(int device, uint64_t hi, uint64_t lo, weir_runtime_wanted wanted,
                            void *self)
{
    int status = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    pthread_mutex_lock(&on->lock);
    uint32_t at = pools_open(on, hi, lo);
    if (at != 0) {
        weir_rt_pool *pool = &on->pools[at];
        pool->begun++;
        pool->released = false;
        pool->thread = pthread_self();
        pool->wanted = wanted;
        pool->wanted_self = self;
        atomic_fetch_add(&on->pools_begun, 1);
    }
    pthread_mutex_unlock(&on->lock);
    return at != 0 ? WEIR_OK : weir_rt_fail(WEIR_NO_METADATA, "not enough host memory");
}

int weir_runtime_pool_end(int device, uint64_t hi, uint64_t lo)
{
    int status = 0;
    weir_domain domain = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    pthread_mutex_lock(&on->lock);
    uint32_t at = pools_find(on, hi, lo);
    bool begun = at != 0 && on->pools[at].begun != 0;
    if (begun) {
        on->pools[at].begun--;
        atomic_fetch_sub(&on->pools_begun, 1);
        (void)pools_close(&on->pools[at], &domain);
    }
    pthread_mutex_unlock(&on->lock);
    pools_give_back(on, domain);
    return begun ? WEIR_OK : weir_rt_fail(WEIR_NOT_FOUND, "no such pool was begun");
}

int weir_runtime_pool_release(int device, uint64_t hi, uint64_t lo)
{
    int status = 0;
    weir_domain domain = 0;
    weir_rt_device *on = weir_rt_device_get(device, &status);
    if (!on) {
        return status;
    }
    pthread_mutex_lock(&on->lock);
    uint32_t at = pools_find(on, hi, lo);
    if (at != 0) {
        on->pools[at].released = true;
        (void)pools_close(&on->pools[at], &domain);
    }
    pthread_mutex_unlock(&on->lock);
    pools_give_back(on, domain);
    return at != 0 ? WEIR_OK : weir_rt_fail(WEIR_NOT_FOUND, "there is no such pool");
}

/* ------------------------------------------------------------------------------------ placing -- */

/* Asks with the lock released, since the answer is the caller's code. */
static bool pools_wants(const weir_rt_pool *pool, uint64_t stream)
{
    return pool->wanted ? pool->wanted(pool->wanted_self, stream) != 0
                        : pthread_equal(pool->thread, pthread_self()) != 0;
}

/* The begun pool that wants the stream; a block is counted for it at once, so that it stays. */
static uint32_t pools_wanting(weir_rt_device *on, uint64_t stream)
{
    for (uint32_t i = 1;; i++) {
        pthread_mutex_lock(&on->lock);
        bool more = i < on->pool_room;
        weir_rt_pool copy = more ? on->pools[i] : (weir_rt_pool){.open = false};
        bool asked = copy.open && copy.begun != 0;
        if (asked) {
            on->pools[i].blocks++;
        }
        pthread_mutex_unlock(&on->lock);
        if (!more) {
            return 0;
        }
        if (asked && pools_wants(&copy, stream)) {
            return i;
        }
        if (asked) {
            weir_rt_pool_drop(on, i);
        }
    }
}

void weir_rt_pool_drop(weir_rt_device *on, uint32_t pool)
{
    weir_domain domain = 0;
    pthread_mutex_lock(&on->lock);
    on->pools[pool].blocks--;
    (void)pools_close(&on->pools[pool], &domain);
    pthread_mutex_unlock(&on->lock);
    pools_give_back(on, domain);
}

/* The pool's domain, made if need be; it is counted, so it stays. */
static weir_status pools_domain(weir_rt_device *on, uint32_t pool, weir_domain *domain)
{
    weir_domain made = 0;
    pthread_mutex_lock(&on->lock);
    *domain = on->pools[pool].domain;
    pthread_mutex_unlock(&on->lock);
    if (*domain != 0) {
        return WEIR_OK;
    }
    weir_status status = weir_domain_create(weir_rt_core(on), &made);
    if (status != WEIR_OK) {
        return status;
    }
    pthread_mutex_lock(&on->lock);
    if (on->pools[pool].domain == 0) {
        on->pools[pool].domain = made;
        made = 0;
    }
    *domain = on->pools[pool].domain;
    pthread_mutex_unlock(&on->lock);
    pools_give_back(on, made); /* another thread was first */
    return WEIR_OK;
}

weir_status weir_rt_pool_place(weir_rt_device *on, uint64_t bytes, uint64_t stream, uint32_t *pool,
                               weir_addr *addr)
{
    weir_cuda_pool *cuda = weir_rt_cuda(on);
    void *native = (void *)(uintptr_t)stream;
    weir_request request = {.size = sizeof(request), .bytes = bytes};
    *pool = 0;
    if (atomic_load_explicit(&on->pools_begun, memory_order_relaxed) != 0) {
        *pool = pools_wanting(on, stream);
    }
    if (*pool == 0) {
        return weir_cuda_pool_alloc(cuda, bytes, native, addr);
    }
    weir_status status = weir_cuda_pool_stream(cuda, native, &request.stream);
    if (status == WEIR_INVALID) { /* captured: the memory is its graph's */
        weir_rt_pool_drop(on, *pool);
        *pool = 0;
        return weir_cuda_pool_alloc(cuda, bytes, native, addr);
    }
    if (status == WEIR_OK) {
        status = pools_domain(on, *pool, &request.domain);
    }
    if (status == WEIR_OK) {
        status = weir_alloc(weir_rt_core(on), &request, addr);
    }
    if (status != WEIR_OK) {
        weir_rt_pool_drop(on, *pool);
        *pool = 0;
    }
    return status;
}
