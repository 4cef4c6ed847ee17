/* SPDX-License-Identifier: MIT */
/*
 * Operations on blocks. What an application must do is done here too: a stream that touches another
 * one's block waits for the work before.
 */
#include "world.h"

#include <string.h>

static uint32_t block_stream(const world *of, uint8_t who)
{
    return fuzz_of(who, of->rig.streams);
}

/* A live block that no operation under way works on; NULL: there is none. */
static model_block *block_pick(world *of, uint8_t which)
{
    if (of->model.count == 0) return NULL;
    model_block *block = &of->model.block[fuzz_of(which, of->model.count)];
    return block->addr == of->busy ? NULL : block;
}

/* The block at an address; others may have come and gone since. */
static model_block *block_at(world *of, weir_addr addr)
{
    for (uint32_t i = 0; i < of->model.count; i++)
        if (of->model.block[i].addr == addr) return &of->model.block[i];
    FUZZ_SAY(false, "the model lost a block that an operation works on");
}

/* A stream that may touch the block; for one without an owner, any that will free it. */
static uint32_t block_toucher(const world *of, const model_block *block, uint8_t who)
{
    uint32_t stream = block_stream(of, who);
    if ((block->users >> stream & 1) != 0) return stream;
    return block->owner == MODEL_ORPHAN ? stream : block->owner;
}

/* Lets `stream` come after all that was queued on the block. */
static void block_order(world *of, const model_block *block, uint32_t stream)
{
    weir_world_order(of, block->owner, stream);
    for (uint32_t i = 0; i < of->rig.streams; i++)
        if ((block->users >> i & 1) != 0) weir_world_order(of, i, stream);
}

/* No work is queued while the device has to rest: blocks that are born then have no tag yet. */
static void block_read(world *of, const model_block *block, uint32_t stream)
{
    if (of->lost || of->quiet || block->tag == 0) return;
    block_order(of, block, stream);
    weir_rig_read(&of->rig, stream, block->addr, block->bytes, block->tag);
}

static void block_write(world *of, model_block *block, uint32_t stream)
{
    block->tag = 0;
    if (of->lost || of->quiet) return;
    block_order(of, block, stream);
    block->tag = ++of->tag;
    weir_rig_write(&of->rig, stream, block->addr, block->bytes, block->tag);
}

/* ------------------------------------------------------------------------------------ alloc -- */

/* From 32 bytes to 2 MiB, 16 steps to a power of two, and a little beside them. */
uint64_t weir_world_size(uint8_t size, uint8_t fine)
{
    uint64_t bytes = (uint64_t)(16 + (size & 15)) << ((size >> 4) + 1);
    if (fine == 255) return size < 4 ? 0 : UINT64_MAX >> (size & 31);
    if (fine < 96) return bytes;
    return fine < 176 ? bytes + fine - 95u : bytes - 1 - (fine - 176u) % 32;
}

static void block_born(world *of, weir_addr addr, const weir_request *request, uint32_t stream,
                       uint32_t domain)
{
    model_block block = {
        .addr = addr, .requested = request->bytes, .owner = stream, .domain = domain};
    if (request->align != 0) FUZZ_CHECK(addr % request->align == 0);
    block.bytes = weir_rig_find(&of->rig, addr).bytes;
    block.pins = (request->flags & WEIR_PINNED) != 0;
    FUZZ_CHECK(block.bytes >= request->bytes);
    weir_model_add(&of->model, block);
    weir_model_compare_block(&block, &of->rig);
    block_write(of, &of->model.block[of->model.count - 1], stream);
}

/* What the pool says of a failure agrees with what the model knows. */
static void block_failed(world *of, uint64_t bytes, weir_status status)
{
    uint64_t allocated = 0;
    of->odd = true;
    FUZZ_SAY(weir_world_allowed(of, status), "%s", weir_status_name(status));
    if (status != WEIR_NO_MEMORY && status != WEIR_WOULD_WAIT) return;
    if (of->depth != 1) return; /* another's failure may have come after it */
    weir_oom oom = weir_rig_oom(&of->rig);
    for (uint32_t i = 0; i < of->model.count; i++) allocated += of->model.block[i].bytes;
    FUZZ_CHECK(oom.asked_bytes == bytes);
    FUZZ_CHECK(oom.allocated_bytes == allocated);
    FUZZ_CHECK(oom.reserved_bytes == weir_rig_stats(&of->rig).reserved.current);
}

