/* SPDX-License-Identifier: MIT */
/*
 * Reads traces, strictly: a line that does not fit ends the reading with its number and the reason.
 *
 * While reading, a slot is the number of a block's allocation in the file, and `blocks` holds what
 * is known of each; trace_pack() then gives slots again after a block's last line, so that a table
 * by slot is as small as the most blocks alive at once.
 */
#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"
#include "idmap.h"
#include "text.h"

typedef enum trace_state { TRACE_LIVE, TRACE_FREED, TRACE_OVER } trace_state;

typedef struct trace_block {
    uint32_t alloc; /* its lines, as op numbers */
    uint32_t free;
    trace_state state;
} trace_block;

typedef struct trace_field {
    const char *at;
    size_t bytes;
} trace_field;

enum { TRACE_FIELDS = 5, TRACE_SHOWN_BYTES = 40 };

typedef struct trace_reader {
    const char *path;
    uint64_t line;
    weir_trace *trace;
    uint32_t room; /* of trace->ops */
    trace_block *blocks;
    uint32_t blocks_count, blocks_room;
    weir_idmap ids, streams;
    weir_fault *fault;
} trace_reader;

/* Sets the sentence with file and line before it. */
static bool trace_fail(trace_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool trace_fail(trace_reader *reader, const char *format, ...)
{
    char reason[256];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    return weir_fault_set(reader->fault, "%s:%" PRIu64 ": %s", reader->path, reader->line, reason);
}

/* ----------------------------------------------------------------------------------- numbers -- */

/* A field as it may be shown: cut to what fits, with a mark for what is not printable ASCII. */
static const char *trace_shown(trace_field field, char text[TRACE_SHOWN_BYTES])
{
    size_t bytes = field.bytes < TRACE_SHOWN_BYTES - 1 ? field.bytes : TRACE_SHOWN_BYTES - 1;

    for (size_t i = 0; i < bytes; i++)
        text[i] = field.at[i] >= ' ' && field.at[i] <= '~' ? field.at[i] : '?';
    text[bytes] = '\0';
    return text;
}

static unsigned trace_digit(char c)
{
    if (c >= '0' && c <= '9') return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f') return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return (unsigned)(c - 'A') + 10;
    return 16;
}

static bool trace_digits(trace_field field, unsigned base, uint64_t *value)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < field.bytes; i++) {
        unsigned digit = trace_digit(field.at[i]);
        if (digit >= base || sum > (UINT64_MAX - digit) / base) return false;
        sum = sum * base + digit;
    }
    *value = sum;
    return field.bytes > 0;
}

/* Decimal, and for streams also 0x and hexadecimal. */
static bool trace_number(trace_reader *reader, trace_field field, const char *what, bool hex,
                         uint64_t *value)
{
    char shown[TRACE_SHOWN_BYTES];
    trace_field digits = field;
    unsigned base = 10;

    if (hex && field.bytes > 2 && field.at[0] == '0' && memchr("xX", field.at[1], 2) != NULL) {
        digits.at += 2;
        digits.bytes -= 2;
        base = 16;
    }
    if (trace_digits(digits, base, value)) return true;
    return trace_fail(reader, "%s '%s' is not a number from 0 to %" PRIu64, what,
                      trace_shown(field, shown), UINT64_MAX);
}

/* -------------------------------------------------------------------------------------- room -- */

/* The array with room for one more, perhaps elsewhere; NULL: refused, and the old one is kept. */
static void *trace_room(trace_reader *reader, void *array, uint32_t count, uint32_t *room,
                        size_t each)
{
    uint64_t more = *room == 0 ? 4096 : (uint64_t)*room * 2;
    void *grown;

    if (count < *room) return array;
    if (more > UINT32_MAX || more > SIZE_MAX / each) {
        (void)trace_fail(reader, "more than %" PRIu32 " lines; split the trace", *room);
        return NULL;
    }
    grown = realloc(array, (size_t)more * each);
    if (grown == NULL) {
        (void)trace_fail(reader, "not enough memory for the trace");
        return NULL;
    }
    *room = (uint32_t)more;
    return grown;
}

static bool trace_append(trace_reader *reader, const weir_trace_op *op)
{
    weir_trace *trace = reader->trace;
    weir_trace_op *ops = trace_room(reader, trace->ops, trace->count, &reader->room, sizeof *ops);

    if (ops == NULL) return false;
    trace->ops = ops;
    ops[trace->count++] = *op;
    return true;
}

static bool trace_stream(trace_reader *reader, trace_field field, uint16_t *stream)
{
    uint64_t number;
    const uint32_t *known;

    if (!trace_number(reader, field, "stream", true, &number)) return false;
    known = weir_idmap_find(&reader->streams, number);
    if (known != NULL) {
        *stream = (uint16_t)*known;
        return true;
    }
    if (reader->trace->streams == WEIR_TRACE_STREAMS_MAX)
        return trace_fail(reader, "more than %u streams", WEIR_TRACE_STREAMS_MAX);
    if (!weir_idmap_put(&reader->streams, number, reader->trace->streams))
        return trace_fail(reader, "not enough memory for the trace");
    *stream = (uint16_t)reader->trace->streams++;
    return true;
}

