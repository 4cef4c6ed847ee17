/* SPDX-License-Identifier: MIT */
/*
 * pool: the state behind weir.h, and what its files share.
 *
 * A pool is a range (where blocks lie), pages (what backs them), an order (when they may be
 * reused), and zones. A zone is a part of the arena whose free memory serves only its own requests:
 * zone 0 is the pool itself, zone 1 holds small blocks so that they do not pin large handles, the
 * rest are domains. Free memory is filed by zone and tag: the lane that freed it last, or clean if
 * no use of it is pending. Address space without memory is the set of holes, common to all zones.
 *
 *   pool.c    create, destroy, streams, domains           block.c   alloc, free
 *   hold.c    pins, uses, resize                          device.c  the device's calls
 *   ladder.c  what an allocation tries, in order          window.c  where a block could lie
 *   place.c   backs a window with handles, by policy
 *   back.c    backs a window: create, map, move, undo     limbo.c   frees with uses on several
 *   lanes gather.c  files what has passed where it is wanted    segment.c the same without virtual
 *   memory shadow.c  old places of moved handles                 rescue.c  copies sparse handles
 *   together trim.c    gives memory back                           stats.c   numbers, reports,
 *   walks check.c   all invariants
 *
 * Locking: every function here is called with the lock held unless it says otherwise. back, trim
 * and shadow release it around device calls, on nodes and pieces that they have claimed.
 */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include "order.h"
#include "pages.h"
#include "range.h"

#define WEIR_SET_HOLES 0
#define WEIR_ZONE_MAIN 0
#define WEIR_ZONE_SMALL 1
#define WEIR_ZONE_DOMAINS 2
#define WEIR_TAG_CLEAN 0     /* in zone.set_of; a lane's tag is its index + 1 */
#define WEIR_SHADOWS_KEPT 32 /* unmapped in bulk from this many on */
#define WEIR_VICTIMS_MAX 256
#define WEIR_PLAN_NODES (2 * WEIR_VICTIMS_MAX + 64) /* spare nodes that a plan may need */

#define WEIR_RUNNING_NODES 4 /* spare nodes that a call needs after its device calls */

/* Flags in `high` of a live node. */
#define WEIR_NODE_PINNED 1u

typedef struct weir_zone {
    uint16_t *set_of; /* by tag; 0: not made yet */
    uint32_t room;
    uint16_t generation;
    bool open;
} weir_zone;

/* What the shortest path needs of a lane: what the caller calls it (0: no lane, or retired) and its
 * sets in zones 0 and 1 (NULL: not made yet). */
typedef struct weir_quick {
    weir_set *set[WEIR_ZONE_DOMAINS];
    weir_stream name;
} weir_quick;

/* A request after validation. */
typedef struct weir_ask {
    uint64_t bytes; /* rounded */
    uint64_t requested;
    uint64_t align;
    uint32_t lane;
    uint32_t zone;
    uint32_t flags;
    weir_domain domain; /* as the caller named it */
    uint64_t wait_us;   /* what is left of it */
    bool waits_would_help;
} weir_ask;

/* Nodes in a list by `a`. */
typedef struct weir_list {
    uint32_t first, last, count;
} weir_list;

/* The block that was freed last, as long as nothing else is done: a claimed node, neither joined with
 * its neighbours nor filed. Asked for again by its stream in its size it is given out as it is;
 * whatever else is done files it first. Never kept: a domain's block, or any while `careful`. */
typedef struct weir_kept {
    uint32_t index; /* 0: none */
    weir_stream stream;
    uint64_t bytes;
} weir_kept;

struct weir_pool {
    weir_kept kept;
    weir_range range;
    weir_pages pages;
    weir_order order;
    weir_device device;
    weir_platform platform;
    weir_config config; /* defaults filled in; limit_bytes is the one in force */
    weir_zone *zone;
    uint32_t zone_count, zone_room;
    weir_quick *quick; /* by lane + 1, the low half of a stream's name */
    uint32_t quick_room;
    weir_list limbo;
    weir_list shadows;
    uint64_t shadow_bytes;
    uint32_t running; /* calls that have released the lock */
    bool rounds;      /* some entry of roundup_divisions is above 1 */
    bool careful;     /* something below or in the config forbids the shortest path: see block.c */
    bool failed_once;
    bool rescuing; /* between quiesce and resume */
    bool pressed;  /* growth has come to its bound: blocks are placed to strand the least */