static weir_request block_request(const world *of, uint32_t stream, uint8_t how)
{
    static const uint32_t flags[] = {0, 0,           0, WEIR_NOWAIT,     WEIR_NO_EVENTS,
                                     0, WEIR_PINNED, 0, WEIR_ONE_HANDLE, 0};
    weir_request request = weir_rig_request(&of->rig, stream, 0);
    request.flags = flags[how % 10];
    if ((how & 0x60) == 0x60) request.align = of->granule >> (how & 7);
    if (how >= 0xE0 && of->stalled == 0) request.wait_us = WEIR_FOREVER;
    return request;
}

void weir_world_alloc(world *of, uint8_t who, uint8_t size, uint8_t fine, uint8_t how)
{
    uint32_t stream = block_stream(of, (uint8_t)(who << 2));
    uint32_t domain = who >= 0xC0 ? 1 + (who >> 2) % WORLD_DOMAINS : 0;
    weir_request request = block_request(of, stream, how);
    weir_addr addr = 0;
    if (of->model.count == WORLD_BLOCKS) return;
    if (domain != 0 && of->domain[domain - 1] == 0) domain = 0;
    if (domain != 0) request.domain = of->domain[domain - 1];
    request.bytes = weir_world_size(size, fine);
    weir_status status = weir_alloc(of->rig.pool, &request, &addr);
    if (status == WEIR_UNSUPPORTED) FUZZ_CHECK((request.flags & WEIR_ONE_HANDLE) != 0);
    else if (status != WEIR_OK) block_failed(of, request.bytes, status);
    if (status != WEIR_OK) FUZZ_SAY(addr == 0, "a failed call wrote its result");
    of->served += status == WEIR_OK;
    if (status == WEIR_OK) block_born(of, addr, &request, stream, domain);
}

void weir_world_alloc_on(world *of, uint8_t who, uint8_t size, uint8_t fine)
{
    uint32_t stream = block_stream(of, who);
    weir_request request = weir_rig_request(&of->rig, stream, weir_world_size(size, fine));
    weir_addr addr = 0;
    if (of->model.count == WORLD_BLOCKS) return;
    weir_status status = weir_alloc_on(of->rig.pool, request.stream, request.bytes, &addr);
    of->served += status == WEIR_OK;
    if (status == WEIR_OK) block_born(of, addr, &request, stream, 0);
    else block_failed(of, request.bytes, status);
}

/* ------------------------------------------------------------------------------ free, others -- */

/* Frees on one of the streams that touched the block, or on any other where its order allows. */
static void block_free(world *of, model_block *block, uint8_t who, uint8_t how)
{
    uint32_t stream = block_toucher(of, block, who);
    weir_addr addr = block->addr;
    block_read(of, block, stream);
    if (block->owner == MODEL_ORPHAN) block->users |= 1u << stream; /* should the free fail */
    if (block->owner != MODEL_ORPHAN && how >= 0xC0) stream = block_stream(of, who);
    bool nameless = stream == block->owner && (how & 1) != 0;
    weir_stream by = nameless ? 0 : of->rig.stream[stream];
    weir_status status = weir_free(of->rig.pool, addr, by);
    if (status == WEIR_NO_METADATA && weir_world_host_failed(of)) return;
    ASSERT_STATUS(status, WEIR_OK);
    weir_model_drop(&of->model, (uint32_t)(block - of->model.block));
    weir_world_pins_forget(of, addr);
    of->freed++;
    if ((how & 2) != 0) ASSERT_STATUS(weir_free(of->rig.pool, addr, by), WEIR_NOT_FOUND);
}

void weir_world_free(world *of, uint8_t which, uint8_t who, uint8_t how)
{
    model_block *block = block_pick(of, which);
    if (block != NULL) block_free(of, block, who, how);
}

bool weir_world_reclaim(world *of)
{
    for (uint32_t i = 0; i < of->model.count; i++)
        if (of->model.block[i].addr != of->busy) {
            block_free(of, &of->model.block[i], 0, 0);
            return true;
        }
    return false;
}

void weir_world_work(world *of, uint8_t which, uint8_t who, uint8_t how)
{
    model_block *block = block_pick(of, which);
    if (block == NULL || block->owner == MODEL_ORPHAN) return;
    uint32_t stream = block_toucher(of, block, who);
    if ((how & 1) != 0) block_read(of, block, stream);
    else block_write(of, block, stream);
}

void weir_world_use(world *of, uint8_t which, uint8_t who)
{
    model_block *block = block_pick(of, which);
    if (block == NULL || block->owner == MODEL_ORPHAN) return;
    uint32_t stream = block_stream(of, who);
    weir_status status = weir_use(of->rig.pool, block->addr, of->rig.stream[stream]);
    FUZZ_CHECK(status == WEIR_OK || (status == WEIR_NO_METADATA && weir_world_host_failed(of)));
    if (status != WEIR_OK || stream == block->owner) return;
    block->users |= 1u << stream;
    block->shared = true;
    block_read(of, block, stream);
}