/* --------------------------------------------------------------------------------------- ops -- */

static bool trace_alloc(trace_reader *reader, uint64_t id, weir_trace_op *op)
{
    const uint32_t *known = weir_idmap_find(&reader->ids, id);
    trace_block *block;

    if (known != NULL && reader->blocks[*known].state == TRACE_LIVE)
        return trace_fail(reader, "block %" PRIu64 " is allocated while it is live", id);
    block = trace_room(reader, reader->blocks, reader->blocks_count, &reader->blocks_room,
                       sizeof *block);
    if (block == NULL) return false;
    reader->blocks = block;
    if (!weir_idmap_put(&reader->ids, id, reader->blocks_count))
        return trace_fail(reader, "not enough memory for the trace");
    block += reader->blocks_count;
    block->alloc = reader->trace->count;
    block->free = 0;
    block->state = TRACE_LIVE;
    op->slot = reader->blocks_count++;
    return true;
}

/* Checks that a line after the allocation names the block as the allocation did. */
static bool trace_same(trace_reader *reader, uint64_t id, const weir_trace_op *op,
                       const trace_block *block)
{
    const weir_trace_op *alloc = &reader->trace->ops[block->alloc];

    if (alloc->bytes != op->bytes)
        return trace_fail(reader,
                          "block %" PRIu64 " was allocated with %" PRIu64 " bytes, not %" PRIu64,
                          id, alloc->bytes, op->bytes);
    if (alloc->stream != op->stream)
        return trace_fail(reader, "block %" PRIu64 " was allocated on another stream", id);
    return true;
}

static bool trace_release(trace_reader *reader, uint64_t id, weir_trace_op *op)
{
    const uint32_t *known = weir_idmap_find(&reader->ids, id);
    trace_block *block;

    if (known == NULL)
        return trace_fail(reader, "block %" PRIu64 " is freed but was never allocated", id);
    block = &reader->blocks[*known];
    if (block->state != TRACE_LIVE)
        return trace_fail(reader, "block %" PRIu64 " is freed twice", id);
    if (!trace_same(reader, id, op, block)) return false;
    block->state = TRACE_FREED;
    block->free = reader->trace->count;
    op->slot = *known;
    return true;
}

static bool trace_done(trace_reader *reader, uint64_t id, weir_trace_op *op)
{
    const uint32_t *known = weir_idmap_find(&reader->ids, id);
    trace_block *block = known != NULL ? &reader->blocks[*known] : NULL;

    if (block == NULL || block->state != TRACE_FREED)
        return trace_fail(reader, "op c for block %" PRIu64 " without an op f before it", id);
    if (!trace_same(reader, id, op, block)) return false;
    block->state = TRACE_OVER;
    reader->trace->ops[block->free].side = true;
    reader->trace->ops[block->free].until_us = op->time_us;
    reader->trace->side_uses = true;
    op->slot = *known;
    return true;
}

static bool trace_apply(trace_reader *reader, char kind, uint64_t id, weir_trace_op *op)
{
    const weir_trace *trace = reader->trace;

    if (trace->count > 0 && op->time_us < trace->ops[trace->count - 1].time_us)
        return trace_fail(reader, "time goes back from %" PRIu64 " to %" PRIu64,
                          trace->ops[trace->count - 1].time_us, op->time_us);
    switch (kind) {
    case 'a':
        op->kind = WEIR_TRACE_ALLOC;
        return trace_alloc(reader, id, op);
    case 'f':
        op->kind = WEIR_TRACE_FREE;
        return trace_release(reader, id, op);
    default:
        op->kind = WEIR_TRACE_DONE;
        return trace_done(reader, id, op);
    }
}

static bool trace_fields(trace_reader *reader, const char *line, size_t bytes,
                         trace_field fields[TRACE_FIELDS])
{
    size_t count = 0, start = 0;

    for (size_t i = 0; i <= bytes; i++) {
        if (i < bytes && line[i] != ',') continue;
        if (count < TRACE_FIELDS) {
            fields[count].at = line + start;
            fields[count].bytes = i - start;
        }
        count++;
        start = i + 1;
    }
    if (count != TRACE_FIELDS)
        return trace_fail(reader, "%zu fields where op,id,bytes,stream,time_us must be", count);
    return true;
}

static bool trace_line(trace_reader *reader, const char *line, size_t bytes)
{
    char shown[TRACE_SHOWN_BYTES];
    trace_field fields[TRACE_FIELDS];
    weir_trace_op op = {0};
    uint64_t id;

    if (bytes > 0 && line[0] == '#') return true;
    if (!trace_fields(reader, line, bytes, fields)) return false;
    if (fields[0].bytes != 1 || memchr("afc", fields[0].at[0], 3) == NULL)
        return trace_fail(reader, "unknown op '%s'; there are a, f and c",
                          trace_shown(fields[0], shown));
    if (!trace_number(reader, fields[1], "id", false, &id) ||
        !trace_number(reader, fields[2], "bytes", false, &op.bytes) ||
        !trace_stream(reader, fields[3], &op.stream) ||
        !trace_number(reader, fields[4], "time", false, &op.time_us) ||
        !trace_apply(reader, fields[0].at[0], id, &op))
        return false;
    return trace_append(reader, &op);
}

