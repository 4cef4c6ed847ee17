/* SPDX-License-Identifier: MIT */
/* JSON objects, by json-c. */
#include "object.h"

#include <json-c/json.h>

weir_object weir_object_new(void)
{
    weir_object object = {json_object_new_object(), true};

    object.good = object.json != NULL;
    return object;
}

void weir_object_free(weir_object *object)
{
    (void)json_object_put(object->json);
    object->json = NULL;
}

/* Takes `value` over; NULL is a failure, not null. */
static void object_add(weir_object *object, const char *key, struct json_object *value)
{
    if (value == NULL) object->good = false;
    else if (object->json == NULL || json_object_object_add(object->json, key, value) != 0) {
        (void)json_object_put(value);
        object->good = false;
    }
}

void weir_object_null(weir_object *object, const char *key)
{
    if (object->json == NULL || json_object_object_add(object->json, key, NULL) != 0)
        object->good = false;
}

void weir_object_text(weir_object *object, const char *key, const char *text)
{
    if (text == NULL) weir_object_null(object, key);
    else object_add(object, key, json_object_new_string(text));
}

void weir_object_count(weir_object *object, const char *key, uint64_t count)
{
    object_add(object, key, json_object_new_uint64(count));
}

void weir_object_flag(weir_object *object, const char *key, bool flag)
{
    object_add(object, key, json_object_new_boolean(flag));
}

void weir_object_decimal(weir_object *object, const char *key, double value, int decimals)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    object_add(object, key, json_object_new_double_s(value, text));
}

void weir_object_ratio(weir_object *object, const char *key, uint64_t part, uint64_t whole)
{
    if (whole == 0) weir_object_null(object, key);
    else weir_object_decimal(object, key, (double)part / (double)whole, 4);
}

void weir_object_put(weir_object *object, const char *key, weir_object part)
{
    object->good = object->good && part.good;
    object_add(object, key, part.json);
}

void weir_object_list(weir_object *object, const char *key)
{
    struct json_object *list = NULL;

    if (object->json != NULL && !json_object_object_get_ex(object->json, key, &list))
        object_add(object, key, json_object_new_array());
}

/* Takes `value` over. */
static void object_append(weir_object *object, const char *key, struct json_object *value)
{
    struct json_object *list = NULL;

    weir_object_list(object, key);
    if (value != NULL && object->json != NULL &&
        json_object_object_get_ex(object->json, key, &list) &&
        json_object_array_add(list, value) == 0)
        return;
    (void)json_object_put(value);
    object->good = false;
}

void weir_object_append(weir_object *object, const char *key, weir_object part)
{
    object->good = object->good && part.good;
    object_append(object, key, part.json);
}

void weir_object_append_text(weir_object *object, const char *key, const char *text)
{
    object_append(object, key, json_object_new_string(text));
}

bool weir_object_print(FILE *out, const weir_object *object)
{
    const int flags = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;

    return object->good &&
           fprintf(out, "%s\n", json_object_to_json_string_ext(object->json, flags)) > 0 &&
           fflush(out) == 0;
}
