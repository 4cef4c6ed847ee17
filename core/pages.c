/* SPDX-License-Identifier: MIT */
/* pages: see pages.h. */
#include "pages.h"

void weir_pages_init(weir_pages *pages, const weir_platform *platform, uint32_t granule_shift)
{
    weir_memset(pages, 0, sizeof(*pages));
    pages->platform = platform;
    pages->granule_shift = granule_shift;
    pages->piece_count = 1;
}

static size_t chunk_bytes(uint32_t chunk)
{
    return ((size_t)WEIR_PIECE_CHUNK0 << chunk) * sizeof(weir_piece);
}

static void span_free(weir_pages *pages, weir_span *span)
{
    const weir_platform *platform = pages->platform;
    for (uint32_t i = 0; i < span->leaves; i++)
        if (span->leaf[i] != NULL)
            platform->mem_free(platform->self, span->leaf[i],
                               WEIR_LEAF_GRANULES * sizeof(uint32_t));
    platform->mem_free(platform->self, span->leaf, span->leaves * sizeof(*span->leaf));
}

void weir_pages_fini(weir_pages *pages)
{
    const weir_platform *platform = pages->platform;
    for (uint32_t i = 0; i < pages->span_count; i++) span_free(pages, &pages->span[i]);
    for (uint32_t i = 0; i < WEIR_PIECE_CHUNKS; i++)
        if (pages->chunk[i] != NULL)
            platform->mem_free(platform->self, pages->chunk[i], chunk_bytes(i));
    weir_memset(pages, 0, sizeof(*pages));
}

/* ------------------------------------------------------------------------------------ spans -- */

weir_status weir_pages_span_add(weir_pages *pages, uint64_t base, uint64_t bytes)
{
    const weir_platform *platform = pages->platform;
    uint64_t granules = (bytes + (UINT64_C(1) << pages->granule_shift) - 1) >> pages->granule_shift;
    uint64_t leaves = granules / WEIR_LEAF_GRANULES + 2;
    if (pages->span_count == WEIR_SPANS_MAX || leaves > UINT32_MAX / sizeof(uint32_t *))
        return WEIR_NO_METADATA;
    weir_span *span = &pages->span[pages->span_count];
    span->leaf =
        (uint32_t **)platform->mem_alloc(platform->self, (size_t)leaves * sizeof(*span->leaf));
    if (span->leaf == NULL) return WEIR_NO_METADATA;
    weir_memset(span->leaf, 0, (size_t)leaves * sizeof(*span->leaf));
    span->leaves = (uint32_t)leaves;
    span->base = base;
    span->bytes = bytes;
    pages->span_count++;
    return WEIR_OK;
}

void weir_pages_span_drop(weir_pages *pages, uint64_t base)
{
    weir_span *span = weir_pages_span(pages, base);
    WEIR_ASSERT(span != NULL && span->base == base);
    span_free(pages, span);
    for (weir_span *last = &pages->span[--pages->span_count]; span < last; span++)
        span[0] = span[1];
}

weir_span *weir_pages_span(weir_pages *pages, uint64_t addr)
{
    for (uint32_t i = 0; i < pages->span_count; i++)
        if (addr - pages->span[i].base < pages->span[i].bytes) return &pages->span[i];
    return NULL;
}

/* Where the map keeps the granule that holds an address; NULL: nothing was ever placed near it. */
static uint32_t *span_entry(const weir_pages *pages, const weir_span *span, uint64_t addr)
{
    uint64_t granule = (addr - span->base) >> pages->granule_shift;
    uint32_t *leaf = span->leaf[granule / WEIR_LEAF_GRANULES];
    return leaf == NULL ? NULL : &leaf[granule % WEIR_LEAF_GRANULES];
}

uint32_t weir_pages_at(weir_pages *pages, uint64_t addr)
{
    const weir_span *span = weir_pages_span(pages, addr);
    const uint32_t *entry = span == NULL ? NULL : span_entry(pages, span, addr);
    return entry == NULL ? 0 : *entry;
}

uint64_t weir_pages_end(weir_pages *pages, uint64_t addr)
{
    uint64_t granule = UINT64_C(1) << pages->granule_shift;
    uint32_t index = weir_pages_at(pages, addr);
    uint64_t bytes = index == 0 ? 0 : weir_piece_bytes(pages, index);
    uint64_t start = index == 0 ? 0 : weir_piece_get(pages, index)->addr;
    WEIR_ASSERT(index == 0 || addr - start < bytes);
    return addr - start < bytes ? start + bytes : weir_round_down(addr, granule) + granule;
}

