/* SPDX-License-Identifier: MIT */
/*
 * The summary. Rows, units and widths are those of PyTorch's, so that people and scripts find what
 * they know. Small means below 1 MiB as asked. A dash stands where Weir has nothing to say: it has
 * one arena, so reserved memory is neither small nor large, and what takes a walk is known only for
 * the end of the trace.
 */
#include "summary.h"

#include <inttypes.h>
#include <stdlib.h>

#include "occupancy.h"

#define SUMMARY_SMALL_BYTES (UINT64_C(1) << 20)
#define SUMMARY_UNKNOWN UINT64_MAX

enum { SUMMARY_SMALL_CLASSES = 11 }; /* size classes that end below 1 MiB: 2^(10 + 9) and less */

typedef enum summary_pool { SUMMARY_ALL, SUMMARY_LARGE, SUMMARY_SMALL, SUMMARY_POOLS } summary_pool;
typedef enum summary_column {
    SUMMARY_CURRENT,
    SUMMARY_PEAK,
    SUMMARY_TOTAL,
    SUMMARY_FREED,
    SUMMARY_COLUMNS
} summary_column;

typedef struct summary_group {
    weir_amount pool[SUMMARY_POOLS]; /* any field may be SUMMARY_UNKNOWN */
} summary_group;

typedef struct summary_watch {
    const weir_trace *trace;
    weir_pool *pool;
    uint64_t *occupied; /* by slot: bytes of the live block */
    summary_group requested, allocated, count;
    weir_amount active;
    weir_stats stats; /* at the end, as is */
    weir_occupancy occupancy;
    weir_fault fault;
} summary_watch;

/* ---------------------------------------------------------------------------------- watching -- */

static void summary_add(weir_amount *amount, uint64_t value)
{
    amount->current += value;
    amount->total += value;
    if (amount->current > amount->peak) amount->peak = amount->current;
}

static summary_pool summary_pool_of(uint64_t asked)
{
    return asked < SUMMARY_SMALL_BYTES ? SUMMARY_SMALL : SUMMARY_LARGE;
}

static uint64_t summary_occupied(summary_watch *watch, weir_addr addr)
{
    weir_block block;

    if (weir_block_find(watch->pool, addr, &block) == WEIR_OK) return block.bytes;
    (void)weir_fault_set(&watch->fault, "the pool does not know its block at %#" PRIx64, addr);
    return 0;
}

static void summary_allocated(void *self, uint32_t index, weir_status status, weir_addr addr)
{
    summary_watch *watch = self;
    uint64_t asked = watch->trace->ops[index].bytes, bytes;
    const summary_pool pools[2] = {SUMMARY_ALL, summary_pool_of(asked)};

    if (status != WEIR_OK) return;
    bytes = summary_occupied(watch, addr);
    watch->occupied[watch->trace->ops[index].slot] = bytes;
    for (int i = 0; i < 2; i++) {
        summary_add(&watch->requested.pool[pools[i]], asked);
        summary_add(&watch->allocated.pool[pools[i]], bytes);
        summary_add(&watch->count.pool[pools[i]], 1);
    }
}

static void summary_freeing(void *self, uint32_t index, weir_addr addr)
{
    summary_watch *watch = self;
    uint64_t asked = watch->trace->ops[index].bytes;
    uint64_t bytes = watch->occupied[watch->trace->ops[index].slot];
    const summary_pool pools[2] = {SUMMARY_ALL, summary_pool_of(asked)};

    (void)addr;
    for (int i = 0; i < 2; i++) {
        watch->requested.pool[pools[i]].current -= asked;
        watch->allocated.pool[pools[i]].current -= bytes;
        watch->count.pool[pools[i]].current--;
    }
}

/* A free never raises what is active, and a look after one would change the layout (verify.c). */
static void summary_played(void *self, uint32_t index)
{
    summary_watch *watch = self;
    bool last = index + 1 == watch->trace->count;

    if (!last && watch->trace->ops[index].kind != WEIR_TRACE_ALLOC) return;
    watch->stats.size = sizeof watch->stats;
    weir_stats_read(watch->pool, &watch->stats);
    watch->active.current = watch->stats.allocated.current + watch->stats.pending.current;
    if (watch->active.current > watch->active.peak) watch->active.peak = watch->active.current;
    watch->active.total = watch->stats.allocated.total;
    if (last && !weir_occupancy_read(watch->pool, &watch->occupancy))
        (void)weir_fault_set(&watch->fault, "not enough memory for the summary");
}

/* ---------------------------------------------------------------------------------- printing -- */

