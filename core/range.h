/* SPDX-License-Identifier: MIT */
/*
 * range: places blocks in an address space.
 *
 * Owns     the nodes: every byte of every span belongs to exactly one node, and the nodes form one
 *          ring in the order of addresses. Node 0 is the ring's head and never names a block. Each
 *          span ends in a fence, a node that is never free, so that nothing merges across spans.
 *          The sets: free nodes are filed by size in the set they name; two free neighbours of the
 *          same set are always one node (R2). The index of live blocks by first address.
 * R1       ring order is address order, without gaps between a span's first node and its fence.
 * R2       no two neighbours that are both free name the same set.
 * R3       a node is in exactly one bin of its set if it is free, and in none otherwise; a live
 *          node is in exactly one chain of the index.
 * R4       a set's bitmaps tell which bins are not empty.
 * Cost     O(1). A search looks at no more than WEIR_RANGE_LOOK nodes of the request's own bin, and
 *          every node of the next fits, unless the alignment is above the unit: then it may go on to
 *          the bins after that. 32 bytes for a node, 4 for its place in the index, about 6 KiB for a
 *          set.
 *
 * The two-level bins follow Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator
 * for real-time systems" (ECRTS 2004), with records kept outside the memory and a bounded look in
 * the request's own bin, so that a block that was freed always fits the same request again.
 */
#ifndef WEIR_RANGE_H
#define WEIR_RANGE_H

#include "base.h"

#define WEIR_RANGE_LOOK 16      /* nodes that a search looks at in one bin */
#define WEIR_RANGE_LOOK_ABOVE 4 /* in a bin where every node fits, on the shortest path */
#define WEIR_RANGE_ROWS 44      /* powers of two of units */
#define WEIR_RANGE_COLS 32      /* steps in each of them */
#define WEIR_RANGE_BINS (WEIR_RANGE_ROWS * WEIR_RANGE_COLS)

typedef enum weir_kind {
    WEIR_UNUSED = 0,
    WEIR_FREE,       /* filed in its set */
    WEIR_LIVE,       /* a caller's block */
    WEIR_CLAIMED,    /* taken by a running call, set and point kept */
    WEIR_LIMBO,      /* freed, with uses on several streams */
    WEIR_SHADOW,     /* old place of a moved handle, still mapped */
    WEIR_LOST_RANGE, /* quarantined: could not be unmapped */
    WEIR_FENCE
} weir_kind;

typedef struct weir_node {
    uint64_t addr;
    uint32_t prev, next; /* ring */
    uint32_t a;          /* free: previous in bin; live: next in index chain; limbo, shadow: next */
    uint32_t b;          /* free: next in bin; live, limbo: first extra record; shadow: handle */
    uint32_t low;        /* live: bytes beyond what was asked; else the point, low bits */
    uint16_t set;
    uint8_t kind;
    uint8_t high; /* live: WEIR_NODE_ flags; else the point, high bits */
} weir_node;

typedef struct weir_set {
    uint64_t rows;      /* 0: the set is empty */
    uint16_t index;     /* its number */
    uint16_t zone, tag; /* what it stands for; the range does not read these */
    uint32_t cols[WEIR_RANGE_ROWS];
    uint32_t head[WEIR_RANGE_BINS]; /* by weir_bin_of */
} weir_set;

typedef struct weir_range {
    const weir_platform *platform;
    weir_node *node;
    uint32_t node_count; /* nodes ever handed out, the head included */
    uint32_t node_room;
    uint32_t unused;  /* first of the nodes to be used again, linked by `next` */
    uint32_t spare;   /* nodes that can be had without growing */
    uint32_t reserve; /* how many of them running calls may still need */
    uint32_t *bucket;
    uint32_t bucket_shift; /* 64 - log2(number of buckets) */
    uint32_t unit_shift;
    uint32_t set_count;
    uint32_t set_room;
    weir_set **set;
} weir_range;

weir_status weir_range_init(weir_range *range, const weir_platform *platform, uint32_t unit_shift);
void weir_range_fini(weir_range *range);

/* need: makes sure that `count` nodes beyond the reserve can be taken without failing.
 * NO_METADATA. */
