/* SPDX-License-Identifier: MIT */
/*
 * Streams of the host device: a thread each, with a queue of jobs.
 *
 * Owns        the streams, their threads and jobs.
 * Invariants  Jobs of a stream are done in the order of queueing, one at a time, without the lock.
 *             queued and done only grow, over all streams that ever had the number.
 * Cost        O(1) to queue; a job done wakes all who wait for any job.
 */
#define _GNU_SOURCE
#include "host_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOSTSTREAM_MIX UINT64_C(0x9e3779b97f4a7c15)
#define HOSTSTREAM_WAIT_MAX_US (UINT64_C(1000000) * 3600 * 24 * 365)

/* -------------------------------------------------------------------------------------- work -- */

static uint64_t hoststream_word(uint64_t tag, uint64_t index)
{
    return tag ^ (index * HOSTSTREAM_MIX);
}

/* The last bytes of a range that is no multiple of eight long get the first bytes of a word. */
static size_t hoststream_step(uint64_t bytes, uint64_t offset)
{
    return bytes - offset < sizeof(uint64_t) ? (size_t)(bytes - offset) : sizeof(uint64_t);
}

static void hoststream_fill(const weir_host_job *job)
{
    unsigned char *start = (unsigned char *)(uintptr_t)job->addr;
    for (uint64_t offset = 0; offset < job->bytes; offset += sizeof(uint64_t)) {
        uint64_t word = hoststream_word(job->tag, offset / sizeof(uint64_t));
        memcpy(start + offset, &word, hoststream_step(job->bytes, offset));
    }
}

static uint64_t hoststream_verify(const weir_host_job *job)
{
    const unsigned char *start = (const unsigned char *)(uintptr_t)job->addr;
    uint64_t wrong = 0;
    for (uint64_t offset = 0; offset < job->bytes; offset += sizeof(uint64_t)) {
        uint64_t word = hoststream_word(job->tag, offset / sizeof(uint64_t));
        wrong += memcmp(start + offset, &word, hoststream_step(job->bytes, offset)) != 0;
    }
    return wrong;
}

