/* SPDX-License-Identifier: MIT */
/*
 * A pool on the simulated device, which watches over every byte, with streams and short verbs.
 *
 * A breach of the device's contract or of the order between streams ends the test with the history
 * of the bytes. Streams are numbered from 0; all outlive the pool but those of `short_lived`.
 */
#ifndef WEIR_TEST_RIG_H
#define WEIR_TEST_RIG_H

#include "memory.h"
#include "sim.h"

#include <criterion/criterion.h>

#define RIG_STREAMS 4u
#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define RIG_GRANULE (2 * MIB) /* of a device with no other setting */

#define ASSERT_OK(call) ASSERT_STATUS(call, WEIR_OK)
#define ASSERT_STATUS(call, wanted) \
    do { \
        weir_status got_ = (call); \
        cr_assert_eq(got_, (wanted), "%s: %s", #call, weir_status_name(got_)); \
    } while (0)
#define EXPECT_STATUS(call, wanted) \
    do { \
        weir_status got_ = (call); \
        cr_expect_eq(got_, (wanted), "%s: %s", #call, weir_status_name(got_)); \
    } while (0)

typedef struct rig_options {
    weir_sim_config sim; /* `oracle` is set */
    weir_config pool;    /* size, ops, device_self and platform are filled in */
    unsigned streams;    /* 0: one */
    uint32_t short_lived; /* bit i: stream i may end before the pool */
} rig_options;

typedef struct sim_rig {
    host_memory memory;
    weir_sim *sim;
    weir_pool *pool;
    unsigned streams;
    uint64_t native[RIG_STREAMS];
    weir_stream stream[RIG_STREAMS];
} sim_rig;

sim_rig *weir_rig_open(const rig_options *options);

/* Makes the device alone, and the pool on it when more is to be done first. */
sim_rig *weir_rig_device(const weir_sim_config *sim);
weir_status weir_rig_pool(sim_rig *rig, weir_config config);
void weir_rig_attach(sim_rig *rig, unsigned stream, bool outlives);

/* Expects that no block is left, that the pool ends, and that device and host have everything back.
 * The loose one expects so of the host only, for tests where something is quarantined or lost. */
void weir_rig_close(sim_rig *rig);
void weir_rig_close_loose(sim_rig *rig);

/* Ends the test if an invariant is broken. */
void weir_rig_check(sim_rig *rig);

weir_addr weir_rig_alloc(sim_rig *rig, unsigned stream, uint64_t bytes);
void weir_rig_free(sim_rig *rig, unsigned stream, weir_addr addr);
weir_request weir_rig_request(const sim_rig *rig, unsigned stream, uint64_t bytes);
weir_status weir_rig_try(sim_rig *rig, weir_request request);

/* Work of `stream` on a block. */
void weir_rig_write(sim_rig *rig, unsigned stream, weir_addr addr, uint64_t bytes, uint64_t tag);
void weir_rig_read(sim_rig *rig, unsigned stream, weir_addr addr, uint64_t bytes, uint64_t tag);

weir_stats weir_rig_stats(sim_rig *rig);
weir_oom weir_rig_oom(sim_rig *rig);
uint64_t weir_rig_calls(const sim_rig *rig, weir_sim_call call);
weir_block weir_rig_find(sim_rig *rig, weir_addr addr);

#endif
