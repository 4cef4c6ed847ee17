/* SPDX-License-Identifier: MIT */
/*
 * rescue: with the device quiet, copies the live granules of sparse handles into small handles that
 * are mapped at the same addresses, so that the sparse handles become idle. No address changes.
 *
 * All exchanges are made with the lock held, between quiesce and resume, in which nothing can use
 * the memory; only giving free handles back releases it. Claimed nodes count as live and busy
 * pieces are left alone, so calls that run meanwhile are not disturbed. One sparse handle at a time
 * is exchanged:
 * X1       until the sparse handle is unmapped, a failure leaves everything as it was;
 * X2       after that, a failure maps it again at its old place, where its bytes still are;
 * X3       should that fail too, live memory is out of reach and the device is marked lost.
 * Cost     one walk over the nodes, then for each exchange a copy, a create, two maps, two accesses
 *          and an unmap for each live stretch, and an unmap for the handle.
 */
#include "pool.h"

#define RESCUE_TILE 8 /* granules of the largest handle that copies go to */

/* Counts the granules of each mapped piece that hold anything but free memory, in `to`. */
static void rescue_count(weir_pool *pool)
{
    const weir_range *range = &pool->range;
    uint64_t granule = weir_pool_granule(pool);
    uint64_t counted = 0; /* end of the last granule that was counted */
    for (uint32_t i = 1; i < pool->pages.piece_count; i++) {
        weir_piece *piece = weir_piece_get(&pool->pages, i);
        if (piece->state == WEIR_PIECE_MAPPED) piece->to = 0; /* a busy one's belongs to its call */
    }
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next) {
        const weir_node *node = &range->node[at];
        if (node->kind == WEIR_FREE || node->kind == WEIR_FENCE) continue;
        uint64_t addr = weir_max(weir_round_down(node->addr, granule), counted);
        uint64_t end = weir_round_up(weir_node_end(range, at), granule);
        for (; addr < end; addr += granule) {
            uint32_t which = weir_pages_at(&pool->pages, addr);
            if (which != 0) weir_piece_get(&pool->pages, which)->to++;
        }
        counted = weir_max(counted, end);
    }
}

/* Whether anything but free memory lies in the granule at `addr`. */
static bool granule_live(const weir_pool *pool, uint64_t addr, uint32_t *near)
{
    uint64_t end = addr + weir_pool_granule(pool);
    uint32_t index = weir_range_at(&pool->range, addr, *near);
    *near = index;
    for (; index != 0 && pool->range.node[index].addr < end; index = pool->range.node[index].next)
        if (pool->range.node[index].kind != WEIR_FREE) return true;
    return false;
}

/* The piece whose exchange copies the least for what it gains, if it copies at most `room`
 * granules; 0: none. A piece without live granules is movable as it is. */
static uint32_t rescue_pick(const weir_pool *pool, uint64_t room)
{
    uint32_t best = 0;
    uint64_t best_live = 1, best_size = 1;
    for (uint32_t i = 1; i < pool->pages.piece_count; i++) {
        const weir_piece *piece = weir_piece_get(&pool->pages, i);
        if (piece->state != WEIR_PIECE_MAPPED || piece->pins != 0 || piece->granules < 2) continue;
        if (piece->to == 0 || piece->to >= piece->granules || piece->to > room) continue;
        if (best != 0 && piece->to * best_size >= best_live * piece->granules) continue;
        best = i;
        best_live = piece->to;
        best_size = piece->granules;
    }
    return best;
}

/* What limit and device still allow, as far as the device says what it has. */
static uint64_t rescue_room(const weir_pool *pool)
{
    uint64_t bound = weir_place_bound(pool);
    return bound - weir_min(bound, pool->pages.held_bytes);
}

/* ---------------------------------------------------------------------------------- exchange -- */

/* A chain of small pieces for the live stretches of a piece, each with its place in `to`. */
typedef struct exchange {
    uint32_t sparse;
    uint32_t first, last;
    uint64_t window; /* where the small handles are mapped while they are filled */
} exchange;

static weir_status small_make(weir_pool *pool, uint64_t granules, uint64_t to, exchange *with)
{
    weir_device *device = &pool->device;
    uint32_t which = weir_pages_idle_below(&pool->pages, granules);
    weir_status status = WEIR_OK;
    if (which != 0 && weir_piece_get(&pool->pages, which)->granules == granules) {
        weir_pages_idle_take(&pool->pages, which);
    } else {
        uint64_t bytes = granules << device->granule_shift;
        if (rescue_room(pool) < bytes) return WEIR_NO_MEMORY;
        which = weir_pages_piece_add(&pool->pages, (uint32_t)granules);
        if (which == 0) return WEIR_NO_METADATA;
        weir_piece *piece = weir_piece_get(&pool->pages, which);
        status = WEIR_DEVICE_CALL(device, &device->calls, creates,
                                  handle_create(device->self, bytes, &piece->handle));
        if (status != WEIR_OK) {
            weir_pages_piece_drop(&pool->pages, which);
            return status;
        }
        piece->made = true;
        weir_pool_note_held(pool, bytes, 1);
    }
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    piece->to = to;
    piece->there = false;
    piece->next = 0;
    if (with->last != 0) weir_piece_get(&pool->pages, with->last)->next = which;
    else with->first = which;
    with->last = which;
    return WEIR_OK;
}

