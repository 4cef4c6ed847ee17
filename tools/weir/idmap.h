/* SPDX-License-Identifier: MIT */
/* A map from 64-bit numbers to 32-bit ones, for the ids and stream numbers of a trace. */
#ifndef WEIR_IDMAP_H
#define WEIR_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_idmap_entry {
    uint64_t key;
    uint32_t value;
    bool used;
} weir_idmap_entry;

/* Zero is an empty map. */
typedef struct weir_idmap {
    weir_idmap_entry *entries;
    size_t room; /* a power of two, or 0 */
    size_t count;
} weir_idmap;

/* The place of the value of `key`, or NULL. O(1) expected. */
uint32_t *weir_idmap_find(const weir_idmap *map, uint64_t key);

/* Adds `key` or changes its value; false where memory is short. O(1) expected. */
bool weir_idmap_put(weir_idmap *map, uint64_t key, uint32_t value);

void weir_idmap_free(weir_idmap *map);

#endif
