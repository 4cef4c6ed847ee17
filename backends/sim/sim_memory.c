/* SPDX-License-Identifier: MIT */
/*
 * Physical memory, address ranges and mappings of the simulated device.
 *
 * Owns        pieces (handles and segments), ranges sorted by address, mappings, and a three-level
 *             table that finds the mapping over an address.
 * Invariants  A mapping covers one whole piece and lies in one range; mappings never overlap.
 *             held_bytes is the sum of the live pieces and never exceeds the device's memory.
 * Addresses   are handed out first fit from a fixed base; freed ranges are given again.
 * Cost        O(1) to find a mapping; map and unmap O(granules); reserve and segments O(ranges).
 */
#include "sim_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool simmem_whole(const weir_sim *sim, uint64_t value)
{
    return (value & (sim->config.granule_bytes - 1)) == 0;
}

/* Sizes that a caller must never pass. */
static bool simmem_bad_size(const weir_sim *sim, uint64_t bytes)
{
    return bytes == 0 || !simmem_whole(sim, bytes);
}

static bool simmem_bad_range(const weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    return simmem_bad_size(sim, bytes) || !simmem_whole(sim, addr) || bytes > UINT64_MAX - addr;
}

/* ------------------------------------------------------------------------------------ lookup -- */

static uint32_t *simmem_cell(const weir_sim *sim, uint64_t granule)
{
    if (granule >> (3 * WEIR_SIM_RADIX_BITS)) {
        return NULL;
    }
    const weir_sim_branch *branch = sim->radix[granule >> (2 * WEIR_SIM_RADIX_BITS)];
    if (!branch) {
        return NULL;
    }
    weir_sim_leaf *leaf = branch->leaf[(granule >> WEIR_SIM_RADIX_BITS) % WEIR_SIM_RADIX];
    return leaf ? &leaf->mapping[granule % WEIR_SIM_RADIX] : NULL;
}

static uint32_t simmem_slot_at(const weir_sim *sim, weir_addr addr)
{
    if (addr < WEIR_SIM_BASE) {
        return 0;
    }
    const uint32_t *cell = simmem_cell(sim, (addr - WEIR_SIM_BASE) >> sim->granule_shift);
    return cell ? *cell : 0;
}

weir_sim_mapping *weir_sim_mapping_at(const weir_sim *sim, weir_addr addr)
{
    uint32_t slot = simmem_slot_at(sim, addr);
    return slot ? &sim->mappings[slot] : NULL;
}

/* Makes the cell of a granule exist. */
static bool simmem_cell_make(weir_sim *sim, uint64_t granule)
{
    weir_sim_branch **branch = &sim->radix[granule >> (2 * WEIR_SIM_RADIX_BITS)];
    if (!*branch) {
        *branch = (weir_sim_branch *)calloc(1, sizeof(**branch));
        if (!*branch) {
            return false;
        }
    }
    weir_sim_leaf **leaf = &(*branch)->leaf[(granule >> WEIR_SIM_RADIX_BITS) % WEIR_SIM_RADIX];
    if (!*leaf) {
        *leaf = (weir_sim_leaf *)calloc(1, sizeof(**leaf));
    }
    return *leaf != NULL;
}

static bool simmem_cells_make(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    uint64_t first = (addr - WEIR_SIM_BASE) >> sim->granule_shift;
    uint64_t last = (addr + bytes - 1 - WEIR_SIM_BASE) >> sim->granule_shift;
    for (uint64_t granule = first; granule < last; granule += WEIR_SIM_RADIX) {
        if (!simmem_cell_make(sim, granule)) {
            return false;
        }
    }
    return simmem_cell_make(sim, last);
}

static void simmem_cells_set(weir_sim *sim, weir_addr addr, uint64_t bytes, uint32_t slot)
{
    uint64_t first = (addr - WEIR_SIM_BASE) >> sim->granule_shift;
    uint64_t count = bytes >> sim->granule_shift;
    for (uint64_t i = 0; i < count; i++) {
        *simmem_cell(sim, first + i) = slot;
    }
}

/* ------------------------------------------------------------------------------------ ranges -- */

