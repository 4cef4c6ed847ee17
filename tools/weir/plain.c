/* SPDX-License-Identifier: MIT */
/*
 * The plain caching policy.
 *
 * A segment is a list of neighbouring blocks that cover it. A stream has two sets of free blocks,
 * one of small segments and one of large ones. A block whose free must wait for other streams is
 * neither live nor free: it waits in the queue of each such stream until its events have passed.
 *
 * Invariant  No two neighbours of a segment are both free: a block is merged when it becomes free.
 *            A segment's first block stays first, since splits cut from the end and merges keep the
 *            one in front.
 * Cost       O(log free blocks) an operation; running out of memory costs O(segments).
 */
#include "plain.h"

#include <stdlib.h>

#include "sizetree.h"

#define PLAIN_UNIT_BYTES UINT64_C(512)
#define PLAIN_SMALL_BYTES (UINT64_C(1) << 20) /* requests up to this are small */
#define PLAIN_SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)
#define PLAIN_MIDDLE_BYTES (UINT64_C(10) << 20) /* and below this take */
#define PLAIN_MIDDLE_SEGMENT_BYTES (UINT64_C(20) << 20)
#define PLAIN_LARGE_ROUND_BYTES (UINT64_C(2) << 20)

typedef struct plain_block {
    weir_sizetree node; /* first: a node of a set is its block; bytes and addr of the block */
    struct plain_block *before, *after; /* neighbours in the segment */
    struct plain_block *next_segment;   /* of a segment's first block */
    uint32_t stream;
    uint32_t waits; /* events still to pass */
    bool small;
    bool free;
} plain_block;

typedef struct plain_use {
    struct plain_use *next;
    uint32_t stream;
} plain_use;

typedef struct plain_wait {
    struct plain_wait *next;
    plain_block *block;
    weir_event event;
} plain_wait;

typedef struct plain_stream {
    uint64_t native;
    weir_sizetree *sets[2];    /* free blocks: large, small */
    plain_wait *first, **last; /* waits for this stream, oldest first */
} plain_stream;

typedef struct plain_slot {
    plain_block *block; /* NULL: not live */
    plain_use *uses;
} plain_slot;

struct weir_plain {
    const weir_device_ops *ops;
    void *device;
    plain_stream *streams;
    uint32_t streams_count;
    plain_slot *slots;
    uint32_t slots_count;
    plain_block *segments; /* their first blocks */
    plain_wait *spares;    /* with events to use again */
};

/* ---------------------------------------------------------------------------- sizes and sets -- */

