/* SPDX-License-Identifier: MIT */
/* Idle handles: held, mapped nowhere, first to be used and first to go. */
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

static uint64_t idle_bytes(sim_rig *rig)
{
    return weir_rig_stats(rig).idle_bytes;
}

Test(idle, they_are_used_before_new_ones)
{
    sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 4 * MIB}});
    (void)idle_make(rig, 2);
    uint64_t made = weir_rig_stats(rig).creates;
    weir_addr addr = weir_rig_alloc(rig, 0, 4 * MIB);
    cr_expect_eq(weir_rig_stats(rig).creates, made);
    cr_expect_eq(idle_bytes(rig), 0);
    weir_rig_write(rig, 0, addr, 4 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

Test(idle, one_serves_a_block_that_must_lie_in_one_handle)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_request request = weir_rig_request(rig, 0, 7 * MIB);
    request.flags = WEIR_ONE_HANDLE;
    (void)idle_make(rig, 2);
    (void)idle_make(rig, 4);
    weir_addr addr = 0;
    ASSERT_OK(weir_alloc(rig->pool, &request, &addr));
    cr_expect_eq(weir_rig_stats(rig).creates, 0);
    cr_expect_eq(idle_bytes(rig), 4 * MIB, "the one of its size is taken, the other stays");
    weir_rig_write(rig, 0, addr, 7 * MIB, 1);
    weir_rig_free(rig, 0, addr);
    weir_rig_close(rig);
}

/* The device may refuse any call of the growth; what was idle before is so again. */
Test(idle, what_could_not_be_mapped_is_idle_again)
{
    static const weir_sim_call calls[] = {WEIR_SIM_map, WEIR_SIM_set_access};
    for (unsigned i = 0; i < 2; i++) {
        sim_rig *rig = weir_rig_open(&(rig_options){.pool = {.growth_bytes = 4 * MIB}});
        (void)idle_make(rig, 2);
        weir_sim_fail(rig->sim, calls[i], 1, true, WEIR_DEVICE);
        EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 4 * MIB)), WEIR_DEVICE);
        weir_sim_fail(rig->sim, calls[i], 0, false, WEIR_OK);
        weir_rig_check(rig);
        cr_expect_eq(idle_bytes(rig), 4 * MIB);
        EXPECT_STATUS(weir_rig_try(rig, weir_rig_request(rig, 0, 4 * MIB)), WEIR_OK);
        cr_expect_eq(idle_bytes(rig), 0);
        weir_rig_close(rig);
    }
}

Test(idle, a_trim_takes_the_largest_first_and_no_more_than_it_must)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    (void)idle_make(rig, 1);
    (void)idle_make(rig, 4);
    (void)idle_make(rig, 1);
    uint64_t released = 0;
    ASSERT_OK(weir_trim(rig->pool, 4 * MIB, 0, &released));
    cr_expect_eq(released, 8 * MIB);
    cr_expect_eq(idle_bytes(rig), 4 * MIB);
    ASSERT_OK(weir_trim(rig->pool, 2 * MIB, 0, &released));
    cr_expect_eq(released, 2 * MIB);
    ASSERT_OK(weir_trim(rig->pool, 0, 0, &released));
    cr_expect_eq(idle_bytes(rig), 0);
    weir_rig_close(rig);
}

/* One that is still mapped at an old place can't be given back. */
Test(idle, one_with_an_old_place_stays)
{
    sim_rig *rig = weir_rig_open(&(rig_options){0});
    weir_piece *piece = weir_piece_get(&rig->pool->pages, idle_make(rig, 1));
    uint64_t released = 1;
    piece->shadows++;
    ASSERT_OK(weir_trim(rig->pool, 0, 0, &released));
    cr_expect_eq(released, 0);
    cr_expect_eq(idle_bytes(rig), 2 * MIB);
    piece->shadows--;
    ASSERT_OK(weir_trim(rig->pool, 0, 0, &released));
    cr_expect_eq(released, 2 * MIB);
    weir_rig_close(rig);
}
