/* SPDX-License-Identifier: MIT */
/* range: see range.h for what it owns and what must hold. */
#include "range.h"

/* ------------------------------------------------------------------------------------ nodes -- */

static void node_link(weir_range *range, uint32_t index, uint32_t before)
{
    weir_node *node = &range->node[index];
    uint32_t after = range->node[before].next;
    node->prev = before;
    node->next = after;
    range->node[before].next = index;
    range->node[after].prev = index;
}

uint32_t weir_range_split(weir_range *range, uint32_t index, uint64_t addr)
{
    uint32_t upper = weir_node_take(range);
    weir_node *node = &range->node[index];
    weir_node *rest = &range->node[upper];
    WEIR_ASSERT(addr > node->addr && addr < weir_node_end(range, index));
    WEIR_ASSERT(node->kind != WEIR_FREE);
    *rest = *node;
    rest->addr = addr;
    node_link(range, upper, index);
    return upper;
}

uint32_t weir_range_free(weir_range *range, uint32_t index)
{
    const weir_node *node = &range->node[index];
    return weir_range_free_hot(range, range->set[node->set], index, weir_node_point(node));
}

void weir_range_absorb(weir_range *range, uint32_t index)
{
    uint32_t next = range->node[index].next;
    WEIR_ASSERT(range->node[index].kind != WEIR_FREE && range->node[next].kind != WEIR_FREE);
    weir_node_unlink(range, next);
}

/* ------------------------------------------------------------------------------------- find -- */

/* Whether a node holds `bytes` at `align`, and from where. */
static inline bool node_fits(const weir_range *range, const weir_node *node, uint64_t bytes,
                             uint64_t align, uint64_t *start)
{
    uint64_t at = weir_round_up(node->addr, align);
    uint64_t end = range->node[node->next].addr;
    *start = at;
    return at <= end && end - at >= bytes;
}

/* The shortest of the first nodes in a bin that fit. */
static uint32_t bin_best(const weir_range *range, uint32_t index, uint64_t bytes, uint64_t align,
                         uint64_t *start)
{
    uint32_t best = 0;
    uint64_t best_bytes = UINT64_MAX;
    for (uint32_t look = WEIR_RANGE_LOOK; index != 0 && look != 0; look--) {
        const weir_node *node = &range->node[index];
        uint64_t at;
        uint64_t have = range->node[node->next].addr - node->addr;
        if (have < best_bytes && node_fits(range, node, bytes, align, &at)) {
            best = index;
            best_bytes = have;
            *start = at;
            if (have == bytes) break;
        }
        index = node->b;
    }
    return best;
}

uint32_t weir_range_find(const weir_range *range, uint16_t set_index, uint64_t bytes,
                         uint64_t align, uint64_t *start)
{
    const weir_set *set = range->set[set_index];
    for (uint32_t at = weir_bin_of(range, bytes); weir_bin_next(set, &at); at++) {
        uint32_t found = bin_best(range, set->head[at], bytes, align, start);
        if (found != 0) return found;
    }
    return 0;
}

/* The last bin before `at` that is not empty. */
static bool bin_previous(const weir_set *set, uint32_t *at)
{
    uint32_t row = *at >> 5;
    uint32_t cols = row < WEIR_RANGE_ROWS ? set->cols[row] & ((1u << (*at & 31)) - 1) : 0;
    if (cols == 0) {
        uint64_t rows = row < 64 ? set->rows & ((UINT64_C(1) << row) - 1) : set->rows;
        if (rows == 0) return false;
        row = weir_bit_high(rows);
        cols = set->cols[row];
    }
    *at = (row << 5) + weir_bit_high(cols);
    return true;
}

uint32_t weir_range_each(const weir_range *range, uint16_t set_index, uint64_t bytes_min,
                         weir_cursor *cursor)
{
    const weir_set *set = range->set[set_index];
    if (!cursor->begun) cursor->bin = WEIR_RANGE_BINS;
    cursor->begun = true;
    if (cursor->next == 0) {
        if (!bin_previous(set, &cursor->bin) || cursor->bin < weir_bin_of(range, bytes_min)) {
            cursor->bin = 0;
            return 0;
        }
        cursor->next = set->head[cursor->bin];
    }
    uint32_t index = cursor->next;
    cursor->next = range->node[index].b;
    return index;
}

uint32_t weir_range_each_up(const weir_range *range, uint16_t set_index, uint64_t bytes_min,
                            weir_cursor *cursor)
{
    const weir_set *set = range->set[set_index];
    if (!cursor->begun) cursor->bin = weir_bin_of(range, bytes_min);
    cursor->begun = true;
    if (cursor->next == 0) {
        if (!weir_bin_next(set, &cursor->bin)) return 0;
        cursor->next = set->head[cursor->bin++];
    }
    uint32_t index = cursor->next;
    cursor->next = range->node[index].b;
    return index;
}

/* ------------------------------------------------------------------------------------ index -- */

