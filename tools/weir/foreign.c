/* SPDX-License-Identifier: MIT */
/* Turns PyTorch's memory snapshots and RMM's logs into lines of a trace. */
#include "foreign.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "unpickle.h"

/* ---------------------------------------------------------------------------------- snapshots -- */

static uint64_t snapshot_number(json_object *entry, const char *key)
{
    json_object *value;
    return json_object_object_get_ex(entry, key, &value) ? json_object_get_uint64(value) : 0;
}

static const char *snapshot_text(json_object *entry, const char *key)
{
    json_object *value;
    bool is_text = json_object_object_get_ex(entry, key, &value) &&
                   json_object_is_type(value, json_type_string);
    return is_text ? json_object_get_string(value) : "";
}

static json_object *snapshot_list(json_object *from, const char *key)
{
    json_object *list;
    return json_object_object_get_ex(from, key, &list) && json_object_is_type(list, json_type_array)
               ? list
               : NULL;
}

/* The longest of the devices' histories, and which device it is of. */
static json_object *snapshot_history(json_object *snapshot, size_t *device)
{
    json_object *all = snapshot_list(snapshot, "device_traces"), *longest = NULL;

    for (size_t i = 0; all != NULL && i < json_object_array_length(all); i++) {
        json_object *one = json_object_array_get_idx(all, i);
        if (!json_object_is_type(one, json_type_array)) continue;
        if (longest != NULL && json_object_array_length(one) <= json_object_array_length(longest))
            continue;
        longest = one;
        *device = i;
    }
    return longest;
}

/* Blocks that were there before: freed without having been allocated. */
static bool snapshot_before_freed(json_object *history, weir_lines *lines, uint64_t start_us)
{
    weir_idmap seen = {0};
    bool good = true;

    for (size_t i = 0; good && i < json_object_array_length(history); i++) {
        json_object *entry = json_object_array_get_idx(history, i);
        const char *action = snapshot_text(entry, "action");
        uint64_t addr = snapshot_number(entry, "addr");
        bool known = weir_idmap_find(&seen, addr) != NULL;
        if (strcmp(action, "alloc") == 0) {
            good = known || weir_idmap_put(&seen, addr, 1);
        } else if (strcmp(action, "free_requested") == 0 && !known) {
            good = weir_idmap_put(&seen, addr, 1);
            weir_lines_alloc(lines, addr, snapshot_number(entry, "size"),
                             snapshot_number(entry, "stream"), start_us);
        }
    }
    weir_idmap_free(&seen);
    return good;
}

static bool snapshot_addresses(json_object *history, weir_idmap *seen)
{
    bool good = true;

    for (size_t i = 0; good && i < json_object_array_length(history); i++) {
        json_object *entry = json_object_array_get_idx(history, i);
        if (strcmp(snapshot_text(entry, "action"), "alloc") == 0)
            good = weir_idmap_put(seen, snapshot_number(entry, "addr"), 1);
    }
    return good;
}

/* And those still there at the end, whose allocation is not in the history. */
static bool snapshot_before_live(json_object *snapshot, json_object *history, size_t device,
                                 weir_lines *lines, uint64_t start_us)
{
    json_object *segments = snapshot_list(snapshot, "segments");
    weir_idmap seen = {0};
    bool good = snapshot_addresses(history, &seen);

    for (size_t i = 0; good && segments != NULL && i < json_object_array_length(segments); i++) {
        json_object *segment = json_object_array_get_idx(segments, i);
        json_object *blocks = snapshot_list(segment, "blocks");
        if (blocks == NULL || snapshot_number(segment, "device") != device) continue;
        for (size_t k = 0; k < json_object_array_length(blocks); k++) {
            json_object *block = json_object_array_get_idx(blocks, k);
            uint64_t addr = snapshot_number(block, "address");
            if (strcmp(snapshot_text(block, "state"), "active_allocated") != 0 ||
                weir_idmap_find(&seen, addr) != NULL)
                continue;
            weir_lines_alloc(lines, addr, snapshot_number(block, "requested_size"),
                             snapshot_number(segment, "stream"), start_us);
        }
    }
    weir_idmap_free(&seen);
    return good;
}

