/* SPDX-License-Identifier: MIT */
/*
 * Streams and the host clock of the simulated device.
 *
 * Owns        lanes (the queues behind streams), the numbers of streams, and the host clock.
 * Invariants  An item leaves its queue when its end is at or before the host clock. The ends along
 *             a queue never decrease. Work waits only for work queued before it, so ends can
 *             always be settled, by NEVER where a stalled stream is in the way.
 * Cost        Queueing O(1), or O(log items) behind a stream wait; stall and go O(items); making a
 *             stream O(streams).
 */
#include "sim_internal.h"
#include "sim_lanes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t simlane_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t simlane_later(uint64_t time_us, uint64_t by_us)
{
    return by_us > WEIR_SIM_NEVER - 1 - time_us ? WEIR_SIM_NEVER - 1 : time_us + by_us;
}

static weir_sim_item *simlane_item(const weir_sim_lane *lane, uint32_t index)
{
    return &lane->items[(lane->head + index) & (lane->capacity - 1)];
}

/* Takes from the queue what has ended. */
static void simlane_advance(const weir_sim *sim, weir_sim_lane *lane)
{
    while (lane->count && simlane_item(lane, 0)->end_us <= sim->now_us) {
        lane->done = simlane_item(lane, 0)->seq;
        lane->head = (lane->head + 1) & (lane->capacity - 1);
        lane->count--;
        lane->settled -= lane->settled > 0;
    }
}

static bool simlane_room(weir_sim_lane *lane)
{
    if (lane->count < lane->capacity) {
        return true;
    }
    if (lane->capacity > UINT32_MAX / 4) {
        return false;
    }
    uint32_t capacity = lane->capacity ? lane->capacity * 2 : 16;
    weir_sim_item *items = (weir_sim_item *)malloc(capacity * sizeof(*items));
    if (!items) {
        return false;
    }
    for (uint32_t i = 0; i < lane->count; i++) {
        items[i] = *simlane_item(lane, i);
    }
    free(lane->items);
    lane->items = items;
    lane->capacity = capacity;
    lane->head = 0;
    return true;
}