/* The number of ranges that begin at or before `addr`. */
static uint32_t simmem_ranges_before(const weir_sim *sim, weir_addr addr)
{
    uint32_t low = 0;
    uint32_t high = sim->range_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sim->ranges[middle].base <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The range that holds all of [addr, addr+bytes), or NULL. */
static weir_sim_range *simmem_range_of(const weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    uint32_t before = simmem_ranges_before(sim, addr);
    if (before == 0) {
        return NULL;
    }
    weir_sim_range *range = &sim->ranges[before - 1];
    uint64_t offset = addr - range->base;
    return offset < range->bytes && bytes <= range->bytes - offset ? range : NULL;
}

static uint64_t simmem_va_end(const weir_sim *sim)
{
    uint64_t most = UINT64_C(1) << (3 * WEIR_SIM_RADIX_BITS + sim->granule_shift);
    uint64_t wished = sim->config.va_bytes;
    if (sim->granule_shift >= 64 - 3 * WEIR_SIM_RADIX_BITS || most > UINT64_MAX - WEIR_SIM_BASE) {
        most = UINT64_MAX - WEIR_SIM_BASE - (sim->config.granule_bytes - 1);
    }
    return WEIR_SIM_BASE + (wished < most ? wished : most);
}

/* Takes the first gap that is long enough. */
static weir_status simmem_range_take(weir_sim *sim, uint64_t bytes, uint32_t *index)
{
    uint64_t gap = WEIR_SIM_BASE;
    uint32_t at = 0;
    while (at < sim->range_count && sim->ranges[at].base - gap < bytes) {
        gap = sim->ranges[at].base + sim->ranges[at].bytes;
        at++;
    }
    uint64_t end = simmem_va_end(sim);
    if (at == sim->range_count && (gap >= end || end - gap < bytes)) {
        return WEIR_NO_MEMORY;
    }
    if (!weir_sim_grow((void **)&sim->ranges, &sim->range_capacity, sim->range_count + 1,
                       sizeof(*sim->ranges))) {
        return WEIR_NO_METADATA;
    }
    memmove(&sim->ranges[at + 1], &sim->ranges[at], (sim->range_count - at) * sizeof(*sim->ranges));
    sim->range_count++;
    sim->ranges[at] = (weir_sim_range){gap, bytes, 0, 0};
    *index = at;
    return WEIR_OK;
}

static void simmem_range_drop(weir_sim *sim, weir_sim_range *range)
{
    uint32_t at = (uint32_t)(range - sim->ranges);
    sim->range_count--;
    memmove(range, range + 1, (sim->range_count - at) * sizeof(*sim->ranges));
}

weir_status weir_sim_va_reserve(weir_sim *sim, uint64_t bytes, weir_addr *base)
{
    if (simmem_bad_size(sim, bytes)) {
        return weir_sim_breach(sim, 0, 0, "va_reserve of %" PRIu64 " bytes: not whole granules",
                               bytes);
    }
    uint32_t index = 0;
    weir_status status = simmem_range_take(sim, bytes, &index);
    if (status == WEIR_OK) {
        *base = sim->ranges[index].base;
    }
    return status;
}

weir_status weir_sim_va_free(weir_sim *sim, weir_addr base, uint64_t bytes)
{
    weir_sim_range *range = simmem_range_of(sim, base, bytes);
    if (!range || range->segment || range->base != base || range->bytes != bytes) {
        return weir_sim_breach(sim, base, bytes,
                               "va_free of [0x%" PRIx64 ", +%" PRIu64 "): not a reserved range",
                               base, bytes);
    }
    if (range->mapped_bytes) {
        return weir_sim_breach(sim, base, bytes,
                               "va_free of [0x%" PRIx64 ", +%" PRIu64 "): %" PRIu64
                               " bytes are still mapped in it",
                               base, bytes, range->mapped_bytes);
    }
    simmem_range_drop(sim, range);
    return WEIR_OK;
}

/* ------------------------------------------------------------------------------------ pieces -- */

weir_handle weir_sim_piece_name(const weir_sim *sim, uint32_t slot)
{
    return ((uint64_t)sim->pieces[slot].generation << 32) | slot;
}

static weir_sim_piece *simmem_piece_of(const weir_sim *sim, weir_handle handle)
{
    uint32_t slot = (uint32_t)handle;
    if (slot == 0 || slot >= sim->piece_table.count) {
        return NULL;
    }
    weir_sim_piece *piece = &sim->pieces[slot];
    return piece->live && piece->generation == handle >> 32 ? piece : NULL;
}

static bool simmem_device_full(const weir_sim *sim, uint64_t bytes)
{
    uint64_t left = sim->config.memory_bytes - sim->totals.held_bytes;
    return sim->tenant_bytes > left || bytes > left - sim->tenant_bytes;
}

static void simmem_held_add(weir_sim *sim, uint64_t bytes)
{
    sim->totals.held_bytes += bytes;
    if (sim->totals.held_bytes > sim->totals.held_peak_bytes) {
        sim->totals.held_peak_bytes = sim->totals.held_bytes;
    }
}

static weir_status simmem_piece_take(weir_sim *sim, const char *verb, uint64_t bytes,
                                     uint32_t *slot)
{
    if (simmem_bad_size(sim, bytes)) {
        return weir_sim_breach(sim, 0, 0, "%s of %" PRIu64 " bytes: not whole granules", verb,
                               bytes);
    }
    if (sim->config.handle_bytes_max && bytes > sim->config.handle_bytes_max) {
        return WEIR_INVALID;
    }
    if (simmem_device_full(sim, bytes)) {
        return WEIR_NO_MEMORY;
    }
    weir_sim_table *table = &sim->piece_table;
    *slot = table->free_head;
    if (*slot) {
        table->free_head = sim->pieces[*slot].next_free;
    } else if (weir_sim_grow((void **)&sim->pieces, &table->capacity, table->count + 1,
                             sizeof(*sim->pieces))) {
        *slot = table->count++;
    } else {
        return WEIR_NO_METADATA;
    }
    weir_sim_piece *piece = &sim->pieces[*slot];
    piece->live = true;
    piece->generation++;
    piece->bytes = bytes;
    table->live++;
    simmem_held_add(sim, bytes);
    return WEIR_OK;
}

static void simmem_piece_drop(weir_sim *sim, uint32_t slot)
{
    weir_sim_piece *piece = &sim->pieces[slot];
    weir_sim_shadow_drop(sim, &piece->root);
    sim->totals.held_bytes -= piece->bytes;
    piece->live = false;
    piece->next_free = sim->piece_table.free_head;
    sim->piece_table.free_head = slot;
    sim->piece_table.live--;
}

weir_status weir_sim_handle_create(weir_sim *sim, uint64_t bytes, weir_handle *handle)
{
    uint32_t slot = 0;
    weir_status status = simmem_piece_take(sim, "handle_create", bytes, &slot);
    if (status == WEIR_OK) {
        *handle = weir_sim_piece_name(sim, slot);
    }
    return status;
}

weir_status weir_sim_handle_release(weir_sim *sim, weir_handle handle, uint64_t bytes)
{
    const weir_sim_piece *piece = simmem_piece_of(sim, handle);
    if (!piece || piece->bytes != bytes) {
        return weir_sim_breach(sim, 0, 0,
                               "handle_release of 0x%" PRIx64 ", %" PRIu64
                               " bytes: no such handle of that size",
                               handle, bytes);
    }
    if (piece->maps) {
        return weir_sim_breach(
            sim, 0, 0, "handle_release of 0x%" PRIx64 ": it is still mapped %" PRIu32 " times",
            handle, piece->maps);
    }
    simmem_piece_drop(sim, (uint32_t)handle);
    return WEIR_OK;
}

/* ---------------------------------------------------------------------------------- mappings -- */

static weir_status simmem_mapping_take(weir_sim *sim, weir_addr addr, uint64_t bytes,
                                       uint32_t piece, uint32_t *slot)
{
    weir_sim_table *table = &sim->mapping_table;
    if (!simmem_cells_make(sim, addr, bytes)) {
        return WEIR_NO_METADATA;
    }
    *slot = table->free_head;
    if (*slot) {
        table->free_head = sim->mappings[*slot].next_free;
    } else if (weir_sim_grow((void **)&sim->mappings, &table->capacity, table->count + 1,
                             sizeof(*sim->mappings))) {
        *slot = table->count++;
    } else {
        return WEIR_NO_METADATA;
    }
    weir_sim_mapping *mapping = &sim->mappings[*slot];
    mapping->addr = addr;
    mapping->bytes = bytes;
    mapping->piece = piece;
    mapping->access = false;
    mapping->segment = false;
    table->live++;
    sim->pieces[piece].maps++;
    simmem_cells_set(sim, addr, bytes, *slot);
    return WEIR_OK;
}

static void simmem_note(weir_sim *sim, const char *verb, const weir_sim_mapping *mapping)
{
    weir_sim_note note = {
        verb, mapping->addr, mapping->bytes, 0, 0, 0, weir_sim_piece_name(sim, mapping->piece), 0};
    weir_sim_note_add(sim, &note);
}

static void simmem_mapping_drop(weir_sim *sim, weir_sim_mapping *mapping)
{
    simmem_cells_set(sim, mapping->addr, mapping->bytes, 0);
    if (mapping->used_count) {
        memset(mapping->used, 0, mapping->used_count * sizeof(*mapping->used));
    }
    sim->pieces[mapping->piece].maps--;
    mapping->next_free = sim->mapping_table.free_head;
    sim->mapping_table.free_head = (uint32_t)(mapping - sim->mappings);
    sim->mapping_table.live--;
}

/* The first mapping that begins inside or covers part of the range, or NULL. */
static const weir_sim_mapping *simmem_any_mapping(const weir_sim *sim, weir_addr addr,
                                                  uint64_t bytes)
{
    for (uint64_t offset = 0; offset < bytes; offset += sim->config.granule_bytes) {
        const weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr + offset);
        if (mapping) {
            return mapping;
        }
    }
    return NULL;
}

