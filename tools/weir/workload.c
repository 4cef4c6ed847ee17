/* SPDX-License-Identifier: MIT */
/*
 * The writer of synthetic traces.
 *
 * Invariant  Lines are in the order of time: before a line is written, so are all late ones whose
 *            time has come. `late` is sorted, the next one last. O(late) an insertion, a few dozen.
 */
#include "workload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORKLOAD_PACE_US_MIN = 4, WORKLOAD_PACE_US_MAX = 40 };

/* splitmix64 */
static uint64_t workload_next(weir_workload *load)
{
    uint64_t mix = load->random += UINT64_C(0x9e3779b97f4a7c15);

    mix = (mix ^ (mix >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mix = (mix ^ (mix >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mix ^ (mix >> 31);
}

uint64_t weir_workload_pick(weir_workload *load, uint64_t low, uint64_t high)
{
    return low + workload_next(load) % (high - low + 1);
}

uint64_t weir_workload_size(weir_workload *load, uint64_t low_bytes, uint64_t high_bytes)
{
    uint64_t doublings = 0, base, bytes;

    while (low_bytes << (doublings + 1) <= high_bytes) doublings++;
    base = low_bytes << weir_workload_pick(load, 0, doublings);
    bytes = weir_workload_pick(load, base, base * 2 - 1);
    bytes = bytes < high_bytes ? bytes : high_bytes;
    return bytes > 4096 ? bytes / 64 * 64 : bytes;
}

static void workload_line(weir_workload *load, char op, const weir_workload_block *block,
                          uint64_t time_us)
{
    if (fprintf(load->out, "%c,%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 "\n", op, block->id,
                block->bytes, block->stream, time_us) < 0)
        (void)weir_fault_set(&load->fault, "the trace cannot be written");
    load->lines++;
}

static void workload_late_out(weir_workload *load, uint64_t time_us)
{
    while (load->late_count > 0 && load->late[load->late_count - 1].time_us <= time_us) {
        const weir_workload_late *late = &load->late[--load->late_count];
        workload_line(load, 'c', &late->block, late->time_us);
    }
}

static bool workload_late_room(weir_workload *load)
{
    size_t room = load->late_room == 0 ? 64 : load->late_room * 2;
    weir_workload_late *late;

    if (load->late_count < load->late_room) return true;
    late = realloc(load->late, room * sizeof *late);
    if (late == NULL) return weir_fault_set(&load->fault, "not enough memory to write the trace");
    load->late = late;
    load->late_room = room;
    return true;
}

static void workload_late_put(weir_workload *load, const weir_workload_block *block,
                              uint64_t time_us)
{
    size_t at = load->late_count;

    if (!workload_late_room(load)) return;
    for (; at > 0 && load->late[at - 1].time_us <= time_us; at--)
        load->late[at] = load->late[at - 1];
    load->late[at].block = *block;
    load->late[at].time_us = time_us;
    load->late_count++;
}

void weir_workload_pass(weir_workload *load, uint64_t us)
{
    load->time_us += us;
    workload_late_out(load, load->time_us);
}

static void workload_pace(weir_workload *load)
{
    weir_workload_pass(load, weir_workload_pick(load, WORKLOAD_PACE_US_MIN, WORKLOAD_PACE_US_MAX));
}

weir_workload_block weir_workload_alloc(weir_workload *load, uint64_t bytes, uint32_t stream)
{
    weir_workload_block block = {++load->last_id, bytes, stream};

    workload_pace(load);
    workload_line(load, 'a', &block, load->time_us);
    return block;
}

void weir_workload_free(weir_workload *load, weir_workload_block *block)
{
    if (block->id == 0) return;
    workload_pace(load);
    workload_line(load, 'f', block, load->time_us);
    block->id = 0;
}

void weir_workload_free_late(weir_workload *load, weir_workload_block *block, uint64_t more_us)
{
    weir_workload_block late = *block;

    if (block->id == 0) return;
    weir_workload_free(load, block);
    workload_late_put(load, &late, load->time_us + more_us);
}

void weir_workload_init(weir_workload *load, FILE *out, const char *kind, uint64_t seed,
                        uint64_t lines_wanted)
{
    memset(load, 0, sizeof *load);
    load->out = out;
    load->random = seed;
    load->lines_wanted = lines_wanted;
    if (fprintf(out,
                "# weir generate %s --seed %" PRIu64 " --ops %" PRIu64
                "\n# op,id,bytes,stream,time_us\n",
                kind, seed, lines_wanted) < 0)
        (void)weir_fault_set(&load->fault, "the trace cannot be written");
}

bool weir_workload_fini(weir_workload *load)
{
    workload_late_out(load, UINT64_MAX);
    free(load->late);
    load->late = NULL;
    return load->fault.text[0] == '\0';
}

bool weir_workload_full(const weir_workload *load)
{
    return load->lines >= load->lines_wanted || load->fault.text[0] != '\0';
}