weir_status weir_pages_room(weir_pages *pages, uint64_t addr, uint64_t bytes)
{
    const weir_platform *platform = pages->platform;
    const size_t leaf_bytes = WEIR_LEAF_GRANULES * sizeof(uint32_t);
    weir_span *span = weir_pages_span(pages, addr);
    uint64_t first = (addr - span->base) >> pages->granule_shift;
    uint64_t last = (addr + bytes - 1 - span->base) >> pages->granule_shift;
    for (uint64_t i = first / WEIR_LEAF_GRANULES; i <= last / WEIR_LEAF_GRANULES; i++) {
        if (span->leaf[i] != NULL) continue;
        span->leaf[i] = (uint32_t *)platform->mem_alloc(platform->self, leaf_bytes);
        if (span->leaf[i] == NULL) return WEIR_NO_METADATA;
        weir_memset(span->leaf[i], 0, leaf_bytes);
    }
    return WEIR_OK;
}

static void map_write(weir_pages *pages, uint64_t addr, uint32_t granules, uint32_t value)
{
    const weir_span *span = weir_pages_span(pages, addr);
    for (uint32_t i = 0; i < granules; i++)
        *span_entry(pages, span, addr + ((uint64_t)i << pages->granule_shift)) = value;
}

/* ----------------------------------------------------------------------------------- pieces -- */

static uint32_t piece_take(weir_pages *pages)
{
    const weir_platform *platform = pages->platform;
    uint32_t index = pages->piece_unused;
    if (index != 0) {
        pages->piece_unused = weir_piece_get(pages, index)->next;
        return index;
    }
    index = pages->piece_count;
    uint32_t chunk = weir_bit_high((index / WEIR_PIECE_CHUNK0) + 1);
    if (chunk >= WEIR_PIECE_CHUNKS) return 0;
    if (pages->chunk[chunk] == NULL) {
        pages->chunk[chunk] = (weir_piece *)platform->mem_alloc(platform->self, chunk_bytes(chunk));
        if (pages->chunk[chunk] == NULL) return 0;
        weir_memset(pages->chunk[chunk], 0, chunk_bytes(chunk));
    }
    pages->piece_count++;
    return index;
}

uint32_t weir_pages_piece_add(weir_pages *pages, uint32_t granules)
{
    uint32_t index = piece_take(pages);
    if (index == 0) return 0;
    *weir_piece_get(pages, index) = (weir_piece){.granules = granules, .state = WEIR_PIECE_BUSY};
    pages->held_bytes += (uint64_t)granules << pages->granule_shift;
    pages->held_count++;
    return index;
}

void weir_pages_piece_drop(weir_pages *pages, uint32_t index)
{
    weir_piece *piece = weir_piece_get(pages, index);
    WEIR_ASSERT(piece->state == WEIR_PIECE_BUSY && piece->shadows == 0 && piece->pins == 0);
    pages->held_bytes -= weir_piece_bytes(pages, index);
    pages->held_count--;
    piece->state = WEIR_PIECE_UNUSED;
    piece->next = pages->piece_unused;
    pages->piece_unused = index;
}

void weir_pages_place(weir_pages *pages, uint32_t index, uint64_t addr)
{
    weir_piece *piece = weir_piece_get(pages, index);
    WEIR_ASSERT(piece->state == WEIR_PIECE_BUSY);
    piece->state = WEIR_PIECE_MAPPED;
    piece->addr = addr;
    map_write(pages, addr, piece->granules, index);
}

void weir_pages_displace(weir_pages *pages, uint32_t index)
{
    weir_piece *piece = weir_piece_get(pages, index);
    WEIR_ASSERT(piece->state == WEIR_PIECE_MAPPED && piece->pins == 0);
    map_write(pages, piece->addr, piece->granules, 0);
    piece->state = WEIR_PIECE_BUSY;
}

void weir_pages_idle_push(weir_pages *pages, uint32_t index)
{
    weir_piece *piece = weir_piece_get(pages, index);
    uint32_t *head = &pages->idle[weir_bit_high(piece->granules)];
    WEIR_ASSERT(piece->state == WEIR_PIECE_BUSY && piece->made);
    piece->state = WEIR_PIECE_IDLE;
    piece->addr = 0;
    piece->next = *head;
    *head = index;
    pages->idle_bytes += weir_piece_bytes(pages, index);
}