/* A free that is completed by the very next entry has waited for nothing. */
static bool snapshot_completes(json_object *history, size_t next, uint64_t addr)
{
    json_object *entry =
        next < json_object_array_length(history) ? json_object_array_get_idx(history, next) : NULL;
    return entry != NULL && strcmp(snapshot_text(entry, "action"), "free_completed") == 0 &&
           snapshot_number(entry, "addr") == addr;
}

static void snapshot_entries(json_object *history, weir_lines *lines, uint64_t start_us)
{
    for (size_t i = 0; i < json_object_array_length(history); i++) {
        json_object *entry = json_object_array_get_idx(history, i);
        const char *action = snapshot_text(entry, "action");
        uint64_t addr = snapshot_number(entry, "addr"), time_us = snapshot_number(entry, "time_us");
        time_us = time_us > start_us ? time_us - start_us : 0;
        if (strcmp(action, "alloc") == 0) {
            weir_lines_alloc(lines, addr, snapshot_number(entry, "size"),
                             snapshot_number(entry, "stream"), time_us);
        } else if (strcmp(action, "free_requested") == 0) {
            (void)weir_lines_free(lines, addr, time_us);
            if (snapshot_completes(history, i + 1, addr)) i++;
        } else if (strcmp(action, "free_completed") == 0) {
            weir_lines_done(lines, addr, time_us);
        }
    }
}

static bool snapshot_convert(const char *path, json_object *snapshot, weir_text *text,
                             weir_fault *fault)
{
    weir_lines lines = {0};
    size_t device = 0;
    json_object *history = json_object_is_type(snapshot, json_type_object)
                               ? snapshot_history(snapshot, &device)
                               : NULL;

    if (history == NULL || json_object_array_length(history) == 0)
        return weir_fault_set(fault,
                              "%s: this snapshot holds no history; record one with "
                              "torch.cuda.memory._record_memory_history() or weir.record() first",
                              path);
    uint64_t start_us = snapshot_number(json_object_array_get_idx(history, 0), "time_us");
    bool good = snapshot_before_live(snapshot, history, device, &lines, 0) &&
                snapshot_before_freed(history, &lines, 0);
    snapshot_entries(history, &lines, start_us);
    lines.failed = lines.failed || !good;
    if (!weir_lines_end(&lines, text))
        return weir_fault_set(fault, "%s: not enough memory for the trace", path);
    return true;
}

static bool snapshot_of_json(const char *path, weir_text *text, weir_fault *fault)
{
    json_tokener *tokener = text->bytes <= INT32_MAX ? json_tokener_new() : NULL;
    json_object *snapshot;
    bool good;

    if (tokener == NULL)
        return weir_fault_set(fault, "%s: not enough memory for the snapshot", path);
    snapshot = json_tokener_parse_ex(tokener, text->data, (int)text->bytes);
    good = snapshot != NULL
               ? snapshot_convert(path, snapshot, text, fault)
               : weir_fault_set(fault, "%s: no JSON: %s", path,
                                json_tokener_error_desc(json_tokener_get_error(tokener)));
    json_object_put(snapshot);
    json_tokener_free(tokener);
    return good;
}

static bool snapshot_of_pickle(const char *path, weir_text *text, weir_fault *fault)
{
    json_object *snapshot = weir_unpickle(path, text->data, text->bytes, fault);
    bool good = snapshot != NULL && snapshot_convert(path, snapshot, text, fault);

    json_object_put(snapshot);
    return good;
}

/* ---------------------------------------------------------------------------------------- RMM -- */

static const char rmm_head[] = "Thread,Time,Action,Pointer,Size,Stream";

typedef struct rmm_line {
    char field[6][40];
} rmm_line;