    uint32_t victim[WEIR_VICTIMS_MAX]; /* scratch of place.c */

    weir_amount requested, allocated, pending, blocks;
    weir_amount by_class[WEIR_SIZE_CLASSES];
    uint64_t reserved_peak, reserved_total, segments_peak, segments_total;
    uint64_t frees, fails, retries, reclaims, moved_handles, rescues, rescued_bytes;
    weir_oom oom;
};

/* block.c: files the kept block. */
void weir_block_file_kept(weir_pool *pool);

/* For the two calls that see to the kept block themselves. */
static inline void weir_pool_lock_hot(weir_pool *pool)
{
    if (pool->platform.lock != NULL) pool->platform.lock(pool->platform.self);
}

static inline void weir_pool_lock(weir_pool *pool)
{
    weir_pool_lock_hot(pool);
    if (pool->kept.index != 0) weir_block_file_kept(pool);
}

static inline void weir_pool_unlock(weir_pool *pool)
{
    if (pool->platform.unlock != NULL) pool->platform.unlock(pool->platform.self);
}

/* Around device calls that are made without the lock; they are counted in `calls`. */
static inline weir_calls weir_pool_release(weir_pool *pool)
{
    weir_calls calls = weir_device_begin(&pool->device);
    pool->running++;
    pool->range.reserve += WEIR_RUNNING_NODES;
    weir_pool_unlock(pool);
    return calls;
}

static inline void weir_pool_acquire(weir_pool *pool, const weir_calls *calls)
{
    weir_pool_lock(pool);
    pool->running--;
    pool->range.reserve -= WEIR_RUNNING_NODES;
    weir_device_end(&pool->device, calls);
}

/* For what is left of a bound on waiting: the time now, 0 without a clock. */
static inline uint64_t weir_pool_now(const weir_pool *pool)
{
    return pool->platform.now_us == NULL ? 0 : pool->platform.now_us(pool->platform.self);
}

/* Takes the time since `begun` off a bound. */
static inline void weir_pool_spend(const weir_pool *pool, uint64_t begun, uint64_t *wait_us)
{
    if (*wait_us != WEIR_FOREVER) *wait_us -= weir_min(*wait_us, weir_pool_now(pool) - begun);
}

static inline uint64_t weir_pool_granule(const weir_pool *pool)
{
    return pool->device.info.granule_bytes;
}

static inline void weir_amount_add(weir_amount *amount, uint64_t value)
{
    amount->current += value;
    amount->total += value;
    if (amount->current > amount->peak) amount->peak = amount->current;
}

/* Calls the observer, if there is one; the lock is not held. */
void weir_pool_tell(weir_pool *pool, const weir_record *record);

/* pool.c: the set of a zone and a tag, made when first asked for. NO_METADATA. */
weir_status weir_pool_set(weir_pool *pool, uint32_t zone, uint32_t tag, uint16_t *set);
/* Sees to it that `quick` has a place for every lane. NO_METADATA. */
weir_status weir_pool_quick_room(weir_pool *pool);
/* Reserves another range of addresses for at least `bytes`. */
weir_status weir_pool_span_add(weir_pool *pool, uint64_t bytes);
/* Gives the device everything back that it takes; no block is live. */
weir_status weir_pool_give_back(weir_pool *pool);
/* Files all that a zone holds under the main zone and closes it. BUSY, NO_METADATA. */
weir_status weir_zone_release(weir_pool *pool, uint32_t zone);
/* Notes a new total of held memory in the peaks. */
void weir_pool_note_held(weir_pool *pool, uint64_t added_bytes, uint32_t added_count);
/* The part of [addr, addr + bytes), whole pieces, that the observer hears is about to go;
 * unlocked. */
void weir_pool_tell_unmap(weir_pool *pool, uint64_t addr, uint64_t bytes);

/* block.c: to be called whenever what `careful` stands for may have changed. */
void weir_block_set_careful(weir_pool *pool);
static inline void weir_pool_press(weir_pool *pool, bool pressed)
{
    pool->pressed = pressed;
    weir_block_set_careful(pool);
}
/* block.c: what a request occupies; 0 if no address space could hold it. */
uint64_t weir_block_round(const weir_pool *pool, uint64_t bytes);
/* block.c: counts a live block as it is now instead of as it was. */
void weir_block_account(weir_pool *pool, uint32_t index, uint64_t old_bytes, uint64_t old_requested,
                        uint64_t requested);
