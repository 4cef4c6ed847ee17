/* SPDX-License-Identifier: MIT */
/* What a device is found to have, what is used instead of what it lacks, and how it is said. */
#include "rig.h"

#include <string.h>
#include <unistd.h>

#define EXPECT_WHY(why, part) \
    cr_expect_not_null(strstr((why), (part)), "\"%s\" does not say \"%s\"", (why), (part))

static weir_status probe_create(weir_cuda_config config, weir_cuda **device, char *why)
{
    config.size = sizeof(config);
    config.libcuda = config.libcuda ? config.libcuda : weir_fakecuda_path();
    return weir_cuda_create(&config, device, why);
}

/* The source of a device that was asked for `wished`; the device is given back, and all with it. */
static weir_conf_source probe_source(const weir_fakecuda_config *fake, weir_conf_source wished)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(fake);
    weir_status status = probe_create((weir_cuda_config){.source = wished}, &device, why);
    cr_assert_eq(status, WEIR_OK, "%s", why);
    weir_conf_source source = weir_cuda_source(device);
    weir_cuda_destroy(device);
    cr_expect_null(weir_fakecuda_balance(), "%s", weir_fakecuda_balance());
    cr_expect_null(weir_fakecuda_breach(), "%s", weir_fakecuda_breach());
    return source;
}

Test(probe, the_source_asked_for_is_used_where_the_device_has_it)
{
    cr_expect_eq(probe_source(NULL, WEIR_CONF_VMM), WEIR_CONF_VMM);
    cr_expect_eq(probe_source(NULL, WEIR_CONF_ASYNC), WEIR_CONF_ASYNC);
    cr_expect_eq(probe_source(NULL, WEIR_CONF_MALLOC), WEIR_CONF_MALLOC);
}

Test(probe, virtual_memory_falls_back_to_pools_and_these_to_malloc)
{
    const weir_fakecuda_config no_vmm = {.no_vmm = true};
    const weir_fakecuda_config no_pools = {.no_pools = true};
    const weir_fakecuda_config neither = {.no_vmm = true, .no_pools = true};
    cr_expect_eq(probe_source(&no_vmm, WEIR_CONF_VMM), WEIR_CONF_ASYNC);
    cr_expect_eq(probe_source(&neither, WEIR_CONF_VMM), WEIR_CONF_MALLOC);
    cr_expect_eq(probe_source(&no_pools, WEIR_CONF_ASYNC), WEIR_CONF_MALLOC);
    cr_expect_eq(probe_source(&no_pools, WEIR_CONF_VMM), WEIR_CONF_VMM);
}

Test(probe, strict_refuses_instead_and_names_the_source)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(&(weir_fakecuda_config){.no_vmm = true, .no_pools = true});
    weir_cuda_config config = {.source = WEIR_CONF_VMM, .strict = true};
    cr_expect_eq(probe_create(config, &device, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "vmm");
    config.source = WEIR_CONF_ASYNC;
    cr_expect_eq(probe_create(config, &device, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "async");
    config.source = WEIR_CONF_MALLOC;
    cr_assert_eq(probe_create(config, &device, why), WEIR_OK, "%s", why);
    weir_cuda_destroy(device);
    cr_expect_null(weir_fakecuda_balance());
}

Test(probe, an_attribute_without_its_function_counts_for_nothing)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(NULL);
    weir_fakecuda_hide("cuMemSetAccess");
    weir_fakecuda_hide("cuMemFreeAsync");
    ASSERT_OK(probe_create((weir_cuda_config){.source = WEIR_CONF_VMM}, &device, why));
    cr_expect_eq(weir_cuda_source(device), WEIR_CONF_MALLOC);
    weir_cuda_destroy(device);
}

Test(probe, an_old_card_is_refused_with_its_capability)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(&(weir_fakecuda_config){.major = 6});
    cr_expect_eq(probe_create((weir_cuda_config){0}, &device, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "6.0");
    EXPECT_WHY(why, "7.0");
    cr_expect_null(weir_fakecuda_balance(), "the refused device left something");
}

