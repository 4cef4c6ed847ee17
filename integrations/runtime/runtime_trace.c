/* SPDX-License-Identifier: MIT */
/*
 * The trace: every operation as a line of the file that `weir replay` reads.
 *
 * Invariants  Lines are in the order of their times. A block has an id only if its allocation is in
 *             the file, and its free is written only then.
 * Cost        One look at a flag while nothing is recorded; else a line into a buffer that is
 *             written when it is full, when a second has passed, and at the end.
 */
#define _GNU_SOURCE
#include "runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
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

static void trace_line(char op, uint64_t id, uint64_t bytes, uint64_t stream)
{
    uint64_t now_us = trace_now_us();
    if (trace.used + TRACE_LINE > TRACE_BUFFER || now_us - trace.flushed_us > TRACE_EVERY_US) {
        trace_flush(now_us);
    }
    int length = snprintf(trace.buffer + trace.used, TRACE_LINE,
                          "%c,%" PRIu64 ",%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 "\n", op, id, bytes,
                          stream, now_us - trace.begun_us);
    trace.used += (size_t)length;
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

static int trace_open(const char *path)
{
    static const char head[] = "# op,id,bytes,stream,time_us\n";
    if (trace.fd >= 0) {
        return weir_rt_fail(WEIR_BUSY, "a trace is being recorded already");
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
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
