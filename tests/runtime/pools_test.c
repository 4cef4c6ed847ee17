/* SPDX-License-Identifier: MIT */
/* Pools of the caller: PyTorch's private pools. */
#include "runtime_rig.h"

static int pools_no(void *self, uint64_t stream)
{
    (void)stream;
    ++*(int *)self;
    return 0;
}

Test(pools, what_a_pool_frees_is_lent_to_nobody_else)
{
    runtime_rig_open("limit_mb:64", NULL);
    ASSERT_OK(weir_runtime_pool_begin(0, 0, 7, NULL, NULL));
    uint64_t inside = runtime_rig_alloc(40 * MIB);
    ASSERT_OK(weir_runtime_pool_end(0, 0, 7));
    runtime_rig_free(inside);
    uint64_t addr = 0;
    EXPECT_STATUS(weir_runtime_alloc(0, 40 * MIB, 0, &addr), WEIR_NO_MEMORY);
    ASSERT_OK(weir_runtime_pool_begin(0, 0, 7, NULL, NULL));
    uint64_t again = runtime_rig_alloc(40 * MIB);
    ASSERT_OK(weir_runtime_pool_end(0, 0, 7));
    cr_expect_eq(again, inside);
    runtime_rig_free(again);
    ASSERT_OK(weir_runtime_pool_release(0, 0, 7));
    runtime_rig_free(runtime_rig_alloc(40 * MIB));
    runtime_rig_close();
}

Test(pools, a_released_pool_goes_with_its_last_block)
{
    uint64_t addr = 0;
    runtime_rig_open("limit_mb:64", NULL);
    ASSERT_OK(weir_runtime_pool_begin(0, 1, 0, NULL, NULL));
    uint64_t inside = runtime_rig_alloc(20 * MIB);
    runtime_rig_free(runtime_rig_alloc(30 * MIB));
    ASSERT_OK(weir_runtime_pool_end(0, 1, 0));
    ASSERT_OK(weir_runtime_pool_release(0, 1, 0));
    EXPECT_STATUS(weir_runtime_alloc(0, 40 * MIB, 0, &addr), WEIR_NO_MEMORY);
    runtime_rig_free(inside);
    runtime_rig_free(runtime_rig_alloc(60 * MIB));
    runtime_rig_close();
}

Test(pools, a_pool_takes_what_its_owner_wants)
{
    int asked = 0;
    runtime_rig_open("limit_mb:64", NULL);
    ASSERT_OK(weir_runtime_pool_begin(0, 2, 0, pools_no, &asked));
    uint64_t outside = runtime_rig_alloc(40 * MIB);
    cr_expect_eq(asked, 1);
    runtime_rig_free(outside);
    ASSERT_OK(weir_runtime_pool_end(0, 2, 0));
    cr_expect_eq(runtime_rig_alloc(40 * MIB), outside);
    runtime_rig_free(outside);
    ASSERT_OK(weir_runtime_pool_release(0, 2, 0));
    runtime_rig_close();
}

Test(pools, what_was_never_begun_is_not_found)
{
    runtime_rig_open(NULL, NULL);
    EXPECT_STATUS(weir_runtime_pool_end(0, 5, 5), WEIR_NOT_FOUND);
    EXPECT_STATUS(weir_runtime_pool_release(0, 5, 5), WEIR_NOT_FOUND);
    ASSERT_OK(weir_runtime_pool_begin(0, 5, 5, NULL, NULL));
    ASSERT_OK(weir_runtime_pool_end(0, 5, 5));
    EXPECT_STATUS(weir_runtime_pool_end(0, 5, 5), WEIR_NOT_FOUND);
    ASSERT_OK(weir_runtime_pool_release(0, 5, 5));
    runtime_rig_close();
}

Test(pools, an_allocation_that_fails_leaves_the_pool_free_to_go)
{
    uint64_t addr = 0;
    runtime_rig_open("limit_mb:64", NULL);
    ASSERT_OK(weir_runtime_pool_begin(0, 3, 0, NULL, NULL));
    EXPECT_STATUS(weir_runtime_alloc(0, 100 * MIB, 0, &addr), WEIR_NO_MEMORY);
    ASSERT_OK(weir_runtime_pool_end(0, 3, 0));
    ASSERT_OK(weir_runtime_pool_release(0, 3, 0));
    EXPECT_STATUS(weir_runtime_pool_release(0, 3, 0), WEIR_NOT_FOUND); /* it is gone already */
    runtime_rig_close();
}
