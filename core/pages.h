/* SPDX-License-Identifier: MIT */
/*
 * pages: which granule of the arena is backed by which handle.
 *
 * Owns     the spans (reserved address ranges, or segments), a map from granule to piece in leaves
 *          made as they are needed, and a record, the piece, for each handle that the pool holds.
 *          Pieces do not move in host memory, so they can be read with the lock released.
 * P1       a granule names a piece exactly when that piece is mapped there as its place; a shadow,
 *          the old place of a moved handle, is named by no granule.
 * P2       an idle piece is in the list of its size and has no place.
 * P3       held_bytes is the sum over all pieces; idle_bytes and lost_bytes over those of that
 *          state.
 * Cost     O(1) a granule; 4 bytes a granule in leaves of 1024, 64 bytes a piece.
 */
#ifndef WEIR_PAGES_H
#define WEIR_PAGES_H

#include "device.h"

#define WEIR_SPANS_MAX 256
#define WEIR_LEAF_GRANULES 1024u
#define WEIR_PIECE_CHUNKS 20
#define WEIR_PIECE_CHUNK0 64u
#define WEIR_SIZE_ORDERS 40 /* powers of two of granules */

typedef enum weir_piece_state {
    WEIR_PIECE_UNUSED = 0,
    WEIR_PIECE_IDLE,   /* mapped nowhere, or only as shadows */
    WEIR_PIECE_MAPPED, /* at `addr` */
    WEIR_PIECE_BUSY,   /* taken by a running call */
    WEIR_PIECE_LOST    /* quarantined: the device would not take it back */
} weir_piece_state;

typedef struct weir_piece {
    weir_handle handle;
    uint64_t addr; /* its place; while a call places it, where it comes from; 0: none */
    uint64_t to;   /* while a call places it: where to */
    uint32_t granules;
    uint32_t next; /* idle list, or the chain of a running call */
    uint32_t pins;
    uint32_t shadows; /* old places still mapped */
    uint32_t node;    /* while a call moves it: the claimed node over its old place */
    uint8_t state;
    bool made;  /* `handle` is valid */
    bool fresh; /* made by the running call */
    bool there; /* mapped at `to` by the running call */
} weir_piece;

typedef struct weir_span {
    uint64_t base, bytes;
    uint32_t **leaf;
    uint32_t leaves;
} weir_span;

typedef struct weir_pages {
    const weir_platform *platform;
    uint32_t granule_shift;
    uint32_t span_count;
    weir_span span[WEIR_SPANS_MAX]; /* in the order of their making */
    weir_piece *chunk[WEIR_PIECE_CHUNKS];
    uint32_t piece_count; /* ever handed out, piece 0 included, which stands for none */
    uint32_t piece_unused;
    uint32_t idle[WEIR_SIZE_ORDERS]; /* by floor(log2(granules)) */
    uint64_t held_bytes, idle_bytes, lost_bytes, pinned_bytes;
    uint32_t held_count;
} weir_pages;

void weir_pages_init(weir_pages *pages, const weir_platform *platform, uint32_t granule_shift);
void weir_pages_fini(weir_pages *pages);

static inline weir_piece *weir_piece_get(const weir_pages *pages, uint32_t index)
{
    uint32_t chunk = weir_bit_high((index / WEIR_PIECE_CHUNK0) + 1);
    return &pages->chunk[chunk][index - WEIR_PIECE_CHUNK0 * ((1u << chunk) - 1)];
}

static inline uint64_t weir_piece_bytes(const weir_pages *pages, uint32_t index)
{
    return (uint64_t)weir_piece_get(pages, index)->granules << pages->granule_shift;
}

/* Adds a span. NO_METADATA. drop takes out one that has no piece left. */
weir_status weir_pages_span_add(weir_pages *pages, uint64_t base, uint64_t bytes);
void weir_pages_span_drop(weir_pages *pages, uint64_t base);
/* The span that holds an address; NULL: none. */
weir_span *weir_pages_span(weir_pages *pages, uint64_t addr);

/* The piece whose place covers `addr`; 0: none. */
uint32_t weir_pages_at(weir_pages *pages, uint64_t addr);

/* Where the piece that covers `addr` ends, or its granule if there is none: how walks step on. */
uint64_t weir_pages_end(weir_pages *pages, uint64_t addr);

/* Makes the leaves under a range, so that place cannot fail. NO_METADATA. */
weir_status weir_pages_room(weir_pages *pages, uint64_t addr, uint64_t bytes);

/* A new piece of this size, busy, charged to held_bytes, its handle still to be made. 0:
 * NO_METADATA. drop takes its bytes off again. */
uint32_t weir_pages_piece_add(weir_pages *pages, uint32_t granules);
void weir_pages_piece_drop(weir_pages *pages, uint32_t index);

/* A busy piece gets a place; a mapped one loses it and is busy. */
void weir_pages_place(weir_pages *pages, uint32_t index, uint64_t addr);
void weir_pages_displace(weir_pages *pages, uint32_t index);

/* A busy piece becomes idle, an idle one busy, a busy one lost. */
void weir_pages_idle_push(weir_pages *pages, uint32_t index);
void weir_pages_idle_take(weir_pages *pages, uint32_t index);
void weir_pages_lose(weir_pages *pages, uint32_t index);

/* The largest idle piece of at most so many granules; 0: none. */
uint32_t weir_pages_idle_below(const weir_pages *pages, uint64_t granules);

/* NULL, or which of P1 to P3 is broken. O(pieces and their granules). */
const char *weir_pages_check(weir_pages *pages);

#endif
