/* SPDX-License-Identifier: MIT */
/* memory: see memory.h. */
#include "memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_HEAD 64 /* keeps the alignment of what malloc gives */

static void *memory_take(void *self, size_t bytes)
{
    host_memory *memory = (host_memory *)self;
    memory->calls++;
    bool late = memory->fail_at != 0 && memory->calls > memory->fail_at;
    if (memory->calls == memory->fail_at || (late && memory->fail_on)) return NULL;
    char *head = (char *)malloc(MEMORY_HEAD + bytes);
    cr_assert_not_null(head);
    memcpy(head, &bytes, sizeof(bytes));
    memory->live_count++;
    return head + MEMORY_HEAD;
}

static void memory_give(void *self, void *mem, size_t bytes)
{
    host_memory *memory = (host_memory *)self;
    char *head = (char *)mem - MEMORY_HEAD;
    size_t taken;
    memcpy(&taken, head, sizeof(taken));
    cr_assert_eq(taken, bytes, "taken with %zu bytes, given back with %zu", taken, bytes);
    memory->live_count--;
    free(head);
}

static void memory_lock(void *self)
{
    host_memory *memory = (host_memory *)self;
    cr_assert_not(memory->held, "the lock is taken twice");
    memory->held = true;
    memory->locks++;
}

static void memory_unlock(void *self)
{
    host_memory *memory = (host_memory *)self;
    cr_assert(memory->held, "a lock is released that is not held");
    memory->held = false;
}

void weir_host_memory_init(host_memory *memory)
{
    memset(memory, 0, sizeof(*memory));
    memory->platform = (weir_platform){.size = sizeof(weir_platform),
                                       .self = memory,
                                       .mem_alloc = memory_take,
                                       .mem_free = memory_give,
                                       .lock = memory_lock,
                                       .unlock = memory_unlock};
}

void weir_host_memory_fail(host_memory *memory, uint64_t k, bool on)
{
    memory->fail_at = k == 0 ? 0 : memory->calls + k;
    memory->fail_on = on;
}
