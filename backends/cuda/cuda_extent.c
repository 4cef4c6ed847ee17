/* SPDX-License-Identifier: MIT */
/*
 * Extents: a sorted array of address ranges. O(log n) to find, O(n) to add and drop, which beside a
 * driver call of tens of microseconds is little: n is the number of handles, thousands at most.
 */
#include "cuda_internal.h"

#include <stdlib.h>
#include <string.h>

#define EXTENT_ROOM_FIRST 64u

bool weir_cuda_extent_room(weir_cuda_extents *extents)
{
    if (extents->count < extents->room) {
        return true;
    }
    size_t room = extents->room ? extents->room * 2 : EXTENT_ROOM_FIRST;
    weir_cuda_extent *at = (weir_cuda_extent *)realloc(extents->at, room * sizeof(*at));
    if (!at) {
        return false;
    }
    extents->at = at;
    extents->room = room;
    return true;
}

/* The first that does not lie wholly before `addr`. */
static size_t extent_first(const weir_cuda_extents *extents, weir_addr addr)
{
    size_t low = 0;
    size_t high = extents->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (extents->at[middle].addr + extents->at[middle].bytes <= addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void weir_cuda_extent_add(weir_cuda_extents *extents, weir_cuda_extent extent)
{
    size_t at = extent_first(extents, extent.addr);
    memmove(&extents->at[at + 1], &extents->at[at], (extents->count - at) * sizeof(extent));
    extents->at[at] = extent;
    extents->count++;
}

size_t weir_cuda_extent_drop(weir_cuda_extents *extents, weir_addr addr, uint64_t bytes)
{
    size_t first = extent_first(extents, addr);
    size_t end = first;
    while (end < extents->count && extents->at[end].addr < addr + bytes) {
        end++;
    }
    memmove(&extents->at[first], &extents->at[end],
            (extents->count - end) * sizeof(extents->at[0]));
    extents->count -= end - first;
    return end - first;
}

const weir_cuda_extent *weir_cuda_extent_find(const weir_cuda_extents *extents, weir_addr addr)
{
    size_t at = extent_first(extents, addr);
    if (at == extents->count || extents->at[at].addr > addr) {
        return NULL;
    }
    return &extents->at[at];
}
