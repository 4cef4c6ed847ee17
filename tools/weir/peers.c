/* SPDX-License-Identifier: MIT */
/* Reads recorded results. `trace` and `allocator` must be there; numbers may be missing or null. */
#define _POSIX_C_SOURCE 200809L

#include "peers.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static bool peers_text(struct json_object *object, const char *key, char **text)
{
    struct json_object *value;

    if (!json_object_object_get_ex(object, key, &value) ||
        !json_object_is_type(value, json_type_string))
        return false;
    *text = strdup(json_object_get_string(value));
    return *text != NULL;
}

static bool peers_number(struct json_object *object, const char *key, double *number)
{
    struct json_object *value;

    *number = -1.0;
    if (!json_object_object_get_ex(object, key, &value) || value == NULL) return true;
    *number = json_object_get_double(value);
    return json_object_is_type(value, json_type_double) ||
           json_object_is_type(value, json_type_int);
}

static bool peers_object(struct json_object *object, weir_peer *peer)
{
    return json_object_is_type(object, json_type_object) &&
           peers_text(object, "trace", &peer->trace) &&
           peers_text(object, "allocator", &peer->allocator) &&
           peers_number(object, "reserved_ratio", &peer->reserved_ratio) &&
           peers_number(object, "ns_per_op", &peer->ns_per_op) &&
           peers_number(object, "least_capacity_ratio", &peer->least_capacity_ratio) &&
           peers_number(object, "least_capacity_ns_per_op", &peer->least_capacity_ns_per_op);
}

static bool peers_append(weir_peers *peers, weir_peer **peer)
{
    weir_peer *list = realloc(peers->list, (peers->count + 1) * sizeof *list);

    if (list == NULL) return false;
    peers->list = list;
    *peer = &list[peers->count++];
    memset(*peer, 0, sizeof **peer);
    return true;
}

static bool peers_line(weir_peers *peers, const char *line, size_t bytes)
{
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *object = NULL;
    weir_peer *peer;
    bool good = false;

    if (tokener == NULL) return false;
    if (bytes < INT32_MAX) {
        object = json_tokener_parse_ex(tokener, line, (int)bytes);
        good = json_tokener_get_error(tokener) == json_tokener_success &&
               json_tokener_get_parse_end(tokener) == bytes;
    }
    good = good && peers_append(peers, &peer) && peers_object(object, peer);
    (void)json_object_put(object);
    json_tokener_free(tokener);
    return good;
}

static bool peers_lines(weir_peers *peers, const weir_text *text, const char *path,
                        weir_fault *fault)
{
    size_t at = 0, number = 0;

    while (at < text->bytes) {
        const char *line = text->data + at;
        const char *end = memchr(line, '\n', text->bytes - at);
        size_t bytes = end != NULL ? (size_t)(end - line) : text->bytes - at;
        number++;
        if (!peers_line(peers, line, bytes))
            return weir_fault_set(fault, "%s:%zu: not an object with trace, allocator and numbers",
                                  path, number);
        at += bytes + 1;
    }
    return true;
}

bool weir_peers_read(const char *path, weir_peers *peers, weir_fault *fault)
{
    weir_text text;
    bool good;

    memset(peers, 0, sizeof *peers);
    if (!weir_text_read(path, &text, fault)) return false;
    good = peers_lines(peers, &text, path, fault);
    free(text.data);
    if (!good) weir_peers_free(peers);
    return good;
}

void weir_peers_free(weir_peers *peers)
{
    for (size_t i = 0; i < peers->count; i++) {
        free(peers->list[i].trace);
        free(peers->list[i].allocator);
    }
    free(peers->list);
    memset(peers, 0, sizeof *peers);
}
