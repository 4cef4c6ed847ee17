/* SPDX-License-Identifier: MIT */
/*
 * The machine's stacks, as a source for those who have no better one.
 *
 * Owns        a table from return addresses to the number of the stack they stand for, so that the
 *             symbols of a stack are looked up once.
 * Invariants  An entry is never changed. Two stacks are taken for one where 64 bits of hash agree.
 * Cost        The walk: about a microsecond for ten frames, then one look into the table.
 */
#define _GNU_SOURCE
#include "runtime_internal.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define NATIVE_WALKS 1
#endif
#endif

#ifdef NATIVE_WALKS

#define NATIVE_FRAMES 32
#define NATIVE_SLOTS 131072u /* twice as many as there can be stacks */

typedef struct native_known {
    uint64_t hash; /* 0: an empty slot */
    uint32_t stack;
} native_known;

static struct {
    pthread_mutex_t lock;
    native_known *slot;
    uint32_t used;
} native = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The slot of the hash, or the empty one where it belongs. The lock is held. */
static native_known *native_slot(uint64_t hash)
{
    size_t at = (size_t)(hash ^ hash >> 32) & (NATIVE_SLOTS - 1);
    while (native.slot[at].hash != 0 && native.slot[at].hash != hash) {
        at = (at + 1) & (NATIVE_SLOTS - 1);
    }
    return &native.slot[at];
}

static uint32_t native_find(uint64_t hash)
{
    uint32_t stack = 0;
    pthread_mutex_lock(&native.lock);
    if (native.slot) {
        stack = native_slot(hash)->stack;
    }
    pthread_mutex_unlock(&native.lock);
    return stack;
}

static void native_keep(uint64_t hash, uint32_t stack)
{
    pthread_mutex_lock(&native.lock);
    if (!native.slot) {
        native.slot = (native_known *)calloc(NATIVE_SLOTS, sizeof(*native.slot));
    }
    native_known *slot = native.slot ? native_slot(hash) : NULL;
    if (slot && slot->hash == 0 && native.used < NATIVE_SLOTS / 2) {
        *slot = (native_known){hash, stack};
        native.used++;
    }
    pthread_mutex_unlock(&native.lock);
}

/* Where the caller's frames begin, behind those of this library, which are among the first. */
static size_t native_first(void *const *address, size_t count)
{
    static const char self = 0;
    Dl_info own, info;
    size_t first = 0;
    if (dladdr(&self, &own) == 0) {
        return 0;
    }
    for (size_t i = 0; i < count && i < 8; i++) {
        if (dladdr(address[i], &info) != 0 && info.dli_fbase == own.dli_fbase) {
            first = i + 1;
        }
    }
    return first;
}

/* The number of the stack, its frames named. A return address belongs to the call before it. */
static uint32_t native_name(void *const *address, size_t count)
{
    char text[NATIVE_FRAMES][256];
    const char *file[NATIVE_FRAMES], *name[NATIVE_FRAMES];
    int line[NATIVE_FRAMES] = {0};
    Dl_info info;
    size_t frames = 0;
    for (size_t i = native_first(address, count); i < count; i++) {
        const char *call = (const char *)address[i] - 1;
        bool known = dladdr(call, &info) != 0;
        (void)snprintf(text[frames], sizeof(text[frames]), "%s+0x%" PRIxPTR,
                       known && info.dli_fname ? info.dli_fname : "?",
                       (uintptr_t)call - (known ? (uintptr_t)info.dli_fbase : 0));
        file[frames] = text[frames];
        name[frames] = known && info.dli_sname ? info.dli_sname : "?";
        frames++;
    }
    return weir_runtime_stack(file, line, name, frames);
}

uint32_t weir_runtime_stack_native(void *self)
{
    void *address[NATIVE_FRAMES];
    (void)self;
    int count = backtrace(address, NATIVE_FRAMES);
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)(uintptr_t)address[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    hash |= 1;
    uint32_t stack = native_find(hash);
    if (stack == 0 && (stack = native_name(address, (size_t)count)) != 0) {
        native_keep(hash, stack);
    }
    return stack;
}

#else

uint32_t weir_runtime_stack_native(void *self)
{
    (void)self;
    return 0;
}

#endif