weir_status weir_range_grow(weir_range *range, uint32_t count);
static inline weir_status weir_range_need(weir_range *range, uint32_t count)
{
    count += range->reserve;
    return WEIR_LIKELY(range->spare >= count) ? WEIR_OK : weir_range_grow(range, count);
}

/* A new empty set. NO_METADATA. */
weir_status weir_range_set_add(weir_range *range, uint16_t *set);

/* Adds [addr, addr + bytes) as one claimed node of `set`; needs 2 spare nodes. Returns the node. */
uint32_t weir_range_span_add(weir_range *range, uint64_t addr, uint64_t bytes, uint16_t set);
/* Takes a span, which is one node and its fence, out of the ring. */
void weir_range_span_drop(weir_range *range, uint32_t index);

static inline uint64_t weir_node_bytes(const weir_range *range, uint32_t index)
{
    const weir_node *node = &range->node[index];
    return range->node[node->next].addr - node->addr;
}

static inline uint64_t weir_node_end(const weir_range *range, uint32_t index)
{
    return range->node[range->node[index].next].addr;
}

/* A point: how far its stream has to get before the node's last uses have passed. 40 bits. */
static inline uint64_t weir_node_point(const weir_node *node)
{
    return (uint64_t)node->high << 32 | node->low;
}

static inline void weir_node_point_set(weir_node *node, uint64_t point)
{
    node->low = (uint32_t)point;
    node->high = (uint8_t)(point >> 32);
}

/* The bin of a size. The first 32 bins hold the sizes below 32 units one by one; after them every
 * 32 are a power of two in equal steps. Rounds down: a node lies in the bin whose least size it
 * reaches. */
static WEIR_HOT uint32_t weir_bin_of(const weir_range *range, uint64_t bytes)
{
    uint64_t units = bytes >> range->unit_shift;
    uint32_t shift = weir_bit_high(units | WEIR_RANGE_COLS) - 5;
    return (shift << 5) + (uint32_t)(units >> shift);
}

static WEIR_HOT void weir_bin_push(weir_range *range, weir_set *set, uint32_t at, uint32_t index)
{
    weir_node *node = &range->node[index];
    uint32_t head = set->head[at];
    WEIR_ASSERT(at < WEIR_RANGE_BINS);
    node->a = 0;
    node->b = head;
    range->node[head].a = index; /* node 0 takes the write when the bin is empty */
    set->head[at] = index;
    set->cols[at >> 5] |= 1u << (at & 31);
    set->rows |= UINT64_C(1) << (at >> 5);
}

static WEIR_HOT void weir_bin_pull(weir_range *range, weir_set *set, uint32_t at, uint32_t index)
{
    const weir_node *node = &range->node[index];
    uint32_t before = node->a, after = node->b;
    range->node[after].a = before;
    if (before != 0) {
        range->node[before].b = after;
        return;
    }
    set->head[at] = after;
    if (after != 0) return;
    uint32_t cols = set->cols[at >> 5] & ~(1u << (at & 31));
    set->cols[at >> 5] = cols;
    if (cols == 0) set->rows &= ~(UINT64_C(1) << (at >> 5));
}

/* Files a node as free under its set without merging; takes it out again. */
static WEIR_HOT void weir_range_file(weir_range *range, uint32_t index)
{
    weir_node *node = &range->node[index];
    node->kind = WEIR_FREE;
    weir_bin_push(range, range->set[node->set], weir_bin_of(range, weir_node_bytes(range, index)),
                  index);
}

static WEIR_HOT void weir_range_unfile(weir_range *range, uint32_t index)
{
    weir_node *node = &range->node[index];
    WEIR_ASSERT(node->kind == WEIR_FREE);
    node->kind = WEIR_CLAIMED;
    weir_bin_pull(range, range->set[node->set], weir_bin_of(range, weir_node_bytes(range, index)),
                  index);
}

static WEIR_HOT uint32_t weir_node_take(weir_range *range)
{
    uint32_t index = range->unused;
    WEIR_ASSERT(range->spare > 0);
    range->spare--;
    if (index != 0) range->unused = range->node[index].next;
    else index = range->node_count++;
    return index;
}

