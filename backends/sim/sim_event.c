/* SPDX-License-Identifier: MIT */
/*
 * Events of the simulated device, and the waits that move the host clock.
 *
 * Owns        the table of events. A recorded event is a place (lane, seq) in a queue and, with the
 *             oracle, the vector clock of that place: for each lane, up to which work it is ordered
 *             after.
 * Invariants  A wait moves the host clock by exactly what it adds to waited_us.
 * Cost        O(1), and O(streams) for record and stream_wait with the oracle.
 */
#include "sim_internal.h"
#include "sim_lanes.h"

#include <inttypes.h>
#include <string.h>

weir_status weir_sim_event_create(weir_sim *sim, weir_event *event)
{
    weir_sim_table *table = &sim->event_table;
    uint32_t slot = table->free_head;
    if (slot) {
        table->free_head = sim->events[slot].next_free;
    } else if (weir_sim_grow((void **)&sim->events, &table->capacity, table->count + 1,
                             sizeof(*sim->events))) {
        slot = table->count++;
    } else {
        return WEIR_NO_METADATA;
    }
    sim->events[slot].live = true;
    sim->events[slot].recorded = false;
    sim->events[slot].generation++;
    table->live++;
    *event = ((uint64_t)sim->events[slot].generation << 32) | slot;
    return WEIR_OK;
}

/* A live event, or NULL after a breach. */
static weir_sim_event *simevent_need(weir_sim *sim, const char *verb, weir_event event)
{
    uint32_t slot = (uint32_t)event;
    bool known = slot != 0 && slot < sim->event_table.count && sim->events[slot].live &&
                 sim->events[slot].generation == event >> 32;
    if (!known) {
        weir_sim_breach(sim, 0, 0, "%s of event 0x%" PRIx64 ": it does not exist or was destroyed",
                        verb, event);
        return NULL;
    }
    return &sim->events[slot];
}

static weir_sim_event *simevent_need_recorded(weir_sim *sim, const char *verb, weir_event event)
{
    weir_sim_event *found = simevent_need(sim, verb, event);
    if (found && !found->recorded) {
        weir_sim_breach(sim, 0, 0, "%s of event 0x%" PRIx64 ": it was never recorded", verb, event);
        return NULL;
    }
    return found;
}

weir_status weir_sim_event_destroy(weir_sim *sim, weir_event event)
{
    weir_sim_event *found = simevent_need(sim, "event_destroy", event);
    if (!found) {
        return WEIR_INVALID;
    }
    found->live = false;
    found->next_free = sim->event_table.free_head;
    sim->event_table.free_head = (uint32_t)(found - sim->events);
    sim->event_table.live--;
    return WEIR_OK;
}

/* Keeps what the place just recorded is ordered after. */
static bool simevent_snapshot(weir_sim *sim, weir_sim_event *event, uint32_t lane)
{
    uint32_t capacity = event->vector_count;
    if (!weir_sim_grow((void **)&event->vector, &capacity, sim->lane_count,
                       sizeof(*event->vector))) {
        return false;
    }
    event->vector_count = capacity;
    memcpy(event->vector, sim->lanes[lane].vector, sim->lane_count * sizeof(*event->vector));
    event->vector[lane] = sim->lanes[lane].seq;
    return true;
}

weir_status weir_sim_event_record(weir_sim *sim, weir_event event, uint64_t stream)
{
    weir_sim_event *found = simevent_need(sim, "event_record", event);
    uint32_t lane = found ? weir_sim_lane_need(sim, "event_record", stream) : 0;
    if (lane == 0) {
        return WEIR_INVALID;
    }
    if (sim->config.oracle && !simevent_snapshot(sim, found, lane)) {
        return WEIR_NO_METADATA;
    }
    found->recorded = true;
    found->lane = lane;
    found->seq = sim->lanes[lane].seq;
    return WEIR_OK;
}

weir_status weir_sim_event_query(weir_sim *sim, weir_event event, bool *passed)
{
    const weir_sim_event *found = simevent_need_recorded(sim, "event_query", event);
    if (!found) {
        return WEIR_INVALID;
    }
    *passed = weir_sim_finished(sim, found->lane, found->seq);
    return WEIR_OK;
}

/* The lane is from now on ordered after all that the event is. */
static void simevent_join(weir_sim *sim, uint32_t lane, const weir_sim_event *event)
{
    uint64_t *vector = sim->lanes[lane].vector;
    uint32_t count = event->vector_count < sim->lane_count ? event->vector_count : sim->lane_count;
    for (uint32_t i = 1; i < count; i++) {
        vector[i] = vector[i] > event->vector[i] ? vector[i] : event->vector[i];
    }
}

weir_status weir_sim_stream_wait(weir_sim *sim, uint64_t stream, weir_event event)
{
    const weir_sim_event *found = simevent_need_recorded(sim, "stream_wait", event);
    uint32_t lane = found ? weir_sim_lane_need(sim, "stream_wait", stream) : 0;
    if (lane == 0) {
        return WEIR_INVALID;
    }
    if (found->lane != lane && !weir_sim_queue_wait(sim, lane, found->lane, found->seq)) {
        return WEIR_NO_METADATA;
    }
    if (sim->config.oracle) {
        simevent_join(sim, lane, found);
    }
    return WEIR_OK;
}

/* Moves the host clock towards `end_us`, by at most `wait_us`. */
static bool simevent_host_wait(weir_sim *sim, uint64_t end_us, uint64_t wait_us)
{
    if (end_us <= sim->now_us) {
        return true;
    }
    uint64_t need = end_us - sim->now_us;
    bool enough = end_us != WEIR_SIM_NEVER && need <= wait_us;
    uint64_t moved = enough || need < wait_us ? need : wait_us;
    sim->now_us += moved;
    sim->totals.waited_us += moved;
    sim->totals.host_waits += moved > 0;
    return enough;
}

static weir_status simevent_hang(weir_sim *sim, const char *verb)
{
    weir_sim_breach(sim, 0, 0, "%s without end behind a stalled stream: the host would hang", verb);
    return WEIR_DEVICE;
}

weir_status weir_sim_event_wait(weir_sim *sim, weir_event event, uint64_t wait_us, bool *passed)
{
    const weir_sim_event *found = simevent_need_recorded(sim, "event_wait", event);
    if (!found) {
        return WEIR_INVALID;
    }
    uint64_t end = weir_sim_end_of(sim, found->lane, found->seq);
    if (end == WEIR_SIM_NEVER && wait_us == WEIR_FOREVER) {
        return simevent_hang(sim, "event_wait");
    }
    *passed = simevent_host_wait(sim, end, wait_us);
    return WEIR_OK;
}

/* WOULD_WAIT where the time did not suffice: nothing is quiet then and resume must not follow. */
weir_status weir_sim_quiesce(weir_sim *sim, uint64_t wait_us)
{
    if (sim->quiesced) {
        return weir_sim_breach(sim, 0, 0, "quiesce of a device that is quiet already");
    }
    uint64_t end = weir_sim_last_end(sim);
    if (end == WEIR_SIM_NEVER && wait_us == WEIR_FOREVER) {
        return simevent_hang(sim, "quiesce");
    }
    sim->quiesced = simevent_host_wait(sim, end, wait_us);
    return sim->quiesced ? WEIR_OK : WEIR_WOULD_WAIT;
}

weir_status weir_sim_resume(weir_sim *sim)
{
    if (!sim->quiesced) {
        return weir_sim_breach(sim, 0, 0, "resume of a device that is not quiet");
    }
    sim->quiesced = false;
    return WEIR_OK;
}
