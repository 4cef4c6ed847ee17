/* SPDX-License-Identifier: MIT */
/*
 * Events of the host device, and the calls that make it quiet.
 *
 * Owns        the table of events. A recorded event is a stream and the number of the job that was
 *             last queued on it; it has passed when that job is done.
 * Invariants  While `quiet`, all queued jobs are done and no new work is let in.
 * Cost        O(1); event_create looks for a free slot in O(events).
 */
#define _GNU_SOURCE
#include "host_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static weir_host_event *hostevent_find(const weir_host *host, weir_event event)
{
    uint32_t slot = (uint32_t)event;
    if (slot == 0 || slot > host->event_count) {
        return NULL;
    }
    weir_host_event *found = &host->events[slot - 1];
    return found->live && found->generation == event >> 32 ? found : NULL;
}

static const weir_host_event *hostevent_recorded(const weir_host *host, weir_event event)
{
    const weir_host_event *found = hostevent_find(host, event);
    return found && found->recorded ? found : NULL;
}

/* A slot that no event has; NULL where host memory is short. */
static weir_host_event *hostevent_slot(weir_host *host)
{
    for (uint32_t i = 0; i < host->event_count; i++) {
        if (!host->events[i].live) {
            return &host->events[i];
        }
    }
    size_t count = host->event_count ? (size_t)host->event_count * 2 : 16;
    weir_host_event *grown = (weir_host_event *)realloc(host->events, count * sizeof(*grown));
    if (!grown) {
        return NULL;
    }
    memset(grown + host->event_count, 0, (count - host->event_count) * sizeof(*grown));
    weir_host_event *slot = grown + host->event_count;
    host->events = grown;
    host->event_count = (uint32_t)count;
    return slot;
}

weir_status weir_host_op_event_create(void *self, weir_event *event)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    weir_host_event *slot = hostevent_slot(host);
    if (slot) {
        slot->live = true;
        slot->recorded = false;
        slot->generation++;
        host->event_live++;
        *event = ((uint64_t)slot->generation << 32) | (uint64_t)(slot - host->events + 1);
    }
    pthread_mutex_unlock(&host->lock);
    return slot ? WEIR_OK : WEIR_NO_METADATA;
}

void weir_host_op_event_destroy(void *self, weir_event event)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    weir_host_event *found = hostevent_find(host, event);
    if (found) {
        found->live = false;
        host->event_live--;
    }
    pthread_mutex_unlock(&host->lock);
}

weir_status weir_host_op_event_record(void *self, weir_event event, uint64_t number)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    weir_host_event *found = hostevent_find(host, event);
    const weir_host_stream *stream = weir_host_stream_find(host, number);
    if (found && stream) {
        found->recorded = true;
        found->stream = (uint32_t)number - 1;
        found->job = stream->queued;
    }
    pthread_mutex_unlock(&host->lock);
    return found && stream ? WEIR_OK : WEIR_INVALID;
}

weir_status weir_host_op_event_query(void *self, weir_event event, bool *passed)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    const weir_host_event *found = hostevent_recorded(host, event);
    if (found) {
        *passed = host->streams[found->stream]->done >= found->job;
    }
    pthread_mutex_unlock(&host->lock);
    return found ? WEIR_OK : WEIR_INVALID;
}

/* The event's place is taken now, so it may be recorded anew or destroyed before the wait
 * is over. */
static weir_status hostevent_stream_wait(weir_host *host, weir_host_stream *stream,
                                         const weir_host_event *event)
{
    if (!stream || !event) {
        return WEIR_INVALID;
    }
    const weir_host_stream *other = host->streams[event->stream];
    if (other == stream || other->done >= event->job) {
        return WEIR_OK;
    }
    weir_host_job job = {NULL, WEIR_HOST_WAIT, 0, 0, event->job, event->stream, NULL, NULL};
    return weir_host_queue(stream, &job) ? WEIR_OK : WEIR_NO_METADATA;
}

weir_status weir_host_op_stream_wait(void *self, uint64_t number, weir_event event)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    weir_status status = hostevent_stream_wait(host, weir_host_stream_find(host, number),
                                               hostevent_recorded(host, event));
    pthread_mutex_unlock(&host->lock);
    return status;
}

weir_status weir_host_op_event_wait(void *self, weir_event event, uint64_t wait_us, bool *passed)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    const weir_host_event *found = hostevent_recorded(host, event);
    bool known = found != NULL;
    if (known) {
        *passed = weir_host_wait_job(host, host->streams[found->stream], found->job, wait_us);
    }
    pthread_mutex_unlock(&host->lock);
    return known ? WEIR_OK : WEIR_INVALID;
}

/* ------------------------------------------------------------------------------------- quiet -- */

static uint64_t hostevent_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Waits for every stream, one after the other; what one takes is gone for the next. */
static bool hostevent_drain(weir_host *host, uint64_t wait_us)
{
    uint64_t start_us = hostevent_now_us();
    bool drained = true;
    for (uint32_t i = 0; drained && i < host->stream_count; i++) {
        uint64_t left_us = wait_us;
        if (wait_us != WEIR_FOREVER) {
            uint64_t gone_us = hostevent_now_us() - start_us;
            left_us = gone_us < wait_us ? wait_us - gone_us : 0;
        }
        const weir_host_stream *stream = host->streams[i];
        drained = weir_host_wait_job(host, stream, stream->queued, left_us);
    }
    return drained;
}

static void hostevent_open(weir_host *host)
{
    host->quiet = false;
    pthread_cond_broadcast(&host->opened);
}

weir_status weir_host_op_quiesce(void *self, uint64_t wait_us)
{
    weir_host *host = (weir_host *)self;
    weir_status status = WEIR_INVALID;
    pthread_mutex_lock(&host->lock);
    if (!host->quiet) {
        host->quiet = true;
        status = WEIR_OK;
        if (!hostevent_drain(host, wait_us)) {
            hostevent_open(host);
            status = WEIR_WOULD_WAIT;
        }
    }
    pthread_mutex_unlock(&host->lock);
    return status;
}

weir_status weir_host_op_copy(void *self, weir_addr to, weir_addr from, uint64_t bytes)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    bool allowed = host->quiet && bytes != 0 && (to < from ? from - to : to - from) >= bytes;
    pthread_mutex_unlock(&host->lock);
    if (!allowed) {
        return WEIR_INVALID;
    }
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, (size_t)bytes);
    return WEIR_OK;
}

weir_status weir_host_op_resume(void *self)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    bool was_quiet = host->quiet;
    if (was_quiet) {
        hostevent_open(host);
    }
    pthread_mutex_unlock(&host->lock);
    return was_quiet ? WEIR_OK : WEIR_INVALID;
}
