/* SPDX-License-Identifier: MIT */
/* The CUDA device alone, under a pool of the core: its books, its configuration, a forked child. */
#define _POSIX_C_SOURCE 200809L
#include "platform.h"
#include "rig.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK (2 * MIB)

static weir_cuda *dev_open(weir_conf_source source)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_cuda_config config = {
        .size = sizeof(config), .source = source, .libcuda = weir_fakecuda_path()};
    weir_status status = weir_cuda_create(&config, &device, why);
    cr_assert_eq(status, WEIR_OK, "%s", why);
    return device;
}

/* A pool of the core on it, that takes, moves or reuses, and gives all back. */
static void dev_use(weir_cuda *device)
{
    weir_platform *platform = weir_platform_create(true);
    weir_pool *pool = NULL;
    weir_stream stream = 0;
    weir_addr addr[4];
    weir_stream_desc desc = {.size = sizeof(desc)};
    weir_config config = {.size = sizeof(config),
                          .ops = weir_cuda_ops(device),
                          .device_self = device,
                          .platform = platform,
                          .limit_bytes = 4 * BLOCK,
                          .growth_bytes = BLOCK};
    ASSERT_OK(weir_pool_create(&config, &pool));
    ASSERT_OK(weir_cuda_stream(device, NULL, &desc));
    ASSERT_OK(weir_stream_attach(pool, &desc, &stream));
    for (unsigned i = 0; i < 4; i++) {
        ASSERT_OK(weir_alloc_on(pool, stream, BLOCK, &addr[i]));
    }
    const char *left = weir_cuda_balance(device);
    cr_assert_not_null(left);
    cr_expect_not_null(strstr(left, " 4 mappings") ? left : strstr(left, " 4 segments"), "%s",
                       left);
    for (unsigned i = 0; i < 4; i++) {
        ASSERT_OK(weir_free(pool, addr[i], stream));
    }
    ASSERT_OK(weir_alloc_on(pool, stream, BLOCK, &addr[0]));
    ASSERT_OK(weir_free(pool, addr[0], stream));
    ASSERT_OK(weir_pool_destroy(pool));
    weir_platform_destroy(platform);
}

Test(cuda_device, all_that_a_pool_took_is_off_the_books_at_its_end)
{
    static const weir_conf_source sources[] = {WEIR_CONF_VMM, WEIR_CONF_ASYNC, WEIR_CONF_MALLOC};
    for (unsigned i = 0; i < 3; i++) {
        weir_fakecuda_reset(NULL);
        weir_cuda *device = dev_open(sources[i]);
        cr_expect_null(weir_cuda_balance(device));
        dev_use(device);
        const char *left = weir_cuda_balance(device);
        cr_expect_null(left, "%s", left ? left : "");
        weir_cuda_destroy(device);
        weir_fakecuda_settle();
        cr_expect_null(weir_fakecuda_balance(), "%s", weir_fakecuda_balance());
        cr_expect_null(weir_fakecuda_breach(), "%s", weir_fakecuda_breach());
    }
}

/* Addresses that were mapped once and are mapped anew belong to the new handle. */
Test(cuda_device, an_unmapped_handle_cannot_be_exported)
{
    weir_addr base = 0;
    weir_handle handle = 0;
    weir_cuda_shared shared = {-1, 0, 0};
    weir_fakecuda_reset(NULL);
    weir_cuda *device = dev_open(WEIR_CONF_VMM);
    const weir_device_ops *ops = weir_cuda_ops(device);
    ASSERT_OK(ops->va_reserve(device, 2 * BLOCK, &base));
    ASSERT_OK(ops->handle_create(device, BLOCK, &handle));
    ASSERT_OK(ops->map(device, base, BLOCK, handle));
    ASSERT_OK(ops->set_access(device, base, BLOCK));
    ASSERT_OK(weir_cuda_export(device, base + 4096, 4096, WEIR_CUDA_FD, &shared));
    cr_expect_eq(shared.offset, 4096);
    cr_expect_eq(shared.handle_bytes, BLOCK);
    close(shared.fd);
    ASSERT_OK(ops->unmap(device, base, BLOCK));
    cr_expect_eq(weir_cuda_export(device, base, BLOCK, WEIR_CUDA_FD, &shared), WEIR_INVALID);
    ASSERT_OK(ops->handle_release(device, handle, BLOCK));
    ASSERT_OK(ops->va_free(device, base, 2 * BLOCK));
    cr_expect_null(weir_cuda_balance(device));
    weir_cuda_destroy(device);
}

typedef struct device_mapping {
    weir_cuda *device;
    weir_addr addr;
    weir_handle handle;
    weir_status status;
} device_mapping;

static void *device_map(void *self)
{
    device_mapping *one = (device_mapping *)self;
    one->status = weir_cuda_ops(one->device)->map(one->device, one->addr, BLOCK, one->handle);
    return NULL;
}

/* The driver fails the map of a handle that is mapped elsewhere too while another thread is between
 * its map and its access. So there is no such time. */
