/* SPDX-License-Identifier: MIT */
/*
 * Work on the simulated device: what a kernel or a copy would do to memory, checked.
 *
 * A piece of work is first checked on all its bytes and then done on all of them, so a breach
 * leaves no trace but its count. Cost: without the oracle that of queueing; with it O(mappings
 * touched + log n each).
 */
#include "sim_internal.h"
#include "sim_lanes.h"

#include <inttypes.h>
#include <stdlib.h>

/* One piece of work, and how far its check has come. */
typedef struct simwork_check {
    const char *verb;
    uint32_t lane;
    bool reads;
    uint64_t tag;
    weir_addr addr; /* of the part under the mapping at hand */
    uint64_t bytes;
    uint64_t offset;  /* of that part in its piece */
    uint64_t covered; /* bytes of it that were ever written */
} simwork_check;

/* The part of [addr, end) under one mapping. */
typedef struct simwork_part {
    weir_sim_mapping *mapping;
    uint64_t offset;
    uint64_t bytes;
} simwork_part;

static simwork_part simwork_part_at(const weir_sim *sim, weir_addr addr, weir_addr end)
{
    simwork_part part = {weir_sim_mapping_at(sim, addr), 0, 0};
    if (part.mapping) {
        part.offset = addr - part.mapping->addr;
        part.bytes = part.mapping->bytes - part.offset;
        part.bytes = part.bytes < end - addr ? part.bytes : end - addr;
    }
    return part;
}

/* ----------------------------------------------------------------------------------- checks -- */

static bool simwork_visit(weir_sim *sim, const weir_sim_node *node, void *context)
{
    simwork_check *check = (simwork_check *)context;
    uint64_t low = node->start > check->offset ? node->start : check->offset;
    uint64_t end = check->offset + check->bytes;
    uint64_t high = node->end < end ? node->end : end;
    weir_addr at = check->addr + (low - check->offset);
    check->covered += high - low;
    if (!weir_sim_ordered(sim, check->lane, node->lane, node->seq)) {
        weir_sim_breach(sim, at, high - low,
                        "%s on stream %" PRIu64 " at %" PRIu64 " us: the bytes [0x%" PRIx64
                        ", +%" PRIu64 ") are still in use by work %" PRIu64 " of stream %" PRIu64
                        " (tag 0x%" PRIx64 "), which this stream is not ordered after",
                        check->verb, sim->lanes[check->lane].native, sim->now_us, at, high - low,
                        node->seq, sim->lanes[node->lane].native, node->tag);
        return false;
    }
    if (check->reads && node->tag != check->tag) {
        weir_sim_breach(sim, at, high - low,
                        "read on stream %" PRIu64 " at %" PRIu64 " us: the bytes [0x%" PRIx64
                        ", +%" PRIu64 ") hold tag 0x%" PRIx64 " instead of 0x%" PRIx64,
                        sim->lanes[check->lane].native, sim->now_us, at, high - low, node->tag,
                        check->tag);
        return false;
    }
    return true;
}

static bool simwork_check_part(weir_sim *sim, simwork_check *check, const simwork_part *part)
{
    check->bytes = part->bytes;
    check->offset = part->offset;
    check->covered = 0;
    if (!weir_sim_shadow_visit(sim, sim->pieces[part->mapping->piece].root, part->offset,
                               part->offset + part->bytes, simwork_visit, check)) {
        return false;
    }
    if (check->reads && check->covered < part->bytes) {
        weir_sim_breach(sim, check->addr, check->bytes,
                        "read on stream %" PRIu64 ": %" PRIu64 " of the bytes [0x%" PRIx64
                        ", +%" PRIu64 ") were never written",
                        sim->lanes[check->lane].native, part->bytes - check->covered, check->addr,
                        check->bytes);
        return false;
    }
    return true;
}

/* Whether the whole range lies under mappings with access, or in one segment; else why not. */
static const char *simwork_unreachable(const weir_sim *sim, weir_addr addr, uint64_t bytes,
                                       weir_addr *at)
{
    *at = addr;
    if (bytes > UINT64_MAX - addr) {
        return "the range wraps around";
    }
    while (*at < addr + bytes) {
        simwork_part part = simwork_part_at(sim, *at, addr + bytes);
        if (!part.mapping) {
            return "nothing is mapped";
        }
        if (!part.mapping->access) {
            return "the device has no access";
        }
        if (part.mapping->segment && part.bytes < bytes) {
            return "the range leaves its segment";
        }
        *at += part.bytes;
    }
    return NULL;
}