/* Small handles for every live stretch of the sparse piece. */
static weir_status exchange_make(weir_pool *pool, exchange *with)
{
    const weir_piece *sparse = weir_piece_get(&pool->pages, with->sparse);
    uint64_t granule = weir_pool_granule(pool);
    uint64_t end = sparse->addr + weir_piece_bytes(&pool->pages, with->sparse);
    uint32_t near = 0;
    weir_status status = WEIR_OK;
    for (uint64_t at = sparse->addr; at < end && status == WEIR_OK;) {
        uint64_t live = 0;
        while (live < RESCUE_TILE && at + live * granule < end &&
               granule_live(pool, at + live * granule, &near))
            live++;
        uint64_t tile = live == 0 ? 1 : UINT64_C(1) << weir_bit_high(live);
        if (live != 0) status = small_make(pool, tile, at, with);
        at += tile * granule;
    }
    return status;
}

static weir_status small_map(weir_pool *pool, uint32_t which, uint64_t addr)
{
    weir_device *device = &pool->device;
    uint64_t bytes = weir_piece_bytes(&pool->pages, which);
    weir_status status = WEIR_DEVICE_CALL(
        device, &device->calls, maps,
        map(device->self, addr, bytes, weir_piece_get(&pool->pages, which)->handle));
    if (status != WEIR_OK) return status;
    status =
        WEIR_DEVICE_CALL(device, &device->calls, accesses, set_access(device->self, addr, bytes));
    if (status == WEIR_OK) return WEIR_OK;
    if (WEIR_DEVICE_CALL(device, &device->calls, unmaps, unmap(device->self, addr, bytes)) !=
        WEIR_OK)
        weir_piece_get(&pool->pages, which)->shadows++;
    return status;
}

/* A mapping is stuck in the window: its addresses are lost. */
static void window_lose(weir_pool *pool, uint64_t window)
{
    uint32_t index = weir_range_at(&pool->range, window, 0);
    uint64_t end = window + RESCUE_TILE * weir_pool_granule(pool);
    weir_range_unfile(&pool->range, index);
    if (weir_node_end(&pool->range, index) != end)
        weir_range_file(&pool->range, weir_range_split(&pool->range, index, end));
    pool->range.node[index].kind = WEIR_LOST_RANGE;
}

/* Fills the small handles, one after the other, through the window. */
static weir_status exchange_copy(weir_pool *pool, const exchange *with)
{
    weir_device *device = &pool->device;
    weir_status status = WEIR_OK;
    for (uint32_t at = with->first; at != 0 && status == WEIR_OK;
         at = weir_piece_get(&pool->pages, at)->next) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint64_t bytes = weir_piece_bytes(&pool->pages, at);
        status = small_map(pool, at, with->window);
        if (status != WEIR_OK) {
            if (piece->shadows != 0) window_lose(pool, with->window);
            break;
        }
        status = WEIR_DEVICE_CALL(device, &device->calls, copies,
                                  copy(device->self, with->window, piece->to, bytes));
        weir_status undone = WEIR_DEVICE_CALL(device, &device->calls, unmaps,
                                              unmap(device->self, with->window, bytes));
        if (undone != WEIR_OK) {
            piece->shadows++;
            window_lose(pool, with->window);
        }
        if (status == WEIR_OK) status = undone;
        if (status == WEIR_OK) pool->rescued_bytes += bytes;
    }
    return status;
}

/* Small pieces that were not put in place become idle, or lost if a mapping is stuck. */
static void exchange_drop(weir_pool *pool, const exchange *with)
{
    for (uint32_t at = with->first; at != 0;) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint32_t next = piece->next;
        if (piece->shadows != 0) weir_pages_lose(&pool->pages, at);
        else weir_pages_idle_push(&pool->pages, at);
        at = next;
    }
}

/* X2: takes the small handles away again and puts the sparse one back. */
static weir_status exchange_revert(weir_pool *pool, const exchange *with, weir_status status)
{
    weir_device *device = &pool->device;
    weir_piece *sparse = weir_piece_get(&pool->pages, with->sparse);
    weir_status undone = WEIR_OK;
    for (uint32_t at = with->first; at != 0 && undone == WEIR_OK;
         at = weir_piece_get(&pool->pages, at)->next) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        if (!piece->there) continue;
        undone =
            WEIR_DEVICE_CALL(device, &device->calls, unmaps,
                             unmap(device->self, piece->to, weir_piece_bytes(&pool->pages, at)));
        piece->there = false;
    }
    if (undone == WEIR_OK) undone = small_map(pool, with->sparse, sparse->addr);
    if (undone != WEIR_OK) device->calls.lost = true;
    return undone != WEIR_OK ? WEIR_LOST : status;
}

