/* SPDX-License-Identifier: MIT */
/*
 * A device that will never work again, and a process that ends: calls say so, what is live can be
 * freed, all ends cleanly and without waiting for what can't come.
 */
#include "rig.h"

#include <string.h>

#define BLOCK (2 * MIB)

typedef struct lost_scene {
    cuda_rig rig;
    weir_cu_stream stream[2];
    weir_addr live[4];
} lost_scene;

/* Live blocks on two streams, free ones behind work that still runs, and a trim half done. */
static lost_scene lost_open(const char *settings)
{
    lost_scene scene;
    memset(&scene, 0, sizeof(scene));
    scene.rig = rig_open(NULL);
    rig_pool(&scene.rig, settings, NULL);
    for (unsigned i = 0; i < 2; i++) {
        scene.stream[i] = rig_stream(&scene.rig);
    }
    for (unsigned i = 0; i < 4; i++) {
        scene.live[i] = rig_alloc(&scene.rig, scene.stream[i % 2], (1 + i) * BLOCK);
        rig_fill(&scene.rig, scene.stream[i % 2], scene.live[i], (1 + i) * BLOCK, i);
    }
    weir_addr freed = rig_alloc(&scene.rig, scene.stream[0], BLOCK);
    RUN(weir_fakecuda_hold(scene.stream[0]));
    rig_fill(&scene.rig, scene.stream[0], freed, BLOCK, 9);
    rig_free(&scene.rig, freed, scene.stream[0]);
    return scene;
}

/* All is freed and destroyed, whatever the driver answers. */
static void lost_close(lost_scene *scene, bool asks_still)
{
    weir_addr none = 0;
    weir_cuda_pool *pool = scene->rig.pool;
    weir_status status = weir_cuda_pool_alloc(pool, 100 * MIB, scene->stream[1], &none);
    cr_expect_eq(status, WEIR_LOST, "alloc: %s", weir_status_name(status));
    for (unsigned i = 0; i < 4; i++) {
        status = weir_cuda_pool_free(pool, scene->live[i], scene->stream[i % 2]);
        cr_expect_eq(status, WEIR_OK, "free %u: %s", i, weir_status_name(status));
    }
    rig_check(&scene->rig);
    status = weir_cuda_pool_alloc(pool, BLOCK, scene->stream[0], &none);
    cr_expect_eq(status, WEIR_LOST, "alloc of what was freed: %s", weir_status_name(status));
    uint64_t before = weir_fakecuda_calls(NULL);
    weir_cuda_work_destroy(scene->rig.work);
    status = weir_cuda_pool_destroy(pool);
    cr_expect_eq(status, WEIR_OK, "destroy: %s", weir_status_name(status));
    cr_expect(asks_still || weir_fakecuda_calls(NULL) - before <= 8, "%llu calls of a dead driver",
              (unsigned long long)(weir_fakecuda_calls(NULL) - before));
}

static void lost_device(const char *settings, weir_cu_result result)
{
    lost_scene scene = lost_open(settings);
    weir_fakecuda_lose(0, result);
    lost_close(&scene, true);
    cr_expect_null(weir_fakecuda_breach(), "%s", weir_fakecuda_breach());
    weir_driver_close(&scene.rig.driver);
}

Test(cuda_lost, a_device_that_is_lost_lets_go_of_everything, .timeout = 60)
{
    lost_device("source:vmm", WEIR_CU_ILLEGAL_ADDRESS);
    lost_device("source:async", WEIR_CU_LAUNCH_FAILED);
    lost_device("source:malloc", WEIR_CU_ECC_UNCORRECTABLE);
    lost_device("source:vmm,limit_mb:24", WEIR_CU_LAUNCH_TIMEOUT);
}

Test(cuda_lost, so_does_a_driver_that_answers_nothing_else, .timeout = 60)
{
    lost_scene scene = lost_open("source:vmm");
    weir_fakecuda_lose(-1, WEIR_CU_ILLEGAL_ADDRESS);
    lost_close(&scene, false);
    weir_driver_close(&scene.rig.driver);
}