/* hold.c: one more pin of a live block; the end of all of them. */
weir_status weir_block_pin(weir_pool *pool, uint32_t index);
void weir_block_unpin(weir_pool *pool, uint32_t index);
/* block.c: the part of carve for a node in its bin: takes it out and files the rests as they
 * were. */
uint32_t weir_block_carve_filed(weir_pool *pool, const weir_ask *ask, uint32_t index,
                                uint64_t start);
/* block.c: makes [start, start + bytes) of a node that is in no bin the live block of `ask`, and
 * frees what is left of the node on both sides. Needs 2 spare nodes. */
uint32_t weir_block_carve(weir_pool *pool, const weir_ask *ask, uint32_t index, uint64_t start);
/* Takes the best fitting free node of `set` for `ask`; 0: none. Unless `strand`, a node that would
 * be left with less than a granule is not taken while the pool is pressed. */
uint32_t weir_block_fit(weir_pool *pool, const weir_ask *ask, uint16_t set, bool strand);
/* The lane and zone of a node's set; the lane is WEIR_LANE_NONE if it is clean or a hole. */
uint32_t weir_node_lane(const weir_pool *pool, const weir_node *node);
/* Whether `ask` may use a free node's memory now, as far as is known. */
bool weir_node_usable(const weir_pool *pool, const weir_node *node, const weir_ask *ask);
/* The point that a usable node's memory gets when it is filed under the lane of `ask`. */
uint64_t weir_node_point_for(weir_pool *pool, const weir_node *node, const weir_ask *ask);

/* The caller's name of a zone; 0: the pool itself. */
static inline weir_domain weir_zone_domain(const weir_pool *pool, uint32_t zone)
{
    if (zone < WEIR_ZONE_DOMAINS) return 0;
    return (weir_domain)pool->zone[zone].generation << 16 | zone;
}

/* The set that memory for `ask` is filed in; its lane may be WEIR_LANE_NONE, for clean memory. */
static inline uint16_t weir_ask_set(const weir_pool *pool, const weir_ask *ask)
{
    return pool->zone[ask->zone].set_of[ask->lane == WEIR_LANE_NONE ? 0 : ask->lane + 1];
}

/* ladder.c: everything that is tried when no free block fits. Gives the live node. */
weir_status weir_ladder_climb(weir_pool *pool, weir_ask *ask, uint32_t *index);
/* gather.c: learns which lanes have passed what, and files free memory that `ask` may use under its
 * own lane where that joins it with more of the same. */
weir_status weir_gather(weir_pool *pool, const weir_ask *ask);
/* The same for all lanes and zones, without an asking lane. */
weir_status weir_gather_all(weir_pool *pool);
/* The best fit for `ask` in any set of its zone that it may use now; gives the live node; 0:
 * none. */
uint32_t weir_gather_fit(weir_pool *pool, const weir_ask *ask, bool strand);
/* Makes the lane of `ask` wait for every other lane with free memory in its zone. */
weir_status weir_gather_join(weir_pool *pool, const weir_ask *ask);
/* Waits on the host until all free memory has passed. WOULD_WAIT: not within *wait_us; BUSY: but for
 * that of streams that can take no event now. */
weir_status weir_gather_wait(weir_pool *pool, uint64_t *wait_us);

/* limbo.c */
weir_status weir_limbo_enter(weir_pool *pool, uint32_t index);
/* Frees what has passed; with a lane, also what that lane is behind already (settle), or can be made
 * to wait for (join). */
weir_status weir_limbo_settle(weir_pool *pool, uint32_t lane);
void weir_limbo_join(weir_pool *pool, uint32_t lane);

/* shadow.c */
void weir_shadow_add(weir_pool *pool, uint32_t index, uint32_t piece);
/* Unmaps the shadows whose uses have passed, if there are at least `least`. */
weir_status weir_shadow_drain(weir_pool *pool, uint32_t least);

