/* SPDX-License-Identifier: MIT */
/* range: see range.h for what it owns and what must hold. */
#include "range.h"

/* ------------------------------------------------------------------------------------ nodes -- */

static inline uint32_t node_take(weir_range *range)
{
    uint32_t index = range->unused;
    WEIR_ASSERT(range->spare > 0);
    range->spare--;
    if (index != 0) range->unused = range->node[index].next;
    else index = range->node_count++;
    return index;
}

static void node_drop(weir_range *range, uint32_t index)
{
    range->node[index].kind = WEIR_UNUSED;
    range->node[index].next = range->unused;
    range->unused = index;
    range->spare++;
}

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
    uint32_t upper = node_take(range);
    weir_node *node = &range->node[index];
    weir_node *rest = &range->node[upper];
    WEIR_ASSERT(addr > node->addr && addr < weir_node_end(range, index));
    WEIR_ASSERT(node->kind != WEIR_FREE);
    *rest = *node;
    rest->addr = addr;
    node_link(range, upper, index);
    return upper;
}

/* Takes a node that is in no bin out of the ring; the one before it now reaches over it. */
static inline void node_unlink(weir_range *range, uint32_t index)
{
    const weir_node *node = &range->node[index];
    range->node[node->prev].next = node->next;
    range->node[node->next].prev = node->prev;
    node_drop(range, index);
}

uint32_t weir_range_cut(weir_range *range, uint32_t index, uint64_t bytes)
{
    uint32_t lower = node_take(range);
    weir_node *node = &range->node[index];
    weir_node *cut = &range->node[lower];
    weir_set *set = range->set[node->set];
    uint64_t have = weir_node_bytes(range, index);
    weir_bin before = weir_bin_of(range, have);
    weir_bin after = weir_bin_of(range, have - bytes);
    WEIR_ASSERT(node->kind == WEIR_FREE && bytes < have);
    *cut = *node;
    cut->kind = WEIR_CLAIMED;
    cut->next = index;
    range->node[cut->prev].next = lower;
    node->prev = lower;
    node->addr += bytes;
    if (before.row != after.row || before.col != after.col) {
        weir_bin_pull(range, set, before, index);
        weir_bin_push(range, set, after, index);
    }
    return lower;
}

void weir_range_absorb(weir_range *range, uint32_t index)
{
    uint32_t next = range->node[index].next;
    WEIR_ASSERT(range->node[index].kind != WEIR_FREE && range->node[next].kind != WEIR_FREE);
    node_unlink(range, next);
}

static inline bool node_joins(const weir_node *left, const weir_node *right)
{
    return left->kind == WEIR_FREE && left->set == right->set;
}

/* A filed node has grown from `before` bytes: it moves to another bin if it has to. */
static inline void node_refile(weir_range *range, uint32_t index, uint64_t before)
{
    weir_set *set = range->set[range->node[index].set];
    weir_bin old = weir_bin_of(range, before);
    weir_bin now = weir_bin_of(range, weir_node_bytes(range, index));
    if (old.row == now.row && old.col == now.col) return;
    weir_bin_pull(range, set, old, index);
    weir_bin_push(range, set, now, index);
}