static WEIR_HOT void weir_node_drop(weir_range *range, uint32_t index)
{
    range->node[index].kind = WEIR_UNUSED;
    range->node[index].next = range->unused;
    range->unused = index;
    range->spare++;
}

/* Takes a node that is in no bin out of the ring; the one before it now reaches over it. */
static WEIR_HOT void weir_node_unlink(weir_range *range, uint32_t index)
{
    const weir_node *node = &range->node[index];
    range->node[node->prev].next = node->next;
    range->node[node->next].prev = node->prev;
    weir_node_drop(range, index);
}

/* Takes the first `bytes` of a node that is filed in `bin` of `set`; gives a claimed node of the
 * same set and point. The rest stays filed, and in its place where its bin is the same. Needs 1
 * spare node. */
static WEIR_HOT uint32_t weir_range_take(weir_range *range, weir_set *set, uint32_t bin,
                                         uint32_t index, uint64_t bytes)
{
    weir_node *node = &range->node[index];
    uint64_t rest = range->node[node->next].addr - node->addr - bytes;
    WEIR_ASSERT(node->kind == WEIR_FREE);
    if (rest == 0) {
        weir_bin_pull(range, set, bin, index);
        node->kind = WEIR_CLAIMED;
        return index;
    }
    uint32_t lower = weir_node_take(range);
    weir_node *cut = &range->node[lower];
    uint32_t to = weir_bin_of(range, rest);
    cut->addr = node->addr;
    cut->prev = node->prev;
    cut->next = index;
    cut->low = node->low;
    cut->set = node->set;
    cut->kind = WEIR_CLAIMED;
    cut->high = node->high;
    range->node[node->prev].next = lower;
    node->prev = lower;
    node->addr += bytes;
    if (bin != to) {
        weir_bin_pull(range, set, bin, index);
        weir_bin_push(range, set, to, index);
    }
    return lower;
}

static WEIR_HOT bool weir_node_joins(const weir_node *left, const weir_node *right)
{
    return left->kind == WEIR_FREE && left->set == right->set;
}

/* A filed node has grown from `before` bytes: it moves to another bin if it has to. */
static WEIR_HOT void weir_node_refile(weir_range *range, weir_set *set, uint32_t index,
                                      uint64_t before)
{
    uint32_t from = weir_bin_of(range, before);
    uint32_t to = weir_bin_of(range, weir_node_bytes(range, index));
    if (from == to) return;
    weir_bin_pull(range, set, from, index);
    weir_bin_push(range, set, to, index);
}

/* Frees a node that is in no bin: joins it with free neighbours of its set (the later point wins)
 * and files the result, whose index it returns. */
static WEIR_HOT uint32_t weir_range_free_hot(weir_range *range, weir_set *set, uint32_t index,
                                             uint64_t point)
{
    weir_node *node = &range->node[index];
    uint32_t prev = node->prev, next = node->next;
    bool joins_next = weir_node_joins(&range->node[next], node);
    if (weir_node_joins(&range->node[prev], node)) {
        uint64_t before = node->addr - range->node[prev].addr;
        point = weir_max(point, weir_node_point(&range->node[prev]));
        if (joins_next) {
            point = weir_max(point, weir_node_point(&range->node[next]));
            weir_bin_pull(range, set, weir_bin_of(range, weir_node_bytes(range, next)), next);
            weir_node_unlink(range, next);
        }
        weir_node_unlink(range, index);
        weir_node_point_set(&range->node[prev], point);
        weir_node_refile(range, set, prev, before);
        return prev;
    }
    if (joins_next) {
        uint64_t before = weir_node_bytes(range, next);
        point = weir_max(point, weir_node_point(&range->node[next]));
        range->node[next].addr = node->addr;
        weir_node_unlink(range, index);
        weir_node_point_set(&range->node[next], point);
        weir_node_refile(range, set, next, before);
        return next;
    }
    weir_node_point_set(node, point);
    node->kind = WEIR_FREE;
    weir_bin_push(range, set, weir_bin_of(range, weir_node_bytes(range, index)), index);
    return index;
}

uint32_t weir_range_free(weir_range *range, uint32_t index);

/* Cuts a node that is in no bin at `addr`, strictly inside; returns the upper part, which has the
 * same kind, set and point. Needs 1 spare node. */