/* The unit is chosen by `by`, so that a group's rows share it. */
static void summary_cell_bytes(FILE *out, uint64_t bytes, uint64_t by)
{
    static const char *const units[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;

    for (; unit < 5 && by >= UINT64_C(768) * 1024; unit++) {
        bytes /= 1024;
        by /= 1024;
    }
    (void)fprintf(out, " %6" PRIu64 " %s |", bytes, units[unit]);
}

static void summary_cell_count(FILE *out, uint64_t count, uint64_t by)
{
    static const char units[] = {' ', 'K', 'M'};
    size_t unit = 0;

    for (; unit < 2 && by >= UINT64_C(750) * 1000; unit++) {
        count /= 1000;
        by /= 1000;
    }
    (void)fprintf(out, " %7" PRIu64 " %c  |", count, units[unit]);
}

static uint64_t summary_value(const weir_amount *amount, int column)
{
    switch (column) {
    case SUMMARY_CURRENT:
        return amount->current;
    case SUMMARY_PEAK:
        return amount->peak;
    case SUMMARY_TOTAL:
        return amount->total;
    default:
        return amount->total == SUMMARY_UNKNOWN ? SUMMARY_UNKNOWN : amount->total - amount->current;
    }
}

static void summary_rule(FILE *out, char mark)
{
    (void)fputc('|', out);
    for (int i = 0; i < 75; i++) (void)fputc(mark, out);
    (void)fputs("|\n", out);
}

static void summary_row(FILE *out, const char *name, bool bytes, const summary_group *group,
                        summary_pool pool)
{
    (void)fprintf(out, "| %-21s |", name);
    for (int column = 0; column < SUMMARY_COLUMNS; column++) {
        uint64_t value = summary_value(&group->pool[pool], column);
        uint64_t by = summary_value(&group->pool[SUMMARY_ALL], column);
        if (value == SUMMARY_UNKNOWN) (void)fprintf(out, " %10s |", "-");
        else if (bytes) summary_cell_bytes(out, value, by);
        else summary_cell_count(out, value, by);
    }
    (void)fputc('\n', out);
}

static void summary_group_print(FILE *out, const char *name, bool bytes, const summary_group *group)
{
    summary_rule(out, '-');
    summary_row(out, name, bytes, group, SUMMARY_ALL);
    summary_row(out, "      from large pool", bytes, group, SUMMARY_LARGE);
    summary_row(out, "      from small pool", bytes, group, SUMMARY_SMALL);
}

/* A group of which only the whole is known. */
static summary_group summary_whole(weir_amount all)
{
    const weir_amount none = {SUMMARY_UNKNOWN, SUMMARY_UNKNOWN, SUMMARY_UNKNOWN};
    summary_group group = {{all, none, none}};
    return group;
}

/* As above, and known only for now. */
static summary_group summary_now(uint64_t current)
{
    weir_amount amount = {current, SUMMARY_UNKNOWN, SUMMARY_UNKNOWN};
    return summary_whole(amount);
}

/* Live blocks by the pool's own size classes; a peak of a sum is not the sum of peaks, so that of
 * the watch stands for it. */
static summary_group summary_blocks(const summary_watch *watch)
{
    summary_group group = watch->count;

    group.pool[SUMMARY_ALL] = watch->stats.blocks;
    for (int pool = SUMMARY_LARGE; pool < SUMMARY_POOLS; pool++)
        group.pool[pool].current = group.pool[pool].total = 0;
    for (int i = 0; i < WEIR_SIZE_CLASSES; i++) {
        weir_amount *pool = &group.pool[i < SUMMARY_SMALL_CLASSES ? SUMMARY_SMALL : SUMMARY_LARGE];
        pool->current += watch->stats.by_class[i].current;
        pool->total += watch->stats.by_class[i].total;
    }
    return group;
}

static void summary_groups(FILE *out, const summary_watch *watch)
{
    const weir_occupancy *occupancy = &watch->occupancy;
    const summary_group active = summary_whole(watch->active);
    const summary_group reserved = summary_whole(watch->stats.reserved);
    const summary_group segments = summary_whole(watch->stats.segments);
    const summary_group stuck = summary_now(occupancy->stranded_bytes);
    const summary_group stuck_runs = summary_now(occupancy->stranded_runs);
    const summary_group used = summary_now(occupancy->live_blocks + occupancy->pending_blocks);
    const summary_group blocks = summary_blocks(watch);
    const summary_group unknown = summary_now(SUMMARY_UNKNOWN);

    summary_group_print(out, "Allocated memory", true, &watch->allocated);
    summary_group_print(out, "Active memory", true, &active);
    summary_group_print(out, "Requested memory", true, &watch->requested);
    summary_group_print(out, "GPU reserved memory", true, &reserved);
    summary_group_print(out, "Non-releasable memory", true, &stuck);
    summary_group_print(out, "Allocations", false, &blocks);
    summary_group_print(out, "Active allocs", false, &used);
    summary_group_print(out, "GPU reserved segments", false, &segments);
    summary_group_print(out, "Non-releasable allocs", false, &stuck_runs);
    summary_rule(out, '-');
    summary_row(out, "Oversize allocations", false, &unknown, SUMMARY_ALL);
    summary_rule(out, '-');
    summary_row(out, "Oversize GPU segments", false, &unknown, SUMMARY_ALL);
}

static void summary_all(FILE *out, const summary_watch *watch)
{
    summary_rule(out, '=');
    (void)fprintf(out, "| %16s Weir memory summary, device ID %-25d |\n", "", 0);
    summary_rule(out, '-');
    (void)fprintf(out, "|  %9s OOMs: %-17" PRIu64 " | %6s retries: %-19" PRIu64 "  |\n", "",
                  watch->stats.fails, "", watch->stats.retries);
    summary_rule(out, '=');
    (void)fprintf(out, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed "
                       " |\n");
    summary_groups(out, watch);
    summary_rule(out, '=');
}

bool weir_summary_print(FILE *out, const weir_pass_setup *setup, weir_fault *fault)
{
    summary_watch watch = {.trace = setup->trace};
    weir_player_hooks hooks = {&watch, summary_allocated, summary_freeing, summary_played};
    weir_pass_setup pass = *setup;
    weir_pass_result result;
    bool run;

    pass.hooks = &hooks;
    pass.pool = &watch.pool;
    watch.occupied = calloc(setup->trace->slots, sizeof *watch.occupied);
    if (watch.occupied == NULL) return weir_fault_set(fault, "not enough memory for the summary");
    run = weir_pass_run(&pass, &result, fault);
    free(watch.occupied);
    if (!run) return false;
    if (watch.fault.text[0] != '\0') return weir_fault_set(fault, "%s", watch.fault.text);
    summary_all(out, &watch);
    return true;
}
