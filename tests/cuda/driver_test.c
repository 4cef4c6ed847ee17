/* SPDX-License-Identifier: MIT */
/* Opening the driver: by each way of finding functions, and what is said where it cannot be. */
#include "rig.h"

#include <dlfcn.h>
#include <string.h>

static weir_status drv_open(const weir_fakecuda_config *fake, weir_driver *driver, char *why)
{
    weir_fakecuda_reset(fake);
    return weir_driver_open(driver, weir_fakecuda_path(), why);
}

#define EXPECT_WHY(why, part) \
    cr_expect_not_null(strstr((why), (part)), "\"%s\" does not say \"%s\"", (why), (part))

Test(driver, a_machine_without_a_driver_is_told_in_a_sentence)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_expect_eq(weir_driver_open(&driver, "/nowhere/libcuda.so.1", why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "no CUDA driver");
    EXPECT_WHY(why, "/nowhere/libcuda.so.1");
    cr_expect_null(driver.libcuda);
    cr_expect_null(driver.init);
}

Test(driver, a_library_that_is_no_driver_is_refused)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_expect_eq(weir_driver_open(&driver, "libm.so.6", why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "lacks cuInit");
    cr_expect_null(driver.libcuda);
}

Test(driver, a_driver_without_a_device_is_told_in_a_sentence)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_expect_eq(drv_open(&(weir_fakecuda_config){.devices = -1}, &driver, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "no device");
    EXPECT_WHY(why, "CUDA_VISIBLE_DEVICES");
}

Test(driver, one_that_lacks_a_function_is_too_old)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    weir_fakecuda_reset(NULL);
    weir_fakecuda_hide("cuStreamWaitEvent");
    cr_expect_eq(weir_driver_open(&driver, weir_fakecuda_path(), why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "cuStreamWaitEvent");
    EXPECT_WHY(why, "too old");
}

/* Found by exported names, so nothing but the version tells. */
Test(driver, one_of_too_low_a_version_is_told_its_version)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    void (*reset)(const weir_fakecuda_config *config) = NULL;
    weir_driver driver;
    void *library = dlopen(WEIR_FAKECUDA_11_2, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    void *found = dlsym(library, "weir_fakecuda_reset");
    memcpy(&reset, &found, sizeof(reset));
    reset(&(weir_fakecuda_config){.driver_version = 10020});
    cr_expect_eq(weir_driver_open(&driver, WEIR_FAKECUDA_11_2, why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "10.2");
    EXPECT_WHY(why, "11.0");
    cr_expect_null(driver.libcuda);
    reset(&(weir_fakecuda_config){.driver_version = 11000});
    cr_expect_eq(weir_driver_open(&driver, WEIR_FAKECUDA_11_2, why), WEIR_OK);
    cr_expect_eq(driver.driver_version, 11000);
    weir_driver_close(&driver);
    reset(NULL);
    dlclose(library);
}

Test(driver, a_start_that_fails_is_told_by_its_number)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    weir_fakecuda_reset(NULL);
    weir_fakecuda_fail("cuInit", 1, 999, false);
    cr_expect_eq(weir_driver_open(&driver, weir_fakecuda_path(), why), WEIR_UNSUPPORTED);
    EXPECT_WHY(why, "999");
    weir_fakecuda_fail("cuDriverGetVersion", 1, 999, false);
    cr_expect_neq(weir_driver_open(&driver, weir_fakecuda_path(), why), WEIR_OK);
}

Test(driver, every_function_has_the_signature_that_was_asked_for)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_assert_eq(drv_open(NULL, &driver, why), WEIR_OK, "%s", why);
#define DRV_THERE(name, symbol, since, exported, required, parameters) \
    cr_expect_not_null(driver.name, "%s", symbol);
    WEIR_DRIVER_MAP(DRV_THERE)
#undef DRV_THERE
    /* The ones that exist in several forms; the stand-in complains where a later one was taken. */
    int status = 0;
    size_t bytes = 0;
    weir_cu_context context = NULL;
    weir_cu_device device = 0;
    weir_cu_uuid uuid;
    RUN(driver.primary_retain(&context, 0));
    RUN(driver.context_push(context));
    RUN(driver.context_device(&device));
    RUN(driver.context_sync());
    RUN(driver.memory_info(&bytes, &bytes));
    RUN(driver.stream_context(NULL, &context));
    RUN(driver.stream_capture(NULL, &status, NULL, NULL, NULL, NULL));
    RUN(driver.device_uuid(&uuid, 0));
    RUN(driver.context_pop(&context));
    RUN(driver.primary_release(0));
    cr_expect_null(weir_fakecuda_breach());
    weir_driver_close(&driver);
}

/* The functions of a driver from before cuGetProcAddress are found by their exported names. */
Test(driver, one_of_11_2_is_opened_by_exported_names)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_assert_eq(weir_driver_open(&driver, WEIR_FAKECUDA_11_2, why), WEIR_OK, "%s", why);
    cr_expect_null(dlsym(driver.libcuda, "cuGetProcAddress"));
    cr_expect_not_null(driver.map);
    cr_expect_not_null(driver.alloc_async);
    cr_expect_null(driver.stream_id);
    cr_expect_null(driver.object_create);
    cr_expect_null(driver.stream_capture);
    weir_driver_close(&driver);
}

Test(driver, one_of_11_3_is_opened_by_the_first_form_of_the_look_up)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_assert_eq(weir_driver_open(&driver, WEIR_FAKECUDA_11_3, why), WEIR_OK, "%s", why);
    cr_expect_null(dlsym(driver.libcuda, "cuGetProcAddress_v2"));
    cr_expect_not_null(dlsym(driver.libcuda, "cuGetProcAddress"));
    cr_expect_not_null(driver.map);
    cr_expect_not_null(driver.stream_capture);
    weir_driver_close(&driver);
}

Test(driver, errors_have_names_or_are_said_to_have_none)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    cr_assert_eq(drv_open(NULL, &driver, why), WEIR_OK, "%s", why);
    cr_expect_str_eq(weir_driver_error(&driver, WEIR_CU_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY");
    cr_expect_not_null(weir_driver_error(&driver, 12345));
    weir_driver_close(&driver);
    cr_expect_not_null(weir_driver_error(&driver, WEIR_CU_OUT_OF_MEMORY));
}

Test(driver, errors_mean_what_a_pool_can_act_on)
{
    static const weir_cu_result lost[] = {WEIR_CU_DEINITIALIZED,     WEIR_CU_ECC_UNCORRECTABLE,
                                          WEIR_CU_ILLEGAL_ADDRESS,   WEIR_CU_LAUNCH_TIMEOUT,
                                          WEIR_CU_CONTEXT_DESTROYED, WEIR_CU_ASSERT,
                                          WEIR_CU_HARDWARE_STACK,    WEIR_CU_LAUNCH_FAILED};
    cr_expect_eq(weir_driver_status(WEIR_CU_OK), WEIR_OK);
    cr_expect_eq(weir_driver_status(WEIR_CU_OUT_OF_MEMORY), WEIR_NO_MEMORY);
    cr_expect_eq(weir_driver_status(WEIR_CU_NOT_SUPPORTED), WEIR_UNSUPPORTED);
    cr_expect_eq(weir_driver_status(WEIR_CU_INVALID_VALUE), WEIR_DEVICE);
    cr_expect_eq(weir_driver_status(WEIR_CU_CAPTURE_UNSUPPORTED), WEIR_DEVICE);
    for (unsigned i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        cr_expect_eq(weir_driver_status(lost[i]), WEIR_LOST, "%d", lost[i]);
    }
}