uint32_t weir_range_free(weir_range *range, uint32_t index)
{
    weir_node *node = &range->node[index];
    uint32_t prev = node->prev, next = node->next;
    uint64_t point = weir_node_point(node);
    bool joins_next = node_joins(&range->node[next], node);
    if (node_joins(&range->node[prev], node)) {
        uint64_t before = node->addr - range->node[prev].addr;
        point = weir_max(point, weir_node_point(&range->node[prev]));
        if (joins_next) {
            point = weir_max(point, weir_node_point(&range->node[next]));
            weir_range_unfile(range, next);
            node_unlink(range, next);
        }
        node_unlink(range, index);
        weir_node_point_set(&range->node[prev], point);
        node_refile(range, prev, before);
        return prev;
    }
    if (joins_next) {
        uint64_t before = weir_node_bytes(range, next);
        point = weir_max(point, weir_node_point(&range->node[next]));
        range->node[next].addr = node->addr;
        node_unlink(range, index);
        weir_node_point_set(&range->node[next], point);
        node_refile(range, next, before);
        return next;
    }
    weir_range_file(range, index);
    return index;
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

/* Moves to the next bin that is not empty, the given one included. */
static inline bool bin_next(const weir_set *set, weir_bin *at)
{
    uint32_t cols = at->col < 32 ? set->cols[at->row] & (~0u << at->col) : 0;
    if (cols == 0) {
        uint64_t rows = set->rows & (~UINT64_C(0) << 1 << at->row);
        if (rows == 0) return false;
        at->row = weir_bit_low(rows);
        cols = set->cols[at->row];
    }
    at->col = weir_bit_low(cols);
    return true;
}

/* The shortest of the first nodes in a bin that hold `bytes`; their alignment is the unit's. */
static inline uint32_t bin_quick(const weir_range *range, uint32_t index, uint64_t bytes)
{
    uint32_t best = 0;
    uint64_t best_bytes = UINT64_MAX;
    for (uint32_t look = WEIR_RANGE_LOOK; index != 0 && look != 0; look--) {
        const weir_node *node = &range->node[index];
        uint64_t have = range->node[node->next].addr - node->addr;
        if (have == bytes) return index;
        if (have > bytes && have < best_bytes) {
            best = index;
            best_bytes = have;
        }
        index = node->b;
    }
    return best;
}

uint32_t weir_range_quick(const weir_range *range, const weir_set *set, uint64_t bytes)
{
    weir_bin at = weir_bin_of(range, bytes);
    if (WEIR_UNLIKELY(at.row >= WEIR_RANGE_ROWS)) return 0;
    if ((set->cols[at.row] >> at.col & 1) != 0) {
        uint32_t found = bin_quick(range, set->head[at.row][at.col], bytes);
        if (found != 0) return found;
    }
    at.col++;
    return bin_next(set, &at) ? bin_quick(range, set->head[at.row][at.col], bytes) : 0;
}

uint32_t weir_range_find(const weir_range *range, uint16_t set_index, uint64_t bytes,
                         uint64_t align, uint64_t *start)
{
    const weir_set *set = range->set[set_index];
    weir_bin at = weir_bin_of(range, bytes);
    if (at.row >= WEIR_RANGE_ROWS) return 0;
    while (bin_next(set, &at)) {
        uint32_t found = bin_best(range, set->head[at.row][at.col], bytes, align, start);
        if (found != 0) return found;
        at.col++;
    }
    return 0;
}

uint32_t weir_range_each(const weir_range *range, uint16_t set_index, uint64_t bytes_min,
                         weir_cursor *cursor)
{
    const weir_set *set = range->set[set_index];
    weir_bin least = weir_bin_of(range, bytes_min);
    while (cursor->next == 0) {
        uint64_t rows = set->rows;
        uint32_t cols = 0;
        if (cursor->begun) {
            cols = set->cols[cursor->row] & ((1u << cursor->col) - 1);
            rows &= (UINT64_C(1) << cursor->row) - 1;
        }
        cursor->begun = true;
        if (cols == 0) {
            if (rows == 0) return 0;
            cursor->row = weir_bit_high(rows);
            cols = set->cols[cursor->row];
        }
        cursor->col = weir_bit_high(cols);
        if (cursor->row < least.row || (cursor->row == least.row && cursor->col < least.col))
            return 0;
        cursor->next = set->head[cursor->row][cursor->col];
    }
    uint32_t index = cursor->next;
    cursor->next = range->node[index].b;
    return index;
}

uint32_t weir_range_each_up(const weir_range *range, uint16_t set_index, uint64_t bytes_min,
                            weir_cursor *cursor)
{
    const weir_set *set = range->set[set_index];
    if (!cursor->begun) {
        weir_bin least = weir_bin_of(range, bytes_min);
        cursor->row = least.row;
        cursor->col = least.col;
        cursor->begun = true;
    }
    if (cursor->next == 0) {
        weir_bin at = {cursor->row, cursor->col};
        if (at.row >= WEIR_RANGE_ROWS || !bin_next(set, &at)) return 0;
        cursor->next = set->head[at.row][at.col];
        cursor->row = at.row;
        cursor->col = at.col + 1;
    }
    uint32_t index = cursor->next;
    cursor->next = range->node[index].b;
    return index;
}

/* ------------------------------------------------------------------------------------ index -- */

void weir_range_index(weir_range *range, uint32_t index)
{
    weir_node *node = &range->node[index];
    uint32_t *head = weir_range_bucket(range, node->addr);
    node->a = *head;
    *head = index;
}

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
    uint32_t index = node_take(range);
    uint32_t fence = node_take(range);
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
    node_drop(range, index);
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

static const char *check_set(const weir_range *range, uint16_t index, uint32_t *filed)
{
    const weir_set *set = range->set[index];
    uint32_t count = 0;
    for (uint32_t row = 0; row < WEIR_RANGE_ROWS; row++) {
        if ((set->cols[row] != 0) != ((set->rows >> row & 1) != 0)) return "R4: row bitmap";
        for (uint32_t col = 0; col < WEIR_RANGE_COLS; col++) {
            uint32_t head = set->head[row][col];
            if ((head != 0) != ((set->cols[row] >> col & 1) != 0)) return "R4: column bitmap";
            for (uint32_t at = head; at != 0; at = range->node[at].b) {
                weir_bin where = weir_bin_of(range, weir_node_bytes(range, at));
                if (range->node[at].kind != WEIR_FREE || range->node[at].set != index)
                    return "R3: a node is in a bin it does not name";
                if (where.row != row || where.col != col) return "R3: a node is in the wrong bin";
                if (++count > range->node_room) return "R3: a bin is a ring";
            }
        }
    }
    *filed += count;
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