static bool simwork_reachable(weir_sim *sim, const char *verb, weir_addr addr, uint64_t bytes)
{
    weir_addr at = 0;
    const char *why = simwork_unreachable(sim, addr, bytes, &at);
    if (why) {
        weir_sim_breach(sim, at, bytes > UINT64_MAX - addr ? 1 : addr + bytes - at,
                        "%s of [0x%" PRIx64 ", +%" PRIu64 ") at %" PRIu64 " us: %s at 0x%" PRIx64,
                        verb, addr, bytes, sim->now_us, why, at);
    }
    return why == NULL;
}

static bool simwork_check_all(weir_sim *sim, simwork_check *check, weir_addr addr, uint64_t bytes)
{
    if (!simwork_reachable(sim, check->verb, addr, bytes)) {
        return false;
    }
    for (check->addr = addr; check->addr < addr + bytes; check->addr += check->bytes) {
        simwork_part part = simwork_part_at(sim, check->addr, addr + bytes);
        if (!simwork_check_part(sim, check, &part)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------- doing -- */

static bool simwork_mark_mapping(weir_sim_mapping *mapping, uint32_t lane, uint64_t seq)
{
    if (!weir_sim_grow((void **)&mapping->used, &mapping->used_count, lane + 1,
                       sizeof(*mapping->used))) {
        return false;
    }
    mapping->used[lane] = seq;
    return true;
}

/* Marks the range as last used by (lane, seq) with `tag`. False where host memory is short. */
static bool simwork_mark(weir_sim *sim, weir_addr addr, uint64_t bytes, const weir_sim_node *use)
{
    weir_addr end = addr + bytes;
    bool done = true;
    while (done && addr < end) {
        simwork_part part = simwork_part_at(sim, addr, end);
        weir_sim_node value = *use;
        value.start = part.offset;
        value.end = part.offset + part.bytes;
        done = weir_sim_shadow_set(sim, &sim->pieces[part.mapping->piece].root, &value) &&
               (use->lane == 0 || simwork_mark_mapping(part.mapping, use->lane, use->seq));
        addr += part.bytes;
    }
    return done;
}

static bool simwork_short_of_memory(weir_sim *sim, const char *verb)
{
    weir_sim_breach(sim, 0, 0, "%s: the simulator has no host memory left for its records", verb);
    return false;
}

/* Notes a use of bytes under the name of the first piece that it touches. */
static void simwork_note(weir_sim *sim, const char *verb, weir_addr addr, uint64_t bytes,
                         const weir_sim_node *use)
{
    weir_sim_note note = {verb,     addr, bytes, 0, use->lane ? sim->lanes[use->lane].native : 0,
                          use->tag, 0,    0};
    const weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr);
    if (mapping && bytes) {
        note.handle = weir_sim_piece_name(sim, mapping->piece);
        note.offset = addr - mapping->addr;
    }
    weir_sim_note_add(sim, &note);
}

static bool simwork_do(weir_sim *sim, simwork_check *check, weir_addr addr, uint64_t bytes)
{
    if (sim->config.oracle && !simwork_check_all(sim, check, addr, bytes)) {
        return false;
    }
    uint64_t seq = weir_sim_queue(sim, check->lane);
    if (seq == 0) {
        return simwork_short_of_memory(sim, check->verb);
    }
    if (!sim->config.oracle) {
        return true;
    }
    weir_sim_node use = {0, 0, check->tag, seq, check->lane, 0, 0, 0};
    simwork_note(sim, check->verb, addr, bytes, &use);
    return simwork_mark(sim, addr, bytes, &use) || simwork_short_of_memory(sim, check->verb);
}

static bool simwork_run(weir_sim *sim, uint64_t stream, weir_addr addr, uint64_t bytes,
                        uint64_t tag, bool reads)
{
    weir_sim_lock(sim);
    simwork_check check = {reads ? "read" : "write", 0, reads, tag, 0, 0, 0, 0};
    bool done = false;
    check.lane = weir_sim_lane_need(sim, check.verb, stream);
    if (check.lane && sim->quiesced) {
        weir_sim_breach(sim, addr, bytes, "%s on stream %" PRIu64 " between quiesce and resume",
                        check.verb, stream);
    } else if (check.lane) {
        done = simwork_do(sim, &check, addr, bytes);
    }
    weir_sim_unlock(sim);
    return done;
}

bool weir_sim_write(weir_sim *sim, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    return simwork_run(sim, stream, addr, bytes, tag, false);
}

bool weir_sim_read(weir_sim *sim, uint64_t stream, weir_addr addr, uint64_t bytes, uint64_t tag)
{
    return simwork_run(sim, stream, addr, bytes, tag, true);
}

bool weir_sim_mapped(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    weir_sim_lock(sim);
    weir_addr at = 0;
    bool mapped = simwork_unreachable(sim, addr, bytes, &at) == NULL;
    weir_sim_unlock(sim);
    return mapped;
}

/* -------------------------------------------------------------------------------------- copy -- */

/* What the source holds, by distance from its first byte. */
typedef struct simwork_list {
    weir_sim_node *nodes;
    uint32_t count;
    uint32_t capacity;
    uint64_t offset; /* of the part at hand in its piece */
    uint64_t bytes;
    uint64_t way; /* of the part at hand from the first byte */
} simwork_list;

static bool simwork_collect(weir_sim *sim, const weir_sim_node *node, void *context)
{
    (void)sim;
    simwork_list *list = (simwork_list *)context;
    if (!weir_sim_grow((void **)&list->nodes, &list->capacity, list->count + 1,
                       sizeof(*list->nodes))) {
        return false;
    }
    uint64_t end = list->offset + list->bytes;
    uint64_t low = node->start > list->offset ? node->start : list->offset;
    uint64_t high = node->end < end ? node->end : end;
    weir_sim_node *found = &list->nodes[list->count++];
    *found = *node;
    found->start = low - list->offset + list->way;
    found->end = high - list->offset + list->way;
    return true;
}

static bool simwork_collect_all(weir_sim *sim, simwork_list *list, weir_addr from, uint64_t bytes)
{
    for (list->way = 0; list->way < bytes; list->way += list->bytes) {
        simwork_part part = simwork_part_at(sim, from + list->way, from + bytes);
        list->offset = part.offset;
        list->bytes = part.bytes;
        if (!weir_sim_shadow_visit(sim, sim->pieces[part.mapping->piece].root, part.offset,
                                   part.offset + part.bytes, simwork_collect, list)) {
            return false;
        }
    }
    return true;
}

static bool simwork_clear(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    weir_addr end = addr + bytes;
    bool done = true;
    while (done && addr < end) {
        simwork_part part = simwork_part_at(sim, addr, end);
        done = weir_sim_shadow_clear(sim, &sim->pieces[part.mapping->piece].root, part.offset,
                                     part.offset + part.bytes);
        addr += part.bytes;
    }
    return done;
}

/* All work has ended, so the copied bytes have no last work: lane 0. */
static bool simwork_copy_shadow(weir_sim *sim, weir_addr to, weir_addr from, uint64_t bytes)
{
    simwork_list list = {NULL, 0, 0, 0, 0, 0};
    bool done = simwork_collect_all(sim, &list, from, bytes) && simwork_clear(sim, to, bytes);
    for (uint32_t i = 0; done && i < list.count; i++) {
        const weir_sim_node *node = &list.nodes[i];
        weir_sim_node use = {0, 0, node->tag, 0, 0, 0, 0, 0};
        done = simwork_mark(sim, to + node->start, node->end - node->start, &use);
    }
    free(list.nodes);
    return done;
}

weir_status weir_sim_copy(weir_sim *sim, weir_addr to, weir_addr from, uint64_t bytes)
{
    if (!sim->quiesced) {
        return weir_sim_breach(sim, to, bytes, "copy to 0x%" PRIx64 " outside quiesce and resume",
                               to);
    }
    if (bytes == 0 || (to < from ? from - to : to - from) < bytes) {
        return weir_sim_breach(sim, to, bytes,
                               "copy of %" PRIu64 " bytes from 0x%" PRIx64 " to 0x%" PRIx64
                               ": no bytes, or overlapping ranges",
                               bytes, from, to);
    }
    if (!simwork_reachable(sim, "copy", from, bytes) ||
        !simwork_reachable(sim, "copy", to, bytes)) {
        return WEIR_INVALID;
    }
    const weir_sim_node no_use = {0, 0, 0, 0, 0, 0, 0, 0};
    simwork_note(sim, "copy from", from, bytes, &no_use);
    simwork_note(sim, "copy to", to, bytes, &no_use);
    if (sim->config.oracle && !simwork_copy_shadow(sim, to, from, bytes)) {
        return WEIR_NO_METADATA;
    }
    return WEIR_OK;
}
