/* SPDX-License-Identifier: MIT */
/*
 * History: the last operations, in a ring, with the stacks that a source gave.
 *
 * Invariants  The ring is used with the lock held. It grows until it has room for `most` events, or
 *             host memory is short; only then is the oldest overwritten, so that event i stands at
 *             i modulo `room` whenever room stands still.
 * Cost        Nothing but one look at `on` while no history is kept.
 */
#include "runtime_internal.h"

#include <stdlib.h>

#define HISTORY_ROOM 1024u

typedef struct history_ring {
    pthread_mutex_t lock;
    atomic_bool on;
    weir_rt_event *event;
    uint64_t room, most, written;
    _Atomic(weir_runtime_stack_source) source;
    _Atomic(void *) source_self;
} history_ring;

static history_ring history = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local uint32_t history_metadata;

bool weir_rt_history_on(void)
{
    return atomic_load_explicit(&history.on, memory_order_relaxed);
}

void weir_runtime_stack_from(weir_runtime_stack_source source, void *self)
{
    atomic_store(&history.source, (weir_runtime_stack_source)NULL);
    atomic_store(&history.source_self, self);
    atomic_store(&history.source, source);
}

uint32_t weir_rt_history_stack(void)
{
    if (!weir_rt_history_on()) {
        return 0;
    }
    weir_runtime_stack_source source = atomic_load(&history.source);
    return source ? source(atomic_load(&history.source_self)) : 0;
}

int weir_runtime_metadata(const char *text)
{
    const char *const file = text ? text : "", *const name = "";
    const int line = 0;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    uint32_t number = file[0] != '\0' ? weir_runtime_stack(&file, &line, &name, 1) : 0;
    if (number == 0 && file[0] != '\0') {
        return weir_rt_fail(WEIR_NO_METADATA, "no room for another text");
    }
    history_metadata = number;
    return WEIR_OK;
}

void weir_rt_history_leaks(void)
{
    weir_runtime_stack_source none = NULL;
    (void)atomic_compare_exchange_strong(&history.source, &none, weir_runtime_stack_native);
    if (!weir_rt_history_on()) {
        (void)weir_runtime_history(1); /* the blocks keep their stacks, events are not asked for */
    }
}

void weir_rt_history_hold(bool hold)
{
    if (hold) {
        pthread_mutex_lock(&history.lock);
    } else {
        pthread_mutex_unlock(&history.lock);
    }
}

/* Room for one event more, if the ring is not at its full size. */
static void history_grow(void)
{
    uint64_t room = history.room == 0 ? HISTORY_ROOM : 2 * history.room;
    room = room < history.most ? room : history.most;
    weir_rt_event *more = NULL;
    if (room <= SIZE_MAX / sizeof(*more)) {
        more = (weir_rt_event *)realloc(history.event, (size_t)room * sizeof(*more));
    }
    if (!more) { /* it does not grow any more, and begins to turn */
        history.most = history.room;
        return;
    }
    history.event = more;
    history.room = room;
}

void weir_rt_history_note(const weir_rt_event *event)
{
    pthread_mutex_lock(&history.lock);
    if (history.written == history.room && history.room < history.most) {
        history_grow();
    }
    if (history.room != 0) {
        weir_rt_event *place = &history.event[history.written++ % history.room];
        *place = *event;
        place->time_us = weir_rt_now_us();
        place->metadata = history_metadata;
    }
    pthread_mutex_unlock(&history.lock);
}

static void history_observe(void *self, const weir_record *record)
{
    const weir_rt_device *on = (const weir_rt_device *)self;
    weir_rt_event event = {.device = on->ordinal, .addr = record->addr, .bytes = record->bytes};
    if (record->what == WEIR_DID_MAP || record->what == WEIR_DID_MOVE) {
        event.act = WEIR_RT_MAP;
    } else if (record->what == WEIR_WILL_UNMAP) {
        event.act = WEIR_RT_UNMAP;
    } else {
        return; /* blocks are noted by their books */
    }
    weir_rt_history_note(&event);
}

void weir_rt_history_watch(weir_rt_device *on, bool watch)
{
    weir_observer_set(weir_rt_core(on), watch ? history_observe : NULL, watch ? on : NULL);
}

static void history_watch_all(bool watch)
{
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        weir_rt_history_watch(on, watch);
    }
}

int weir_runtime_history(uint64_t entries)
{
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    pthread_mutex_lock(&history.lock);
    free(history.event);
    history.event = NULL;
    history.room = 0;
    history.most = entries;
    history.written = 0;
    atomic_store(&history.on, entries != 0);
    pthread_mutex_unlock(&history.lock);
    history_watch_all(entries != 0);
    return WEIR_OK;
}

void weir_rt_history_walk(void (*visit)(void *self, const weir_rt_event *event), void *self)
{
    pthread_mutex_lock(&history.lock);
    uint64_t first = history.written > history.room ? history.written - history.room : 0;
    for (uint64_t i = first; i < history.written; i++) {
        visit(self, &history.event[i % history.room]);
    }
    pthread_mutex_unlock(&history.lock);
}