uint32_t weir_range_lookup(const weir_range *range, uint64_t addr)
{
    uint32_t index = *weir_range_bucket(range, addr);
    while (index != 0 && range->node[index].addr != addr) index = range->node[index].a;
    return index;
}

uint32_t weir_range_unindex(weir_range *range, uint64_t addr)
{
    uint32_t *link = weir_range_bucket(range, addr);
    while (*link != 0 && range->node[*link].addr != addr) link = &range->node[*link].a;
    uint32_t index = *link;
    if (index != 0) *link = range->node[index].a;
    return index;
}

uint32_t weir_range_at(const weir_range *range, uint64_t addr, uint32_t near)
{
    uint32_t index = near;
    if (index == 0) index = range->node[0].next;
    while (index != 0 && range->node[index].addr > addr) index = range->node[index].prev;
    if (index == 0) return 0;
    while (range->node[index].next != 0 && weir_node_end(range, index) <= addr)
        index = range->node[index].next;
    return range->node[index].kind == WEIR_FENCE ? 0 : index;
}

/* ------------------------------------------------------------------------------------ spans -- */

uint32_t weir_range_span_add(weir_range *range, uint64_t addr, uint64_t bytes, uint16_t set)
{
    uint32_t before = 0;
    while (range->node[before].next != 0 && range->node[range->node[before].next].addr <= addr)
        before = range->node[before].next;
    uint32_t index = weir_node_take(range);
    uint32_t fence = weir_node_take(range);
    range->node[index] = (weir_node){.addr = addr, .set = set, .kind = WEIR_CLAIMED};
    range->node[fence] = (weir_node){.addr = addr + bytes, .kind = WEIR_FENCE};
    node_link(range, index, before);
    node_link(range, fence, index);
    return index;
}

void weir_range_span_drop(weir_range *range, uint32_t index)
{
    WEIR_ASSERT(range->node[range->node[index].next].kind == WEIR_FENCE);
    weir_range_absorb(range, index);
    uint32_t prev = range->node[index].prev;
    range->node[prev].next = range->node[index].next;
    range->node[range->node[index].next].prev = prev;
    weir_node_drop(range, index);
}

/* ----------------------------------------------------------------------------------- memory -- */

weir_status weir_range_grow(weir_range *range, uint32_t count)
{
    const weir_platform *platform = range->platform;
    uint32_t room = range->node_room;
    if (count > UINT32_MAX / 2 - room) return WEIR_NO_METADATA;
    uint32_t more = room;
    while (more - room + range->spare < count || more == room) more *= 2;
    weir_node *node = (weir_node *)platform->mem_alloc(platform->self, more * sizeof(weir_node));
    uint32_t *bucket = (uint32_t *)platform->mem_alloc(platform->self, more * sizeof(uint32_t));
    if (node == NULL || bucket == NULL) {
        if (node != NULL) platform->mem_free(platform->self, node, more * sizeof(weir_node));
        if (bucket != NULL) platform->mem_free(platform->self, bucket, more * sizeof(uint32_t));
        return WEIR_NO_METADATA;
    }
    weir_memcpy(node, range->node, range->node_count * sizeof(weir_node));
    weir_memset(bucket, 0, more * sizeof(uint32_t));
    platform->mem_free(platform->self, range->node, room * sizeof(weir_node));
    platform->mem_free(platform->self, range->bucket, room * sizeof(uint32_t));
    range->node = node;
    range->bucket = bucket;
    range->bucket_shift = 64 - weir_bit_high(more);
    range->spare += more - room;
    range->node_room = more;
    for (uint32_t index = node[0].next; index != 0; index = node[index].next)
        if (node[index].kind == WEIR_LIVE) weir_range_index(range, index);
    return WEIR_OK;
}

weir_status weir_range_set_add(weir_range *range, uint16_t *set)
{
    const weir_platform *platform = range->platform;
    if (range->set_count == range->set_room) {
        uint32_t room = range->set_room == 0 ? 16 : range->set_room * 2;
        if (range->set_room > UINT16_MAX / 2) return WEIR_NO_METADATA;
        weir_set **sets = (weir_set **)platform->mem_alloc(platform->self, room * sizeof(*sets));
        if (sets == NULL) return WEIR_NO_METADATA;
        if (range->set != NULL) {
            weir_memcpy(sets, range->set, range->set_count * sizeof(*sets));
            platform->mem_free(platform->self, range->set, range->set_room * sizeof(*sets));
        }
        range->set = sets;
        range->set_room = room;
    }
    weir_set *fresh = (weir_set *)platform->mem_alloc(platform->self, sizeof(*fresh));
    if (fresh == NULL) return WEIR_NO_METADATA;
    weir_memset(fresh, 0, sizeof(*fresh));
    *set = (uint16_t)range->set_count;
    fresh->index = *set;
    range->set[range->set_count++] = fresh;
    return WEIR_OK;
}

