/* SPDX-License-Identifier: MIT */
/*
 * Target: calls on a pool in any order, over up to four streams and three domains, with pins, uses,
 * limits, resizes, trims, ends of streams, failures of device and host memory, and operations of
 * other threads in between. The oracle is world.h.
 *
 * Input: 8 bytes of settings, then records of 5 bytes: which operation, and its arguments.
 */
#include "world.h"

typedef enum pool_op {
    POOL_ALLOC,
    POOL_ALLOC_ON,
    POOL_FREE,
    POOL_WORK,
    POOL_USE,
    POOL_PIN,
    POOL_RESIZE,
    POOL_WRONG,
    POOL_STALL,
    POOL_TIME,
    POOL_TRIM,
    POOL_FINISH,
    POOL_LIMIT,
    POOL_END_STREAM,
    POOL_DOMAIN,
    POOL_FAULT,
    POOL_HOST_FAULT,
    POOL_NEST,
    POOL_LOOK,
    POOL_TENANT,
    POOL_OPS
} pool_op;

static const uint8_t pool_weights[POOL_OPS] = {50, 24, 60, 10, 10, 10, 12, 4, 8, 8,
                                               6,  6,  6,  5,  6,  14, 4,  9, 2, 2};

static bool pool_step(world *of)
{
    uint8_t op, a, b, c, d;
    op = fuzz_byte(&of->in);
    a = fuzz_byte(&of->in);
    b = fuzz_byte(&of->in);
    c = fuzz_byte(&of->in);
    d = fuzz_byte(&of->in);
    /* clang-format off */
    switch ((pool_op)fuzz_weighted(op, pool_weights, POOL_OPS)) {
    case POOL_ALLOC: weir_world_alloc(of, a, b, c, d); break;
    case POOL_ALLOC_ON: weir_world_alloc_on(of, a, b, c); break;
    case POOL_FREE: weir_world_free(of, a, b, c); of->unseen = d >= 128; break;
    case POOL_WORK: weir_world_work(of, a, b, c); break;
    case POOL_USE: weir_world_use(of, a, b); break;
    case POOL_PIN: weir_world_pin(of, a, b); break;
    case POOL_RESIZE: weir_world_resize(of, a, b, c); break;
    case POOL_WRONG: weir_world_wrong(of, a, b); break;
    case POOL_STALL: weir_world_stall(of, a); break;
    case POOL_TIME: weir_world_time(of, a); break;
    case POOL_TRIM: weir_world_trim(of, a, b); break;
    case POOL_FINISH: weir_world_finish(of, a); break;
    case POOL_LIMIT: weir_world_limit(of, a); break;
    case POOL_END_STREAM: weir_world_end_stream(of, a, b); break;
    case POOL_DOMAIN: weir_world_domain(of, a); break;
    case POOL_FAULT: weir_world_arm(of, a, b, c); break;
    case POOL_HOST_FAULT: weir_world_arm_host(of, a, b); break;
    case POOL_NEST: weir_world_nest(of, a, b); break;
    case POOL_LOOK: weir_world_look(of); break;
    case POOL_TENANT: weir_world_tenant(of, a); break;
    case POOL_OPS: break;
    }
    /* clang-format on */
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world of;
    uint8_t head[WORLD_HEAD];
    fuzz_input in = {data, size};
    fuzz_bytes(&in, head, sizeof head);
    weir_world_open(&of, head, pool_step, in);
    while (weir_world_run(&of, pool_step)) {
    }
    weir_world_close(&of);
    return 0;
}
