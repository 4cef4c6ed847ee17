/* SPDX-License-Identifier: MIT */
/*
 * Reads traces. A slot is at first the number of the op that allocated the block; when all is read,
 * slots are given anew so that the table of addresses is as small as the most blocks alive at once.
 *
 * Invariant  `owner` holds for each id the number of its allocation, from 1, or 0.
 * Cost       O(bytes of the file), and four bytes for each id up to the largest.
 */
#include "racer_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef RACER_ZLIB
#include <zlib.h>
#endif

#define READER_ID_MAX (UINT64_C(1) << 26)

typedef struct reading {
    const char *path;
    racer_trace *trace;
    racer_why *why;
    char *text;
    size_t text_bytes;
    uint32_t line;
    uint32_t ops_room;
    uint32_t *owner; /* by id */
    uint64_t owner_room;
    uint32_t *freed; /* by op that allocated: the op that freed it, from 1 */
    uint64_t streams[RACER_STREAMS];
} reading;

/* ------------------------------------------------------------------------------------- bytes -- */

#ifdef RACER_ZLIB
typedef gzFile reader_file;
#define READER_OPEN(path) gzopen((path), "rb")
#define READER_READ(file, to, bytes) gzread((file), (to), (unsigned)(bytes))
#define READER_CLOSE(file) (void)gzclose(file)
#else
typedef FILE *reader_file;
#define READER_OPEN(path) fopen((path), "rb")
#define READER_READ(file, to, bytes) (int)fread((to), 1, (bytes), (file))
#define READER_CLOSE(file) (void)fclose(file)
#endif

/* Doubles the text's room, one byte of which stays for the end mark. */
static bool reader_grow(reading *reader, size_t *room)
{
    size_t more = *room == 0 ? (size_t)1 << 22 : *room * 2;
    char *text = realloc(reader->text, more);

    if (text == NULL) return racer_why_set(reader->why, "%s: not enough memory", reader->path);
    reader->text = text;
    *room = more;
    return true;
}

static bool reader_load(reading *reader)
{
    reader_file file = READER_OPEN(reader->path);
    size_t room = 0;
    int got = 1;

    if (file == NULL) return racer_why_set(reader->why, "%s: cannot be opened", reader->path);
    while (got > 0) {
        if (reader->text_bytes + 1 >= room && !reader_grow(reader, &room)) break;
        got = READER_READ(file, reader->text + reader->text_bytes, room - reader->text_bytes - 1);
        if (got > 0) reader->text_bytes += (size_t)got;
    }
    READER_CLOSE(file);
    if (got != 0) return racer_why_set(reader->why, "%s: cannot be read", reader->path);
    reader->text[reader->text_bytes] = '\0';
    if ((unsigned char)reader->text[0] == 0x1f)
        return racer_why_set(reader->why, "%s: this program has no zlib; unpack it first",
                             reader->path);
    return true;
}

/* ------------------------------------------------------------------------------------- lines -- */

static bool reader_wrong(reading *reader, const char *what)
{
    return racer_why_set(reader->why, "%s:%" PRIu32 ": %s", reader->path, reader->line, what);
}

/* Reads `,number`; moves *at behind it. */
static bool reader_number(reading *reader, const char **at, uint64_t *number)
{
    const char *digit = *at + 1;

    if (**at != ',' || *digit < '0' || *digit > '9')
        return reader_wrong(reader, "op,id,bytes,stream,time_us was expected");
    for (*number = 0; *digit >= '0' && *digit <= '9'; digit++)
        *number = *number * 10 + (uint64_t)(*digit - '0');
    *at = digit;
    return true;
}

static bool reader_stream(reading *reader, uint64_t number, uint8_t *stream)
{
    racer_trace *trace = reader->trace;
    uint32_t i = 0;

    while (i < trace->streams && reader->streams[i] != number) i++;
    if (i == RACER_STREAMS) return reader_wrong(reader, "more streams than the race has");
    if (i == trace->streams) reader->streams[trace->streams++] = number;
    *stream = (uint8_t)i;
    return true;
}

static bool reader_id_room(reading *reader, uint64_t id)
{
    uint64_t room = reader->owner_room == 0 ? 1 << 16 : reader->owner_room;

    if (id < reader->owner_room) return true;
    if (id >= READER_ID_MAX) return reader_wrong(reader, "the id is too large");
    while (room <= id) room *= 2;
    uint32_t *owner = realloc(reader->owner, (size_t)room * sizeof *owner);
    if (owner == NULL) return reader_wrong(reader, "not enough memory");
    memset(owner + reader->owner_room, 0, (size_t)(room - reader->owner_room) * sizeof *owner);
    reader->owner = owner;
    reader->owner_room = room;
    return true;
}

static bool reader_op_room(reading *reader)
{
    racer_trace *trace = reader->trace;
    uint32_t room = reader->ops_room == 0 ? 1 << 16 : reader->ops_room * 2;

    if (trace->count < reader->ops_room) return true;
    racer_op *ops = realloc(trace->ops, room * sizeof *ops);
    if (ops != NULL) trace->ops = ops;
    uint32_t *freed = realloc(reader->freed, room * sizeof *freed);
    if (freed != NULL) reader->freed = freed;
    if (ops == NULL || freed == NULL) return reader_wrong(reader, "not enough memory");
    memset(freed + reader->ops_room, 0, (room - reader->ops_room) * sizeof *freed);
    reader->ops_room = room;
    return true;
}

