/* SPDX-License-Identifier: MIT */
/* drive: the calls on blocks, and the work on their bytes. */
#include "drive_parts.h"

static uint32_t drive_stream(drive *of)
{
    return (uint32_t)weir_drive_below(of, of->rig->streams);
}

static model_block *drive_any(drive *of)
{
    return of->model.count == 0 ? NULL
                                : &of->model.block[weir_drive_below(of, of->model.count)];
}

/* A stream that may touch the block; for one without an owner, any that will free it. */
static uint32_t drive_toucher(drive *of, const model_block *block)
{
    uint32_t stream = drive_stream(of);
    if ((block->users >> stream & 1) != 0) return stream;
    return block->owner == MODEL_ORPHAN ? stream : block->owner;
}

/* Work on the block, behind all that was queued on it before. */
static void drive_order_all(drive *of, const model_block *block, uint32_t stream)
{
    weir_drive_order(of, block->owner, stream);
    for (uint32_t i = 0; i < of->rig->streams; i++)
        if ((block->users >> i & 1) != 0) weir_drive_order(of, i, stream);
}

static void drive_read(drive *of, const model_block *block, uint32_t stream)
{
    drive_order_all(of, block, stream);
    weir_rig_read(of->rig, stream, block->addr, block->bytes, block->tag);
}

static void drive_write(drive *of, model_block *block, uint32_t stream)
{
    drive_order_all(of, block, stream);
    block->tag = ++of->tag;
    weir_rig_write(of->rig, stream, block->addr, block->bytes, block->tag);
}

/* ------------------------------------------------------------------------------------ alloc -- */

static weir_request drive_request(drive *of, uint32_t stream, uint32_t domain)
{
    static const uint32_t flags[] = {0, 0, 0, 0, WEIR_NOWAIT, WEIR_NO_EVENTS, WEIR_PINNED, 0};
    weir_request request = weir_rig_request(of->rig, stream, 0);
    request.bytes = random_size(&of->state, of->options.size_bits);
    if (weir_drive_below(of, 50) == 0) request.bytes = 0;
    if (weir_drive_below(of, 8) == 0) request.align = UINT64_C(1) << weir_drive_below(of, 17);
    request.flags = flags[weir_drive_below(of, 8)];
    if (of->options.no_pins) request.flags &= ~(uint32_t)WEIR_PINNED;
    if (domain != 0) request.domain = of->domain[domain - 1];
    return request;
}

void weir_drive_alloc(drive *of)
{
    uint32_t stream = drive_stream(of);
    uint32_t domain =
        weir_drive_below(of, 8) == 0 ? 1 + (uint32_t)weir_drive_below(of, DRIVE_DOMAINS) : 0;
    if (domain != 0 && of->domain[domain - 1] == 0) domain = 0;
    if (of->model.count == MODEL_BLOCKS) return;
    weir_request request = drive_request(of, stream, domain);
    weir_addr addr = 0;
    weir_status status = weir_alloc(of->rig->pool, &request, &addr);
    cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
    of->allocs += status == WEIR_OK;
    of->oom += status == WEIR_NO_MEMORY;
    of->waits += status == WEIR_WOULD_WAIT;
    if (status != WEIR_OK) return;
    if (request.align != 0) cr_assert_eq(addr % request.align, 0);
    model_block block = {
        .addr = addr, .requested = request.bytes, .owner = stream, .domain = domain};
    block.bytes = weir_rig_find(of->rig, addr).bytes;
    block.pins = (request.flags & WEIR_PINNED) != 0;
    weir_model_add(&of->model, block);
    weir_model_compare_block(&block, of->rig);
    drive_write(of, &of->model.block[of->model.count - 1], stream);
}

/* ------------------------------------------------------------------------------ free, others -- */