static void hoststream_sleep(uint64_t sleep_us)
{
    struct timespec left = {(time_t)(sleep_us / 1000000), (long)(sleep_us % 1000000) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Returns the number of errors found. */
static uint64_t hoststream_do(const weir_host_job *job)
{
    uint64_t errors = 0;
    switch (job->kind) {
    case WEIR_HOST_FILL:
        hoststream_fill(job);
        break;
    case WEIR_HOST_VERIFY:
        errors = hoststream_verify(job);
        break;
    case WEIR_HOST_SLEEP:
        hoststream_sleep(job->tag);
        break;
    case WEIR_HOST_CALL:
        job->call(job->self);
        break;
    case WEIR_HOST_WAIT: /* done by the thread itself, under the lock */
        break;
    }
    return errors;
}

/* ------------------------------------------------------------------------------------ thread -- */

/* Does one job. The lock is held before and after. */
static void hoststream_step_one(weir_host *host, weir_host_stream *stream)
{
    weir_host_job *job = stream->first;
    stream->first = job->next;
    if (!stream->first) {
        stream->last = NULL;
    }
    if (job->kind == WEIR_HOST_WAIT) {
        weir_host_wait_job(host, host->streams[job->dep], job->tag, WEIR_FOREVER);
    } else {
        pthread_mutex_unlock(&host->lock);
        uint64_t errors = hoststream_do(job);
        pthread_mutex_lock(&host->lock);
        host->errors += errors;
    }
    free(job);
    stream->done++;
    pthread_cond_broadcast(&host->passed);
}

static void *hoststream_run(void *self)
{
    weir_host_stream *stream = (weir_host_stream *)self;
    weir_host *host = stream->host;
    pthread_mutex_lock(&host->lock);
    while (stream->first || !stream->stop) {
        if (stream->first) {
            hoststream_step_one(host, stream);
        } else {
            pthread_cond_wait(&stream->work, &host->lock);
        }
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

/* ---------------------------------------------------------------------------------- waiting -- */

static struct timespec hoststream_deadline(uint64_t wait_us)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    if (wait_us > HOSTSTREAM_WAIT_MAX_US) {
        wait_us = HOSTSTREAM_WAIT_MAX_US;
    }
    time.tv_sec += (time_t)(wait_us / 1000000);
    time.tv_nsec += (long)(wait_us % 1000000) * 1000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

bool weir_host_wait_job(weir_host *host, const weir_host_stream *stream, uint64_t job,
                        uint64_t wait_us)
{
    struct timespec deadline = hoststream_deadline(wait_us);
    int error = 0;
    while (stream->done < job && error != ETIMEDOUT) {
        error = wait_us == WEIR_FOREVER
                    ? pthread_cond_wait(&host->passed, &host->lock)
                    : pthread_cond_timedwait(&host->passed, &host->lock, &deadline);
    }
    return stream->done >= job;
}

/* ----------------------------------------------------------------------------------- streams -- */

weir_host_stream *weir_host_stream_find(const weir_host *host, uint64_t stream)
{
    if (stream == 0 || stream > host->stream_count || !host->streams[stream - 1]->live) {
        return NULL;
    }
    return host->streams[stream - 1];
}

static weir_host_stream *hoststream_new(weir_host *host)
{
    weir_host_stream *stream = (weir_host_stream *)calloc(1, sizeof(*stream));
    if (stream && pthread_cond_init(&stream->work, NULL) != 0) {
        free(stream);
        stream = NULL;
    }
    if (stream) {
        stream->host = host;
    }
    return stream;
}

/* Makes one more number exist and puts it on the stack of numbers to give. */
static bool hoststream_more(weir_host *host)
{
    size_t count = (size_t)host->stream_count + 1;
    weir_host_stream **streams =
        (weir_host_stream **)realloc(host->streams, count * sizeof(*streams));
    if (!streams) {
        return false;
    }
    host->streams = streams;
    uint32_t *numbers = (uint32_t *)realloc(host->stream_free, count * sizeof(*numbers));
    if (!numbers) {
        return false;
    }
    host->stream_free = numbers;
    streams[count - 1] = hoststream_new(host);
    if (!streams[count - 1]) {
        return false;
    }
    host->stream_count++;
    numbers[host->stream_free_count++] = host->stream_count;
    return true;
}

uint64_t weir_host_stream_create(weir_host *host)
{
    uint64_t number = 0;
    pthread_mutex_lock(&host->lock);
    if (host->stream_free_count || hoststream_more(host)) {
        uint32_t free_number = host->stream_free[host->stream_free_count - 1];
        weir_host_stream *stream = host->streams[free_number - 1];
        stream->stop = false;
        if (pthread_create(&stream->thread, NULL, hoststream_run, stream) == 0) {
            host->stream_free_count--;
            stream->live = true;
            stream->unique = host->unique_next++;
            number = free_number;
        }
    }
    pthread_mutex_unlock(&host->lock);
    return number;
}

uint64_t weir_host_stream_unique(weir_host *host, uint64_t number)
{
    pthread_mutex_lock(&host->lock);
    const weir_host_stream *stream = weir_host_stream_find(host, number);
    uint64_t unique = stream ? stream->unique : 0;
    pthread_mutex_unlock(&host->lock);
    return unique;
}

void weir_host_stream_destroy(weir_host *host, uint64_t number)
{
    pthread_mutex_lock(&host->lock);
    weir_host_stream *stream = weir_host_stream_find(host, number);
    if (!stream) {
        pthread_mutex_unlock(&host->lock);
        return;
    }
    stream->live = false;
    stream->stop = true;
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&host->lock);
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&host->lock);
    host->stream_free[host->stream_free_count++] = (uint32_t)number;
    pthread_mutex_unlock(&host->lock);
}

void weir_host_streams_close(weir_host *host)
{
    for (uint32_t number = 1; number <= host->stream_count; number++) {
        weir_host_stream_destroy(host, number);
        pthread_cond_destroy(&host->streams[number - 1]->work);
    }
    for (uint32_t i = 0; i < host->stream_count; i++) {
        free(host->streams[i]);
    }
    free(host->streams);
    free(host->stream_free);
}

/* ---------------------------------------------------------------------------------- queueing -- */

bool weir_host_queue(weir_host_stream *stream, const weir_host_job *job)
{
    weir_host_job *copy = (weir_host_job *)malloc(sizeof(*copy));
    if (!copy) {
        return false;
    }
    *copy = *job;
    copy->next = NULL;
    if (stream->last) {
        stream->last->next = copy;
    } else {
        stream->first = copy;
    }
    stream->last = copy;
    stream->queued++;
    pthread_cond_signal(&stream->work);
    return true;
}

/* Queues work, which blocks while the device is quiet. */
static bool hoststream_submit(weir_host *host, uint64_t number, const weir_host_job *job)
{
    pthread_mutex_lock(&host->lock);
    while (host->quiet) {
        pthread_cond_wait(&host->opened, &host->lock);
    }
    weir_host_stream *stream = weir_host_stream_find(host, number);
    bool queued = stream && weir_host_queue(stream, job);
    pthread_mutex_unlock(&host->lock);
    return queued;
}

bool weir_host_fill(weir_host *host, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    weir_host_job job = {NULL, WEIR_HOST_FILL, addr, bytes, tag, 0, NULL, NULL};
    return hoststream_submit(host, stream, &job);
}

bool weir_host_verify(weir_host *host, uint64_t stream, weir_addr addr, uint64_t bytes,
                      uint64_t tag)
{
    weir_host_job job = {NULL, WEIR_HOST_VERIFY, addr, bytes, tag, 0, NULL, NULL};
    return hoststream_submit(host, stream, &job);
}

bool weir_host_sleep(weir_host *host, uint64_t stream, uint64_t sleep_us)
{
    weir_host_job job = {NULL, WEIR_HOST_SLEEP, 0, 0, sleep_us, 0, NULL, NULL};
    return hoststream_submit(host, stream, &job);
}

bool weir_host_call(weir_host *host, uint64_t stream, void (*call)(void *self), void *self)
{
    weir_host_job job = {NULL, WEIR_HOST_CALL, 0, 0, 0, 0, call, self};
    return hoststream_submit(host, stream, &job);
}

void weir_host_sync(weir_host *host, uint64_t number)
{
    pthread_mutex_lock(&host->lock);
    for (uint32_t i = 1; i <= host->stream_count; i++) {
        const weir_host_stream *stream = host->streams[i - 1];
        if (number == 0 || number == i) {
            weir_host_wait_job(host, stream, stream->queued, WEIR_FOREVER);
        }
    }
    pthread_mutex_unlock(&host->lock);
}
