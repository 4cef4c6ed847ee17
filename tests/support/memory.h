/* SPDX-License-Identifier: MIT */
/*
 * Host memory that counts, refuses when told, and ends the test where a block is given back with
 * another size than it was taken with. For one thread at a time; counts how the lock is held.
 */
#ifndef WEIR_TEST_MEMORY_H
#define WEIR_TEST_MEMORY_H

#include "weir.h"

typedef struct host_memory {
    weir_platform platform; /* its `self` is this struct */
    uint64_t live_count;
    uint64_t calls;
    uint64_t fail_at; /* the call of this number answers NULL; 0: none does */
    bool fail_on;     /* and all later ones */
    bool held;        /* the lock */
    uint64_t locks;
} host_memory;

void weir_host_memory_init(host_memory *memory);

/* The k-th call from now answers NULL, with `on` all later ones too; k 0: none. */
void weir_host_memory_fail(host_memory *memory, uint64_t k, bool on);

#endif