static bool trace_lines(trace_reader *reader, const weir_text *text)
{
    size_t at = 0;

    while (at < text->bytes) {
        const char *line = text->data + at;
        const char *end = memchr(line, '\n', text->bytes - at);
        size_t bytes;
        reader->line++;
        if (end == NULL)
            return trace_fail(reader, "the last line has no end: the file is cut short");
        bytes = (size_t)(end - line);
        at += bytes + 1;
        if (bytes > 0 && line[bytes - 1] == '\r') bytes--;
        if (!trace_line(reader, line, bytes)) return false;
    }
    if (reader->trace->count == 0)
        return weir_fault_set(reader->fault, "%s: holds no operation", reader->path);
    return true;
}

/* ------------------------------------------------------------------------------------- after -- */

/* Renumbers slots so that one is used again after its block's last line. */
static bool trace_pack(trace_reader *reader)
{
    weir_trace *trace = reader->trace;
    uint32_t *slots = malloc(reader->blocks_count * sizeof *slots);
    uint32_t *unused = malloc(reader->blocks_count * sizeof *unused);
    uint32_t unused_count = 0;

    for (uint32_t i = 0; slots != NULL && unused != NULL && i < trace->count; i++) {
        weir_trace_op *op = &trace->ops[i];
        uint32_t block = op->slot;
        if (op->kind == WEIR_TRACE_ALLOC)
            slots[block] = unused_count > 0 ? unused[--unused_count] : trace->slots++;
        op->slot = slots[block];
        if (op->kind == WEIR_TRACE_DONE || (op->kind == WEIR_TRACE_FREE && !op->side))
            unused[unused_count++] = op->slot;
    }
    free(slots);
    free(unused);
    if (slots == NULL || unused == NULL)
        return weir_fault_set(reader->fault, "%s: not enough memory for the trace", reader->path);
    return true;
}

/* The sum of live sizes may pass 64 bits, so its carries are counted apart. */
static void trace_peak(weir_trace *trace)
{
    uint64_t low = 0, high = 0;

    trace->peak_requested_bytes = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        const weir_trace_op *op = &trace->ops[i];
        if (op->kind == WEIR_TRACE_ALLOC) {
            low += op->bytes;
            high += low < op->bytes ? 1 : 0;
        } else if (op->kind == WEIR_TRACE_FREE) {
            high -= low < op->bytes ? 1 : 0;
            low -= op->bytes;
        }
        if (high > 0) trace->peak_requested_bytes = UINT64_MAX;
        else if (low > trace->peak_requested_bytes) trace->peak_requested_bytes = low;
    }
}

static bool trace_ends(const char *name, size_t bytes, const char *ending)
{
    size_t ending_bytes = strlen(ending);
    return bytes > ending_bytes && memcmp(name + bytes - ending_bytes, ending, ending_bytes) == 0;
}

static char *trace_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = strcmp(path, "-") == 0 ? "stdin" : slash != NULL ? slash + 1 : path;
    size_t bytes = strlen(name);
    char *copy;

    if (trace_ends(name, bytes, ".gz")) bytes -= 3;
    else if (trace_ends(name, bytes, ".zst")) bytes -= 4;
    if (trace_ends(name, bytes, ".csv")) bytes -= 4;
    else if (trace_ends(name, bytes, ".pickle")) bytes -= 7;
    else if (trace_ends(name, bytes, ".json")) bytes -= 5;
    copy = malloc(bytes + 1);
    if (copy != NULL) {
        memcpy(copy, name, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

bool weir_trace_read(const char *path, weir_trace *trace, weir_fault *fault)
{
    trace_reader reader = {0};
    weir_text text;
    bool good;

    memset(trace, 0, sizeof *trace);
    if (!weir_text_read(path, &text, fault)) return false;
    if (!weir_foreign_convert(path, &text, fault)) {
        free(text.data);
        return false;
    }
    reader.path = path;
    reader.trace = trace;
    reader.fault = fault;
    good = trace_lines(&reader, &text) && trace_pack(&reader);
    trace->name = good ? trace_name(path) : NULL;
    if (good && trace->name == NULL)
        good = weir_fault_set(fault, "%s: not enough memory for the trace", path);
    free(text.data);
    free(reader.blocks);
    weir_idmap_free(&reader.ids);
    weir_idmap_free(&reader.streams);
    if (good) trace_peak(trace);
    else weir_trace_free(trace);
    return good;
}

void weir_trace_scale(weir_trace *trace, uint64_t scale)
{
    for (uint32_t i = 0; i < trace->count; i++) {
        uint64_t bytes = trace->ops[i].bytes;
        trace->ops[i].bytes = bytes / scale + (bytes % scale != 0 ? 1 : 0);
    }
    trace_peak(trace);
}

void weir_trace_free(weir_trace *trace)
{
    free(trace->name);
    free(trace->ops);
    memset(trace, 0, sizeof *trace);
}
