/* SPDX-License-Identifier: MIT */
/* Walks the object and prints it; no state but the depth. */
#include "tree.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

enum { TREE_STEP = 2, TREE_KEY_WIDTH = 22 };

static bool tree_ends(const char *key, const char *end)
{
    size_t length = strlen(key), tail = strlen(end);
    return length >= tail && strcmp(key + length - tail, end) == 0;
}

/* The key as words, padded so that what follows it stands in a column. */
static void tree_key(FILE *out, int depth, const char *key, size_t length)
{
    (void)fprintf(out, "%*s", depth * TREE_STEP, "");
    for (size_t i = 0; i < length; i++) (void)fputc(key[i] == '_' ? ' ' : key[i], out);
    for (size_t i = length; i < TREE_KEY_WIDTH; i++) (void)fputc(' ', out);
    (void)fputc(' ', out);
}

static void tree_bytes(FILE *out, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB"};
    int unit = 0;

    while (unit < 2 && bytes >= 1024 && (bytes % 1024 == 0 || bytes >= UINT64_C(10) << 20)) {
        bytes /= 1024;
        unit++;
    }
    (void)fprintf(out, "%" PRIu64 " %s\n", bytes, units[unit]);
}

static void tree_scalar(FILE *out, int depth, const char *key, struct json_object *value)
{
    size_t length = strlen(key);
    bool bytes = tree_ends(key, "_bytes"), us = tree_ends(key, "_us");

    tree_key(out, depth, key, length - (bytes ? strlen("_bytes") : us ? strlen("_us") : 0));
    switch (json_object_get_type(value)) {
    case json_type_null:
        (void)fputs("none\n", out);
        break;
    case json_type_boolean:
        (void)fputs(json_object_get_boolean(value) ? "yes\n" : "no\n", out);
        break;
    case json_type_int:
        if (bytes) tree_bytes(out, json_object_get_uint64(value));
        else (void)fprintf(out, "%" PRIu64 "%s\n", json_object_get_uint64(value), us ? " us" : "");
        break;
    default:
        (void)fprintf(out, "%s\n", json_object_get_string(value));
        break;
    }
}

static void tree_object(FILE *out, int depth, struct json_object *object);

static void tree_list_words(FILE *out, int depth, const char *key, struct json_object *list)
{
    tree_key(out, depth, key, strlen(key));
    for (size_t i = 0; i < json_object_array_length(list); i++)
        (void)fprintf(out, "%s%s", i == 0 ? "" : ", ",
                      json_object_get_string(json_object_array_get_idx(list, i)));
    (void)fputs(json_object_array_length(list) == 0 ? "none\n" : "\n", out);
}

/* Reasons: of each, what and why. */
static void tree_list_reasons(FILE *out, int depth, const char *key, struct json_object *list)
{
    (void)fprintf(out, "%*s%s\n", depth * TREE_STEP, "", key);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *reason = json_object_array_get_idx(list, i);
        (void)fprintf(out, "%*s%s: %s\n", (depth + 1) * TREE_STEP, "",
                      json_object_get_string(json_object_object_get(reason, "what")),
                      json_object_get_string(json_object_object_get(reason, "why")));
    }
}

/* The others have numbers: their own, or from 0. */
static void tree_list_objects(FILE *out, int depth, const char *key, struct json_object *list)
{
    int singular = (int)strlen(key) - (tree_ends(key, "s") ? 1 : 0);

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *object = json_object_array_get_idx(list, i), *ordinal = NULL;
        uint64_t number = i;
        if (json_object_object_get_ex(object, "ordinal", &ordinal))
            number = json_object_get_uint64(ordinal);
        (void)fprintf(out, "%*s%.*s %" PRIu64 "\n", depth * TREE_STEP, "", singular, key, number);
        tree_object(out, depth + 1, object);
    }
}

static void tree_list(FILE *out, int depth, const char *key, struct json_object *list)
{
    struct json_object *first = json_object_array_get_idx(list, 0);

    if (!json_object_is_type(first, json_type_object)) tree_list_words(out, depth, key, list);
    else if (json_object_object_get_ex(first, "why", NULL))
        tree_list_reasons(out, depth, key, list);
    else tree_list_objects(out, depth, key, list);
}

static void tree_heading(FILE *out, int depth, const char *key)
{
    (void)fprintf(out, "%*s", depth * TREE_STEP, "");
    for (; *key != '\0'; key++) (void)fputc(*key == '_' ? ' ' : *key, out);
    (void)fputc('\n', out);
}

static void tree_object(FILE *out, int depth, struct json_object *object)
{
    json_object_object_foreach(object, key, value)
    {
        if (depth == 0 && strcmp(key, "schema") == 0) continue;
        if (json_object_is_type(value, json_type_array)) tree_list(out, depth, key, value);
        else if (json_object_is_type(value, json_type_object)) {
            tree_heading(out, depth, key);
            tree_object(out, depth + 1, value);
        } else tree_scalar(out, depth, key, value);
    }
}

bool weir_tree_print(FILE *out, const weir_object *object)
{
    if (!object->good) return false;
    tree_object(out, 0, object->json);
    return ferror(out) == 0 && fflush(out) == 0;
}
