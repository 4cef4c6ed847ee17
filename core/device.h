/* SPDX-License-Identifier: MIT */
/*
 * device: the caller's device as the core sees it: the calls it has, counted, and its last error.
 *
 * Owns     a copy of the ops with everything absent as NULL, what describe told, the counts of calls
 *          and the sticky state of a lost device.
 * D1       once a call answered LOST, no further call is made and all answer LOST.
 * Cost     one branch and one increment on top of each call.
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include "base.h"

typedef struct weir_device {
    weir_device_ops ops;
    weir_device_info info;
    void *self;
    uint32_t granule_shift;
    bool lost;
    int64_t native_error;
    uint64_t va_reserves, va_frees, creates, releases, maps, accesses, unmaps;
    uint64_t event_creates, event_destroys, event_records, event_queries, stream_waits;
    uint64_t host_waits, copies;
} weir_device;

/* Copies the ops, checks that the groups are whole and asks the device for its facts. INVALID,
 * UNSUPPORTED, or what describe answered. */
weir_status weir_device_init(weir_device *device, const weir_device_ops *ops, void *self);

/* Notes what a call answered and passes it on. */
weir_status weir_device_answer(weir_device *device, weir_status status);

static inline bool weir_device_virtual(const weir_device *device)
{
    return device->ops.map != NULL;
}

#define WEIR_DEVICE_CALL(device, counter, call) \
    ((device)->lost ? WEIR_LOST \
                    : ((device)->counter++, weir_device_answer((device), (device)->ops.call)))

#endif
