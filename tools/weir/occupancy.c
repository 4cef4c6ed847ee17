/* SPDX-License-Identifier: MIT */
/*
 * Two walks over the blocks: the first marks the handles under live blocks, the second looks at
 * what is free in those.
 *
 * Invariant  `pieces` is sorted by address and its ranges are disjoint, so the pieces under a block
 *            follow one another.
 */
#include "occupancy.h"

#include <stdlib.h>

typedef struct occupancy_piece {
    uint64_t start, end;
    bool held; /* by a live block */
} occupancy_piece;

typedef struct occupancy_walk {
    occupancy_piece *pieces;
    size_t count, room;
    bool short_of_memory;
    weir_occupancy *result;
} occupancy_walk;

static int occupancy_compare(const void *a, const void *b)
{
    const occupancy_piece *left = a, *right = b;

    if (left->start == right->start) return 0;
    return left->start < right->start ? -1 : 1;
}

static bool occupancy_collect(void *self, const weir_segment *segment)
{
    occupancy_walk *walk = self;

    if (segment->addr == 0) return true;
    if (walk->count == walk->room) {
        size_t room = walk->room == 0 ? 256 : walk->room * 2;
        occupancy_piece *pieces = realloc(walk->pieces, room * sizeof *pieces);
        walk->short_of_memory = pieces == NULL;
        if (pieces == NULL) return false;
        walk->pieces = pieces;
        walk->room = room;
    }
    walk->pieces[walk->count].start = segment->addr;
    walk->pieces[walk->count].end = segment->addr + segment->bytes;
    walk->pieces[walk->count].held = false;
    walk->count++;
    return true;
}

/* The first piece that ends behind `addr`. */
static size_t occupancy_find(const occupancy_walk *walk, uint64_t addr)
{
    size_t low = 0, high = walk->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (walk->pieces[middle].end <= addr) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool occupancy_hold(void *self, const weir_block *block)
{
    occupancy_walk *walk = self;
    uint64_t end = block->addr + block->bytes;

    if (block->live) walk->result->live_blocks++;
    else if (block->pending) walk->result->pending_blocks++;
    if (!block->live) return true;
    for (size_t i = occupancy_find(walk, block->addr);
         i < walk->count && walk->pieces[i].start < end; i++)
        walk->pieces[i].held = true;
    return true;
}

static bool occupancy_strand(void *self, const weir_block *block)
{
    occupancy_walk *walk = self;
    uint64_t end = block->addr + block->bytes, stranded = 0;

    if (block->live) return true;
    for (size_t i = occupancy_find(walk, block->addr);
         i < walk->count && walk->pieces[i].start < end; i++) {
        const occupancy_piece *piece = &walk->pieces[i];
        uint64_t from = piece->start > block->addr ? piece->start : block->addr;
        uint64_t to = piece->end < end ? piece->end : end;
        stranded += piece->held ? to - from : 0;
    }
    walk->result->stranded_bytes += stranded;
    walk->result->stranded_runs += stranded > 0 ? 1 : 0;
    return true;
}

bool weir_occupancy_read(weir_pool *pool, weir_occupancy *occupancy)
{
    const weir_occupancy nothing = {0};
    occupancy_walk walk = {.result = occupancy};

    *occupancy = nothing;
    weir_walk_segments(pool, occupancy_collect, &walk);
    if (walk.count > 0) qsort(walk.pieces, walk.count, sizeof *walk.pieces, occupancy_compare);
    if (!walk.short_of_memory) {
        weir_walk_blocks(pool, occupancy_hold, &walk);
        weir_walk_blocks(pool, occupancy_strand, &walk);
    }
    free(walk.pieces);
    return !walk.short_of_memory;
}
