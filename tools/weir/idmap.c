/* SPDX-License-Identifier: MIT */
/* Open addressing with linear steps; at most half of the entries are used, so a search ends. */
#include "idmap.h"

#include <stdlib.h>

enum { IDMAP_ROOM_FIRST = 1024 };

static uint64_t idmap_mix(uint64_t key)
{
    key ^= key >> 31;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return key ^ (key >> 29);
}

/* The entry of `key`, or the unused one where it belongs. */
static weir_idmap_entry *idmap_place(weir_idmap_entry *entries, size_t room, uint64_t key)
{
    size_t at = (size_t)idmap_mix(key) & (room - 1);

    while (entries[at].used && entries[at].key != key) at = (at + 1) & (room - 1);
    return &entries[at];
}

static bool idmap_grow(weir_idmap *map)
{
    size_t room = map->room == 0 ? IDMAP_ROOM_FIRST : map->room * 2;
    weir_idmap_entry *entries = calloc(room, sizeof *entries);

    if (entries == NULL) return false;
    for (size_t i = 0; i < map->room; i++)
        if (map->entries[i].used)
            *idmap_place(entries, room, map->entries[i].key) = map->entries[i];
    free(map->entries);
    map->entries = entries;
    map->room = room;
    return true;
}

uint32_t *weir_idmap_find(const weir_idmap *map, uint64_t key)
{
    weir_idmap_entry *entry;

    if (map->room == 0) return NULL;
    entry = idmap_place(map->entries, map->room, key);
    return entry->used ? &entry->value : NULL;
}

bool weir_idmap_put(weir_idmap *map, uint64_t key, uint32_t value)
{
    weir_idmap_entry *entry;

    if (map->count >= map->room / 2 && !idmap_grow(map)) return false;
    entry = idmap_place(map->entries, map->room, key);
    map->count += entry->used ? 0 : 1;
    entry->key = key;
    entry->value = value;
    entry->used = true;
    return true;
}

void weir_idmap_free(weir_idmap *map)
{
    free(map->entries);
    map->entries = NULL;
    map->room = map->count = 0;
}
