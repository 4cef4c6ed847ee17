/* SPDX-License-Identifier: MIT */
/* A trim that fails half-way: idle handles that it did not come to are still there. */
#include "pool.h"
#include "rig.h"

/* What a rescue leaves behind where no limit takes it back. */
static uint32_t idle_make(sim_rig *rig, uint32_t granules)
{
    weir_pool *pool = rig->pool;
    uint64_t bytes = granules * weir_pool_granule(pool);
    uint32_t which = weir_pages_piece_add(&pool->pages, granules);
    weir_piece *piece = weir_piece_get(&pool->pages, which);
    ASSERT_OK(weir_sim_ops(rig->sim)->handle_create(rig->sim, bytes, &piece->handle));
    piece->made = true;
    weir_pages_idle_push(&pool->pages, which);
    weir_pool_note_held(pool, bytes, 1);
    return which;
}

/* Every second of these is freed by stream 0, so that a request of stream 1 moves handles. */
#define IDLE_BLOCKS 12u

static void idle_move(sim_rig *rig, weir_addr *addr, weir_addr *large)
{
    for (unsigned i = 0; i < IDLE_BLOCKS; i++) addr[i] = weir_rig_alloc(rig, 0, 2 * MIB);
    for (unsigned i = 1; i < IDLE_BLOCKS; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_pool_lock(rig->pool);
    weir_pool_press(rig->pool, true);
    weir_pool_unlock(rig->pool);
    *large = weir_rig_alloc(rig, 0, 10 * MIB);
    cr_assert_gt(weir_rig_stats(rig).shadowed_bytes, 0);
}

static rig_options idle_options(void)
{
    return (rig_options){.pool = {.limit_bytes = 32 * MIB, .growth_bytes = 2 * MIB}};
}

/* An old place that can't be unmapped now keeps its own handle back and no other. */
Test(idle, a_trim_that_fails_elsewhere_does_not_lose_them)
{
    weir_addr addr[IDLE_BLOCKS], large;
    rig_options options = idle_options();
    options.pool.limit_bytes = 24 * MIB;
    sim_rig *rig = weir_rig_open(&options);
    idle_move(rig, addr, &large);
    ASSERT_OK(weir_limit_set(rig->pool, 32 * MIB));
    (void)idle_make(rig, 1);
    cr_expect_eq(weir_rig_stats(rig).idle_bytes, 2 * MIB);
    weir_sim_fail(rig->sim, WEIR_SIM_unmap, 1, false, WEIR_DEVICE);
    EXPECT_STATUS(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL), WEIR_DEVICE);
    weir_rig_check(rig);
    for (unsigned i = 0; i < IDLE_BLOCKS; i += 2) weir_rig_free(rig, 0, addr[i]);
    weir_rig_free(rig, 0, large);
    ASSERT_OK(weir_trim(rig->pool, 0, WEIR_FOREVER, NULL));
    weir_rig_check(rig);
    cr_expect_eq(weir_rig_stats(rig).idle_bytes, 0);
    cr_expect_leq(weir_rig_stats(rig).reserved.current, 2 * MIB,
                  "more than the handle whose old place is stuck");
    weir_rig_close_loose(rig);
}