Test(probe, a_device_that_does_not_exist_is_told_which_do)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(NULL);
    cr_expect_eq(probe_create((weir_cuda_config){.device = 2}, &device, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "2");
    EXPECT_WHY(why, "0 to 1");
    cr_expect_eq(probe_create((weir_cuda_config){.device = -1}, &device, why), WEIR_UNSUPPORTED);
    cr_expect_null(weir_fakecuda_balance());
}

Test(probe, no_driver_is_a_sentence_too)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_cuda_config config = {.libcuda = "/nowhere/libcuda.so.1"};
    cr_expect_eq(probe_create(config, &device, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "no CUDA driver");
}

Test(probe, describe_tells_what_the_driver_tells)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_device_info info = {.size = sizeof(info)};
    weir_fakecuda_reset(&(weir_fakecuda_config){.small_granule = true, .memory_bytes = 64 * MIB});
    ASSERT_OK(probe_create((weir_cuda_config){0}, &device, why));
    ASSERT_OK(weir_cuda_ops(device)->describe(device, &info));
    cr_expect_eq(info.granule_bytes, 64 * KIB);
    cr_expect_eq(info.memory_bytes, 64 * MIB);
    weir_cuda_destroy(device);
}

/* ------------------------------------------------------------------------------------- exports -- */

/* Whether a fresh pool's memory can be exported as `as`. */
static weir_status probe_export(const weir_fakecuda_config *fake, weir_cuda_share as)
{
    cuda_rig rig = rig_open(fake);
    weir_cuda_shared shared;
    rig_pool(&rig, "", NULL);
    weir_addr addr = rig_alloc(&rig, NULL, 2 * MIB);
    weir_status status = weir_cuda_pool_share(rig.pool, addr, as, &shared);
    if (status == WEIR_OK) {
        close(shared.fd);
    }
    rig_free(&rig, addr, NULL);
    rig_close(&rig);
    return status;
}

Test(probe, handles_are_exportable_where_the_device_says_so)
{
    cr_expect_eq(probe_export(NULL, WEIR_CUDA_FD), WEIR_OK);
    cr_expect_eq(probe_export(NULL, WEIR_CUDA_DMA_BUF), WEIR_OK);
}

Test(probe, what_the_device_cannot_export_is_unsupported)
{
    const weir_fakecuda_config no_fd = {.no_posix_fd = true};
    const weir_fakecuda_config no_dma = {.no_dma_buf = true};
    cr_expect_eq(probe_export(&no_fd, WEIR_CUDA_FD), WEIR_UNSUPPORTED);
    cr_expect_eq(probe_export(&no_dma, WEIR_CUDA_DMA_BUF), WEIR_UNSUPPORTED);
}

Test(probe, a_promise_that_the_driver_breaks_costs_the_export_alone)
{
    const weir_fakecuda_config refused = {.refuse_export = true};
    const weir_fakecuda_config no_rdma = {.refuse_rdma = true};
    cr_expect_eq(probe_export(&refused, WEIR_CUDA_FD), WEIR_UNSUPPORTED);
    cr_expect_eq(probe_export(&no_rdma, WEIR_CUDA_FD), WEIR_OK);
}

/* --------------------------------------------------------------------------------- old drivers -- */

static void probe_on_old_driver(const char *library)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_stream_desc desc = {.size = sizeof(desc)};
    weir_cuda_config config = {.source = WEIR_CONF_VMM, .libcuda = library};
    weir_status status = probe_create(config, &device, why);
    cr_assert_eq(status, WEIR_OK, "%s", why);
    cr_expect_eq(weir_cuda_source(device), WEIR_CONF_VMM);
    weir_cuda_work *work = weir_cuda_work_create(device);
    cr_assert_not_null(work);
    uint64_t stream = weir_cuda_work_stream_create(work);
    cr_assert_neq(stream, 0);
    status = weir_cuda_stream(device, (void *)(uintptr_t)stream, &desc);
    cr_expect_eq(status, WEIR_OK);
    cr_expect_eq(desc.native, stream);
    weir_cuda_work_destroy(work);
    weir_cuda_destroy(device);
}

Test(probe, a_driver_of_11_2_is_good_for_all_but_what_came_later)
{
    probe_on_old_driver(WEIR_FAKECUDA_11_2);
}

Test(probe, a_driver_of_11_3_too)
{
    probe_on_old_driver(WEIR_FAKECUDA_11_3);
}
