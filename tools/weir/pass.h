/* SPDX-License-Identifier: MIT */
/* One pass of a trace over a fresh device and a fresh pool, and what it showed. */
#ifndef WEIR_PASS_H
#define WEIR_PASS_H

#include "conf.h"
#include "player.h"

typedef enum weir_pass_policy {
    WEIR_PASS_WEIR,
    WEIR_PASS_PLAIN,
    WEIR_PASS_NOTHING /* the replay's own work alone */
} weir_pass_policy;

typedef struct weir_pass_setup {
    const weir_trace *trace;
    weir_stage_kind kind;
    int device; /* CUDA: the ordinal */
    weir_pass_policy policy;
    const weir_conf *conf;   /* parts of the device unresolved; used by WEIR_PASS_WEIR */
    uint64_t capacity_bytes; /* the device's memory, but for CUDA, and the pool's limit; 0: roomy */
    uint64_t memory_bytes;   /* of the simulated device, 0: by the capacity */
    uint64_t lag_us;
    bool segments; /* no virtual memory; for CUDA the settings' source says */
    bool clocked;  /* device time by the clock even on the simulator */
    bool oracle;   /* check every byte of the work */
    bool hashed;
    bool stop_on_failure;
    const weir_player_hooks *hooks;
    weir_pool **pool; /* may be NULL: where hooks find the pool while the pass runs */
} weir_pass_setup;

typedef struct weir_pass_result {
    uint64_t wall_ns;   /* of the loop over the ops */
    uint64_t driver_ns; /* of the device's calls in it */
    uint64_t driver_calls;
    uint64_t growth_ns;   /* the part of driver_ns until reserved memory reached its peak */
    uint64_t teardown_ns; /* of the device's calls after the loop */
    uint64_t count[WEIR_SIM_CALLS];   /* in the loop, by call, */
    uint64_t call_ns[WEIR_SIM_CALLS]; /* and what they took */
    uint64_t held_peak_bytes;
    double held_mean_bytes;  /* over the trace's time */
    uint64_t returned_bytes; /* given back to the device in the loop */
    uint64_t failed;
    uint64_t host_waits;
    uint64_t waited_us;
    uint64_t moved_handles;
    uint64_t layout_hash;
    weir_fault breach; /* what should never happen: by pool, device or policy */
} weir_pass_result;

/* False: the pass could not begin and *fault says why; a setting is wrong or memory is short. */
bool weir_pass_run(const weir_pass_setup *setup, weir_pass_result *result, weir_fault *fault);

#endif
