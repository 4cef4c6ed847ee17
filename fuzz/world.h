/* SPDX-License-Identifier: MIT */
/*
 * A pool on the simulated device, for targets that call it as an input says: streams, blocks, the
 * device's failures, and what must hold after every operation.
 *
 * Three watchers that share nothing with the pool judge it. The model (tests/support) knows which
 * blocks live, where and how long. The simulated device keeps a vector clock for each stream and a
 * tag for each byte, and ends the process where a byte is touched too early, an unmap cuts work
 * off, or a read finds another tag. The device that the pool sees is a wrapper of ours, which makes
 * calls fail, knows whether the lock is held, and counts. weir_check is asked on top of these.
 *
 * A call that fails is an outcome like any other: what it may answer follows from what went wrong
 * below it, and every live block must be as it was.
 *
 * Threads  Device calls that the pool makes without its lock are where another thread could get in.
 *          There, when the input says so, whole operations run inside the call: to the pool these
 *          are another thread's.
 */
#ifndef WEIR_FUZZ_WORLD_H
#define WEIR_FUZZ_WORLD_H

#include "model.h"
#include "shapes.h"

#define WORLD_DOMAINS 3u
#define WORLD_BLOCKS 96u /* more live at once are not asked for */

typedef struct world_fault {
    uint64_t left; /* calls until it fails; 0: no fault */
    bool on;       /* and all later ones */
    weir_status status;
} world_fault;

/* A place in physical memory. */
typedef struct world_place {
    weir_handle handle;
    uint64_t offset;
} world_place;

typedef struct world_pin {
    weir_addr addr;
    world_place first, last; /* of the block's bytes */
} world_pin;

typedef struct world world;

/* Takes the next operation from the input and does it; false at the end of the input. */
typedef bool (*world_step)(world *of);

struct world {
    sim_rig rig; /* what the verbs of tests/support work on */
    weir_device_ops ops;
    const weir_device_ops *real;
    world_step step;
    fuzz_input in;

    world_fault fault[WEIR_SIM_CALLS];
    uint32_t script; /* bit k: the k-th memory call of this operation fails */
    weir_status script_status;
    uint64_t calls[WEIR_SIM_CALLS]; /* by the pool */
    uint32_t hits;                  /* failures that this operation met */
    uint64_t hits_all;
    uint32_t misses;  /* of resume, one after the other */
    bool undone_less; /* a call that undoes or gives back has failed */
    bool quiet, lost;

    uint32_t nest_in;    /* unlocked device calls until others get in; 0: none */
    uint32_t nest_count; /* how many of their operations then run */
    bool nested;         /* some did in this operation */
    uint32_t depth;      /* operations that are under way */
    weir_addr busy;      /* the block that the outer one works on */

    uint64_t granule, limit, limit_most, reserved;
    bool every; /* weir_check after each operation, not only where something odd was */
    bool odd;
    bool unseen; /* nothing is looked at after this operation: looks disturb what was freed last */
    bool segments, plain_sizes, grows;
    uint32_t stalled;
    uint64_t tag;
    weir_event event; /* of our own, for the order between streams */
    weir_domain domain[WORLD_DOMAINS];
    weir_stream stale; /* a stream's name after its end */
    uint64_t told[2];  /* allocations and frees that the observer heard of */
    uint64_t served, freed;
    bool observed;
    world_pin pin[WORLD_BLOCKS];
    uint32_t pin_count;
    model model; /* last: only its count is cleared */
};

/* world.c */
void weir_world_open(world *of, const uint8_t head[WORLD_HEAD], world_step step, fuzz_input in);
void weir_world_close(world *of);
/* One operation with all that is checked after it. */
bool weir_world_run(world *of, bool (*step)(world *of));
/* Whether a call may answer so, given what failed below it. */
bool weir_world_allowed(const world *of, weir_status status);
bool weir_world_host_failed(const world *of);
/* Every live block is where and as it was. */
void weir_world_compare_all(world *of);

/* world_device.c: the device as the pool sees it. */
void weir_world_device(world *of);

/* world_block.c: operations on blocks; each argument is a byte of the input. */
void weir_world_alloc(world *of, uint8_t who, uint8_t size, uint8_t fine, uint8_t how);
void weir_world_alloc_on(world *of, uint8_t who, uint8_t size, uint8_t fine);
void weir_world_free(world *of, uint8_t which, uint8_t who, uint8_t how);
void weir_world_work(world *of, uint8_t which, uint8_t who, uint8_t how);
void weir_world_use(world *of, uint8_t which, uint8_t who);
void weir_world_pin(world *of, uint8_t which, uint8_t how);
void weir_world_resize(world *of, uint8_t which, uint8_t size, uint8_t fine);
void weir_world_wrong(world *of, uint8_t which, uint8_t how);
/* Frees a block, for want of memory; false: there is none. */
bool weir_world_reclaim(world *of);
uint64_t weir_world_size(uint8_t size, uint8_t fine);

/* world_pins.c: pinned blocks have the memory under them that they had when first seen pinned. */
void weir_world_pins_check(world *of);
void weir_world_pins_forget(world *of, weir_addr addr);

/* world_pool.c: the others. */
void weir_world_stall(world *of, uint8_t who);
void weir_world_time(world *of, uint8_t by);
void weir_world_trim(world *of, uint8_t keep, uint8_t wait);
void weir_world_finish(world *of, uint8_t wait);
void weir_world_limit(world *of, uint8_t limit);
void weir_world_tenant(world *of, uint8_t part);
void weir_world_domain(world *of, uint8_t which);
void weir_world_end_stream(world *of, uint8_t who, uint8_t how);
void weir_world_arm(world *of, uint8_t call, uint8_t k, uint8_t how);
void weir_world_arm_host(world *of, uint8_t k, uint8_t how);
void weir_world_nest(world *of, uint8_t at, uint8_t count);
void weir_world_look(world *of);
/* Makes stream `after` wait for all work queued so far on stream `before`. */
void weir_world_order(world *of, uint32_t before, uint32_t after);
/* No stream stands still any more. */
void weir_world_go_all(world *of);

#endif
