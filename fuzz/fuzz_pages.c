/* SPDX-License-Identifier: MIT */
/*
 * Target: what backs the blocks, while the device refuses calls in any pattern. Each operation has
 * a pattern of its own: bit k of 16 says whether the k-th call for memory fails (va_reserve to
 * segment_free, quiesce to resume), so what undoes a failure may fail too. One or two streams,
 * large blocks, trims, limits, pins. world.h is the oracle, and after each operation every handle
 * and every free run is held against what the simulated device has mapped.
 *
 * Input: 8 bytes of settings, then records of 6 bytes: operation, three arguments, the pattern.
 */
#include "world.h"

typedef enum pages_op {
    PAGES_ALLOC,
    PAGES_FREE,
    PAGES_RESIZE,
    PAGES_PIN,
    PAGES_TRIM,
    PAGES_FINISH,
    PAGES_LIMIT,
    PAGES_TIME,
    PAGES_TENANT,
    PAGES_OPS
} pages_op;

static const uint8_t pages_weights[PAGES_OPS] = {90, 70, 24, 12, 20, 10, 16, 8, 6};

/* NO_MEMORY is what a full device says, so the pool answers it by trying other ways. */
static void pages_script(world *of, uint8_t low, uint8_t high)
{
    static const weir_status answers[] = {WEIR_DEVICE, WEIR_DEVICE, WEIR_NO_MEMORY,
                                          WEIR_NO_METADATA};
    of->script = (uint32_t)(low | high << 8);
    of->script_status = answers[(low ^ high >> 3) & 3];
}

static bool pages_step(world *of)
{
    uint8_t op = fuzz_byte(&of->in), a = fuzz_byte(&of->in), b = fuzz_byte(&of->in);
    uint8_t c = fuzz_byte(&of->in), low = fuzz_byte(&of->in), high = fuzz_byte(&of->in);
    pages_script(of, low, high);
    /* clang-format off */
    switch ((pages_op)fuzz_weighted(op, pages_weights, PAGES_OPS)) {
    case PAGES_ALLOC: weir_world_alloc(of, a & 0x3F, b | 0x60, c, a); break;
    case PAGES_FREE: weir_world_free(of, a, b, c); break;
    case PAGES_RESIZE: weir_world_resize(of, a, b | 0x60, c); break;
    case PAGES_PIN: weir_world_pin(of, a, b); break;
    case PAGES_TRIM: weir_world_trim(of, a, b); break;
    case PAGES_FINISH: weir_world_finish(of, a); break;
    case PAGES_LIMIT: weir_world_limit(of, a); break;
    case PAGES_TIME: weir_world_time(of, a); break;
    case PAGES_TENANT: weir_world_tenant(of, a); break;
    case PAGES_OPS: break;
    }
    /* clang-format on */
    of->script = 0;
    weir_world_look(of);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world of;
    uint8_t head[WORLD_HEAD];
    fuzz_input in = {data, size};
    fuzz_bytes(&in, head, sizeof head);
    head[0] &= 0xF7; /* two streams at most */
    weir_world_open(&of, head, pages_step, in);
    while (weir_world_run(&of, pages_step)) {
    }
    weir_world_close(&of);
    return 0;
}