/* A line `a` or `f`, or `c`, which only marks the free before it. */
static bool reader_apply(reading *reader, char kind, uint64_t id, racer_op *op)
{
    racer_trace *trace = reader->trace;
    uint32_t *owner = &reader->owner[id];

    if (kind == 'a') {
        op->step = RACER_ALLOC;
        op->slot = trace->count;
        *owner = trace->count + 1;
    } else if (*owner == 0) {
        return reader_wrong(reader, "the block was never allocated");
    } else if (kind == 'c') {
        uint32_t free = reader->freed[*owner - 1];
        if (free == 0) return reader_wrong(reader, "the block is not free yet");
        trace->ops[free - 1].step = RACER_USE_FREE;
        return true;
    } else if (reader->freed[*owner - 1] != 0) {
        return reader_wrong(reader, "the block is freed twice");
    } else {
        op->step = RACER_FREE;
        op->slot = *owner - 1;
        reader->freed[*owner - 1] = trace->count + 1;
    }
    trace->ops[trace->count++] = *op;
    return true;
}

static bool reader_line(reading *reader, const char *at)
{
    racer_op op = {0};
    uint64_t id = 0, stream = 0, time_us = 0;
    char kind = *at++;

    if (kind != 'a' && kind != 'f' && kind != 'c') return reader_wrong(reader, "an unknown op");
    if (!reader_number(reader, &at, &id) || !reader_number(reader, &at, &op.bytes) ||
        !reader_number(reader, &at, &stream) || !reader_number(reader, &at, &time_us) ||
        !reader_stream(reader, stream, &op.stream) || !reader_id_room(reader, id) ||
        !reader_op_room(reader))
        return false;
    reader->trace->lines++;
    return reader_apply(reader, kind, id, &op);
}

static bool reader_lines(reading *reader)
{
    const char *at = reader->text, *end = reader->text + reader->text_bytes;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        reader->line++;
        if (newline == NULL) return reader_wrong(reader, "the line is cut short");
        if (*at != '#' && !reader_line(reader, at)) return false;
        at = newline + 1;
    }
    return reader->trace->count > 0 || reader_wrong(reader, "no operation");
}

/* ------------------------------------------------------------------------------------- after -- */

/* Gives slots anew, the last one freed first. */
static bool reader_pack(reading *reader)
{
    racer_trace *trace = reader->trace;
    uint32_t *slot = malloc(trace->count * sizeof *slot); /* by the op that allocated */
    uint32_t *unused = malloc(trace->count * sizeof *unused);
    uint32_t unused_count = 0;

    for (uint32_t i = 0; slot != NULL && unused != NULL && i < trace->count; i++) {
        racer_op *op = &trace->ops[i];
        uint32_t block = op->slot;
        if (op->step == RACER_ALLOC)
            slot[block] = unused_count > 0 ? unused[--unused_count] : trace->slots++;
        else unused[unused_count++] = slot[block];
        op->slot = slot[block];
    }
    bool good = slot != NULL && unused != NULL;
    free(slot);
    free(unused);
    return good || reader_wrong(reader, "not enough memory");
}

static void reader_finish(reading *reader)
{
    racer_trace *trace = reader->trace;
    uint64_t live = 0;
    bool side = false;

    for (uint32_t i = 0; i < trace->count; i++) side |= trace->ops[i].step == RACER_USE_FREE;
    if (side && trace->streams == 1) trace->streams = 2;
    for (uint32_t i = 0; i < trace->count; i++) {
        racer_op *op = &trace->ops[i];
        live = op->step == RACER_ALLOC ? live + op->bytes : live - op->bytes;
        if (live > trace->peak_requested_bytes) trace->peak_requested_bytes = live;
        op->side = (uint8_t)((op->stream + 1u) % trace->streams);
        trace->calls += op->step == RACER_USE_FREE ? 2 : 1;
    }
}

static void reader_name(const char *path, char *name, size_t bytes)
{
    const char *slash = strrchr(path, '/');

    (void)snprintf(name, bytes, "%s", slash != NULL ? slash + 1 : path);
    char *ending = strstr(name, ".csv");
    if (ending != NULL) *ending = '\0';
}

bool racer_trace_read(const char *path, racer_trace *trace, racer_why *why)
{
    reading reader = {.path = path, .trace = trace, .why = why};

    memset(trace, 0, sizeof *trace);
    reader_name(path, trace->name, sizeof trace->name);
    bool good = reader_load(&reader) && reader_lines(&reader) && reader_pack(&reader);
    if (good) reader_finish(&reader);
    else racer_trace_free(trace);
    free(reader.text);
    free(reader.owner);
    free(reader.freed);
    return good;
}

void racer_trace_free(racer_trace *trace)
{
    free(trace->ops);
    memset(trace, 0, sizeof *trace);
}