uint32_t weir_range_split(weir_range *range, uint32_t index, uint64_t addr);

/* Joins a node with the next one; neither is filed. */
void weir_range_absorb(weir_range *range, uint32_t index);

/* The best of near candidates in a set for `bytes` (a multiple of the unit) at `align`, and where
 * in it the block would start. 0 if none was seen. */
uint32_t weir_range_find(const weir_range *range, uint16_t set, uint64_t bytes, uint64_t align,
                         uint64_t *start);

/* Moves to the next bin that is not empty, the given one included. */
static WEIR_HOT bool weir_bin_next(const weir_set *set, uint32_t *at)
{
    uint32_t row = *at >> 5;
    if (WEIR_UNLIKELY(row >= WEIR_RANGE_ROWS)) return false;
    uint32_t cols = set->cols[row] >> (*at & 31);
    if (cols != 0) {
        *at += weir_bit_low(cols);
        return true;
    }
    uint64_t rows = set->rows >> 1 >> row;
    if (rows == 0) return false;
    row += 1 + weir_bit_low(rows);
    *at = (row << 5) + weir_bit_low(set->cols[row]);
    return true;
}

/* The shortest of the first `look` nodes in a bin, which is not empty, that hold `bytes`; their
 * alignment is the unit's. */
static WEIR_HOT uint32_t weir_bin_quick(const weir_range *range, uint32_t index, uint64_t bytes,
                                        uint32_t look)
{
    uint32_t best = 0;
    uint64_t best_over = UINT64_MAX; /* beyond `bytes`; a node that is too short wraps to more */
    do {
        const weir_node *node = &range->node[index];
        uint64_t over = range->node[node->next].addr - node->addr - bytes;
        if (over < best_over && over >> 63 == 0) {
            best = index;
            best_over = over;
            if (over == 0) break;
        }
        index = node->b;
    } while (index != 0 && --look != 0);
    return best;
}

/* find for alignments no larger than the unit; tells the bin too. */
static WEIR_HOT uint32_t weir_range_quick(const weir_range *range, const weir_set *set,
                                          uint64_t bytes, uint32_t *bin)
{
    uint32_t own = weir_bin_of(range, bytes);
    for (*bin = own; weir_bin_next(set, bin); ++*bin) {
        uint32_t look = *bin == own ? WEIR_RANGE_LOOK : WEIR_RANGE_LOOK_ABOVE;
        uint32_t found = weir_bin_quick(range, set->head[*bin], bytes, look);
        if (WEIR_LIKELY(found != 0)) return found;
    }
    return 0;
}

/* The index of live blocks. unindex returns the node it took out, lookup one that it leaves; both 0
 * if there is none. */
uint32_t weir_range_lookup(const weir_range *range, uint64_t addr);
uint32_t weir_range_unindex(weir_range *range, uint64_t addr);
static WEIR_HOT uint32_t *weir_range_bucket(const weir_range *range, uint64_t addr)
{
    uint64_t key = addr * UINT64_C(0x9E3779B97F4A7C15);
    return &range->bucket[key >> range->bucket_shift];
}

static WEIR_HOT void weir_range_index(weir_range *range, uint32_t index)
{
    weir_node *node = &range->node[index];
    uint32_t *head = weir_range_bucket(range, node->addr);
    node->a = *head;
    *head = index;
}

/* The node of any kind that holds `addr`, found by a walk from node `near`; 0: outside. */
uint32_t weir_range_at(const weir_range *range, uint64_t addr, uint32_t near);

/* Steps through a set from its longest nodes to its shortest: first with `*cursor` 0, until it
 * returns 0. The set must not change in between. */
typedef struct weir_cursor {
    uint32_t next;
    uint32_t bin;
    bool begun;
} weir_cursor;
uint32_t weir_range_each(const weir_range *range, uint16_t set, uint64_t bytes_min,
                         weir_cursor *cursor);

/* The same from the shortest that may have `bytes_min` to the longest. */
uint32_t weir_range_each_up(const weir_range *range, uint16_t set, uint64_t bytes_min,
                            weir_cursor *cursor);

/* NULL, or which of R1 to R4 is broken. O(nodes). */
const char *weir_range_check(const weir_range *range);

#endif
