/* SPDX-License-Identifier: MIT */
/*
 * Opening the driver's library.
 *
 * Each function is asked for by name and by the version whose signature driver.h declares, through
 * cuGetProcAddress; drivers before 11.3 lack that and are asked for the exported names instead.
 */
#define _GNU_SOURCE /* RTLD_NODELETE */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_LEAST \
    11000 /* handles of virtual memory came with 10.2, all else Weir needs by 11.0 */

/* One of the two is NULL, or both: then functions are found by their exported names. */
typedef struct driver_opening {
    weir_driver *driver;
    weir_cu_result (*lookup)(const char *symbol, void **function, int version, uint64_t flags);
    weir_cu_result (*lookup_v2)(const char *symbol, void **function, int version, uint64_t flags,
                                int *presence);
    const char *missing; /* the first required function that was not found */
} driver_opening;

/* POSIX lets dlsym's result be a function; ISO C has no cast for it. */
static void driver_store(void *slot, void *found)
{
    memcpy(slot, &found, sizeof(found));
}

static void driver_find(driver_opening *opening, void *slot, const char *symbol, int since,
                        const char *exported, bool required)
{
    void *found = NULL;
    int presence = 0;
    weir_cu_result result = WEIR_CU_OK;
    if (opening->lookup_v2) {
        result = opening->lookup_v2(symbol, &found, since, 0, &presence);
    } else if (opening->lookup) {
        result = opening->lookup(symbol, &found, since, 0);
    } else {
        found = dlsym(opening->driver->libcuda, exported);
    }
    if (result != WEIR_CU_OK) {
        found = NULL;
    }
    driver_store(slot, found);
    if (!found && required && !opening->missing) {
        opening->missing = symbol;
    }
}

static void driver_fill(driver_opening *opening)
{
    weir_driver *driver = opening->driver;
    driver_store(&opening->lookup_v2, dlsym(driver->libcuda, "cuGetProcAddress_v2"));
    driver_store(&opening->lookup, dlsym(driver->libcuda, "cuGetProcAddress"));
#define DRIVER_FIND(name, symbol, since, exported, required, parameters) \
    driver_find(opening, &driver->name, symbol, since, exported, required);
    WEIR_DRIVER_MAP(DRIVER_FIND)
#undef DRIVER_FIND
}

static weir_status driver_refuse(weir_driver *driver, char *why, const char *format,
                                 const char *detail)
{
    snprintf(why, WEIR_DRIVER_WHY_BYTES, format, detail);
    weir_driver_close(driver);
    return WEIR_UNSUPPORTED;
}

static weir_status driver_start(weir_driver *driver, char *why)
{
    char number[32];
    int count = 0;
    weir_cu_result result = driver->init(0);
    if (result == WEIR_CU_OK) {
        result = driver->device_count(&count);
    }
    if (result == WEIR_CU_NO_DEVICE || (result == WEIR_CU_OK && count == 0)) {
        return driver_refuse(driver, why, "the CUDA driver sees no device%s",
                             "; check nvidia-smi and CUDA_VISIBLE_DEVICES");
    }
    if (result != WEIR_CU_OK) {
        snprintf(number, sizeof(number), "%d", result);
        return driver_refuse(driver, why, "the CUDA driver does not start: error %s", number);
    }
    if (driver->version(&driver->driver_version) != WEIR_CU_OK ||
        driver->driver_version < DRIVER_LEAST) {
        snprintf(number, sizeof(number), "%d.%d", driver->driver_version / 1000,
                 driver->driver_version % 1000 / 10);
        return driver_refuse(driver, why, "the CUDA driver is of version %s; Weir needs 11.0",
                             number);
    }
    return WEIR_OK;
}

weir_status weir_driver_open(weir_driver *driver, const char *path, char why[WEIR_DRIVER_WHY_BYTES])
{
    driver_opening opening = {driver, NULL, NULL, NULL};
    memset(driver, 0, sizeof(*driver));
    /* Never unloaded: it has threads and exit handlers of its own. */
    driver->libcuda = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!driver->libcuda) {
        return driver_refuse(driver, why, "no CUDA driver here: %s", dlerror());
    }
    driver_fill(&opening);
    if (opening.missing) {
        return driver_refuse(driver, why, "the CUDA driver lacks %s: it is too old",
                             opening.missing);
    }
    return driver_start(driver, why);
}

void weir_driver_close(weir_driver *driver)
{
    if (driver->libcuda) {
        dlclose(driver->libcuda);
    }
    memset(driver, 0, sizeof(*driver));
}

const char *weir_driver_error(const weir_driver *driver, weir_cu_result error)
{
    const char *name = NULL;
    if (driver->error_name && driver->error_name(error, &name) == WEIR_CU_OK && name) {
        return name;
    }
    return "CUDA error without a name";
}

weir_status weir_driver_status(weir_cu_result error)
{
    switch (error) {
    case WEIR_CU_OK:
        return WEIR_OK;
    case WEIR_CU_OUT_OF_MEMORY:
        return WEIR_NO_MEMORY;
    case WEIR_CU_NOT_SUPPORTED:
    case WEIR_CU_NOT_PERMITTED:
        return WEIR_UNSUPPORTED;
    case WEIR_CU_NOT_INITIALIZED: /* in a forked child */
    case WEIR_CU_DEINITIALIZED:
    case WEIR_CU_ECC_UNCORRECTABLE:
    case WEIR_CU_NVLINK_UNCORRECTABLE:
    case WEIR_CU_CONTAINED:
    case WEIR_CU_ILLEGAL_ADDRESS:
    case WEIR_CU_LAUNCH_TIMEOUT:
    case WEIR_CU_CONTEXT_DESTROYED:
    case WEIR_CU_ASSERT:
    case WEIR_CU_HARDWARE_STACK:
    case WEIR_CU_ILLEGAL_INSTRUCTION:
    case WEIR_CU_MISALIGNED_ADDRESS:
    case WEIR_CU_INVALID_ADDRESS_SPACE:
    case WEIR_CU_INVALID_PC:
    case WEIR_CU_LAUNCH_FAILED:
    case WEIR_CU_TENSOR_MEMORY_LEAK:
        return WEIR_LOST;
    default:
        return WEIR_DEVICE;
    }
}