void weir_world_pin(world *of, uint8_t which, uint8_t how)
{
    model_block *block = block_pick(of, which);
    if (block == NULL) return;
    if ((how & 1) != 0) {
        weir_status status = weir_unpin(of->rig.pool, block->addr);
        FUZZ_CHECK(status == (block->pins == 0 ? WEIR_INVALID : WEIR_OK));
        if (status == WEIR_OK) block->pins--;
    } else {
        weir_status status = weir_pin(of->rig.pool, block->addr);
        FUZZ_CHECK(status == WEIR_OK || (status == WEIR_NO_METADATA && weir_world_host_failed(of)));
        if (status == WEIR_OK) block->pins++;
    }
    weir_model_compare_block(block, &of->rig);
}

static void block_resized(world *of, model_block *block, uint64_t bytes)
{
    uint64_t kept = block->bytes;
    block->bytes = weir_rig_find(&of->rig, block->addr).bytes;
    block->requested = bytes;
    weir_model_alone(&of->model, (uint32_t)(block - of->model.block));
    FUZZ_CHECK(block->bytes >= bytes);
    if (of->lost || block->owner == MODEL_ORPHAN) return;
    kept = kept < block->bytes ? kept : block->bytes;
    if (block->tag != 0 && !of->quiet) {
        block_order(of, block, block->owner);
        weir_rig_read(&of->rig, block->owner, block->addr, kept, block->tag);
    }
    block_write(of, block, block->owner);
}

void weir_world_resize(world *of, uint8_t which, uint8_t size, uint8_t fine)
{
    model_block *block = block_pick(of, which);
    if (block == NULL) return;
    weir_addr addr = block->addr;
    uint64_t bytes = weir_world_size(size, fine);
    weir_addr outer = of->busy;
    if (of->depth == 1) of->busy = addr;
    weir_status status = weir_resize(of->rig.pool, addr, bytes);
    of->busy = outer;
    block = block_at(of, addr);
    of->odd = of->odd || status != WEIR_OK;
    if (status == WEIR_STALE) FUZZ_CHECK(block->owner == MODEL_ORPHAN);
    else if (status == WEIR_BUSY) FUZZ_CHECK(block->pins != 0 || block->shared);
    else if (status != WEIR_OK)
        FUZZ_SAY(weir_world_allowed(of, status), "%s", weir_status_name(status));
    if (status == WEIR_OK) block_resized(of, block, bytes);
    weir_model_compare_block(block, &of->rig);
}

/* Calls that must fail and change nothing. */
void weir_world_wrong(world *of, uint8_t which, uint8_t how)
{
    const model_block *block = block_pick(of, which);
    weir_pool *pool = of->rig.pool;
    weir_addr addr = block == NULL ? 4096 : block->addr + 1 + how % (block->bytes - 1);
    weir_request bad = {.size = sizeof(bad), .align = 3};
    weir_request stale = {.size = sizeof(stale), .stream = of->stale, .bytes = 64};
    ASSERT_STATUS(weir_free(pool, addr, 0), WEIR_NOT_FOUND);
    ASSERT_STATUS(weir_use(pool, addr, of->rig.stream[0]), WEIR_NOT_FOUND);
    ASSERT_STATUS(weir_resize(pool, addr, 1), WEIR_NOT_FOUND);
    ASSERT_STATUS(weir_pin(pool, addr), WEIR_NOT_FOUND);
    ASSERT_STATUS(weir_unpin(pool, addr), WEIR_NOT_FOUND);
    ASSERT_STATUS(weir_domain_release(pool, UINT32_MAX), WEIR_STALE);
    ASSERT_STATUS(weir_limit_set(pool, 0), WEIR_INVALID);
    ASSERT_STATUS(weir_alloc(pool, &bad, &addr), WEIR_INVALID);
    ASSERT_STATUS(weir_alloc(pool, &stale, &addr), WEIR_STALE);
    ASSERT_STATUS(weir_stream_retire(pool, of->stale), WEIR_STALE);
    if (block != NULL) {
        ASSERT_STATUS(weir_free(pool, block->addr, UINT32_MAX), WEIR_STALE);
        ASSERT_STATUS(weir_use(pool, block->addr, UINT32_MAX), WEIR_STALE);
        ASSERT_STATUS(weir_pool_destroy(pool), WEIR_BUSY);
    }
}