static bool rmm_split(const char *line, size_t bytes, rmm_line *parts)
{
    size_t count = 0, used = 0;

    memset(parts, 0, sizeof *parts);
    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == ',') {
            count++;
            used = 0;
        } else if (count < 6 && used + 1 < sizeof parts->field[0]) {
            parts->field[count][used++] = line[i];
        }
    }
    return count == 5;
}

/* Hours, minutes, seconds and microseconds; a day later where the clock has gone back by hours. */
static bool rmm_time(const char *text, uint64_t last_us, uint64_t *time_us)
{
    const uint64_t day_us = UINT64_C(86400000000);
    unsigned hour, minute, second, part = 0;

    if (sscanf(text, "%2u:%2u:%2u%*1[.:]%6u", &hour, &minute, &second, &part) < 3) return false;
    *time_us = ((uint64_t)hour * 3600 + minute * 60u + second) * 1000000 + part;
    while (*time_us + day_us / 2 < last_us) *time_us += day_us;
    return true;
}

static bool rmm_number(const char *text, uint64_t *value)
{
    char *end;

    if (strcmp(text, "(nil)") == 0) text = "0";
    if (!isxdigit((unsigned char)text[0])) return false;
    *value = strtoull(text, &end, 0);
    return *end == '\0';
}

/* One line; frees of what was allocated before the log began are passed over. */
static bool rmm_apply(const rmm_line *parts, weir_lines *lines, uint64_t *start_us,
                      uint64_t *last_us)
{
    uint64_t addr, bytes, stream, time_us;

    if (!rmm_time(parts->field[1], *last_us, &time_us) || !rmm_number(parts->field[3], &addr) ||
        !rmm_number(parts->field[4], &bytes) || !rmm_number(parts->field[5], &stream))
        return false;
    if (*start_us == UINT64_MAX) *start_us = time_us;
    *last_us = time_us;
    time_us = time_us > *start_us ? time_us - *start_us : 0;
    if (strcmp(parts->field[2], "allocate") == 0)
        weir_lines_alloc(lines, addr, bytes, stream, time_us);
    else if (strcmp(parts->field[2], "free") == 0) (void)weir_lines_free(lines, addr, time_us);
    else return strcmp(parts->field[2], "allocate failure") == 0;
    return true;
}

static bool rmm_convert(const char *path, weir_text *text, weir_fault *fault)
{
    weir_lines lines = {0};
    uint64_t number = 0, start_us = UINT64_MAX, last_us = 0;
    bool good = true;

    for (size_t at = 0; good && at < text->bytes; number++) {
        const char *line = text->data + at;
        const char *end = memchr(line, '\n', text->bytes - at);
        size_t bytes = end != NULL ? (size_t)(end - line) : text->bytes - at;
        rmm_line parts;
        at += bytes + 1;
        if (bytes > 0 && line[bytes - 1] == '\r') bytes--;
        if (number == 0 || bytes == 0) continue;
        if (!rmm_split(line, bytes, &parts) || !rmm_apply(&parts, &lines, &start_us, &last_us))
            good = weir_fault_set(fault, "%s:%" PRIu64 ": not a line of %s", path, number + 1,
                                  rmm_head);
    }
    if (!good) {
        weir_text none = {0};
        (void)weir_lines_end(&lines, &none);
        free(none.data);
        return false;
    }
    if (!weir_lines_end(&lines, text))
        return weir_fault_set(fault, "%s: not enough memory for the trace", path);
    return true;
}

bool weir_foreign_convert(const char *path, weir_text *text, weir_fault *fault)
{
    if (text->bytes > 2 && (unsigned char)text->data[0] == 0x80)
        return snapshot_of_pickle(path, text, fault);
    if (text->bytes > 1 && text->data[0] == '{') return snapshot_of_json(path, text, fault);
    if (text->bytes >= sizeof rmm_head && memcmp(text->data, rmm_head, sizeof rmm_head - 1) == 0)
        return rmm_convert(path, text, fault);
    return true;
}