/* Unmaps the sparse handle and maps the small ones in its stead. */
static weir_status exchange_swap(weir_pool *pool, const exchange *with)
{
    weir_device *device = &pool->device;
    const weir_piece *sparse = weir_piece_get(&pool->pages, with->sparse);
    weir_status status = WEIR_DEVICE_CALL(
        device, &device->calls, unmaps,
        unmap(device->self, sparse->addr, weir_piece_bytes(&pool->pages, with->sparse)));
    if (status != WEIR_OK) return status;
    for (uint32_t at = with->first; at != 0; at = weir_piece_get(&pool->pages, at)->next) {
        status = small_map(pool, at, weir_piece_get(&pool->pages, at)->to);
        if (status != WEIR_OK) return exchange_revert(pool, with, status);
        weir_piece_get(&pool->pages, at)->there = true;
    }
    return WEIR_OK;
}

/* ------------------------------------------------------------------------------------ records
 * -- */

/* Cuts a free node so that [lo, hi), which lies in it, is a hole; gives that. */
static uint32_t node_to_hole(weir_pool *pool, uint32_t index, uint64_t lo, uint64_t hi)
{
    weir_range *range = &pool->range;
    weir_range_unfile(range, index);
    if (weir_node_end(range, index) != hi)
        weir_range_file(range, weir_range_split(range, index, hi));
    if (range->node[index].addr != lo) {
        uint32_t upper = weir_range_split(range, index, lo);
        weir_range_file(range, index);
        index = upper;
    }
    range->node[index].set = WEIR_SET_HOLES;
    weir_node_point_set(&range->node[index], 0);
    return weir_range_free(range, index);
}

/* The granules of a piece's old place that nothing backs any more become holes. */
static void stretch_to_holes(weir_pool *pool, uint64_t lo, uint64_t hi)
{
    const weir_range *range = &pool->range;
    uint64_t granule = weir_pool_granule(pool);
    uint32_t near = 0;
    for (uint64_t at = lo; at < hi; at += granule) {
        if (weir_pages_at(&pool->pages, at) != 0) continue;
        for (uint64_t part = at; part < at + granule;) {
            near = weir_range_at(range, part, near);
            uint64_t end = weir_min(at + granule, weir_node_end(range, near));
            WEIR_ASSERT(range->node[near].kind == WEIR_FREE);
            if (range->node[near].set != WEIR_SET_HOLES) near = node_to_hole(pool, near, part, end);
            part = end;
        }
    }
}

static void exchange_settle(weir_pool *pool, const exchange *with)
{
    uint64_t lo = weir_piece_get(&pool->pages, with->sparse)->addr;
    uint64_t hi = lo + weir_piece_bytes(&pool->pages, with->sparse);
    weir_pages_displace(&pool->pages, with->sparse);
    for (uint32_t at = with->first; at != 0;) {
        weir_piece *piece = weir_piece_get(&pool->pages, at);
        uint32_t next = piece->next;
        piece->there = false;
        weir_pages_place(&pool->pages, at, piece->to);
        piece->to = piece->granules;
        at = next;
    }
    stretch_to_holes(pool, lo, hi);
    weir_piece_get(&pool->pages, with->sparse)->to = 0;
    weir_pages_idle_push(&pool->pages, with->sparse);
}

static weir_status exchange_run(weir_pool *pool, uint32_t sparse, uint64_t window)
{
    exchange with = {.sparse = sparse, .window = window};
    weir_status status =
        weir_range_need(&pool->range, 4 * weir_piece_get(&pool->pages, sparse)->granules);
    if (status == WEIR_OK) status = exchange_make(pool, &with);
    if (status == WEIR_OK) status = exchange_copy(pool, &with);
    if (status == WEIR_OK) status = exchange_swap(pool, &with);
    if (status == WEIR_OK) exchange_settle(pool, &with);
    else exchange_drop(pool, &with);
    return status;
}

/* ------------------------------------------------------------------------------------- rescue
 * -- */

/* What could be had now without another exchange. */
static uint64_t rescue_have(weir_pool *pool, const weir_ask *ask, uint64_t enough)
{
    uint64_t have = pool->pages.idle_bytes + weir_min(rescue_room(pool), enough);
    return have + weir_place_movable(pool, ask, enough);
}

static uint64_t rescue_headroom(const weir_pool *pool)
{
    return rescue_room(pool) >> pool->device.granule_shift;
}