static weir_status simmem_map_check(weir_sim *sim, weir_addr addr, uint64_t bytes,
                                    weir_handle handle)
{
    const weir_sim_piece *piece = simmem_piece_of(sim, handle);
    const weir_sim_range *range = simmem_range_of(sim, addr, bytes);
    const char *why = NULL;
    if (simmem_bad_range(sim, addr, bytes)) {
        why = "not whole granules";
    } else if (!piece) {
        why = "no such handle";
    } else if (piece->bytes != bytes) {
        why = "a handle is mapped whole or not at all";
    } else if (!range || range->segment) {
        why = "outside every reserved range";
    } else if (simmem_any_mapping(sim, addr, bytes)) {
        why = "over addresses that are mapped already";
    }
    if (!why) {
        return WEIR_OK;
    }
    return weir_sim_breach(sim, addr, bytes,
                           "map of handle 0x%" PRIx64 " at [0x%" PRIx64 ", +%" PRIu64 "): %s",
                           handle, addr, bytes, why);
}

weir_status weir_sim_map(weir_sim *sim, weir_addr addr, uint64_t bytes, weir_handle handle)
{
    weir_status status = simmem_map_check(sim, addr, bytes, handle);
    uint32_t slot = 0;
    if (status == WEIR_OK) {
        status = simmem_mapping_take(sim, addr, bytes, (uint32_t)handle, &slot);
    }
    if (status == WEIR_OK) {
        simmem_range_of(sim, addr, bytes)->mapped_bytes += bytes;
        simmem_note(sim, "map", &sim->mappings[slot]);
    }
    return status;
}

