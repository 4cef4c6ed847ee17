/* SPDX-License-Identifier: MIT */
/*
 * Names: from a CUstream to the pool's stream, without a lock.
 *
 * Owns        tables of open addressing; one that is outgrown stays until the pool ends.
 * Invariants  An entry's key is written once, after everything else in it, so a reader that sees
 *             the key sees an entry. A name is one word.
 * Cost        O(1): a hash and seldom more than one step.
 */
#include "cuda_pool_internal.h"

#include <stdlib.h>

#define NAME_ROOM_FIRST 64u

static weir_cuda_name *name_slot(weir_cuda_names *names, uint64_t key)
{
    uint32_t mask = names->room - 1;
    uint32_t at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        uint64_t there = atomic_load_explicit(&names->at[at].key, memory_order_acquire);
        if (there == key || there == 0) {
            return &names->at[at];
        }
    }
}

/* The entry of a key, or NULL. */
static weir_cuda_name *name_entry(weir_cuda_names *names, uint64_t key)
{
    weir_cuda_name *slot = names ? name_slot(names, key) : NULL;
    return slot && atomic_load_explicit(&slot->key, memory_order_acquire) == key ? slot : NULL;
}

weir_stream weir_cuda_name_find(weir_cuda_names *names, uint64_t key)
{
    weir_cuda_name *slot = name_entry(names, key);
    return slot ? atomic_load_explicit(&slot->name, memory_order_acquire) : 0;
}

/* A name is never given twice, so one that is the same after the look was so during it. */
weir_stream weir_cuda_name_known(weir_cuda_names *names, uint64_t key, uint64_t unique)
{
    weir_cuda_name *slot = name_entry(names, key);
    weir_stream name = slot ? atomic_load(&slot->name) : 0;
    if (name == 0 || atomic_load(&slot->unique) != unique || atomic_load(&slot->name) != name) {
        return 0;
    }
    return name;
}

static void name_put(weir_cuda_names *names, uint64_t key, uint64_t unique, weir_stream name)
{
    weir_cuda_name *slot = name_slot(names, key);
    atomic_store(&slot->unique, unique);
    atomic_store_explicit(&slot->name, name, memory_order_release);
    atomic_store_explicit(&slot->key, key, memory_order_release);
    names->count++;
}

/* A table of twice the size, without those that ended, in front of the old one. */
static weir_cuda_names *name_grow(weir_cuda_names *old)
{
    uint32_t room = old ? old->room * 2 : NAME_ROOM_FIRST;
    weir_cuda_names *names =
        (weir_cuda_names *)calloc(1, sizeof(*names) + room * sizeof(names->at[0]));
    if (!names) {
        return NULL;
    }
    names->older = old;
    names->room = room;
    for (uint32_t i = 0; old && i < old->room; i++) {
        weir_stream name = atomic_load_explicit(&old->at[i].name, memory_order_relaxed);
        if (name != 0) {
            name_put(names, atomic_load_explicit(&old->at[i].key, memory_order_relaxed),
                     atomic_load(&old->at[i].unique), name);
        }
    }
    return names;
}

weir_cuda_name *weir_cuda_name_take(weir_cuda_names *_Atomic *names, uint64_t key)
{
    weir_cuda_names *now = atomic_load(names);
    weir_cuda_name *slot = now ? name_slot(now, key) : NULL;
    if (slot && atomic_load_explicit(&slot->key, memory_order_relaxed) == key) {
        return slot;
    }
    if (!now || now->count * 2 >= now->room) {
        now = name_grow(now);
        if (!now) {
            return NULL;
        }
        atomic_store(names, now);
    }
    name_put(now, key, 0, 0);
    return name_slot(now, key);
}

void weir_cuda_names_free(weir_cuda_names *names)
{
    while (names) {
        weir_cuda_names *older = names->older;
        free(names);
        names = older;
    }
}
