/* SPDX-License-Identifier: MIT */
/*
 * Areas: which addresses have memory, of what kind, and which devices may touch it.
 *
 * Invariants  Sorted by address, never overlapping.
 * Cost        O(log n) to find, O(n) to add and remove.
 */
#include "fake_internal.h"

#include <string.h>

/* The first that does not end at or before `addr`. */
static size_t fakearea_first(const fake_state *state, uint64_t addr)
{
    size_t low = 0;
    size_t high = state->area_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->areas[middle].addr + state->areas[middle].bytes <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void weir_fake_area_add(fake_state *state, fake_area area)
{
    size_t at = fakearea_first(state, area.addr);
    state->areas = weir_fake_room(state->areas, state->area_count, &state->area_room, sizeof(area));
    memmove(&state->areas[at + 1], &state->areas[at], (state->area_count - at) * sizeof(area));
    state->areas[at] = area;
    state->area_count++;
}

fake_area *weir_fake_area_holding(fake_state *state, uint64_t addr)
{
    size_t at = fakearea_first(state, addr);
    return at < state->area_count && state->areas[at].addr <= addr ? &state->areas[at] : NULL;
}

fake_area *weir_fake_area_at(fake_state *state, uint64_t addr)
{
    fake_area *area = weir_fake_area_holding(state, addr);
    return area && area->addr == addr ? area : NULL;
}

void weir_fake_area_remove(fake_state *state, fake_area *area)
{
    size_t at = (size_t)(area - state->areas);
    state->area_count--;
    memmove(area, area + 1, (state->area_count - at) * sizeof(*area));
}

size_t weir_fake_area_whole(fake_state *state, uint64_t addr, uint64_t bytes)
{
    size_t at = fakearea_first(state, addr);
    uint64_t end = addr + bytes;
    size_t count = 0;
    while (addr < end && at + count < state->area_count) {
        const fake_area *area = &state->areas[at + count];
        if (area->kind != FAKE_MAPPED || area->addr != addr || area->bytes > end - addr) {
            return 0;
        }
        addr += area->bytes;
        count++;
    }
    return addr == end ? count : 0;
}

/* One area under a part of the range. */
static const char *fakearea_forbids(const fake_area *area, int device)
{
    if ((area->access & 1u << device) == 0) {
        return "memory to which the device has no access";
    }
    if (area->kind == FAKE_POOLED && !area->ready) {
        return "memory of a pool before its allocation in stream order";
    }
    return NULL;
}

const char *weir_fake_area_wrong(fake_state *state, fake_range range, int device)
{
    uint64_t end = range.addr + range.bytes;
    for (uint64_t addr = range.addr; addr < end;) {
        const fake_area *area = weir_fake_area_holding(state, addr);
        const char *wrong = area ? fakearea_forbids(area, device) : "addresses without memory";
        if (wrong) {
            return wrong;
        }
        addr = area->addr + area->bytes;
    }
    return NULL;
}