/* Whether the range is made of whole mappings without a gap; else a breach. */
static weir_status simmem_whole_mappings(weir_sim *sim, const char *verb, weir_addr addr,
                                         uint64_t bytes)
{
    const char *why = simmem_bad_range(sim, addr, bytes) ? "not whole granules" : NULL;
    for (uint64_t offset = 0; !why && offset < bytes;) {
        const weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr + offset);
        if (!mapping) {
            why = "part of it is not mapped";
        } else if (mapping->segment) {
            why = "it belongs to a segment";
        } else if (mapping->addr != addr + offset || mapping->bytes > bytes - offset) {
            why = "it covers only a part of a mapping";
        } else {
            offset += mapping->bytes;
        }
    }
    if (!why) {
        return WEIR_OK;
    }
    return weir_sim_breach(sim, addr, bytes, "%s of [0x%" PRIx64 ", +%" PRIu64 "): %s", verb, addr,
                           bytes, why);
}

weir_status weir_sim_set_access(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    weir_status status = simmem_whole_mappings(sim, "set_access", addr, bytes);
    for (uint64_t offset = 0; status == WEIR_OK && offset < bytes;) {
        weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr + offset);
        mapping->access = true;
        offset += mapping->bytes;
        weir_sim_charge(sim, WEIR_SIM_set_access, weir_sim_cost_access(mapping->bytes));
    }
    return status;
}

/* Breach if work through the mapping may not have ended. */
static weir_status simmem_unused(weir_sim *sim, const char *verb, const weir_sim_mapping *mapping)
{
    for (uint32_t lane = 1; lane < mapping->used_count; lane++) {
        if (!weir_sim_finished(sim, lane, mapping->used[lane])) {
            return weir_sim_breach(sim, mapping->addr, mapping->bytes,
                                   "%s of [0x%" PRIx64 ", +%" PRIu64 ") at %" PRIu64
                                   " us: work %" PRIu64 " of stream %" PRIu64
                                   " through it has not ended",
                                   verb, mapping->addr, mapping->bytes, sim->now_us,
                                   mapping->used[lane], sim->lanes[lane].native);
        }
    }
    return WEIR_OK;
}

