/* SPDX-License-Identifier: MIT */
/*
 * device: the caller's device as the core sees it: the calls it has, counted, and its last error.
 *
 * Owns     a copy of the ops with everything absent as NULL, what describe told, the counts of
 *          calls and the sticky state of a lost device.
 * D1       once a call answered LOST, its caller makes no further call, and nobody does from when
 *          that caller has the lock again; all answer LOST.
 * Cost     one branch and one increment on top of each call.
 */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

#include "base.h"

/* Calls made and what went wrong. With the lock held a caller counts in the device's own; one that
 * releases the lock counts in a copy of its own, from begin to end. */
typedef struct weir_calls {
    uint64_t va_reserves, va_frees, creates, releases, maps, accesses, unmaps;
    uint64_t event_creates, event_destroys, event_records, event_queries, stream_waits;
    uint64_t host_waits, copies;
    int64_t native_error;
    bool lost;
} weir_calls;

typedef struct weir_device {
    weir_device_ops ops;
    weir_device_info info;
    void *self;
    uint32_t granule_shift;
    weir_calls calls; /* of all that ended */
} weir_device;

/* Copies the ops, checks that the groups are whole and asks the device for its facts. INVALID,
 * UNSUPPORTED, or what describe answered. */
weir_status weir_device_init(weir_device *device, const weir_device_ops *ops, void *self);

/* Counts of a caller about to release the lock; the lock is held at both. */
weir_calls weir_device_begin(const weir_device *device);
void weir_device_end(weir_device *device, const weir_calls *calls);

/* Notes what a call answered and passes it on. */
weir_status weir_device_answer(const weir_device *device, weir_calls *calls, weir_status status);

static inline bool weir_device_virtual(const weir_device *device)
{
    return device->ops.map != NULL;
}

#define WEIR_DEVICE_CALL(device, calls, counter, call) \
    ((calls)->lost \
         ? WEIR_LOST \
         : ((calls)->counter++, weir_device_answer((device), (calls), (device)->ops.call)))

#endif
