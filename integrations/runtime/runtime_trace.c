/* SPDX-License-Identifier: MIT */
/*
 * The trace: every operation as a line of the file that `weir replay` reads.
 *
 * Invariants  Lines are in the order of their times. A block has an id only if its allocation is in
 *             the file, and its free is written only then. A file belongs to the process that holds
 *             its lock, so that several processes with one environment don't write over each other.
 * Cost        One look at a flag while nothing is recorded; else a line into a buffer that is
 *             written when it is full, when a second has passed, and at the end.
 */
#define _GNU_SOURCE
#include "runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define TRACE_BUFFER 65536u
#define TRACE_LINE 128u
#define TRACE_EVERY_US 1000000u

typedef struct trace_file {
    pthread_mutex_t lock;
    atomic_bool on;
    int fd;
    bool failed;         /* the disk is full, say: nothing more is written */
    uint64_t ids, first; /* blocks of this file have ids above `first` */
    uint64_t begun_us, flushed_us;
    size_t used;
    char buffer[TRACE_BUFFER];
} trace_file;

static trace_file trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static uint64_t trace_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void trace_flush(uint64_t now_us)
{
    for (size_t done = 0; done < trace.used && !trace.failed;) {
        ssize_t wrote = write(trace.fd, trace.buffer + done, trace.used - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (wrote == 0 || errno != EINTR) {
            trace.failed = true;
        }
    }
    trace.used = 0;
    trace.flushed_us = now_us;
}

/* By hand, since printf would cost more than the allocation that the line is about. */
static char *trace_number(char *at, uint64_t number, unsigned base, char after)
{
    char digit[20];
    unsigned count = 0;
    do {
        digit[count++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number != 0);
    while (count > 0) {
        *at++ = digit[--count];
    }
    *at++ = after;
    return at;
}

static void trace_line(char op, uint64_t id, uint64_t bytes, uint64_t stream)
{
    uint64_t now_us = trace_now_us();
    if (trace.used + TRACE_LINE > TRACE_BUFFER || now_us - trace.flushed_us > TRACE_EVERY_US) {
        trace_flush(now_us);
    }
    char *at = trace.buffer + trace.used;
    *at++ = op;
    *at++ = ',';
    at = trace_number(at, id, 10, ',');
    at = trace_number(at, bytes, 10, ',');
    *at++ = '0';
    *at++ = 'x';
    at = trace_number(at, stream, 16, ',');
    at = trace_number(at, now_us - trace.begun_us, 10, '\n');
    trace.used = (size_t)(at - trace.buffer);
}

uint64_t weir_rt_trace_alloc(uint64_t bytes, uint64_t stream)
{
    uint64_t id = 0;
    if (!atomic_load_explicit(&trace.on, memory_order_relaxed)) {
        return 0;
    }
    pthread_mutex_lock(&trace.lock);
    if (trace.fd >= 0) {
        id = ++trace.ids;
        trace_line('a', id, bytes, stream);
    }
    pthread_mutex_unlock(&trace.lock);
    return id;
}

void weir_rt_trace_free(const weir_rt_block *block)
{
    if (block->id == 0 || !atomic_load_explicit(&trace.on, memory_order_relaxed)) {
        return;
    }
    pthread_mutex_lock(&trace.lock);
    if (trace.fd >= 0 && block->id > trace.first) {
        trace_line('f', block->id, block->requested, block->stream);
    }
    pthread_mutex_unlock(&trace.lock);
}

int weir_rt_trace_end(void)
{
    bool whole = true;
    pthread_mutex_lock(&trace.lock);
    if (trace.fd >= 0) {
        trace_flush(trace_now_us());
        whole = close(trace.fd) == 0 && !trace.failed;
    }
    trace.fd = -1;
    atomic_store(&trace.on, false);
    pthread_mutex_unlock(&trace.lock);
    return whole ? WEIR_OK : weir_rt_fail(WEIR_DEVICE, "the trace was not written in full");
}

void weir_rt_trace_hold(bool hold)
{
    if (hold) {
        pthread_mutex_lock(&trace.lock);
    } else {
        pthread_mutex_unlock(&trace.lock);
    }
}

void weir_rt_trace_disown(void)
{
    if (trace.fd >= 0) {
        (void)close(trace.fd);
    }
    trace.fd = -1;
    trace.used = 0;
    atomic_store(&trace.on, false);
}

/* The file, empty and ours; -1 with errno where there is none. One that another process holds is left
 * as it is. */
static int trace_file_of(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        (void)close(fd);
        errno = EWOULDBLOCK;
        return -1;
    }
    if (ftruncate(fd, 0) != 0 && errno != EINVAL) { /* EINVAL: a device or a pipe */
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int trace_open(const char *path)
{
    static const char head[] = "# op,id,bytes,stream,time_us\n";
    char other[4096];
    if (trace.fd >= 0) {
        return weir_rt_fail(WEIR_BUSY, "a trace is being recorded already");
    }
    int fd = trace_file_of(path);
    if (fd < 0 && errno == EWOULDBLOCK) {
        (void)snprintf(other, sizeof(other), "%s.%ld", path, (long)getpid());
        path = other;
        fd = trace_file_of(path);
    }
    if (fd < 0) {
        return weir_rt_fail(WEIR_DEVICE, "%s: %s", path, strerror(errno));
    }
    trace.fd = fd;
    trace.failed = false;
    trace.first = trace.ids;
    trace.begun_us = trace.flushed_us = trace_now_us();
    memcpy(trace.buffer, head, sizeof(head) - 1);
    trace.used = sizeof(head) - 1;
    atomic_store(&trace.on, true);
    return WEIR_OK;
}

int weir_rt_trace_begin(const char *path)
{
    pthread_mutex_lock(&trace.lock);
    int status = trace_open(path);
    pthread_mutex_unlock(&trace.lock);
    return status;
}

int weir_runtime_trace(const char *path)
{
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    return path ? weir_rt_trace_begin(path) : weir_rt_trace_end();
}