/* place.c */
enum {
    WEIR_PLACE_IDLE = 1u << 0,  /* with idle handles */
    WEIR_PLACE_GROW = 1u << 1,  /* with new ones under the limit */
    WEIR_PLACE_MOVE = 1u << 2,  /* with free ones from elsewhere */
    WEIR_PLACE_TIGHT = 1u << 3, /* no more new memory than is missing, but the last granule of it */
    WEIR_PLACE_SPARING =
        1u << 4,             /* no growth far above the largest amount ever asked for at once */
    WEIR_PLACE_ONE = 1u << 5 /* one handle for all of a stretch */
};
/* Backs the best window for `ask` and carves the block. NO_MEMORY: none can be backed this way. */
weir_status weir_place(weir_pool *pool, const weir_ask *ask, uint32_t how, uint32_t *index);
/* The same for exactly [start, start + ask->bytes), which must be free or holes: gives the claimed
 * node that covers it instead of a block. */
weir_status weir_place_at(weir_pool *pool, const weir_ask *ask, uint64_t start, uint32_t how,
                          uint32_t *index);
/* The most that the pool can come to hold: its limit, or what the device says it has. */
uint64_t weir_place_bound(const weir_pool *pool);
/* Whether all that is in no live block, and what limit and device still allow, would be enough. */
bool weir_place_possible(const weir_pool *pool, uint64_t bytes);
/* What all but a squeeze leave unused under the limit, so that a rescue has somewhere to copy
 * to. */
uint64_t weir_place_kept(const weir_pool *pool);
/* Carves a block that lies in one handle. UNSUPPORTED: the device has none so large. */
weir_status weir_place_one(weir_pool *pool, const weir_ask *ask, uint32_t how, uint32_t *index);
/* The size of the handle that a block in one handle needs. */
uint64_t weir_place_slot(const weir_pool *pool, uint64_t bytes);
/* Backs a fresh stretch of ask->bytes with new handles; gives the claimed node over it. */
weir_status weir_place_stretch(weir_pool *pool, const weir_ask *ask, uint32_t *index);
/* Free handles that could move for `ask`: their bytes, up to `enough`. */
uint64_t weir_place_movable(weir_pool *pool, const weir_ask *ask, uint64_t enough);

/* segment.c: for devices without virtual memory: takes a segment; gives the claimed node over
 * it. */
weir_status weir_segment_add(weir_pool *pool, const weir_ask *ask, uint32_t *index);
/* Gives back segments that are wholly free and passed, until `keep` bytes are held. */
weir_status weir_segment_trim(weir_pool *pool, uint64_t keep_bytes);

/* back.c: a plan maps pieces under a claimed stretch of nodes. */
typedef struct weir_plan {
    uint32_t piece_first, piece_last; /* chain by `next`, in the order of addresses */
    uint32_t node_first, node_last;   /* claimed nodes of the window, neighbours in the ring */
    uint64_t fresh_bytes;             /* of pieces whose handle is still to be made */
    uint32_t fresh_count;
} weir_plan;
void weir_plan_piece(weir_pool *pool, weir_plan *plan, uint32_t piece, uint64_t to);
/* Carries a plan out, with the lock released in between. On error everything is as before, but for
 * what had to be quarantined. */
weir_status weir_plan_run(weir_pool *pool, weir_plan *plan, const weir_ask *ask, uint32_t *index);
/* Puts back what a plan that was not run had taken. */
void weir_plan_drop(weir_pool *pool, weir_plan *plan);
/* Takes the part of a free node that a movable piece lies in. */
void weir_plan_claim_piece(weir_pool *pool, uint32_t index, uint32_t piece);
/* Whether all of a mapped piece lies inside the node and it may move. */
bool weir_piece_movable(const weir_pool *pool, uint32_t index, uint32_t piece);

/* Asks the device to take a busy piece back that is mapped nowhere; the lock is not held. */
weir_status weir_piece_release(weir_pool *pool, uint32_t piece, weir_calls *calls);

/* trim.c: gives back free memory that has passed until `keep` bytes are held; what went back. */
weir_status weir_trim_to(weir_pool *pool, uint64_t keep_bytes, uint64_t *released);

/* rescue.c: makes at least `bytes` of movable memory by copying live granules together. */
weir_status weir_rescue(weir_pool *pool, weir_ask *ask, uint64_t bytes);

/* stats.c: notes why `ask` failed; releases the lock to ask the device. */
void weir_oom_note(weir_pool *pool, const weir_ask *ask, weir_status status);

#endif
