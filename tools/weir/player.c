/* SPDX-License-Identifier: MIT */
/* The loop over a trace. O(1) an op beside what the pool does. */
#include "player.h"

#include <stdlib.h>

#define PLAYER_FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define PLAYER_FNV_PRIME UINT64_C(0x100000001b3)

uint32_t weir_player_streams(const weir_trace *trace)
{
    return trace->side_uses && trace->streams == 1 ? 2 : trace->streams;
}

bool weir_player_init(weir_player *player)
{
    player->addrs = calloc(player->trace->slots, sizeof *player->addrs);
    player->births = calloc(player->trace->slots, sizeof *player->births);
    player->layout_hash = PLAYER_FNV_BASIS;
    if (player->addrs != NULL && player->births != NULL) return true;
    weir_player_fini(player);
    return false;
}

void weir_player_fini(weir_player *player)
{
    free(player->addrs);
    free(player->births);
    player->addrs = NULL;
    player->births = NULL;
}

/* Byte by byte from the lowest, so that every machine gets the same. */
static void player_hash(weir_player *player, uint64_t word)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        player->layout_hash ^= (word >> shift) & 0xff;
        player->layout_hash *= PLAYER_FNV_PRIME;
    }
}

static void player_place(weir_player *player, uint32_t index, weir_addr addr)
{
    if (player->first == 0) player->first = addr;
    player_hash(player, index);
    player_hash(player, addr - player->first);
}

static void player_wrong(weir_player *player, uint32_t index, const char *call, weir_status status)
{
    if (status != WEIR_OK)
        (void)weir_fault_set(&player->wrong, "op %u: %s of a live block answered %s: %s", index + 1,
                             call, weir_status_name(status), weir_status_text(status));
}

static weir_status player_take(weir_player *player, const weir_trace_op *op, uint32_t index,
                               weir_addr *addr)
{
    if (player->pool != NULL)
        return weir_alloc_on(player->pool, player->names[op->stream], op->bytes, addr);
    if (player->plain != NULL)
        return weir_plain_alloc(player->plain, op->slot, op->stream, op->bytes, addr);
    *addr = index + UINT64_C(1);
    return WEIR_OK;
}

static weir_status player_give(weir_player *player, uint32_t slot, weir_addr addr)
{
    if (player->pool != NULL) return weir_free(player->pool, addr, 0);
    if (player->plain != NULL) return weir_plain_free(player->plain, slot);
    return WEIR_OK;
}

static void player_alloc(weir_player *player, const weir_trace_op *op, uint32_t index)
{
    weir_addr addr = 0;
    weir_status status = player_take(player, op, index, &addr);

    player->addrs[op->slot] = addr;
    if (status != WEIR_OK) player->failed++;
    else if (player->hashed) player_place(player, index, addr);
    player->births[op->slot] = index + 1;
    if (player->works && status == WEIR_OK)
        weir_stage_write(player->stage, op->stream, addr, op->bytes, index + UINT64_C(1));
    if (player->hooks != NULL) player->hooks->allocated(player->hooks->self, index, status, addr);
}

/* The last use of a block by another stream, known from the trace to end after the free. */
static void player_side(weir_player *player, const weir_trace_op *op, uint32_t index)
{
    uint32_t side = (op->stream + 1u) % player->stage->setup.streams;
    weir_addr addr = player->addrs[op->slot];
    weir_status status = WEIR_OK;

    weir_stage_side(player->stage, op->stream, side, op->until_us, addr,
                    player->works ? op->bytes : 0, player->births[op->slot]);
    if (player->pool != NULL) status = weir_use(player->pool, addr, player->names[side]);
    else if (player->plain != NULL) status = weir_plain_use(player->plain, op->slot, side);
    player_wrong(player, index, "a use", status);
}

static void player_free(weir_player *player, const weir_trace_op *op, uint32_t index)
{
    weir_addr addr = player->addrs[op->slot];

    if (addr == 0) return;
    if (player->hooks != NULL) player->hooks->freeing(player->hooks->self, index, addr);
    if (player->works)
        weir_stage_read(player->stage, op->stream, addr, op->bytes, player->births[op->slot]);
    if (op->side) player_side(player, op, index);
    player_wrong(player, index, "a free", player_give(player, op->slot, addr));
    player->addrs[op->slot] = 0;
}

/* The op at `time_us` took memory from the device, or gave some back. */
static void player_held(weir_player *player, uint64_t time_us)
{
    weir_meter *meter = player->meter;

    meter->changed = false;
    player->held_byte_us += (double)player->held_bytes * (double)(time_us - player->since_us);
    player->held_bytes = meter->held_bytes;
    player->since_us = time_us;
    if (meter->held_peak_bytes == player->held_peak_bytes) return;
    player->held_peak_bytes = meter->held_peak_bytes;
    player->growth_ns = meter->cost_ns;
}

void weir_player_play(weir_player *player)
{
    const weir_trace *trace = player->trace;

    for (uint32_t i = 0; i < trace->count; i++) {
        const weir_trace_op *op = &trace->ops[i];
        weir_stage_time(player->stage, op->time_us);
        if (op->kind == WEIR_TRACE_ALLOC) player_alloc(player, op, i);
        else if (op->kind == WEIR_TRACE_FREE) player_free(player, op, i);
        if (player->hooks != NULL) player->hooks->played(player->hooks->self, i);
        if (player->meter->changed) player_held(player, op->time_us);
        if (player->stop_on_failure && player->failed > 0) return;
    }
}

double weir_player_mean_bytes(const weir_player *player)
{
    uint64_t last_us = player->stage->set_us;
    double held = (double)player->held_bytes;
    double whole_us = (double)(last_us - player->trace->ops[0].time_us);
    double rest = held * (double)(last_us - player->since_us);

    return whole_us > 0.0 ? (player->held_byte_us + rest) / whole_us : held;
}

void weir_player_clear(weir_player *player)
{
    for (uint32_t slot = 0; slot < player->trace->slots; slot++) {
        weir_addr addr = player->addrs[slot];
        if (addr == 0) continue;
        player_wrong(player, player->births[slot] - 1, "the last free",
                     player_give(player, slot, addr));
        player->addrs[slot] = 0;
    }
}
