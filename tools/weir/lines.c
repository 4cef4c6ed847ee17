/* SPDX-License-Identifier: MIT */
/* Making the lines of a trace: numbers for blocks, and times that never go back. */
#include "lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_LINE 128u

typedef struct weir_lines_block {
    uint64_t bytes, stream;
    bool live;
} lines_block;

static void lines_add(weir_lines *lines, char op, uint32_t id, const lines_block *block,
                      uint64_t time_us)
{
    if (lines->room - lines->bytes < LINES_LINE && !lines->failed) {
        size_t room = lines->room == 0 ? 65536 : 2 * lines->room;
        char *more = realloc(lines->data, room);
        lines->failed = more == NULL;
        if (more != NULL) {
            lines->data = more;
            lines->room = room;
        }
    }
    if (lines->failed) return;
    if (time_us > lines->time_us) lines->time_us = time_us;
    lines->bytes += (size_t)snprintf(lines->data + lines->bytes, LINES_LINE,
                                     "%c,%" PRIu32 ",%" PRIu64 ",0x%" PRIx64 ",%" PRIu64 "\n", op,
                                     id, block->bytes, block->stream, lines->time_us);
}

static bool lines_block_room(weir_lines *lines)
{
    size_t room = lines->block_room == 0 ? 1024 : 2 * lines->block_room;
    lines_block *more;

    if (lines->ids < lines->block_room) return true;
    more = lines->ids < UINT32_MAX ? realloc(lines->block, room * sizeof *more) : NULL;
    if (more != NULL) {
        lines->block = more;
        lines->block_room = room;
    }
    lines->failed = lines->failed || more == NULL;
    return more != NULL;
}

void weir_lines_alloc(weir_lines *lines, uint64_t addr, uint64_t bytes, uint64_t stream,
                      uint64_t time_us)
{
    (void)weir_lines_free(lines, addr, time_us);
    if (lines->failed || !lines_block_room(lines)) return;
    lines->block[lines->ids] = (lines_block){bytes, stream, true};
    lines_add(lines, 'a', lines->ids, &lines->block[lines->ids], time_us);
    lines->failed = lines->failed || !weir_idmap_put(&lines->live, addr, lines->ids);
    lines->ids++;
}

bool weir_lines_free(weir_lines *lines, uint64_t addr, uint64_t time_us)
{
    const uint32_t *id = weir_idmap_find(&lines->live, addr);

    if (id == NULL || !lines->block[*id].live) return false;
    lines->block[*id].live = false;
    lines_add(lines, 'f', *id, &lines->block[*id], time_us);
    return true;
}

void weir_lines_done(weir_lines *lines, uint64_t addr, uint64_t time_us)
{
    const uint32_t *id = weir_idmap_find(&lines->live, addr);

    if (id != NULL && !lines->block[*id].live)
        lines_add(lines, 'c', *id, &lines->block[*id], time_us);
}

bool weir_lines_end(weir_lines *lines, weir_text *text)
{
    bool good = !lines->failed;

    weir_idmap_free(&lines->live);
    free(lines->block);
    if (good) {
        free(text->data);
        text->data = lines->data;
        text->bytes = lines->bytes;
    } else {
        free(lines->data);
    }
    memset(lines, 0, sizeof *lines);
    return good;
}