weir_status weir_range_init(weir_range *range, const weir_platform *platform, uint32_t unit_shift)
{
    const uint32_t room = 64;
    weir_memset(range, 0, sizeof(*range));
    range->platform = platform;
    range->unit_shift = unit_shift;
    range->node = (weir_node *)platform->mem_alloc(platform->self, room * sizeof(weir_node));
    range->bucket = (uint32_t *)platform->mem_alloc(platform->self, room * sizeof(uint32_t));
    range->node_room = room;
    if (range->node == NULL || range->bucket == NULL) {
        weir_range_fini(range);
        return WEIR_NO_METADATA;
    }
    weir_memset(range->bucket, 0, room * sizeof(uint32_t));
    range->bucket_shift = 64 - weir_bit_high(room);
    range->node[0] = (weir_node){.addr = 0, .kind = WEIR_FENCE};
    range->node_count = 1;
    range->spare = room - 1;
    return WEIR_OK;
}

void weir_range_fini(weir_range *range)
{
    const weir_platform *platform = range->platform;
    for (uint32_t i = 0; i < range->set_count; i++)
        platform->mem_free(platform->self, range->set[i], sizeof(weir_set));
    if (range->set != NULL)
        platform->mem_free(platform->self, range->set, range->set_room * sizeof(weir_set *));
    if (range->node != NULL)
        platform->mem_free(platform->self, range->node, range->node_room * sizeof(weir_node));
    if (range->bucket != NULL)
        platform->mem_free(platform->self, range->bucket, range->node_room * sizeof(uint32_t));
    weir_memset(range, 0, sizeof(*range));
}

/* ------------------------------------------------------------------------------------ check -- */

static const char *check_node(const weir_range *range, uint32_t index)
{
    const weir_node *node = &range->node[index];
    const weir_node *next = &range->node[node->next];
    if (next->prev != index) return "R1: a neighbour does not point back";
    uint64_t least = node->addr + (node->kind != WEIR_FENCE);
    if (node->next != 0 && next->addr < least) return "R1: nodes are out of order";
    if (node->kind == WEIR_UNUSED) return "R1: an unused node is in the ring";
    if (node->kind == WEIR_FREE && next->kind == WEIR_FREE && node->set == next->set)
        return "R2: two free neighbours of one set";
    if (node->kind == WEIR_LIVE && weir_range_lookup(range, node->addr) != index)
        return "R3: a live block is not in the index";
    return NULL;
}

static const char *check_bin(const weir_range *range, uint16_t index, uint32_t bin, uint32_t *filed)
{
    for (uint32_t at = range->set[index]->head[bin]; at != 0; at = range->node[at].b) {
        if (range->node[at].kind != WEIR_FREE || range->node[at].set != index)
            return "R3: a node is in a bin it does not name";
        if (weir_bin_of(range, weir_node_bytes(range, at)) != bin)
            return "R3: a node is in the wrong bin";
        if (++*filed > range->node_room) return "R3: a bin is a ring";
    }
    return NULL;
}

/* Which bins of a row hold something. Most rows hold nothing, and that is seen at a glance. */
static uint32_t check_row(const weir_set *set, uint32_t row)
{
    const uint32_t *head = &set->head[row * WEIR_RANGE_COLS];
    uint32_t any = 0, cols = 0;
    for (uint32_t col = 0; col < WEIR_RANGE_COLS; col++) any |= head[col];
    for (uint32_t col = 0; any != 0 && col < WEIR_RANGE_COLS; col++)
        cols |= (uint32_t)(head[col] != 0) << col;
    return cols;
}

static const char *check_set(const weir_range *range, uint16_t index, uint32_t *filed)
{
    const weir_set *set = range->set[index];
    const char *why = NULL;
    for (uint32_t row = 0; row < WEIR_RANGE_ROWS; row++)
        if ((set->cols[row] != 0) != ((set->rows >> row & 1) != 0)) return "R4: row bitmap";
    for (uint32_t row = 0; row < WEIR_RANGE_ROWS; row++) {
        uint32_t cols = check_row(set, row);
        if (cols != set->cols[row]) return "R4: column bitmap";
        for (; cols != 0; cols &= cols - 1) {
            why = check_bin(range, index, row * WEIR_RANGE_COLS + weir_bit_low(cols), filed);
            if (why != NULL) return why;
        }
    }
    return NULL;
}

const char *weir_range_check(const weir_range *range)
{
    uint32_t free_nodes = 0, live = 0, filed = 0, chained = 0;
    for (uint32_t at = range->node[0].next; at != 0; at = range->node[at].next) {
        const char *why = check_node(range, at);
        if (why != NULL) return why;
        free_nodes += range->node[at].kind == WEIR_FREE;
        live += range->node[at].kind == WEIR_LIVE;
    }
    for (uint32_t i = 0; i < range->set_count; i++) {
        const char *why = check_set(range, (uint16_t)i, &filed);
        if (why != NULL) return why;
    }
    for (uint32_t i = 0; i < range->node_room; i++)
        for (uint32_t at = range->bucket[i]; at != 0 && chained <= live; at = range->node[at].a)
            chained++;
    if (filed != free_nodes) return "R3: a free node is in no bin";
    return chained == live ? NULL : "R3: the index and the live blocks differ";
}
