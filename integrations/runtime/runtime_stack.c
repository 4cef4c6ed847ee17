/* SPDX-License-Identifier: MIT */
/*
 * Stacks: each different one is kept once, under a number that never changes.
 *
 * Invariants  Texts and frames stay where they are for ever, so readers need no lock once they have
 *             the number.
 * Cost        One look into a hash table for a stack that is known.
 */
#include "runtime_internal.h"

#include <stdlib.h>
#include <string.h>

#define STACKS_MAX 65536u
#define STACKS_SLOTS (2u * STACKS_MAX)

typedef struct stack_entry {
    uint64_t hash;
    weir_rt_frame *frames;
    size_t count;
} stack_entry;

typedef struct stack_table {
    pthread_mutex_t lock;
    stack_entry *entry; /* STACKS_MAX + 1, [0] is never used */
    uint32_t *slot;     /* numbers by hash, 0: empty */
    atomic_uint count;
} stack_table;

static stack_table stacks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t stack_mix(uint64_t hash, const char *text, int line)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    }
    return (hash ^ (uint64_t)(unsigned)line) * UINT64_C(0x100000001B3);
}

static bool stack_equal(const stack_entry *entry, const char *const *file, const int *line,
                        const char *const *name, size_t frames)
{
    if (entry->count != frames) {
        return false;
    }
    for (size_t i = 0; i < frames; i++) {
        if (entry->frames[i].line != line[i] || strcmp(entry->frames[i].file, file[i]) != 0 ||
            strcmp(entry->frames[i].name, name[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Frames and their texts in one piece of memory. */
static weir_rt_frame *stack_copy(const char *const *file, const int *line, const char *const *name,
                                 size_t frames)
{
    size_t bytes = frames * sizeof(weir_rt_frame);
    for (size_t i = 0; i < frames; i++) {
        bytes += strlen(file[i]) + strlen(name[i]) + 2;
    }
    weir_rt_frame *copy = (weir_rt_frame *)malloc(bytes != 0 ? bytes : 1);
    if (!copy) {
        return NULL;
    }
    char *text = (char *)(copy + frames);
    for (size_t i = 0; i < frames; i++) {
        copy[i].line = line[i];
        copy[i].file = strcpy(text, file[i]);
        text += strlen(text) + 1;
        copy[i].name = strcpy(text, name[i]);
        text += strlen(text) + 1;
    }
    return copy;
}

static bool stack_room(void)
{
    if (!stacks.entry) {
        stacks.entry = (stack_entry *)calloc(STACKS_MAX + 1, sizeof(*stacks.entry));
        stacks.slot = (uint32_t *)calloc(STACKS_SLOTS, sizeof(*stacks.slot));
    }
    return stacks.entry && stacks.slot;
}

/* The slot of the stack, or the empty one where it belongs. The lock is held. */
static size_t stack_slot(uint64_t hash, const char *const *file, const int *line,
                         const char *const *name, size_t frames)
{
    size_t at = (size_t)(hash ^ hash >> 32) & (STACKS_SLOTS - 1);
    for (; stacks.slot[at] != 0; at = (at + 1) & (STACKS_SLOTS - 1)) {
        const stack_entry *entry = &stacks.entry[stacks.slot[at]];
        if (entry->hash == hash && stack_equal(entry, file, line, name, frames)) {
            break;
        }
    }
    return at;
}

uint32_t weir_runtime_stack(const char *const *file, const int *line, const char *const *name,
                            size_t frames)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    uint32_t number = 0;
    if (!weir_rt_alive()) {
        return 0;
    }
    for (size_t i = 0; i < frames; i++) {
        hash = stack_mix(stack_mix(hash, file[i], line[i]), name[i], 0);
    }
    pthread_mutex_lock(&stacks.lock);
    if (stack_room()) {
        size_t at = stack_slot(hash, file, line, name, frames);
        uint32_t count = atomic_load(&stacks.count);
        number = stacks.slot[at];
        weir_rt_frame *copy = NULL;
        if (number == 0 && count < STACKS_MAX && (copy = stack_copy(file, line, name, frames))) {
            number = count + 1;
            stacks.entry[number] = (stack_entry){hash, copy, frames};
            stacks.slot[at] = number;
            atomic_store_explicit(&stacks.count, number, memory_order_release);
        }
    }
    pthread_mutex_unlock(&stacks.lock);
    return number;
}

void weir_rt_stack_hold(bool hold)
{
    if (hold) {
        pthread_mutex_lock(&stacks.lock);
    } else {
        pthread_mutex_unlock(&stacks.lock);
    }
}

size_t weir_rt_stack_frames(uint32_t stack, const weir_rt_frame **frames)
{
    *frames = NULL;
    if (stack == 0 || stack > atomic_load_explicit(&stacks.count, memory_order_acquire)) {
        return 0;
    }
    *frames = stacks.entry[stack].frames;
    return stacks.entry[stack].count;
}
