/* SPDX-License-Identifier: MIT */
/*
 * A device with a meter: hands every call on, counts it, charges it and follows the physical memory
 * held. On the simulator a call costs what its table says; elsewhere, or `clocked`, what the clock
 * says. Single-threaded, as the replay is.
 */
#ifndef WEIR_METER_H
#define WEIR_METER_H

#include "sim.h"

typedef struct weir_meter {
    weir_device_ops ops; /* to be given to the pool, with the meter as device_self */
    const weir_device_ops *inner;
    void *inner_self;
    const weir_sim *sim; /* NULL: by the clock */
    uint64_t count[WEIR_SIM_CALLS];
    uint64_t call_ns[WEIR_SIM_CALLS]; /* what each of them cost, and all together: */
    uint64_t calls;
    uint64_t cost_ns;
    uint64_t wait_ns; /* of cost_ns: of the calls that let the host wait */
    uint64_t held_bytes;
    uint64_t held_peak_bytes;
    uint64_t returned_bytes; /* given back to the device */
    bool changed;            /* held_bytes changed since this was last set to false */
} weir_meter;

/* `sim` is the device itself where its table shall count, else NULL. */
void weir_meter_init(weir_meter *meter, const weir_device_ops *inner, void *inner_self,
                     const weir_sim *sim);

#endif