void weir_pages_idle_take(weir_pages *pages, uint32_t index)
{
    weir_piece *piece = weir_piece_get(pages, index);
    uint32_t *link = &pages->idle[weir_bit_high(piece->granules)];
    while (*link != index) link = &weir_piece_get(pages, *link)->next;
    *link = piece->next;
    piece->state = WEIR_PIECE_BUSY;
    piece->addr = 0;
    pages->idle_bytes -= weir_piece_bytes(pages, index);
}

void weir_pages_lose(weir_pages *pages, uint32_t index)
{
    weir_piece *piece = weir_piece_get(pages, index);
    WEIR_ASSERT(piece->state == WEIR_PIECE_BUSY);
    piece->state = WEIR_PIECE_LOST;
    pages->lost_bytes += weir_piece_bytes(pages, index);
}

uint32_t weir_pages_idle_below(const weir_pages *pages, uint64_t granules)
{
    if (granules == 0) return 0;
    for (uint32_t order = weir_bit_high(granules) + 1; order-- > 0;) {
        if (order >= WEIR_SIZE_ORDERS) continue;
        for (uint32_t at = pages->idle[order]; at != 0; at = weir_piece_get(pages, at)->next)
            if (weir_piece_get(pages, at)->granules <= granules) return at;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------ check -- */

static const char *check_place(weir_pages *pages, uint32_t index)
{
    const weir_piece *piece = weir_piece_get(pages, index);
    for (uint32_t i = 0; i < piece->granules; i++) {
        uint64_t addr = piece->addr + ((uint64_t)i << pages->granule_shift);
        if (weir_pages_at(pages, addr) != index) return "P1: a piece's granule names another";
    }
    return NULL;
}

static const char *check_leaf(weir_pages *pages, const uint32_t *leaf, uint64_t base)
{
    for (uint32_t i = 0; i < WEIR_LEAF_GRANULES; i++) {
        if (leaf[i] == 0) continue;
        const weir_piece *piece = weir_piece_get(pages, leaf[i]);
        uint64_t addr = base + ((uint64_t)i << pages->granule_shift);
        uint64_t bytes = (uint64_t)piece->granules << pages->granule_shift;
        if (piece->state != WEIR_PIECE_MAPPED || addr - piece->addr >= bytes)
            return "P1: a granule names a piece that is not there";
    }
    return NULL;
}

static const char *check_map(weir_pages *pages)
{
    const char *why = NULL;
    for (uint32_t i = 0; i < pages->span_count && why == NULL; i++) {
        const weir_span *span = &pages->span[i];
        for (uint64_t at = 0; at < span->leaves && why == NULL; at++) {
            uint64_t offset = at * WEIR_LEAF_GRANULES << pages->granule_shift;
            if (span->leaf[at] != NULL)
                why = check_leaf(pages, span->leaf[at], span->base + offset);
        }
    }
    return why;
}

const char *weir_pages_check(weir_pages *pages)
{
    uint64_t held = 0, idle = 0, lost = 0, listed = 0;
    for (uint32_t i = 1; i < pages->piece_count; i++) {
        const weir_piece *piece = weir_piece_get(pages, i);
        uint64_t bytes = weir_piece_bytes(pages, i);
        if (piece->state == WEIR_PIECE_UNUSED) continue;
        held += bytes;
        if (piece->state == WEIR_PIECE_IDLE) idle += bytes;
        if (piece->state == WEIR_PIECE_LOST) lost += bytes;
        const char *why = piece->state == WEIR_PIECE_MAPPED ? check_place(pages, i) : NULL;
        if (why != NULL) return why;
    }
    for (uint32_t order = 0; order < WEIR_SIZE_ORDERS; order++)
        for (uint32_t at = pages->idle[order]; at != 0; at = weir_piece_get(pages, at)->next) {
            if (weir_piece_get(pages, at)->state != WEIR_PIECE_IDLE) return "P2: not idle";
            listed += weir_piece_bytes(pages, at);
        }
    if (listed != idle) return "P2: an idle piece is in no list";
    if (held != pages->held_bytes || idle != pages->idle_bytes || lost != pages->lost_bytes)
        return "P3: the sums of bytes";
    return check_map(pages);
}