/* The index of the first item that reaches `seq`; there is one, as `seq` has not ended. */
static uint32_t simlane_index(const weir_sim_lane *lane, uint64_t seq)
{
    uint32_t low = 0;
    uint32_t high = lane->count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (simlane_item(lane, middle)->seq < seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool weir_sim_finished(weir_sim *sim, uint32_t index, uint64_t seq)
{
    weir_sim_lane *lane = &sim->lanes[index];
    if (seq > lane->done) {
        simlane_advance(sim, lane);
    }
    return seq <= lane->done;
}

bool weir_sim_ordered(weir_sim *sim, uint32_t lane, uint32_t before_lane, uint64_t before_seq)
{
    return before_lane == 0 || before_lane == lane ||
           sim->lanes[lane].vector[before_lane] >= before_seq ||
           weir_sim_finished(sim, before_lane, before_seq);
}

uint64_t weir_sim_end_of(weir_sim *sim, uint32_t index, uint64_t seq)
{
    if (index == 0 || weir_sim_finished(sim, index, seq)) {
        return 0;
    }
    const weir_sim_lane *lane = &sim->lanes[index];
    return simlane_item(lane, simlane_index(lane, seq))->end_us;
}

/* ---------------------------------------------------------------------------------- queueing -- */

/* Puts an item behind the queue; one that has ended already only counts, and one that cannot be
 * told from its predecessor joins it. */
static uint64_t simlane_push(weir_sim *sim, weir_sim_lane *lane, weir_sim_item item)
{
    simlane_advance(sim, lane);
    weir_sim_item *tail = lane->count ? simlane_item(lane, lane->count - 1) : NULL;
    item.seq = lane->seq + 1;
    item.end_us = simlane_max(item.floor_us, weir_sim_end_of(sim, item.dep_lane, item.dep_seq));
    item.end_us = simlane_max(item.end_us, tail ? tail->end_us : 0);
    if (lane->stalled) {
        item.end_us = WEIR_SIM_NEVER;
    }
    if (!tail && item.end_us <= sim->now_us) {
        lane->done = item.seq;
    } else if (tail && tail->floor_us == item.floor_us && tail->dep_lane == 0 &&
               item.dep_lane == 0) {
        tail->seq = item.seq;
    } else if (simlane_room(lane)) {
        *simlane_item(lane, lane->count++) = item;
    } else {
        return 0;
    }
    lane->seq = item.seq;
    return item.seq;
}

uint64_t weir_sim_queue(weir_sim *sim, uint32_t index)
{
    weir_sim_lane *lane = &sim->lanes[index];
    uint64_t floor = simlane_later(sim->now_us, sim->config.lag_us);
    weir_sim_item item = {0, simlane_max(floor, lane->busy_until), 0, 0, 0};
    return simlane_push(sim, lane, item);
}

bool weir_sim_queue_wait(weir_sim *sim, uint32_t index, uint32_t dep_lane, uint64_t dep_seq)
{
    weir_sim_item item = {0, 0, 0, dep_seq, dep_lane};
    return weir_sim_finished(sim, dep_lane, dep_seq) ||
           simlane_push(sim, &sim->lanes[index], item) != 0;
}

/* ---------------------------------------------------------------------------------- settling -- */

static bool simlane_dep_settled(weir_sim *sim, const weir_sim_item *item)
{
    if (item->dep_lane == 0 || weir_sim_finished(sim, item->dep_lane, item->dep_seq)) {
        return true;
    }
    const weir_sim_lane *lane = &sim->lanes[item->dep_lane];
    return simlane_index(lane, item->dep_seq) < lane->settled;
}

/* Settles the ends of a lane as far as what they wait for is settled. True if any was. */
static bool simlane_settle(weir_sim *sim, weir_sim_lane *lane)
{
    uint32_t before = lane->settled;
    while (lane->settled < lane->count) {
        weir_sim_item *item = simlane_item(lane, lane->settled);
        if (!simlane_dep_settled(sim, item)) {
            break;
        }
        uint64_t previous = lane->settled ? simlane_item(lane, lane->settled - 1)->end_us : 0;
        uint64_t end = simlane_max(item->floor_us, previous);
        end = simlane_max(end, weir_sim_end_of(sim, item->dep_lane, item->dep_seq));
        item->end_us = lane->stalled ? WEIR_SIM_NEVER : end;
        lane->settled++;
    }
    return lane->settled != before;
}

static void simlane_advance_all(weir_sim *sim)
{
    for (uint32_t i = 1; i < sim->lane_count; i++) {
        simlane_advance(sim, &sim->lanes[i]);
    }
}

/* Works out all ends anew after a stream was stalled or set going. Every end that is still open
 * becomes NEVER first, so that no lane is taken off its queue while others lean on its old end. */
static void simlane_settle_all(weir_sim *sim)
{
    for (uint32_t i = 1; i < sim->lane_count; i++) {
        weir_sim_lane *lane = &sim->lanes[i];
        lane->settled = 0;
        for (uint32_t j = 0; j < lane->count; j++) {
            simlane_item(lane, j)->end_us = WEIR_SIM_NEVER;
        }
    }
    bool progress = true;
    while (progress) {
        progress = false;
        for (uint32_t i = 1; i < sim->lane_count; i++) {
            progress = simlane_settle(sim, &sim->lanes[i]) || progress;
        }
    }
}

static void simlane_go(weir_sim *sim, weir_sim_lane *lane)
{
    if (!lane->stalled) {
        return;
    }
    simlane_advance_all(sim);
    lane->stalled = false;
    for (uint32_t i = 0; i < lane->count; i++) {
        weir_sim_item *item = simlane_item(lane, i);
        item->floor_us = simlane_max(item->floor_us, sim->now_us);
    }
    simlane_settle_all(sim);
}

static void simlane_stall(weir_sim *sim, weir_sim_lane *lane)
{
    simlane_advance_all(sim);
    lane->stalled = true;
    simlane_settle_all(sim);
}

/* ----------------------------------------------------------------------------------- streams -- */

uint32_t weir_sim_lane_find(const weir_sim *sim, uint64_t stream)
{
    return stream < sim->native_count ? sim->natives[stream] : 0;
}

/* The lane of a stream, or 0 after a breach. */
uint32_t weir_sim_lane_need(weir_sim *sim, const char *verb, uint64_t stream)
{
    uint32_t lane = weir_sim_lane_find(sim, stream);
    if (lane == 0) {
        weir_sim_breach(sim, 0, 0, "%s on stream %" PRIu64 ": it does not exist or was destroyed",
                        verb, stream);
    }
    return lane;
}

/* Every vector is as long as the table of lanes. */
static bool simlane_vectors_grow(weir_sim *sim, uint32_t old_capacity)
{
    for (uint32_t i = 1; i < sim->lane_capacity; i++) {
        uint32_t capacity = sim->lanes[i].vector ? old_capacity : 0;
        if (!weir_sim_grow((void **)&sim->lanes[i].vector, &capacity, sim->lane_capacity,
                           sizeof(*sim->lanes[i].vector))) {
            return false;
        }
    }
    return true;
}

/* A lane without open work that no stream has, or a new one; 0 where host memory is short. */
static uint32_t simlane_take(weir_sim *sim)
{
    simlane_advance_all(sim);
    for (uint32_t i = 1; i < sim->lane_count; i++) {
        if (!sim->lanes[i].live && sim->lanes[i].count == 0) {
            memset(sim->lanes[i].vector, 0, sim->lane_capacity * sizeof(uint64_t));
            return i;
        }
    }
    uint32_t old_capacity = sim->lane_capacity;
    if (!weir_sim_grow((void **)&sim->lanes, &sim->lane_capacity, sim->lane_count + 1,
                       sizeof(*sim->lanes))) {
        return 0;
    }
    if (old_capacity != sim->lane_capacity && !simlane_vectors_grow(sim, old_capacity)) {
        return 0;
    }
    return sim->lane_count++;
}

static uint64_t simlane_native_take(weir_sim *sim)
{
    if (sim->native_free_count) {
        return sim->native_free[--sim->native_free_count];
    }
    if (!weir_sim_grow((void **)&sim->natives, &sim->native_capacity, sim->native_count + 1,
                       sizeof(*sim->natives)) ||
        !weir_sim_grow((void **)&sim->native_free, &sim->native_free_capacity,
                       sim->native_count + 1, sizeof(*sim->native_free))) {
        return 0;
    }
    return sim->native_count++;
}

uint64_t weir_sim_stream_create(weir_sim *sim)
{
    weir_sim_lock(sim);
    uint32_t index = simlane_take(sim);
    uint64_t native = index ? simlane_native_take(sim) : 0;
    if (native) {
        weir_sim_lane *lane = &sim->lanes[index];
        sim->natives[native] = index;
        lane->live = true;
        lane->stalled = false;
        lane->native = native;
        lane->unique = sim->unique_next++;
        lane->busy_until = 0;
    }
    weir_sim_unlock(sim);
    return native;
}

uint64_t weir_sim_stream_unique(weir_sim *sim, uint64_t stream)
{
    weir_sim_lock(sim);
    uint32_t lane = weir_sim_lane_need(sim, "stream_unique", stream);
    uint64_t unique = lane ? sim->lanes[lane].unique : 0;
    weir_sim_unlock(sim);
    return unique;
}

void weir_sim_stream_destroy(weir_sim *sim, uint64_t stream)
{
    weir_sim_lock(sim);
    uint32_t lane = weir_sim_lane_need(sim, "stream_destroy", stream);
    if (lane) {
        simlane_go(sim, &sim->lanes[lane]);
        sim->lanes[lane].live = false;
        sim->natives[stream] = 0;
        sim->native_free[sim->native_free_count++] = stream;
    }
    weir_sim_unlock(sim);
}

/* -------------------------------------------------------------------------------------- time -- */

void weir_sim_time_set(weir_sim *sim, uint64_t now_us)
{
    weir_sim_lock(sim);
    sim->now_us = simlane_max(sim->now_us, simlane_later(now_us, sim->totals.waited_us));
    weir_sim_unlock(sim);
}

uint64_t weir_sim_time(const weir_sim *sim)
{
    weir_sim_lock(sim);
    uint64_t now = sim->now_us;
    weir_sim_unlock(sim);
    return now;
}

void weir_sim_stall(weir_sim *sim, uint64_t stream)
{
    weir_sim_lock(sim);
    uint32_t lane = weir_sim_lane_need(sim, "stall", stream);
    if (lane) {
        simlane_stall(sim, &sim->lanes[lane]);
    }
    weir_sim_unlock(sim);
}

void weir_sim_go(weir_sim *sim, uint64_t stream)
{
    weir_sim_lock(sim);
    uint32_t lane = weir_sim_lane_need(sim, "go", stream);
    if (lane) {
        simlane_go(sim, &sim->lanes[lane]);
    }
    weir_sim_unlock(sim);
}

void weir_sim_busy_until(weir_sim *sim, uint64_t stream, uint64_t until_us)
{
    weir_sim_lock(sim);
    uint32_t lane = weir_sim_lane_need(sim, "busy_until", stream);
    if (lane) {
        sim->lanes[lane].busy_until = simlane_max(sim->lanes[lane].busy_until, until_us);
    }
    weir_sim_unlock(sim);
}

static uint64_t simlane_end(const weir_sim_lane *lane)
{
    return lane->count ? simlane_item(lane, lane->count - 1)->end_us : 0;
}

uint64_t weir_sim_last_end(weir_sim *sim)
{
    uint64_t end = 0;
    simlane_advance_all(sim);
    for (uint32_t i = 1; i < sim->lane_count; i++) {
        end = simlane_max(end, simlane_end(&sim->lanes[i]));
    }
    return end;
}

static void simlane_go_all(weir_sim *sim)
{
    for (uint32_t i = 1; i < sim->lane_count; i++) {
        simlane_go(sim, &sim->lanes[i]);
    }
}

/* Sets a lane going, and all others too where it waits for one of them. */
static uint64_t simlane_sync(weir_sim *sim, weir_sim_lane *lane)
{
    simlane_go(sim, lane);
    if (simlane_end(lane) == WEIR_SIM_NEVER) {
        simlane_go_all(sim);
    }
    return simlane_end(lane);
}

void weir_sim_sync(weir_sim *sim, uint64_t stream)
{
    weir_sim_lock(sim);
    uint64_t end = 0;
    if (stream == 0) {
        simlane_go_all(sim);
        end = weir_sim_last_end(sim);
    } else {
        uint32_t lane = weir_sim_lane_need(sim, "sync", stream);
        end = lane ? simlane_sync(sim, &sim->lanes[lane]) : 0;
    }
    sim->now_us = simlane_max(sim->now_us, end);
    weir_sim_unlock(sim);
}

void weir_sim_stream_free(weir_sim *sim)
{
    for (uint32_t i = 1; i < sim->lane_capacity; i++) {
        free(sim->lanes[i].items);
        free(sim->lanes[i].vector);
    }
    for (uint32_t i = 1; i < sim->event_table.count; i++) {
        free(sim->events[i].vector);
    }
    free(sim->lanes);
    free(sim->events);
    free(sim->natives);
    free(sim->native_free);
}
