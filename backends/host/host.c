/* SPDX-License-Identifier: MIT */
/*
 * The host device: making it, its table of calls, and its balance.
 *
 * Owns        the record, its lock and condition variables.
 * Invariants  Condition variables count on the monotonic clock, so no wait depends on the date.
 * Cost        O(1).
 */
#define _GNU_SOURCE
#include "host_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOST_MEMORY_DEFAULT (UINT64_C(1) << 30)
#define HOST_GRANULE_DEFAULT (UINT64_C(2) << 20)
#define HOST_GRANULE_MIN (UINT64_C(64) << 10)
#define HOST_VA_DEFAULT (UINT64_C(256) << 30)
#define HOST_FIRST_UNIQUE 1000u /* unlike any number of a stream, so that a mix-up shows */

static bool host_config_fix(weir_host_config *config)
{
    config->memory_bytes = config->memory_bytes ? config->memory_bytes : HOST_MEMORY_DEFAULT;
    config->granule_bytes = config->granule_bytes ? config->granule_bytes : HOST_GRANULE_DEFAULT;
    config->va_bytes = config->va_bytes ? config->va_bytes : HOST_VA_DEFAULT;
    return config->granule_bytes >= HOST_GRANULE_MIN &&
           (config->granule_bytes & (config->granule_bytes - 1)) == 0;
}

/* ------------------------------------------------------------------------------------- calls -- */

/* Writes no more than the caller's struct holds; a size of 0 stands for this version's. */
static weir_status host_describe(void *self, weir_device_info *info)
{
    const weir_host *host = (const weir_host *)self;
    weir_device_info full;
    memset(&full, 0, sizeof(full));
    full.size = sizeof(full);
    full.granule_bytes = host->config.granule_bytes;
    full.memory_bytes = host->config.memory_bytes;
    full.va_bytes = host->config.va_bytes;
    if (info->size != 0 && info->size < full.size) {
        full.size = info->size;
    }
    memcpy(info, &full, full.size);
    return WEIR_OK;
}

static weir_status host_memory_info(void *self, uint64_t *free_bytes, uint64_t *total_bytes)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    *free_bytes = host->config.memory_bytes - host->held_bytes;
    *total_bytes = host->config.memory_bytes;
    pthread_mutex_unlock(&host->lock);
    return WEIR_OK;
}

static int64_t host_native_error(void *self)
{
    weir_host *host = (weir_host *)self;
    pthread_mutex_lock(&host->lock);
    int64_t error = host->native_error;
    pthread_mutex_unlock(&host->lock);
    return error;
}

static void host_fill_memory(weir_device_ops *ops, bool no_virtual)
{
    if (no_virtual) {
        ops->segment_alloc = weir_host_op_segment_alloc;
        ops->segment_free = weir_host_op_segment_free;
        return;
    }
    ops->va_reserve = weir_host_op_va_reserve;
    ops->va_free = weir_host_op_va_free;
    ops->handle_create = weir_host_op_handle_create;
    ops->handle_release = weir_host_op_handle_release;
    ops->map = weir_host_op_map;
    ops->set_access = weir_host_op_set_access;
    ops->unmap = weir_host_op_unmap;
}

static void host_fill_ops(weir_host *host)
{
    weir_device_ops *ops = &host->ops;
    ops->size = sizeof(*ops);
    ops->describe = host_describe;
    host_fill_memory(ops, host->config.no_virtual);
    ops->event_create = weir_host_op_event_create;
    ops->event_destroy = weir_host_op_event_destroy;
    ops->event_record = weir_host_op_event_record;
    ops->event_query = weir_host_op_event_query;
    ops->stream_wait = weir_host_op_stream_wait;
    ops->event_wait = weir_host_op_event_wait;
    ops->quiesce = weir_host_op_quiesce;
    ops->copy = weir_host_op_copy;
    ops->resume = weir_host_op_resume;
    ops->memory_info = host_memory_info;
    ops->native_error = host_native_error;
}

/* ------------------------------------------------------------------------------------ making -- */

static bool host_sync_open(weir_host *host)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_mutex_init(&host->lock, NULL) == 0 &&
                pthread_cond_init(&host->passed, &attributes) == 0 &&
                pthread_cond_init(&host->opened, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made;
}

weir_host *weir_host_create(const weir_host_config *config)
{
    weir_host *host = (weir_host *)calloc(1, sizeof(*host));
    if (!host) {
        return NULL;
    }
    if (config) {
        host->config = *config;
    }
    host->unique_next = HOST_FIRST_UNIQUE;
    if (!host_config_fix(&host->config) || !host_sync_open(host) || !weir_host_memory_open(host)) {
        free(host);
        return NULL;
    }
    host_fill_ops(host);
    return host;
}

void weir_host_destroy(weir_host *host)
{
    if (!host) {
        return;
    }
    weir_host_streams_close(host);
    weir_host_memory_close(host);
    pthread_cond_destroy(&host->opened);
    pthread_cond_destroy(&host->passed);
    pthread_mutex_destroy(&host->lock);
    free(host->events);
    free(host);
}

const weir_device_ops *weir_host_ops(weir_host *host)
{
    return &host->ops;
}

uint64_t weir_host_errors(weir_host *host)
{
    pthread_mutex_lock(&host->lock);
    uint64_t errors = host->errors;
    pthread_mutex_unlock(&host->lock);
    return errors;
}

const char *weir_host_balance(weir_host *host)
{
    pthread_mutex_lock(&host->lock);
    bool even = host->handles.count + host->ranges.count + host->mappings.count +
                    host->segments.count + host->event_live ==
                0;
    if (!even) {
        snprintf(host->balance, sizeof(host->balance),
                 "not given back: %zu handles, %zu address ranges, %zu mappings, %zu segments, "
                 "%" PRIu32 " events (%" PRIu64 " bytes held)",
                 host->handles.count, host->ranges.count, host->mappings.count,
                 host->segments.count, host->event_live, host->held_bytes);
    }
    pthread_mutex_unlock(&host->lock);
    return even ? NULL : host->balance;
}
