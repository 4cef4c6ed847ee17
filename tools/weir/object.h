/* SPDX-License-Identifier: MIT */
/*
 * JSON as it is built: an object whose keys keep the order in which they are added.
 *
 * Invariant  An object that could not be built whole is not printed: one that failed stays bad, and
 *            so becomes what it is added to.
 */
#ifndef WEIR_OBJECT_H
#define WEIR_OBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_object;

typedef struct weir_object {
    struct json_object *json;
    bool good;
} weir_object;

weir_object weir_object_new(void);
void weir_object_free(weir_object *object);

/* NULL is null. */
void weir_object_text(weir_object *object, const char *key, const char *text);
void weir_object_count(weir_object *object, const char *key, uint64_t count);
void weir_object_flag(weir_object *object, const char *key, bool flag);
void weir_object_null(weir_object *object, const char *key);
void weir_object_decimal(weir_object *object, const char *key, double value, int decimals);
/* Four decimals; null where `whole` is 0. */
void weir_object_ratio(weir_object *object, const char *key, uint64_t part, uint64_t whole);

/* Takes `part` over. */
void weir_object_put(weir_object *object, const char *key, weir_object part);

/* Lists: the first makes one, unless it is there, and so do the others; append takes `part`
 * over. */
void weir_object_list(weir_object *object, const char *key);
void weir_object_append(weir_object *object, const char *key, weir_object part);
void weir_object_append_text(weir_object *object, const char *key, const char *text);

/* As one line. False where it is not whole or the stream does not take it. */
bool weir_object_print(FILE *out, const weir_object *object);

#endif
