/* SPDX-License-Identifier: MIT */
/* The second reader: see trace_second.h. */
#include "trace_second.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* Digits only, as a number of 64 bits. */
static bool second_number(const char *at, const char *end, unsigned base, uint64_t *value)
{
    static const char digits[] = "0123456789abcdef";
    *value = 0;
    if (at == end) return false;
    for (; at < end; at++) {
        char lower = *at >= 'A' && *at <= 'F' ? (char)(*at + 32) : *at;
        const char *digit = lower == '\0' ? NULL : strchr(digits, lower);
        if (digit == NULL || digit >= digits + base) return false;
        uint64_t unit = (uint64_t)(digit - digits);
        if (__builtin_mul_overflow(*value, (uint64_t)base, value)) return false;
        if (__builtin_add_overflow(*value, unit, value)) return false;
    }
    return true;
}

static bool second_stream(const char *at, const char *end, uint64_t *value)
{
    bool hex = end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    return second_number(hex ? at + 2 : at, end, hex ? 16 : 10, value);
}

/* Five fields between commas. */
static bool second_split(const char *at, const char *end, const char *from[5], const char *to[5])
{
    for (uint32_t i = 0; i < 5; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        if ((comma == NULL) != (i == 4)) return false;
        from[i] = at;
        to[i] = i == 4 ? end : comma;
        at = to[i] + 1;
    }
    return true;
}

/* The last allocation of this id; SECOND_OPS: none. */
static uint32_t second_find(const trace_second *of, uint64_t id)
{
    for (uint32_t i = of->count; i-- > 0;)
        if (of->op[i].kind == 'a' && of->op[i].id == id) return i;
    return SECOND_OPS;
}

/* Whether this kind of line came for a block. */
static bool second_had(const trace_second *of, uint32_t block, char kind)
{
    for (uint32_t i = block; i < of->count; i++)
        if (of->op[i].kind == kind && of->op[i].block == block) return true;
    return false;
}

static bool second_fits(const trace_second *of, second_op *op)
{
    uint32_t block = second_find(of, op->id);
    bool known = block != SECOND_OPS, freed = known && second_had(of, block, 'f');
    if (of->count != 0 && op->time_us < of->op[of->count - 1].time_us) return false;
    op->block = op->kind == 'a' ? of->count : block;
    if (op->kind == 'a') return !known || freed;
    if (!known || op->bytes != of->op[block].bytes || op->stream != of->op[block].stream)
        return false;
    if (op->kind == 'f') return !freed;
    return freed && !second_had(of, block, 'c');
}

static bool second_line(trace_second *of, const char *at, const char *end)
{
    const char *from[5], *to[5];
    second_op op = {.kind = 0};
    if (at < end && *at == '#') return true;
    if (!second_split(at, end, from, to) || to[0] - from[0] != 1) return false;
    op.kind = *from[0];
    if (op.kind == '\0' || strchr("afc", op.kind) == NULL) return false;
    if (!second_number(from[1], to[1], 10, &op.id) ||
        !second_number(from[2], to[2], 10, &op.bytes) ||
        !second_stream(from[3], to[3], &op.stream) ||
        !second_number(from[4], to[4], 10, &op.time_us) || !second_fits(of, &op))
        return false;
    FUZZ_SAY(of->count < SECOND_OPS, "more operations than an input can hold");
    of->op[of->count++] = op;
    return true;
}

/* The most bytes that live at once. */
static void second_peak(trace_second *of)
{
    __extension__ unsigned __int128 live = 0, peak = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->op[i].kind == 'a') live += of->op[i].bytes;
        if (of->op[i].kind == 'f') live -= of->op[i].bytes;
        if (live > peak) peak = live;
    }
    of->peak = peak > UINT64_MAX ? UINT64_MAX : (uint64_t)peak;
}

void weir_second_read(trace_second *of, const uint8_t *text, size_t size)
{
    const char *at = (const char *)text, *end = at + size;
    of->count = 0;
    of->line = 0;
    of->good = false;
    while (at < end) {
        const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
        of->line++;
        if (stop == NULL) return;
        at = stop + 1;
        if (stop > line && stop[-1] == '\r') stop--;
        if (!second_line(of, line, stop)) return;
    }
    of->good = of->count != 0;
    second_peak(of);
}

/* ---------------------------------------------------------------------------------- compare -- */

/* Streams are numbered in the order in which they appear. */
static uint32_t second_stream_number(const trace_second *of, uint32_t index)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i <= index; i++) {
        uint32_t first = 0;
        while (of->op[first].stream != of->op[i].stream) first++;
        if (of->op[i].stream == of->op[index].stream) return number;
        number += first == i;
    }
    return number;
}

static void second_compare_op(const trace_second *of, const weir_trace *trace, uint32_t i)
{
    const second_op *op = &of->op[i];
    const weir_trace_op *got = &trace->ops[i];
    static const char kinds[] = "afc";
    FUZZ_SAY(got->kind < 3 && kinds[got->kind] == op->kind, "op %u is of another kind", i);
    FUZZ_SAY(got->bytes == op->bytes && got->time_us == op->time_us, "op %u", i);
    FUZZ_SAY(got->stream == second_stream_number(of, i), "op %u is on another stream", i);
    FUZZ_SAY(got->slot == trace->ops[op->block].slot, "op %u is in another slot", i);
    if (op->kind != 'f') return;
    bool side = second_had(of, op->block, 'c');
    FUZZ_SAY(got->side == side, "op %u: the use on another stream", i);
}

void weir_second_compare(const trace_second *of, const weir_trace *trace)
{
    FUZZ_CHECK(trace->count == of->count);
    FUZZ_CHECK(trace->peak_requested_bytes == of->peak);
    for (uint32_t i = 0; i < of->count; i++) second_compare_op(of, trace, i);
    weir_second_sound(trace);
}

/* No slot is used by two blocks at once, and none is named that the trace does not count. */
void weir_second_sound(const weir_trace *trace)
{
    bool *used = calloc((size_t)trace->slots + 1, sizeof *used);
    FUZZ_CHECK(used != NULL && trace->count != 0 && trace->name != NULL);
    for (uint32_t i = 0; i < trace->count; i++) {
        const weir_trace_op *op = &trace->ops[i];
        FUZZ_CHECK(op->slot < trace->slots && op->stream < trace->streams);
        FUZZ_SAY(used[op->slot] == (op->kind != WEIR_TRACE_ALLOC), "slot %u at op %u", op->slot, i);
        used[op->slot] = op->kind == WEIR_TRACE_ALLOC || (op->kind == WEIR_TRACE_FREE && op->side);
        if (i != 0) FUZZ_CHECK(op->time_us >= trace->ops[i - 1].time_us);
    }
    free(used);
}
