/* SPDX-License-Identifier: MIT */
/*
 * The platform hooks of a hosted POSIX process.
 *
 * Owns        one mutex for each platform that was made with `locked`; the struct handed out is the
 *             first member of the record that holds it, so destroy needs no table.
 * Invariants  lock and unlock are both set or both NULL.
 * Cost        malloc, free and an uncontended mutex.
 */
#define _POSIX_C_SOURCE 200809L
#include "platform.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct platform_record {
    weir_platform platform;
    pthread_mutex_t mutex;
} platform_record;

static void *platform_alloc(void *self, size_t bytes)
{
    (void)self;
    return malloc(bytes);
}

static void platform_free(void *self, void *mem, size_t bytes)
{
    (void)self;
    (void)bytes;
    free(mem);
}

static void platform_lock(void *self)
{
    pthread_mutex_lock(&((platform_record *)self)->mutex);
}

static void platform_unlock(void *self)
{
    pthread_mutex_unlock(&((platform_record *)self)->mutex);
}

static uint64_t platform_now_us(void *self)
{
    struct timespec now;
    (void)self;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

weir_platform *weir_platform_create(bool locked)
{
    platform_record *record = (platform_record *)calloc(1, sizeof(*record));
    if (!record) {
        return NULL;
    }
    if (pthread_mutex_init(&record->mutex, NULL) != 0) {
        free(record);
        return NULL;
    }
    record->platform.size = sizeof(record->platform);
    record->platform.self = record;
    record->platform.mem_alloc = platform_alloc;
    record->platform.mem_free = platform_free;
    record->platform.now_us = platform_now_us;
    if (locked) {
        record->platform.lock = platform_lock;
        record->platform.unlock = platform_unlock;
    }
    return &record->platform;
}

void weir_platform_destroy(weir_platform *platform)
{
    if (!platform) {
        return;
    }
    platform_record *record = (platform_record *)platform->self;
    pthread_mutex_destroy(&record->mutex);
    free(record);
}