static uint64_t plain_round(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t plain_segment_bytes(uint64_t bytes)
{
    if (bytes <= PLAIN_SMALL_BYTES) return PLAIN_SMALL_SEGMENT_BYTES;
    if (bytes < PLAIN_MIDDLE_BYTES) return PLAIN_MIDDLE_SEGMENT_BYTES;
    return plain_round(bytes, PLAIN_LARGE_ROUND_BYTES);
}

static weir_sizetree **plain_set(weir_plain *plain, const plain_block *block)
{
    return &plain->streams[block->stream].sets[block->small];
}

static void plain_offer(weir_plain *plain, plain_block *block)
{
    block->free = true;
    weir_sizetree_insert(plain_set(plain, block), &block->node);
}

static void plain_withdraw(weir_plain *plain, plain_block *block)
{
    weir_sizetree_remove(plain_set(plain, block), &block->node);
    block->free = false;
}

/* ----------------------------------------------------------------------------- split, merge -- */

static bool plain_splits(const plain_block *block, uint64_t bytes)
{
    uint64_t rest = block->node.bytes - bytes;
    return block->small ? rest >= PLAIN_UNIT_BYTES : rest > PLAIN_SMALL_BYTES;
}

/* Cuts the block to `bytes` and offers the rest. */
static weir_status plain_split(weir_plain *plain, plain_block *block, uint64_t bytes)
{
    plain_block *rest = calloc(1, sizeof *rest);

    if (rest == NULL) return WEIR_NO_METADATA;
    rest->node.addr = block->node.addr + bytes;
    rest->node.bytes = block->node.bytes - bytes;
    rest->stream = block->stream;
    rest->small = block->small;
    rest->before = block;
    rest->after = block->after;
    if (rest->after != NULL) rest->after->before = rest;
    block->after = rest;
    block->node.bytes = bytes;
    plain_offer(plain, rest);
    return WEIR_OK;
}

/* Joins the neighbour that follows `block` to it. */
static void plain_absorb(plain_block *block, plain_block *next)
{
    block->node.bytes += next->node.bytes;
    block->after = next->after;
    if (block->after != NULL) block->after->before = block;
    free(next);
}

static void plain_return(weir_plain *plain, plain_block *block)
{
    plain_block *before = block->before, *after = block->after;

    if (after != NULL && after->free) {
        plain_withdraw(plain, after);
        plain_absorb(block, after);
    }
    if (before != NULL && before->free) {
        plain_withdraw(plain, before);
        plain_absorb(before, block);
        block = before;
    }
    plain_offer(plain, block);
}

/* ----------------------------------------------------------------------------- other streams -- */

static weir_status plain_wait_make(weir_plain *plain, plain_wait **wait)
{
    weir_status status;

    *wait = plain->spares;
    if (*wait != NULL) {
        plain->spares = (*wait)->next;
        return WEIR_OK;
    }
    *wait = calloc(1, sizeof **wait);
    if (*wait == NULL) return WEIR_NO_METADATA;
    status = plain->ops->event_create(plain->device, &(*wait)->event);
    if (status != WEIR_OK) free(*wait);
    return status;
}

static weir_status plain_wait_queue(weir_plain *plain, plain_block *block, uint32_t stream)
{
    plain_stream *queue = &plain->streams[stream];
    plain_wait *wait;
    weir_status status = plain_wait_make(plain, &wait);

    if (status != WEIR_OK) return status;
    status = plain->ops->event_record(plain->device, wait->event, queue->native);
    if (status != WEIR_OK) {
        wait->next = plain->spares;
        plain->spares = wait;
        return status;
    }
    wait->next = NULL;
    wait->block = block;
    *queue->last = wait;
    queue->last = &wait->next;
    block->waits++;
    return WEIR_OK;
}

/* The oldest wait of the stream has passed. */
static void plain_wait_end(weir_plain *plain, plain_stream *queue)
{
    plain_wait *wait = queue->first;

    queue->first = wait->next;
    if (queue->first == NULL) queue->last = &queue->first;
    if (--wait->block->waits == 0) plain_return(plain, wait->block);
    wait->next = plain->spares;
    plain->spares = wait;
}

/* Ends what has passed; with `wait_us`, waits for it that long. */
static weir_status plain_finish(weir_plain *plain, uint64_t wait_us)
{
    for (uint32_t i = 0; i < plain->streams_count; i++) {
        plain_stream *queue = &plain->streams[i];
        bool passed = true;
        while (queue->first != NULL && passed) {
            weir_event event = queue->first->event;
            weir_status status =
                wait_us > 0 && plain->ops->event_wait != NULL
                    ? plain->ops->event_wait(plain->device, event, wait_us, &passed)
                    : plain->ops->event_query(plain->device, event, &passed);
            if (status != WEIR_OK) return status;
            if (passed) plain_wait_end(plain, queue);
        }
    }
    return WEIR_OK;
}

/* Waits for all that is queued anywhere, as a plain device free does by itself. */
static weir_status plain_drain(weir_plain *plain)
{
    weir_status status = plain_finish(plain, WEIR_FOREVER);
    plain_wait *wait;
    bool passed;

    if (status != WEIR_OK || plain->ops->event_wait == NULL) return status;
    status = plain_wait_make(plain, &wait);
    if (status != WEIR_OK) return status;
    for (uint32_t i = 0; i < plain->streams_count && status == WEIR_OK; i++) {
        status = plain->ops->event_record(plain->device, wait->event, plain->streams[i].native);
        if (status == WEIR_OK)
            status = plain->ops->event_wait(plain->device, wait->event, WEIR_FOREVER, &passed);
    }
    wait->next = plain->spares;
    plain->spares = wait;
    return status;
}

/* ---------------------------------------------------------------------------------- segments -- */

static weir_status plain_segment_take(weir_plain *plain, uint32_t stream, uint64_t bytes,
                                      plain_block **block)
{
    plain_block *made = calloc(1, sizeof *made);
    weir_status status;

    if (made == NULL) return WEIR_NO_METADATA;
    made->node.bytes = plain_segment_bytes(bytes);
    made->stream = stream;
    made->small = bytes <= PLAIN_SMALL_BYTES;
    status = plain->ops->segment_alloc(plain->device, made->node.bytes, &made->node.addr);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    made->next_segment = plain->segments;
    plain->segments = made;
    *block = made;
    return WEIR_OK;
}

/* Gives every segment back that holds nothing else than one free block. */
static weir_status plain_flush(weir_plain *plain)
{
    weir_status status = plain_drain(plain);
    plain_block **place = &plain->segments;

    while (*place != NULL && status == WEIR_OK) {
        plain_block *first = *place;
        if (!first->free || first->after != NULL) {
            place = &first->next_segment;
            continue;
        }
        status = plain->ops->segment_free(plain->device, first->node.addr, first->node.bytes);
        if (status != WEIR_OK) break;
        *place = first->next_segment;
        plain_withdraw(plain, first);
        free(first);
    }
    return status;
}

/* ------------------------------------------------------------------------------------ public -- */

static weir_status plain_find(weir_plain *plain, uint32_t stream, uint64_t bytes,
                              plain_block **block)
{
    weir_sizetree *set = plain->streams[stream].sets[bytes <= PLAIN_SMALL_BYTES];
    weir_status status;

    *block = (plain_block *)weir_sizetree_fit(set, bytes);
    if (*block != NULL) {
        plain_withdraw(plain, *block);
        return WEIR_OK;
    }
    status = plain_segment_take(plain, stream, bytes, block);
    if (status != WEIR_NO_MEMORY) return status;
    status = plain_flush(plain);
    return status == WEIR_OK ? plain_segment_take(plain, stream, bytes, block) : status;
}

weir_status weir_plain_alloc(weir_plain *plain, uint32_t slot, uint32_t stream, uint64_t bytes,
                             weir_addr *addr)
{
    plain_block *block;
    weir_status status;

    if (bytes > UINT64_MAX / 2) return WEIR_NO_MEMORY;
    bytes = bytes == 0 ? PLAIN_UNIT_BYTES : plain_round(bytes, PLAIN_UNIT_BYTES);
    status = plain_finish(plain, 0);
    if (status == WEIR_OK) status = plain_find(plain, stream, bytes, &block);
    if (status != WEIR_OK) return status;
    if (plain_splits(block, bytes)) status = plain_split(plain, block, bytes);
    if (status != WEIR_OK) {
        plain_return(plain, block);
        return status;
    }
    plain->slots[slot].block = block;
    *addr = block->node.addr;
    return WEIR_OK;
}

weir_status weir_plain_use(weir_plain *plain, uint32_t slot, uint32_t stream)
{
    plain_use *use;

    for (use = plain->slots[slot].uses; use != NULL; use = use->next)
        if (use->stream == stream) return WEIR_OK;
    use = malloc(sizeof *use);
    if (use == NULL) return WEIR_NO_METADATA;
    use->stream = stream;
    use->next = plain->slots[slot].uses;
    plain->slots[slot].uses = use;
    return WEIR_OK;
}

weir_status weir_plain_free(weir_plain *plain, uint32_t slot)
{
    plain_block *block = plain->slots[slot].block;
    plain_use *use = plain->slots[slot].uses;
    weir_status status = WEIR_OK;

    plain->slots[slot].block = NULL;
    plain->slots[slot].uses = NULL;
    while (use != NULL) {
        plain_use *next = use->next;
        weir_status queued = plain_wait_queue(plain, block, use->stream);
        status = status == WEIR_OK ? queued : status;
        free(use);
        use = next;
    }
    if (block->waits == 0) plain_return(plain, block);
    return status;
}

weir_plain *weir_plain_create(const weir_device_ops *ops, void *device_self,
                              const uint64_t *natives, uint32_t streams, uint32_t slots)
{
    weir_plain *plain = calloc(1, sizeof *plain);

    if (plain == NULL) return NULL;
    plain->streams = calloc(streams, sizeof *plain->streams);
    plain->slots = calloc(slots, sizeof *plain->slots);
    if (plain->streams == NULL || plain->slots == NULL) {
        free(plain->streams);
        free(plain->slots);
        free(plain);
        return NULL;
    }
    plain->ops = ops;
    plain->device = device_self;
    plain->streams_count = streams;
    plain->slots_count = slots;
    for (uint32_t i = 0; i < streams; i++) {
        plain->streams[i].native = natives[i];
        plain->streams[i].last = &plain->streams[i].first;
    }
    return plain;
}

static void plain_wait_drop(weir_plain *plain, plain_wait *wait)
{
    while (wait != NULL) {
        plain_wait *next = wait->next;
        plain->ops->event_destroy(plain->device, wait->event);
        free(wait);
        wait = next;
    }
}

weir_status weir_plain_destroy(weir_plain *plain)
{
    weir_status status = WEIR_OK;

    for (uint32_t slot = 0; slot < plain->slots_count; slot++) {
        weir_status freed =
            plain->slots[slot].block != NULL ? weir_plain_free(plain, slot) : WEIR_OK;
        status = status == WEIR_OK ? freed : status;
    }
    if (status == WEIR_OK) status = plain_flush(plain);
    plain_wait_drop(plain, plain->spares);
    free(plain->streams);
    free(plain->slots);
    free(plain);
    return status;
}