Test(cuda_device, a_map_has_its_access_with_it_and_other_threads_may_map)
{
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", NULL);
    const weir_device_ops *ops = weir_cuda_ops(rig.device);
    pthread_t thread;
    weir_addr base = 0;
    weir_handle moved = 0;
    device_mapping other = {.device = rig.device};
    ASSERT_OK(ops->va_reserve(rig.device, 3 * BLOCK, &base));
    ASSERT_OK(ops->handle_create(rig.device, BLOCK, &moved));
    ASSERT_OK(ops->handle_create(rig.device, BLOCK, &other.handle));
    other.addr = base + 2 * BLOCK;
    ASSERT_OK(ops->map(rig.device, base, BLOCK, moved));
    cr_assert_eq(pthread_create(&thread, NULL, device_map, &other), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(other.status);
    ASSERT_OK(ops->map(rig.device, base + BLOCK, BLOCK, moved));
    ASSERT_OK(ops->set_access(rig.device, base, 3 * BLOCK));
    ASSERT_OK(ops->unmap(rig.device, base, 3 * BLOCK));
    ASSERT_OK(ops->handle_release(rig.device, moved, BLOCK));
    ASSERT_OK(ops->handle_release(rig.device, other.handle, BLOCK));
    ASSERT_OK(ops->va_free(rig.device, base, 3 * BLOCK));
    rig_close(&rig);
}

Test(cuda_device, a_config_of_an_older_caller_is_read_as_far_as_it_goes)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *device = NULL;
    weir_fakecuda_reset(NULL);
    weir_cuda_config config = {
        .size = sizeof(config), .source = WEIR_CONF_MALLOC, .libcuda = weir_fakecuda_path()};
    config.size = offsetof(weir_cuda_config, source);
    weir_status status = weir_cuda_create(&config, &device, why);
    cr_expect_eq(status, WEIR_UNSUPPORTED, "the library of its own choice is not to be known");
    cr_expect_null(device);
    cr_expect_not_null(strstr(why, "libcuda.so.1"), "%s", why);
    cr_expect_eq(weir_cuda_create(NULL, &device, NULL), WEIR_UNSUPPORTED);
    weir_cuda_destroy(NULL);
}

Test(cuda_device, memory_info_is_the_devices)
{
    uint64_t free_bytes = 0;
    uint64_t total = 0;
    uint64_t addr = 0;
    cuda_rig rig = rig_open(&(weir_fakecuda_config){.memory_bytes = 64 * MIB});
    rig_pool(&rig, "", NULL);
    const weir_device_ops *ops = weir_cuda_ops(rig.device);
    ASSERT_OK(ops->memory_info(rig.device, &free_bytes, &total));
    cr_expect_eq(total, 64 * MIB);
    RUN(rig.driver.alloc(&addr, 10 * MIB)); /* somebody else's */
    uint64_t before = free_bytes;
    ASSERT_OK(ops->memory_info(rig.device, &free_bytes, &total));
    cr_expect_eq(before - free_bytes, 10 * MIB);
    RUN(rig.driver.free(addr));
    weir_fakecuda_fail("cuMemGetInfo_v2", 1, WEIR_CU_INVALID_VALUE, false);
    free_bytes = 77;
    cr_expect_eq(ops->memory_info(rig.device, &free_bytes, &total), WEIR_DEVICE);
    cr_expect_eq(free_bytes, 77, "a result was written on failure");
    cr_expect_eq(ops->native_error(rig.device), WEIR_CU_INVALID_VALUE);
    cr_expect_str_eq(weir_cuda_error(rig.device), "CUDA_ERROR_INVALID_VALUE");
    rig_close(&rig);
}

Test(cuda_device, settings_for_another_backend_are_refused)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda_pool *pool = NULL;
    cuda_rig rig = rig_open(NULL);
    cr_expect_eq(rig_try_pool("backend:sim", NULL, &pool, why), WEIR_INVALID);
    cr_expect_not_null(strstr(why, "cuda"), "%s", why);
    cr_expect_neq(rig_try_pool("initial_pool_size_mb:600", NULL, &pool, why), WEIR_OK);
    cr_expect_neq(strlen(why), 0);
    cr_expect_null(pool);
    cr_expect_eq(weir_cuda_pool_destroy(NULL), WEIR_INVALID);
    rig_close(&rig);
}

/* ---------------------------------------------------------------------------------------- fork -- */

/* In the child: what needs the device is lost, what is live can be freed, and all ends. */
static int dev_in_child(const cuda_rig *rig, weir_addr live)
{
    weir_addr none = 0;
    if (weir_cuda_pool_alloc(rig->pool, 64 * MIB, NULL, &none) != WEIR_LOST) {
        return 1;
    }
    if (weir_cuda_pool_free(rig->pool, live, NULL) != WEIR_OK) {
        return 2;
    }
    return weir_cuda_pool_destroy(rig->pool) == WEIR_OK ? 0 : 3;
}

Test(cuda_device, a_forked_child_can_free_and_destroy, .timeout = 60)
{
    int status = -1;
    cuda_rig rig = rig_open(NULL);
    rig_pool(&rig, "", NULL);
    weir_addr live = rig_alloc(&rig, NULL, BLOCK);
    rig_sync(&rig);
    weir_fakecuda_settle();
    pid_t child = fork();
    if (child == 0) {
        _exit(dev_in_child(&rig, live));
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 0, "step %d of the child", WEXITSTATUS(status));
    rig_free(&rig, live, NULL); /* the parent goes on */
    rig_close(&rig);
}
