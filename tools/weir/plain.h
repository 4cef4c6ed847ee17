/* SPDX-License-Identifier: MIT */
/*
 * The policy of today's caching allocators, to compare with: a cache per stream, small and large
 * blocks apart, best fit, segments that never move. Its costs on the simulator are those of the
 * device's plain allocations; it waits for the device only when memory has run out.
 *
 * Blocks are named by the trace's slots. One thread.
 */
#ifndef WEIR_PLAIN_H
#define WEIR_PLAIN_H

#include "weir.h"

typedef struct weir_plain weir_plain;

/* `natives` are the device's streams; `slots` bounds the slot numbers. NULL: memory is short. */
weir_plain *weir_plain_create(const weir_device_ops *ops, void *device_self,
                              const uint64_t *natives, uint32_t streams, uint32_t slots);

/* Waits for what is pending, gives all segments back and frees the policy. Blocks still live are
 * freed with it. The first status of the device that was not OK. */
weir_status weir_plain_destroy(weir_plain *plain);

/* NO_MEMORY, NO_METADATA, or what the device said. O(log free blocks) without device calls. */
weir_status weir_plain_alloc(weir_plain *plain, uint32_t slot, uint32_t stream, uint64_t bytes,
                             weir_addr *addr);
/* The block is reused only after what `stream` has queued by the time of its free. */
weir_status weir_plain_use(weir_plain *plain, uint32_t slot, uint32_t stream);
weir_status weir_plain_free(weir_plain *plain, uint32_t slot);

#endif
