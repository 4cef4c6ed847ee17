/* SPDX-License-Identifier: MIT */
/*
 * What driver calls cost on the card that docs/backend.md names: medians, in nanoseconds.
 *
 * Between two rows of a table the cost is linear in bytes. Below the first row it is the first
 * row's. Above the last row calls on physical memory go on along the last slope; calls on address
 * space cost what the last row says. Integers only; O(rows).
 */
#include "sim_internal.h"

#define SIMCOST_MIB UINT64_C(1048576)

enum simcost_column {
    SIMCOST_CREATE,
    SIMCOST_MAP,
    SIMCOST_ACCESS,
    SIMCOST_UNMAP,
    SIMCOST_RELEASE,
    SIMCOST_RESERVE,
    SIMCOST_UNRESERVE,
    SIMCOST_COLUMNS
};

typedef struct simcost_row {
    uint64_t bytes;
    uint64_t cost_ns[SIMCOST_COLUMNS];
} simcost_row;

/* One physical handle of this size: create, map, set_access, unmap, release, va_reserve,
 * va_free. */
static const simcost_row simcost_handle[] = {
    {2 * SIMCOST_MIB, {6900, 600, 18700, 13100, 8800, 500, 400}},
    {16 * SIMCOST_MIB, {7000, 500, 18900, 13100, 14900, 500, 400}},
    {64 * SIMCOST_MIB, {7600, 600, 32900, 20500, 24300, 1800, 1500}},
    {256 * SIMCOST_MIB, {9400, 600, 34300, 20300, 70000, 1700, 1500}},
    {1024 * SIMCOST_MIB, {16500, 800, 56600, 28700, 262000, 2100, 1900}},
    {4096 * SIMCOST_MIB, {127000, 1100, 133000, 54000, 1038000, 2600, 2500}},
};

/* One segment: taken in the first column, given back in the fifth. */
static const simcost_row simcost_segment[] = {
    {2 * SIMCOST_MIB, {30000, 0, 0, 0, 26000, 0, 0}},
    {64 * SIMCOST_MIB, {50000, 0, 0, 0, 60000, 0, 0}},
    {1024 * SIMCOST_MIB, {75000, 0, 0, 0, 287000, 0, 0}},
};

#define SIMCOST_HANDLE_ROWS (sizeof(simcost_handle) / sizeof(simcost_handle[0]))
#define SIMCOST_SEGMENT_ROWS (sizeof(simcost_segment) / sizeof(simcost_segment[0]))
#define SIMCOST_LAUNCH_NS 3100u
#define SIMCOST_COPY_BYTES_PER_NS 2000u /* 2 TB/s */

/* The value at `bytes` on the line through two rows. Sizes are taken in KiB so that no product of
 * a size and a cost overflows. */
static uint64_t simcost_between(const simcost_row *low, const simcost_row *high,
                                enum simcost_column column, uint64_t bytes)
{
    uint64_t from = low->cost_ns[column];
    uint64_t to = high->cost_ns[column];
    uint64_t way = (bytes - low->bytes) >> 10;
    uint64_t span = (high->bytes - low->bytes) >> 10;
    if (to >= from) {
        return from + (to - from) * way / span;
    }
    uint64_t less = (from - to) * way / span;
    return less < from ? from - less : 0;
}

static uint64_t simcost_of(const simcost_row *rows, size_t count, enum simcost_column column,
                           uint64_t bytes)
{
    if (bytes <= rows[0].bytes) {
        return rows[0].cost_ns[column];
    }
    size_t high = 1;
    while (high + 1 < count && bytes > rows[high].bytes) {
        high++;
    }
    bool beyond = bytes > rows[count - 1].bytes;
    if (beyond && (column == SIMCOST_RESERVE || column == SIMCOST_UNRESERVE)) {
        return rows[count - 1].cost_ns[column];
    }
    return simcost_between(&rows[high - 1], &rows[high], column, bytes);
}

uint64_t weir_sim_cost_create(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_CREATE, bytes);
}

uint64_t weir_sim_cost_release(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_RELEASE, bytes);
}

uint64_t weir_sim_cost_map(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_MAP, bytes);
}

uint64_t weir_sim_cost_access(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_ACCESS, bytes);
}

uint64_t weir_sim_cost_unmap(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_UNMAP, bytes);
}

uint64_t weir_sim_cost_reserve(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_RESERVE, bytes);
}

uint64_t weir_sim_cost_unreserve(uint64_t bytes)
{
    return simcost_of(simcost_handle, SIMCOST_HANDLE_ROWS, SIMCOST_UNRESERVE, bytes);
}

uint64_t weir_sim_cost_segment_alloc(uint64_t bytes)
{
    return simcost_of(simcost_segment, SIMCOST_SEGMENT_ROWS, SIMCOST_CREATE, bytes);
}

uint64_t weir_sim_cost_segment_free(uint64_t bytes)
{
    return simcost_of(simcost_segment, SIMCOST_SEGMENT_ROWS, SIMCOST_RELEASE, bytes);
}

uint64_t weir_sim_cost_copy(uint64_t bytes)
{
    return SIMCOST_LAUNCH_NS + bytes / SIMCOST_COPY_BYTES_PER_NS;
}