void weir_drive_free(drive *of)
{
    model_block *block = drive_any(of);
    if (block == NULL) return;
    uint32_t index = (uint32_t)(block - of->model.block);
    uint32_t stream = drive_toucher(of, block);
    drive_read(of, block, stream);
    weir_model_compare_block(block, of->rig);
    if (block->owner != MODEL_ORPHAN && weir_drive_below(of, 4) == 0) stream = drive_stream(of);
    bool nameless = stream == block->owner && weir_drive_below(of, 2) == 0;
    weir_stream by = nameless ? 0 : of->rig->stream[stream];
    weir_status status = weir_free(of->rig->pool, block->addr, by);
    if (status == WEIR_NO_METADATA && of->options.short_of_host) return;
    ASSERT_STATUS(status, WEIR_OK);
    EXPECT_STATUS(weir_free(of->rig->pool, block->addr, by), WEIR_NOT_FOUND);
    weir_model_drop(&of->model, index);
}

void weir_drive_work(drive *of)
{
    model_block *block = drive_any(of);
    if (block == NULL || block->owner == MODEL_ORPHAN) return;
    uint32_t stream = drive_toucher(of, block);
    if (weir_drive_below(of, 2) == 0) drive_read(of, block, stream);
    else drive_write(of, block, stream);
}

void weir_drive_use(drive *of)
{
    model_block *block = drive_any(of);
    if (block == NULL || block->owner == MODEL_ORPHAN) return;
    uint32_t stream = drive_stream(of);
    weir_status status = weir_use(of->rig->pool, block->addr, of->rig->stream[stream]);
    cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
    if (status != WEIR_OK || stream == block->owner) return;
    block->users |= 1u << stream;
    block->shared = true;
    drive_read(of, block, stream);
}

void weir_drive_pin(drive *of)
{
    model_block *block = drive_any(of);
    if (block == NULL || of->options.no_pins) return;
    weir_status status;
    if (weir_drive_below(of, 2) == 0) {
        status = weir_unpin(of->rig->pool, block->addr);
        cr_assert_eq(status, block->pins == 0 ? WEIR_INVALID : WEIR_OK);
        if (status == WEIR_OK) block->pins--;
    } else {
        status = weir_pin(of->rig->pool, block->addr);
        cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
        if (status == WEIR_OK) block->pins++;
    }
    weir_model_compare_block(block, of->rig);
}

void weir_drive_resize(drive *of)
{
    model_block *block = drive_any(of);
    if (block == NULL || of->options.no_resize) return;
    uint64_t bytes = random_size(&of->state, of->options.size_bits);
    weir_status status = weir_resize(of->rig->pool, block->addr, bytes);
    if (status == WEIR_STALE) cr_assert_eq(block->owner, MODEL_ORPHAN);
    else if (status == WEIR_BUSY) cr_assert(block->pins != 0 || block->shared);
    else cr_assert(weir_drive_allowed(of, status), "%s", weir_status_name(status));
    if (status == WEIR_OK) {
        block->bytes = weir_rig_find(of->rig, block->addr).bytes;
        block->requested = bytes;
        weir_model_alone(&of->model, (uint32_t)(block - of->model.block));
        cr_assert_geq(block->bytes, bytes);
        if (block->owner != MODEL_ORPHAN) drive_write(of, block, block->owner);
    }
    weir_model_compare_block(block, of->rig);
}

/* Calls that must fail and change nothing. */
void weir_drive_wrong(drive *of)
{
    const model_block *block = drive_any(of);
    weir_addr addr =
        block == NULL ? 4096 : block->addr + 1 + weir_drive_below(of, block->bytes - 1);
    EXPECT_STATUS(weir_free(of->rig->pool, addr, 0), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_use(of->rig->pool, addr, of->rig->stream[0]), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_resize(of->rig->pool, addr, 1), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_pin(of->rig->pool, addr), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_domain_release(of->rig->pool, UINT32_MAX), WEIR_STALE);
    EXPECT_STATUS(weir_rig_try(of->rig, (weir_request){.size = sizeof(weir_request), .align = 3}),
                  WEIR_INVALID);
}
