/* SPDX-License-Identifier: MIT */
/*
 * An address space drawn cell by cell, one for each unit: what a range of nodes must look like.
 * Everything is found by looking at every cell; nothing is kept but the cells.
 */
#ifndef WEIR_FUZZ_RANGE_PICTURE_H
#define WEIR_FUZZ_RANGE_PICTURE_H

#include "range.h"

#define PICTURE_UNIT_SHIFT 6u
#define PICTURE_UNIT (UINT64_C(1) << PICTURE_UNIT_SHIFT)
#define PICTURE_CELLS 512u
#define PICTURE_SETS 4u

typedef enum picture_kind { PICTURE_NONE, PICTURE_FREE, PICTURE_LIVE } picture_kind;

typedef struct picture_cell {
    uint64_t point; /* of a free run, the same in all its cells */
    uint8_t kind;
    uint8_t set;
    bool first; /* of a block, a free run or a span */
    bool span;  /* the first of a span */
} picture_cell;

typedef struct picture {
    picture_cell cell[PICTURE_CELLS + 1]; /* the last is none, so that every run ends */
} picture;

/* What a search for `units` could have found. */
typedef struct picture_best {
    uint32_t in_bin;          /* runs in the bin of the size */
    uint32_t shortest_in_bin; /* of those that fit */
    bool in_bin_fits;
    bool above_bin; /* a run lies in a longer bin */
    bool fits;      /* anywhere, with the alignment */
    bool crowded;   /* some bin holds more runs than are looked at */
} picture_best;

static inline uint64_t weir_picture_addr(uint32_t cell)
{
    return (UINT64_C(1) << 40) + cell * PICTURE_UNIT;
}
static inline uint32_t weir_picture_cell(uint64_t addr)
{
    return (uint32_t)((addr - (UINT64_C(1) << 40)) / PICTURE_UNIT);
}

/* How many cells the run that begins at `cell` has. */
uint32_t weir_picture_run(const picture *of, uint32_t cell);
picture_best weir_picture_search(const picture *of, uint32_t set, uint32_t units, uint32_t align);
bool weir_picture_is_free(const picture *of, uint32_t cell, uint32_t units, uint32_t set);
uint32_t weir_picture_count(const picture *of, uint32_t set, uint32_t units);

/* The first cell of one of the live blocks, of the free runs, or of the spans that are one free
 * run; false: there is none. */
bool weir_picture_live(const picture *of, uint8_t which, uint32_t *cell);
bool weir_picture_some_free(const picture *of, uint8_t which, uint32_t *cell);
bool weir_picture_whole(const picture *of, uint8_t which, uint32_t *cell);
/* A place for a span: cells that are none, with one more on each side. */
bool weir_picture_gap(const picture *of, uint32_t units, uint32_t *cell);
bool weir_picture_starts_live(const picture *of, uint32_t cell);
bool weir_picture_inside(const picture *of, uint32_t cell);

void weir_picture_take(picture *of, uint32_t cell, uint32_t units);
void weir_picture_give(picture *of, uint32_t cell, uint64_t point);
void weir_picture_shrink(picture *of, uint32_t cell, uint32_t keep, uint64_t point);
void weir_picture_absorb(picture *of, uint32_t cell);
void weir_picture_retag(picture *of, uint32_t cell, uint32_t set);
void weir_picture_span(picture *of, uint32_t cell, uint32_t units, uint32_t set);
void weir_picture_unspan(picture *of, uint32_t cell);

/* The next node in the ring is this; ends the process if the picture has another. `at` is where the
 * last one ended; gives where this one does. */
uint32_t weir_picture_expect(const picture *of, uint32_t at, uint32_t cell, uint32_t units,
                             bool live, uint32_t set, uint64_t point);
/* No run begins at `at` or after it. */
bool weir_picture_is_over(const picture *of, uint32_t at);

#endif
