/* SPDX-License-Identifier: MIT */
/*
 * Writes seed inputs out of recorded traces: stretches of real runs as operations on a pool, on the
 * pages below it and on a range, and as text for the reader of traces.
 *
 *     seed_make TARGET FOLDER TRACE...       TARGET: pool, pages, range or trace
 *
 * Sizes keep their order: the longest of a trace becomes the longest that the target knows.
 */
#include "fuzz.h"
#include "trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED_OPS = 56, SEED_LIVE = 96, SEED_EACH = 6, SEED_BYTES = 4096 };

typedef struct seed {
    const char *target, *folder;
    uint8_t at[SEED_BYTES];
    size_t size;
    uint32_t live[SEED_LIVE]; /* slots, in the order that the target keeps blocks in */
    uint32_t count;
} seed;

static void seed_put(seed *of, const uint8_t *bytes, size_t count)
{
    if (count > sizeof of->at - of->size) return;
    memcpy(of->at + of->size, bytes, count);
    of->size += count;
}

/* A size as 16 steps to a power of two, so that 2^34 is the largest. */
static uint8_t seed_size(uint64_t bytes)
{
    uint32_t power = 0;
    bytes |= 1u << 19;
    while (bytes >> (power + 1) != 0) power++;
    uint32_t step = (uint32_t)(bytes >> (power - 4)) & 15;
    return (uint8_t)((power < 34 ? power - 19 : 15) << 4 | step);
}

/* The byte that picks the block of a slot; false: it is none of those that live here. */
static bool seed_which(const seed *of, uint32_t slot, uint8_t *which)
{
    for (uint32_t i = 0; i < of->count; i++)
        if (of->live[i] == slot) {
            *which = (uint8_t)((i * 256 + of->count - 1) / of->count);
            return true;
        }
    return false;
}

static void seed_born(seed *of, const weir_trace_op *op)
{
    uint8_t size = seed_size(op->bytes), stream = (uint8_t)(op->stream << 6);
    const uint8_t pool[] = {62, stream, size, 0, 0}, pages[] = {45, 0, size, 0, 0, 0};
    const uint8_t range[] = {80, stream, size, 0};
    if (of->count == SEED_LIVE) return;
    if (strcmp(of->target, "pool") == 0) seed_put(of, pool, sizeof pool);
    else if (strcmp(of->target, "pages") == 0) seed_put(of, pages, sizeof pages);
    else seed_put(of, range, sizeof range);
    of->live[of->count++] = op->slot;
}

static void seed_freed(seed *of, const weir_trace_op *op)
{
    uint8_t which, stream = (uint8_t)(op->stream << 6);
    if (!seed_which(of, op->slot, &which)) return;
    const uint8_t use[] = {148, which, (uint8_t)(stream + 64), 0, 0};
    const uint8_t pool[] = {100, which, stream, 0, 0}, pages[] = {125, which, 0, 0, 0, 0};
    const uint8_t range[] = {140, which, 9, 0};
    if (strcmp(of->target, "pool") == 0) {
        if (op->side) seed_put(of, use, sizeof use);
        seed_put(of, pool, sizeof pool);
    } else if (strcmp(of->target, "pages") == 0) {
        seed_put(of, pages, sizeof pages);
    } else {
        seed_put(of, range, sizeof range);
    }
    uint32_t index = 0;
    while (of->live[index] != op->slot) index++;
    of->live[index] = of->live[--of->count];
}

/* Lines, each block's first to last, so that the stretch is a trace by itself. */
static void seed_line(seed *of, const weir_trace_op *op)
{
    char line[128];
    uint8_t which;
    bool known = seed_which(of, op->slot, &which), alloc = op->kind == WEIR_TRACE_ALLOC;
    if (alloc == known || (alloc && of->count == SEED_LIVE)) return;
    int length = snprintf(line, sizeof line, "%c,%" PRIu32 ",%" PRIu64 ",%u,%" PRIu64 "\n",
                          "afc"[op->kind], op -> slot, op -> bytes, op -> stream, op -> time_us);
    seed_put(of, (const uint8_t *)line, (size_t)length);
    if (alloc) of->live[of->count++] = op->slot;
    bool last = op->kind == WEIR_TRACE_DONE || (op->kind == WEIR_TRACE_FREE && !op->side);
    for (uint32_t i = 0; last && i < of->count; i++)
        if (of->live[i] == op->slot) of->live[i] = of->live[--of->count];
}

static void seed_write(const seed *of, const weir_trace *trace, uint32_t number)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s-%" PRIu32, of->folder, trace->name, number);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(of->at, 1, of->size, file) != of->size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void seed_stretch(seed *of, const weir_trace *trace, uint32_t number)
{
    static const uint8_t heads[SEED_EACH][8] = {
        {0, 0x27, 0, 0, 0x40, 0, 0, 0},        {12, 0x26, 0, 0, 0x45, 0, 0x30, 1},
        {13, 0x22, 0x30, 0, 0x42, 0, 0x1F, 2}, {4, 0x24, 0x0C, 0, 0x4B, 7, 0, 3},
        {8, 0x20, 3, 7, 0x43, 0, 0x21, 0x40},  {15, 0x23, 0, 0x18, 0x44, 0x18, 0x42, 0x80}};
    bool text = strcmp(of->target, "trace") == 0, range = strcmp(of->target, "range") == 0;
    const uint8_t how[] = {(uint8_t)(number * 0x28), 0x80, (uint8_t)(number << 6)};
    const uint8_t sets[] = {(uint8_t)(number * 40), 255};
    of->size = of->count = 0;
    if (text) seed_put(of, how, sizeof how);
    else if (range) seed_put(of, sets, sizeof sets);
    else seed_put(of, heads[number], sizeof heads[number]);
    for (uint32_t i = 0; i < SEED_OPS; i++) {
        uint64_t at = (uint64_t)trace->count * number / SEED_EACH + i;
        if (at >= trace->count) break;
        const weir_trace_op *op = &trace->ops[at];
        if (text) seed_line(of, op);
        else if (op->kind == WEIR_TRACE_ALLOC) seed_born(of, op);
        else if (op->kind == WEIR_TRACE_FREE) seed_freed(of, op);
    }
    seed_write(of, trace, number);
}

int main(int count, char **words)
{
    static seed of;
    if (count < 4) {
        fprintf(stderr, "seed_make TARGET FOLDER TRACE...\n");
        return 2;
    }
    of.target = words[1];
    of.folder = words[2];
    for (int i = 3; i < count; i++) {
        weir_trace trace;
        weir_fault fault = {.text = ""};
        if (!weir_trace_read(words[i], &trace, &fault)) {
            weir_fault_print(&fault);
            return 1;
        }
        for (uint32_t number = 0; number < SEED_EACH; number++) seed_stretch(&of, &trace, number);
        weir_trace_free(&trace);
    }
    return 0;
}