static weir_status simmem_unmap_check(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    weir_status status = simmem_whole_mappings(sim, "unmap", addr, bytes);
    for (uint64_t offset = 0; status == WEIR_OK && offset < bytes;) {
        const weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr + offset);
        status = simmem_unused(sim, "unmap", mapping);
        offset += mapping->bytes;
    }
    return status;
}

weir_status weir_sim_unmap(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    weir_status status = simmem_unmap_check(sim, addr, bytes);
    if (status != WEIR_OK) {
        return status;
    }
    for (uint64_t offset = 0; offset < bytes;) {
        weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr + offset);
        offset += mapping->bytes;
        weir_sim_charge(sim, WEIR_SIM_unmap, weir_sim_cost_unmap(mapping->bytes));
        simmem_note(sim, "unmap", mapping);
        simmem_range_of(sim, mapping->addr, mapping->bytes)->mapped_bytes -= mapping->bytes;
        simmem_mapping_drop(sim, mapping);
    }
    return WEIR_OK;
}

/* ---------------------------------------------------------------------------------- segments -- */

static weir_status simmem_segment_place(weir_sim *sim, uint64_t bytes, uint32_t piece,
                                        weir_addr *addr)
{
    uint32_t index = 0;
    uint32_t slot = 0;
    weir_status status = simmem_range_take(sim, bytes, &index);
    if (status != WEIR_OK) {
        return status;
    }
    weir_addr base = sim->ranges[index].base;
    status = simmem_mapping_take(sim, base, bytes, piece, &slot);
    if (status != WEIR_OK) {
        simmem_range_drop(sim, &sim->ranges[index]);
        return status;
    }
    sim->mappings[slot].access = true;
    sim->mappings[slot].segment = true;
    sim->ranges[index].mapped_bytes = bytes;
    sim->ranges[index].segment = slot;
    *addr = base;
    return WEIR_OK;
}

weir_status weir_sim_segment_alloc(weir_sim *sim, uint64_t bytes, weir_addr *addr)
{
    uint32_t piece = 0;
    weir_status status = simmem_piece_take(sim, "segment_alloc", bytes, &piece);
    if (status != WEIR_OK) {
        return status;
    }
    status = simmem_segment_place(sim, bytes, piece, addr);
    if (status != WEIR_OK) {
        simmem_piece_drop(sim, piece);
        return status;
    }
    simmem_note(sim, "segment_alloc", weir_sim_mapping_at(sim, *addr));
    return WEIR_OK;
}

weir_status weir_sim_segment_free(weir_sim *sim, weir_addr addr, uint64_t bytes)
{
    weir_sim_range *range = simmem_range_of(sim, addr, bytes);
    if (!range || !range->segment || range->base != addr || range->bytes != bytes) {
        return weir_sim_breach(sim, addr, bytes,
                               "segment_free of [0x%" PRIx64 ", +%" PRIu64 "): not a segment", addr,
                               bytes);
    }
    weir_sim_mapping *mapping = &sim->mappings[range->segment];
    weir_status status = simmem_unused(sim, "segment_free", mapping);
    if (status == WEIR_OK) {
        uint32_t piece = mapping->piece;
        simmem_note(sim, "segment_free", mapping);
        simmem_mapping_drop(sim, mapping);
        simmem_piece_drop(sim, piece);
        simmem_range_drop(sim, range);
    }
    return status;
}

/* ------------------------------------------------------------------------------------- end -- */

static void simmem_radix_free(weir_sim *sim)
{
    for (uint32_t i = 0; i < WEIR_SIM_RADIX; i++) {
        for (uint32_t j = 0; sim->radix[i] && j < WEIR_SIM_RADIX; j++) {
            free(sim->radix[i]->leaf[j]);
        }
        free(sim->radix[i]);
    }
}

void weir_sim_memory_free(weir_sim *sim)
{
    for (uint32_t i = 1; i < sim->mapping_table.count; i++) {
        free(sim->mappings[i].used);
    }
    simmem_radix_free(sim);
    free(sim->mappings);
    free(sim->pieces);
    free(sim->ranges);
}