/* The best piece to exchange; 0: none. Where the limit leaves too little room for its copies, free
 * handles are given back for it, and if that is not enough a piece is taken that needs less. */
static uint32_t rescue_choose(weir_pool *pool)
{
    uint64_t released;
    uint32_t sparse = rescue_pick(pool, UINT64_MAX);
    if (sparse == 0) return 0;
    uint64_t live = weir_piece_get(&pool->pages, sparse)->to;
    uint64_t room = rescue_headroom(pool);
    uint64_t lacking = (live - weir_min(live, room)) << pool->device.granule_shift;
    if (lacking != 0 && pool->pages.held_bytes > lacking)
        (void)weir_trim_to(pool, pool->pages.held_bytes - lacking, &released);
    return rescue_pick(pool, rescue_headroom(pool));
}

static weir_status rescue_exchange(weir_pool *pool, const weir_ask *ask, uint64_t wanted)
{
    uint64_t granule = weir_pool_granule(pool);
    weir_status status = WEIR_OK;
    rescue_count(pool);
    while (status == WEIR_OK && rescue_have(pool, ask, wanted) < wanted) {
        weir_cursor cursor = {.begun = false};
        uint32_t sparse = rescue_choose(pool);
        uint32_t hole =
            weir_range_each(&pool->range, WEIR_SET_HOLES, RESCUE_TILE * granule, &cursor);
        if (sparse == 0 || hole == 0) return WEIR_NO_MEMORY;
        status = exchange_run(pool, sparse, pool->range.node[hole].addr);
    }
    return status;
}

/* What was won becomes room under the limit: the next handles are made in the sizes that fit, and
 * the next rescue has room again. */
static void rescue_settle(weir_pool *pool, uint64_t wanted)
{
    uint64_t bound = weir_place_bound(pool);
    uint64_t released;
    if (!pool->device.calls.lost && bound != WEIR_NO_LIMIT && bound > wanted)
        (void)weir_trim_to(pool, bound - wanted, &released);
}

static void rescue_tell(weir_pool *pool, uint64_t copied)
{
    weir_record record = {.what = WEIR_DID_RESCUE, .bytes = copied};
    if (copied == 0 || pool->config.observer == NULL) return;
    weir_calls calls = weir_pool_release(pool);
    weir_pool_tell(pool, &record);
    weir_pool_acquire(pool, &calls);
}

/* A device that can't be set going again, at the second try either, is of no use to anybody. */
static weir_status rescue_resume(weir_device *device)
{
    if (device->calls.lost) return WEIR_LOST;
    weir_status status = device->ops.resume(device->self);
    if (status != WEIR_OK && status != WEIR_LOST) status = device->ops.resume(device->self);
    if (status == WEIR_OK) return WEIR_OK;
    (void)weir_device_answer(device, &device->calls, status);
    device->calls.lost = true;
    return WEIR_LOST;
}

weir_status weir_rescue(weir_pool *pool, weir_ask *ask, uint64_t bytes)
{
    weir_device *device = &pool->device;
    uint64_t copied = pool->rescued_bytes;
    if (pool->config.no_rescue || device->ops.quiesce == NULL || !weir_device_virtual(device))
        return WEIR_NO_MEMORY;
    uint64_t wanted = weir_round_up(bytes, weir_pool_granule(pool));
    if (!weir_place_possible(pool, wanted)) return WEIR_NO_MEMORY;
    rescue_count(pool);
    if (rescue_pick(pool, UINT64_MAX) == 0)
        return WEIR_NO_MEMORY; /* nothing sparse: not worth a wait */
    if (ask->wait_us == 0 || pool->rescuing) return WEIR_WOULD_WAIT;
    wanted += weir_place_kept(pool);
    uint64_t begun = weir_pool_now(pool);
    weir_status status =
        WEIR_DEVICE_CALL(device, &device->calls, host_waits, quiesce(device->self, ask->wait_us));
    weir_pool_spend(pool, begun, &ask->wait_us);
    if (status == WEIR_UNSUPPORTED) return WEIR_NO_MEMORY;
    if (status != WEIR_OK) return status;
    pool->rescuing = true;
    (void)weir_gather(pool, ask); /* all that was ever queued has passed now */
    status = weir_shadow_drain(pool, 0);
    if (status == WEIR_OK) status = rescue_exchange(pool, ask, wanted);
    rescue_settle(pool, wanted);
    weir_status resumed = rescue_resume(device);
    pool->rescuing = false;
    pool->rescues++;
    weir_pool_press(pool, true);
    copied = pool->rescued_bytes - copied;
    if (status == WEIR_NO_MEMORY && copied != 0) status = WEIR_OK;
    rescue_tell(pool, copied);
    return resumed == WEIR_OK ? status : resumed;
}