Test(cuda_lost, the_error_is_named, .timeout = 60)
{
    lost_scene scene = lost_open("source:vmm");
    weir_addr none = 0;
    weir_fakecuda_lose(0, WEIR_CU_ILLEGAL_ADDRESS);
    cr_expect_eq(weir_cuda_pool_alloc(scene.rig.pool, 100 * MIB, NULL, &none), WEIR_LOST);
    cr_expect_str_eq(weir_cuda_error(scene.rig.device), "CUDA_ERROR_ILLEGAL_ADDRESS");
    lost_close(&scene, true);
    weir_driver_close(&scene.rig.driver);
}

/* Found by work of the program's own, which touched what it should not. */
Test(cuda_lost, a_kernel_that_goes_astray_loses_the_device, .timeout = 60)
{
    lost_scene scene = lost_open("source:vmm");
    weir_addr none = 0;
    rig_fill(&scene.rig, scene.stream[1], 4096, 4096, 1);
    weir_fakecuda_go();
    weir_fakecuda_settle();
    cr_expect_not_null(strstr(weir_fakecuda_breach(), "addresses without memory"));
    weir_fakecuda_forgive();
    cr_expect_eq(weir_cuda_pool_alloc(scene.rig.pool, 100 * MIB, NULL, &none), WEIR_LOST);
    lost_close(&scene, true);
    weir_driver_close(&scene.rig.driver);
}

Test(cuda_lost, the_other_device_works_on, .timeout = 60)
{
    lost_scene scene = lost_open("source:vmm");
    weir_cuda_pool *second = NULL;
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_addr addr = 0;
    weir_cuda_pool_config config = {.device.device = 1};
    cr_assert_eq(rig_try_pool("", &config, &second, why), WEIR_OK, "%s", why);
    weir_fakecuda_lose(0, WEIR_CU_ILLEGAL_ADDRESS);
    lost_close(&scene, true);
    EXPECT_OK(weir_cuda_pool_alloc(second, BLOCK, NULL, &addr));
    EXPECT_OK(weir_cuda_pool_free(second, addr, NULL));
    EXPECT_OK(weir_cuda_pool_destroy(second));
    cr_expect_eq(weir_fakecuda_held(1), 0);
    weir_driver_close(&scene.rig.driver);
}

/* The waiting ends where the loss shows, not where the work would have ended. */
Test(cuda_lost, a_wait_ends_when_the_device_is_lost, .timeout = 60)
{
    lost_scene scene = lost_open("source:vmm,limit_mb:22");
    weir_addr none = 0;
    weir_fakecuda_fail("cuEventQuery", 3, WEIR_CU_LAUNCH_FAILED, true);
    weir_status status = weir_cuda_pool_alloc(scene.rig.pool, 3 * BLOCK, scene.stream[1], &none);
    cr_expect(status == WEIR_LOST || status == WEIR_NO_MEMORY, "%s", weir_status_name(status));
    (void)weir_fakecuda_failed();
    weir_fakecuda_lose(0, WEIR_CU_LAUNCH_FAILED);
    lost_close(&scene, true);
    weir_driver_close(&scene.rig.driver);
}

/* -------------------------------------------------------------------------------------- the end -- */

static void lost_at_exit(const char *settings)
{
    lost_scene scene = lost_open(settings);
    weir_fakecuda_end();
    lost_close(&scene, false);
    cr_expect_null(weir_fakecuda_breach(), "%s", weir_fakecuda_breach());
    weir_driver_close(&scene.rig.driver);
}

Test(cuda_lost, a_destroy_after_the_drivers_end_frees_host_memory_only, .timeout = 60)
{
    lost_at_exit("source:vmm");
    lost_at_exit("source:async");
    lost_at_exit("source:malloc");
}

Test(cuda_lost, nothing_is_called_by_itself_at_the_end, .timeout = 60)
{
    lost_scene scene = lost_open("source:vmm");
    uint64_t before = weir_fakecuda_calls(NULL);
    weir_fakecuda_go();
    weir_fakecuda_settle();
    cr_expect_eq(weir_fakecuda_calls(NULL), before, "a thread of Weir's own calls the driver");
    weir_fakecuda_end();
    lost_close(&scene, false);
    weir_driver_close(&scene.rig.driver);
}
