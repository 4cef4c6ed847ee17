/* SPDX-License-Identifier: MIT */
/*
 * Reads pickles of data, protocols 2 to 5; the opcodes are those of Python's pickletools.
 *
 * Invariants  A container is filled only while it is where it was made, on the stack, and until it is
 *             first fetched from the memo. So no value holds itself, however the file was made.
 *             None is more than PICKLE_HEIGHT deep, since json-c ends values by recursion; how deep
 *             one is stands in its json-c userdata.
 */
#include "unpickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PICKLE_HEIGHT = 100 };

typedef struct pickle_slot {
    json_object *value; /* NULL with `mark` false: None */
    bool mark;
    bool made_here; /* never fetched: may be filled */
} pickle_slot;

typedef struct pickle_reader {
    const char *path;
    const unsigned char *data;
    size_t bytes, at;
    pickle_slot *stack;
    size_t depth, room;
    json_object **memo; /* NULL: nothing, or None */
    bool *memo_set;
    size_t memo_count, memo_room;
    weir_fault *fault;
} pickle_reader;

static bool pickle_fail(pickle_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool pickle_fail(pickle_reader *reader, const char *format, ...)
{
    char reason[200];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    return weir_fault_set(reader->fault, "%s: byte %zu: %s", reader->path, reader->at, reason);
}

/* `count` bytes of the file, or NULL where it is cut short. */
static const unsigned char *pickle_take(pickle_reader *reader, uint64_t count)
{
    const unsigned char *taken = reader->data + reader->at;

    if (count > reader->bytes - reader->at) {
        (void)pickle_fail(reader, "the pickle is cut short");
        return NULL;
    }
    reader->at += (size_t)count;
    return taken;
}

static bool pickle_little(pickle_reader *reader, unsigned count, uint64_t *value)
{
    const unsigned char *taken = pickle_take(reader, count);

    *value = 0;
    for (unsigned i = 0; taken != NULL && i < count; i++) *value |= (uint64_t)taken[i] << (8 * i);
    return taken != NULL;
}

/* ------------------------------------------------------------------------------- the stack -- */

/* Takes the value over, also where it fails. */
static bool pickle_push(pickle_reader *reader, json_object *value, bool mark, bool made_here)
{
    if (reader->depth == reader->room) {
        size_t room = reader->room == 0 ? 64 : 2 * reader->room;
        pickle_slot *more = realloc(reader->stack, room * sizeof *more);
        if (more == NULL) {
            json_object_put(value);
            return pickle_fail(reader, "not enough memory");
        }
        reader->stack = more;
        reader->room = room;
    }
    reader->stack[reader->depth++] = (pickle_slot){value, mark, made_here};
    return true;
}

static bool pickle_push_made(pickle_reader *reader, json_object *value)
{
    if (value == NULL) return pickle_fail(reader, "not enough memory");
    return pickle_push(reader, value, false, true);
}

/* The place after the topmost mark; 0: there is none. */
static size_t pickle_mark(pickle_reader *reader)
{
    for (size_t i = reader->depth; i > 0; i--)
        if (reader->stack[i - 1].mark) return i;
    (void)pickle_fail(reader, "an opcode lacks its mark");
    return 0;
}

/* The container that the values from `first` on go to, below `under`. */
static json_object *pickle_target(pickle_reader *reader, size_t under, json_type type)
{
    pickle_slot *slot = under > 0 ? &reader->stack[under - 1] : NULL;

    if (slot == NULL || slot->mark || !slot->made_here || !json_object_is_type(slot->value, type)) {
        (void)pickle_fail(
            reader, "values for no list or dict that is being made, or one that holds itself");
        return NULL;
    }
    return slot->value;
}

static bool pickle_holds(json_object *value)
{
    return json_object_is_type(value, json_type_array) ||
           json_object_is_type(value, json_type_object);
}

/* Before a value goes into a container. */
static bool pickle_raise(pickle_reader *reader, json_object *into, json_object *value)
{
    uintptr_t height, more;

    if (!pickle_holds(value)) return true;
    height = (uintptr_t)json_object_get_userdata(into);
    more = (uintptr_t)json_object_get_userdata(value) + 1;
    if (more > PICKLE_HEIGHT) return pickle_fail(reader, "values more than %d deep", PICKLE_HEIGHT);
    if (more > height) json_object_set_userdata(into, (void *)more, NULL);
    return true;
}

static bool pickle_append(pickle_reader *reader, size_t under, size_t first)
{
    json_object *list = pickle_target(reader, under, json_type_array);

    for (size_t i = first; list != NULL && i < reader->depth; i++) {
        if (reader->stack[i].mark) return pickle_fail(reader, "a mark among values");
        if (!pickle_raise(reader, list, reader->stack[i].value)) return false;
        if (json_object_array_add(list, reader->stack[i].value) != 0)
            return pickle_fail(reader, "not enough memory");
        reader->stack[i].value = NULL;
    }
    if (list != NULL) reader->depth = under;
    return list != NULL;
}

static bool pickle_set(pickle_reader *reader, size_t under, size_t first)
{
    json_object *dict = pickle_target(reader, under, json_type_object);

    if (dict != NULL && (reader->depth - first) % 2 != 0)
        return pickle_fail(reader, "a key without a value");
    for (size_t i = first; dict != NULL && i < reader->depth; i += 2) {
        json_object *key = reader->stack[i].value;
        if (reader->stack[i].mark || reader->stack[i + 1].mark || key == NULL || pickle_holds(key))
            return pickle_fail(reader, "a key that is no text or number");
        if (!pickle_raise(reader, dict, reader->stack[i + 1].value)) return false;
        if (json_object_object_add(dict, json_object_get_string(key), reader->stack[i + 1].value) !=
            0)
            return pickle_fail(reader, "not enough memory");
        json_object_put(key);
        reader->stack[i].value = reader->stack[i + 1].value = NULL;
    }
    if (dict != NULL) reader->depth = under;
    return dict != NULL;
}

/* A new container of what lies from `first` on, in the place of `base` and above. */
static bool pickle_collect(pickle_reader *reader, size_t base, size_t first, bool dict)
{
    json_object *made = dict ? json_object_new_object() : json_object_new_array();
    size_t count = reader->depth - first;
    bool good;

    if (!pickle_push_made(reader, made)) return false;
    /* Below its values, where append and set expect it. */
    pickle_slot top = reader->stack[reader->depth - 1];
    memmove(&reader->stack[first + 1], &reader->stack[first], count * sizeof top);
    reader->stack[first] = top;
    good = dict ? pickle_set(reader, first + 1, first + 1)
                : pickle_append(reader, first + 1, first + 1);
    if (good && base < first) { /* the mark goes */
        reader->stack[base] = reader->stack[first];
        reader->depth = base + 1;
    }
    return good;
}

static bool pickle_tuple(pickle_reader *reader, size_t count)
{
    if (reader->depth < count) return pickle_fail(reader, "a tuple of more than there is");
    return pickle_collect(reader, reader->depth - count, reader->depth - count, false);
}

/* -------------------------------------------------------------------------------- the memo -- */

static bool pickle_memo_room(pickle_reader *reader, uint64_t index)
{
    size_t room = reader->memo_room == 0 ? 64 : reader->memo_room;
    json_object **memo;
    bool *set;

    if (index > reader->bytes) return pickle_fail(reader, "a memo number beyond reason");
    while (room <= index) room *= 2;
    if (room == reader->memo_room) return true;
    memo = realloc(reader->memo, room * sizeof *memo);
    if (memo != NULL) reader->memo = memo;
    set = realloc(reader->memo_set, room * sizeof *set);
    if (set != NULL) reader->memo_set = set;
    if (memo == NULL || set == NULL) return pickle_fail(reader, "not enough memory");
    memset(memo + reader->memo_room, 0, (room - reader->memo_room) * sizeof *memo);
    memset(set + reader->memo_room, 0, (room - reader->memo_room) * sizeof *set);
    reader->memo_room = room;
    return true;
}

static bool pickle_put(pickle_reader *reader, uint64_t index)
{
    if (reader->depth == 0 || reader->stack[reader->depth - 1].mark)
        return pickle_fail(reader, "nothing to remember");
    if (!pickle_memo_room(reader, index)) return false;
    json_object_put(reader->memo[index]);
    reader->memo[index] = json_object_get(reader->stack[reader->depth - 1].value);
    reader->memo_count += reader->memo_set[index] ? 0 : 1;
    reader->memo_set[index] = true;
    return true;
}

/* A container that waits on the stack to be put somewhere is full, or will be found not to be. */
static bool pickle_get(pickle_reader *reader, uint64_t index)
{
    json_object *value;

    if (index >= reader->memo_room || !reader->memo_set[index])
        return pickle_fail(reader, "memo %" PRIu64 " was never set", index);
    value = reader->memo[index];
    for (size_t i = pickle_holds(value) ? reader->depth : 0; i > 0; i--)
        if (reader->stack[i - 1].value == value) reader->stack[i - 1].made_here = false;
    return pickle_push(reader, json_object_get(value), false, false);
}

/* -------------------------------------------------------------------------------- the opcodes -- */

static bool pickle_number(pickle_reader *reader, unsigned bytes, bool sign)
{
    uint64_t value;

    if (!pickle_little(reader, bytes, &value)) return false;
    if (sign && bytes == 4)
        return pickle_push_made(reader, json_object_new_int64((int32_t)(uint32_t)value));
    return pickle_push_made(reader, json_object_new_uint64(value));
}

/* Two's complement of `count` bytes: what fits 64 bits with or without a sign. */
static bool pickle_long(pickle_reader *reader, uint64_t count)
{
    const unsigned char *taken = pickle_take(reader, count);
    bool negative = taken != NULL && count > 0 && (taken[count - 1] & 0x80) != 0;
    uint64_t value = negative ? UINT64_MAX : 0;

    if (taken == NULL) return false;
    for (uint64_t i = 0; i < count; i++) {
        if (i < 8) value = (value & ~(UINT64_C(0xFF) << (8 * i))) | (uint64_t)taken[i] << (8 * i);
        else if (taken[i] != (negative ? 0xFF : 0))
            return pickle_fail(reader, "a number of more than 64 bits");
    }
    return pickle_push_made(reader, negative ? json_object_new_int64((int64_t)value)
                                             : json_object_new_uint64(value));
}

static bool pickle_float(pickle_reader *reader)
{
    const unsigned char *taken = pickle_take(reader, 8);
    uint64_t bits = 0;
    double value;

    for (unsigned i = 0; taken != NULL && i < 8; i++) bits = bits << 8 | taken[i];
    memcpy(&value, &bits, sizeof value);
    return taken != NULL && pickle_push_made(reader, json_object_new_double(value));
}

static bool pickle_text(pickle_reader *reader, unsigned bytes)
{
    uint64_t length;
    const unsigned char *taken;

    if (!pickle_little(reader, bytes, &length)) return false;
    taken = pickle_take(reader, length);
    if (taken == NULL) return false;
    if (length > INT32_MAX) return pickle_fail(reader, "a text of more than 2 GiB");
    return pickle_push_made(reader, json_object_new_string_len((const char *)taken, (int)length));
}

static bool pickle_one_under(pickle_reader *reader, bool dict)
{
    size_t values = dict ? 2 : 1;

    if (reader->depth < values + 1) return pickle_fail(reader, "a value for nothing");
    return dict ? pickle_set(reader, reader->depth - 2, reader->depth - 2)
                : pickle_append(reader, reader->depth - 1, reader->depth - 1);
}

static bool pickle_marked(pickle_reader *reader, int opcode)
{
    size_t first = pickle_mark(reader);

    if (first == 0) return false;
    if (opcode == 'l' || opcode == 't') return pickle_collect(reader, first - 1, first, false);
    if (opcode == 'd') return pickle_collect(reader, first - 1, first, true);
    /* e and u: the container lies below the mark, which goes with its values. */
    return opcode == 'e' ? pickle_append(reader, first - 1, first)
                         : pickle_set(reader, first - 1, first);
}

static bool pickle_memo(pickle_reader *reader, int opcode)
{
    bool wide = opcode == 'r' || opcode == 'j';
    uint64_t index = reader->memo_count;

    if (opcode != 0x94 && !pickle_little(reader, wide ? 4 : 1, &index)) return false;
    return opcode == 'h' || opcode == 'j' ? pickle_get(reader, index) : pickle_put(reader, index);
}

static bool pickle_plain(pickle_reader *reader, int opcode)
{
    uint64_t count;

    switch (opcode) {
    case 'N':
        return pickle_push(reader, NULL, false, true);
    case 0x88:
        return pickle_push_made(reader, json_object_new_boolean(true));
    case 0x89:
        return pickle_push_made(reader, json_object_new_boolean(false));
    case 'K':
        return pickle_number(reader, 1, false);
    case 'M':
        return pickle_number(reader, 2, false);
    case 'J':
        return pickle_number(reader, 4, true);
    case 0x8a:
        return pickle_little(reader, 1, &count) && pickle_long(reader, count);
    case 0x8b:
        return pickle_little(reader, 4, &count) && pickle_long(reader, count);
    case 'G':
        return pickle_float(reader);
    case 'X':
        return pickle_text(reader, 4);
    case 0x8c:
        return pickle_text(reader, 1);
    case 0x8d:
        return pickle_text(reader, 8);
    default:
        break;
    }
    return pickle_fail(reader,
                       "opcode 0x%02x is not one of plain data; only snapshots are read, and "
                       "nothing in them is executed",
                       (unsigned)opcode);
}

static bool pickle_opcode(pickle_reader *reader, int opcode)
{
    switch (opcode) {
    case 0x95:
        return pickle_take(reader, 8) != NULL; /* FRAME */
    case '(':
        return pickle_push(reader, NULL, true, false);
    case '}':
        return pickle_push_made(reader, json_object_new_object());
    case ']':
    case ')':
        return pickle_push_made(reader, json_object_new_array());
    case 0x85:
    case 0x86:
    case 0x87:
        return pickle_tuple(reader, (size_t)(opcode - 0x84));
    case 'a':
        return pickle_one_under(reader, false);
    case 's':
        return pickle_one_under(reader, true);
    case 'e':
    case 'u':
    case 'l':
    case 't':
    case 'd':
        return pickle_marked(reader, opcode);
    case 'q':
    case 'r':
    case 'h':
    case 'j':
    case 0x94:
        return pickle_memo(reader, opcode);
    default:
        return pickle_plain(reader, opcode);
    }
}

static bool pickle_run(pickle_reader *reader)
{
    const unsigned char *taken = pickle_take(reader, 2);

    if (taken == NULL) return false;
    if (taken[0] != 0x80 || taken[1] < 2 || taken[1] > 5)
        return pickle_fail(reader, "no pickle of protocol 2 to 5");
    while ((taken = pickle_take(reader, 1)) != NULL) {
        if (*taken == '.') break;
        if (!pickle_opcode(reader, *taken)) return false;
    }
    if (taken == NULL) return false;
    if (reader->depth != 1 || reader->stack[0].mark)
        return pickle_fail(reader, "no single value at the end");
    return true;
}

json_object *weir_unpickle(const char *path, const char *data, size_t bytes, weir_fault *fault)
{
    pickle_reader reader = {
        .path = path, .data = (const unsigned char *)data, .bytes = bytes, .fault = fault};
    json_object *value = NULL;

    if (pickle_run(&reader)) value = json_object_get(reader.stack[0].value);
    for (size_t i = 0; i < reader.depth; i++) json_object_put(reader.stack[i].value);
    for (size_t i = 0; i < reader.memo_room; i++) json_object_put(reader.memo[i]);
    free(reader.stack);
    free(reader.memo);
    free(reader.memo_set);
    if (value == NULL && fault->text[0] == '\0')
        (void)weir_fault_set(fault, "%s: holds nothing", path);
    return value;
}
