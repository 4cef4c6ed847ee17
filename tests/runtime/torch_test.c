/* SPDX-License-Identifier: MIT */
/* PyTorch's hooks, called as PyTorch does. */
#include "runtime_rig.h"
#include "weir_torch.h"

#include <string.h>

Test(torch, a_tensor_comes_and_goes)
{
    size_t bytes = 0;
    runtime_rig_open(NULL, NULL);
    weir_torch_init(1);
    char *tensor = (char *)weir_torch_alloc((ssize_t)(3 * MIB), 0, NULL);
    cr_assert_not_null(tensor);
    cr_expect_eq(weir_torch_base(tensor + MIB, &bytes), tensor);
    cr_expect_eq(bytes, 3 * MIB);
    weir_torch_record_stream(tensor, NULL);
    weir_torch_free(tensor, (ssize_t)(3 * MIB), 0, NULL);
    cr_expect_eq(runtime_rig_stats().allocations[0].current, 0);
    weir_torch_empty_cache();
    cr_expect_eq(runtime_rig_stats().reserved.current, 0);
    runtime_rig_close();
}

Test(torch, a_tensor_of_nothing_has_no_address)
{
    runtime_rig_open(NULL, NULL);
    cr_expect_null(weir_torch_alloc(0, 0, NULL));
    weir_torch_free(NULL, 0, 0, NULL);
    runtime_rig_close();
}

Test(torch, the_fraction_is_a_limit_and_failure_has_a_reason)
{
    runtime_rig_open(NULL, NULL);
    weir_torch_memory_fraction(0.125, 0); /* of 512 MiB */
    cr_expect_eq(runtime_rig_stats().limit, 64 * MIB);
    cr_expect_null(weir_torch_alloc((ssize_t)(100 * MIB), 0, NULL));
    EXPECT_SAYS("CUDA out of memory");
    runtime_rig_close();
}

Test(torch, a_memory_pool_is_lent_to_nobody_else)
{
    weir_torch_pool_id id = {3, 9};
    runtime_rig_open(NULL, NULL);
    weir_torch_begin_to_pool(0, id, NULL);
    void *inside = weir_torch_alloc((ssize_t)(4 * MIB), 0, NULL);
    weir_torch_end_to_pool(0, id);
    weir_torch_free(inside, (ssize_t)(4 * MIB), 0, NULL);
    void *outside = weir_torch_alloc((ssize_t)(4 * MIB), 0, NULL);
    cr_expect_neq(outside, inside);
    weir_torch_free(outside, (ssize_t)(4 * MIB), 0, NULL);
    weir_torch_release_pool(0, id);
    runtime_rig_close();
}
