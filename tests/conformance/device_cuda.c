/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device with each source of memory, under the conformance suite. The driver is the one
 * that WEIR_CUDA_LIBRARY names, else the machine's own; without one the tests are skipped.
 *
 * A suite that has the device to itself queues all its work from the thread that calls: so rescue
 * is allowed, and tested too.
 */
#include "conformance.h"

#ifdef WEIR_HAS_CUDA
#include "cuda_device.h"
#include "cuda_work.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The suite hands around the device of the calls alone, so its work is found here. */
typedef struct device_cuda {
    struct device_cuda *next;
    weir_cuda *cuda;
    weir_cuda_work *work;
} device_cuda;

static device_cuda *device_cuda_all;

static weir_cuda_work *device_cuda_work(const void *self)
{
    const device_cuda *device = device_cuda_all;
    while (device->cuda != self) {
        device = device->next;
    }
    return device->work;
}

static weir_cuda *device_cuda_open(weir_conf_source source)
{
    char why[WEIR_CUDA_WHY_BYTES] = "";
    weir_cuda_config config = {.size = sizeof(config),
                               .source = source,
                               .strict = true,
                               .one_launcher = true,
                               .libcuda = getenv("WEIR_CUDA_LIBRARY")};
    device_cuda *device = (device_cuda *)calloc(1, sizeof(*device));
    cr_assert_not_null(device);
    weir_status status = weir_cuda_create(&config, &device->cuda, why);
    if (status == WEIR_UNSUPPORTED) {
        fprintf(stderr, "no CUDA device: %s\n", why);
        free(device);
        return NULL;
    }
    cr_assert_eq(status, WEIR_OK, "%s", why);
    device->work = weir_cuda_work_create(device->cuda);
    cr_assert_not_null(device->work, "%s", weir_cuda_error(device->cuda));
    device->next = device_cuda_all;
    device_cuda_all = device;
    return device->cuda;
}

static void *device_cuda_create_vmm(void)
{
    return device_cuda_open(WEIR_CONF_VMM);
}

static void *device_cuda_create_async(void)
{
    return device_cuda_open(WEIR_CONF_ASYNC);
}

static void *device_cuda_create_malloc(void)
{
    return device_cuda_open(WEIR_CONF_MALLOC);
}

static void device_cuda_destroy(void *self)
{
    device_cuda **link = &device_cuda_all;
    while ((*link)->cuda != self) {
        link = &(*link)->next;
    }
    device_cuda *device = *link;
    *link = device->next;
    weir_cuda_work_destroy(device->work);
    weir_cuda_destroy(device->cuda);
    free(device);
}

static const weir_device_ops *device_cuda_ops(void *self)
{
    return weir_cuda_ops((weir_cuda *)self);
}

static uint64_t device_cuda_stream_create(void *self)
{
    return weir_cuda_work_stream_create(device_cuda_work(self));
}

static uint64_t device_cuda_stream_unique(void *self, uint64_t stream)
{
    return weir_cuda_work_stream_unique(device_cuda_work(self), stream);
}

static void device_cuda_stream_destroy(void *self, uint64_t stream)
{
    weir_cuda_work_stream_destroy(device_cuda_work(self), stream);
}

static void device_cuda_write(void *self, uint64_t stream, weir_addr addr, uint64_t bytes,
                              uint64_t tag)
{
    cr_expect(weir_cuda_work_fill(device_cuda_work(self), stream, addr, bytes, tag));
}

static void device_cuda_verify(void *self, uint64_t stream, weir_addr addr, uint64_t bytes,
                               uint64_t tag)
{
    cr_expect(weir_cuda_work_verify(device_cuda_work(self), stream, addr, bytes, tag));
}

static void device_cuda_busy(void *self, uint64_t stream, uint64_t busy_us)
{
    cr_expect(weir_cuda_work_spin(device_cuda_work(self), stream, busy_us));
}

static void device_cuda_sync(void *self)
{
    cr_expect(weir_cuda_work_sync(device_cuda_work(self)), "%s",
              weir_cuda_error((weir_cuda *)self));
}

static uint64_t device_cuda_errors(void *self)
{
    return weir_cuda_work_errors(device_cuda_work(self));
}

/* A stand-in for the driver knows what was done that the driver forbids; the driver does not. */
static const char *device_cuda_breach(void)
{
    const char *(*breach)(void) = NULL;
    const char *path = getenv("WEIR_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!library) {
        return NULL;
    }
    void *found = dlsym(library, "weir_fakecuda_breach");
    memcpy(&breach, &found, sizeof(breach));
    dlclose(library);
    return breach ? breach() : NULL;
}

static const char *device_cuda_balance(void *self)
{
    const char *left = weir_cuda_balance((weir_cuda *)self);
    return left ? left : device_cuda_breach();
}

#define DEVICE_CUDA_CALLS(made_by) \
    made_by, device_cuda_destroy, device_cuda_ops, device_cuda_stream_create, \
        device_cuda_stream_unique, device_cuda_stream_destroy, device_cuda_write, \
        device_cuda_verify, device_cuda_busy, device_cuda_sync, device_cuda_errors, \
        device_cuda_balance

const weir_conformance_device weir_conformance_cuda_vmm = {
    "cuda, source vmm", DEVICE_CUDA_CALLS(device_cuda_create_vmm)};
const weir_conformance_device weir_conformance_cuda_async = {
    "cuda, source async", DEVICE_CUDA_CALLS(device_cuda_create_async)};
const weir_conformance_device weir_conformance_cuda_malloc = {
    "cuda, source malloc", DEVICE_CUDA_CALLS(device_cuda_create_malloc)};
#endif
