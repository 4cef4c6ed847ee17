/* SPDX-License-Identifier: MIT */
/*
 * The shared part of the hardware suite. Its one piece of state, whether anything failed, belongs to
 * the process, as its exit status does.
 */
#define _GNU_SOURCE
#include "hw.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_bool hw_failed;

/* A stand-in stays loaded, so that it can be asked at the end what it saw. */
static const char *hw_library(void)
{
    const char *path = getenv("WEIR_CUDA_LIBRARY");
    if (!path || !path[0]) {
        return NULL;
    }
    (void)dlopen(path, RTLD_NOW | RTLD_NODELETE);
    return path;
}

/* ---------------------------------------------------------------------------------- results -- */

static void hw_print(const char *word, const char *name, const char *format, va_list list)
{
    char why[512];
    vsnprintf(why, sizeof(why), format, list);
    printf("%s %s%s%s\n", word, name, why[0] ? ": " : "", why);
    fflush(stdout);
}

void hw_result(const char *name, bool good, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    hw_print(good ? "ok" : "not ok", name, format, list);
    va_end(list);
    if (!good) {
        atomic_store(&hw_failed, true);
    }
}

void hw_skip(const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    hw_print("skip", name, format, list);
    va_end(list);
}

/* A stand-in for the driver knows what was done that the driver forbids; the driver does not. */
static const char *hw_breach(void)
{
    const char *(*breach)(void) = NULL;
    void *library = hw_library() ? dlopen(hw_library(), RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!library) {
        return NULL;
    }
    void *found = dlsym(library, "weir_fakecuda_breach");
    memcpy(&breach, &found, sizeof(breach));
    dlclose(library);
    return breach ? breach() : NULL;
}

int hw_code(void)
{
    return atomic_load(&hw_failed) ? 1 : 0;
}

int hw_end(void)
{
    const char *breach = hw_breach();
    if (breach) {
        hw_result("the stand-in saw no breach", false, "%s", breach);
    }
    return hw_code();
}

/* At once: other threads may be inside the driver, whose own end at an exit would crash them. */
_Noreturn static void hw_leave(int status)
{
    fflush(stdout);
    _exit(status);
}

void hw_must(weir_status status, const char *what)
{
    if (status != WEIR_OK) {
        hw_result(what, false, "%s", weir_status_text(status));
        hw_leave(1);
    }
}

/* ------------------------------------------------------------------------------------- device -- */

/* A machine without the thing is no failure, a device that is broken is one. */
static void hw_absent(weir_status status, const char *why)
{
    if (status != WEIR_UNSUPPORTED) {
        hw_result("the device", false, "%s", why);
        hw_leave(1);
    }
    printf("skipped: %s\n", why);
    hw_leave(HW_SKIP);
}

weir_cuda *hw_device(weir_conf_source source, bool one_launcher)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda *cuda = NULL;
    weir_cuda_config config;
    memset(&config, 0, sizeof(config));
    config.size = sizeof(config);
    config.source = source;
    config.strict = true;
    config.one_launcher = one_launcher;
    config.libcuda = hw_library();
    weir_status status = weir_cuda_create(&config, &cuda, why);
    if (status != WEIR_OK) {
        hw_absent(status, why);
    }
    return cuda;
}

weir_cuda_work *hw_work(weir_cuda *cuda)
{
    weir_cuda_work *work = weir_cuda_work_create(cuda);
    if (!work) {
        hw_result("the kernels", false, "%s", weir_cuda_error(cuda));
        hw_leave(1);
    }
    return work;
}

weir_cuda_pool *hw_pool(const char *settings, bool told)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_conf conf;
    weir_cuda_pool *pool = NULL;
    weir_cuda_pool_config config;
    memset(&config, 0, sizeof(config));
    config.size = sizeof(config);
    config.device.size = sizeof(config.device);
    config.device.libcuda = hw_library();
    config.streams_told = told;
    config.conf = &conf;
    weir_conf_init(&conf);
    if (weir_conf_parse(&conf, settings, why) != WEIR_OK) {
        hw_result("settings", false, "%s", why);
        hw_leave(1);
    }
    weir_status status = weir_cuda_pool_create(&config, &pool, why);
    if (status != WEIR_OK) {
        hw_absent(status, why);
    }
    return pool;
}

weir_driver hw_driver(void)
{
    char why[WEIR_DRIVER_WHY_BYTES] = "";
    weir_driver driver;
    weir_status status = weir_driver_open(&driver, hw_library(), why);
    if (status != WEIR_OK) {
        hw_absent(status, why);
    }
    return driver;
}

void hw_symbol(const weir_driver *driver, const char *exported, void *slot)
{
    void *found = dlsym(driver->libcuda, exported);
    if (!found) {
        hw_result(exported, false, "the driver has no such function");
        hw_leave(1);
    }
    memcpy(slot, &found, sizeof(found));
}

hw_graphs hw_graph_calls(const weir_driver *driver)
{
    hw_graphs graphs;
    hw_symbol(driver, "cuStreamBeginCapture_v2", &graphs.begin);
    hw_symbol(driver, "cuStreamEndCapture", &graphs.end);
    hw_symbol(driver, "cuGraphInstantiateWithFlags", &graphs.instantiate);
    hw_symbol(driver, "cuGraphLaunch", &graphs.launch);
    hw_symbol(driver, "cuGraphExecDestroy", &graphs.exec_destroy);
    hw_symbol(driver, "cuGraphDestroy", &graphs.graph_destroy);
    return graphs;
}

/* --------------------------------------------------------------------------------------- odds -- */

uint64_t hw_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hw_now_us(void)
{
    return hw_now_ns() / 1000u;
}

uint32_t hw_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

bool hw_given(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return true;
        }
    }
    return false;
}

bool hw_quick(int argc, char **argv)
{
    return hw_given(argc, argv, "--quick") || hw_given(argc, argv, "--sanitizer");
}

bool hw_sanitizer(int argc, char **argv)
{
    return hw_given(argc, argv, "--sanitizer");
}

weir_stats hw_stats(weir_pool *pool)
{
    weir_stats stats;
    memset(&stats, 0, sizeof(stats));
    stats.size = sizeof(stats);
    weir_stats_read(pool, &stats);
    return stats;
}
