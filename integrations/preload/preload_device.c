/* SPDX-License-Identifier: MIT */
/*
 * Devices: which one a call is about, whether Weir serves it, and its end.
 *
 * Weir works in a device's primary context, as every CUDA runtime does. What is asked for in another
 * context, made by cuCtxCreate, the driver serves: its streams and its end are not Weir's.
 *
 * A device's pool is made at the first call that asks for memory or how much there is. Where the
 * settings are wrong that is said in one sentence, and no memory is given from then on: whoever set
 * a limit wants it held. Where Weir can't work with the device the driver serves it.
 *
 * Owns       a record for each device. `context` is written once for each life of the context.
 * Cost       cuCtxGetCurrent, and a comparison for each device in use.
 */
#include "preload.h"

#include <pthread.h>
#include <stdlib.h>

static preload_device device_all[WEIR_RUNTIME_DEVICES]; /* the process's, as the driver's are */
static int device_count;                                /* below which records are in use */
static bool device_refused;                             /* what is wrong was said, once for all */
static bool device_ends;                                /* device_exit is set */
static bool device_exits;                               /* it has run, or runs */
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

preload_device *weir_preload_device_at(int ordinal)
{
    return &device_all[ordinal];
}

/* Whether the current context is the primary one of the current device. */
static bool device_is_primary(const preload_driver *driver, void *context, int *ordinal)
{
    void *primary = NULL;
    if (!driver->cuCtxGetDevice || driver->cuCtxGetDevice(ordinal) != PRELOAD_OK || *ordinal < 0 ||
        *ordinal >= WEIR_RUNTIME_DEVICES || !driver->cuDevicePrimaryCtxRetain ||
        !driver->cuDevicePrimaryCtxRelease_v2 ||
        driver->cuDevicePrimaryCtxRetain(&primary, *ordinal) != PRELOAD_OK) {
        return false;
    }
    (void)driver->cuDevicePrimaryCtxRelease_v2(*ordinal);
    return primary == context;
}

/* Before the runtime's own handler, which was set earlier: what rests is no leak. From now on nothing
 * is given any more, so what is freed here under unfinished work becomes nobody else's; what the
 * program still frees is taken. */
static void device_exit(void)
{
    __atomic_store_n(&device_exits, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < device_count; i++) {
        weir_preload_blocks_wake(&device_all[i]);
    }
}

/* With the lock. */
static preload_state device_start(const preload_driver *driver, preload_device *device)
{
    const preload_runtime *runtime = weir_preload_runtime(true);
    int status = runtime ? runtime->start(device->ordinal) : WEIR_UNSUPPORTED;
    if (status == WEIR_INVALID) {
        if (!device_refused) {
            weir_preload_say("no GPU memory is given", runtime->why());
        }
        device_refused = true;
        return PRELOAD_REFUSED;
    }
    if (status != WEIR_OK ||
        driver->cuStreamCreate(&device->host, PRELOAD_NON_BLOCKING) != PRELOAD_OK) {
        return PRELOAD_PASSED;
    }
    if (!device_ends) {
        device_ends = atexit(device_exit) == 0;
    }
    return PRELOAD_ON;
}

/* With the lock: two threads make one pool. */
static void device_know(const preload_driver *driver, preload_device *device, void *context,
                        int ordinal)
{
    if (device->context) {
        return;
    }
    device->ordinal = ordinal;
    device->state = device_start(driver, device);
    if (device_count <= ordinal) {
        __atomic_store_n(&device_count, ordinal + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&device->context, context, __ATOMIC_RELEASE);
}

static preload_device *device_of(const preload_driver *driver, void *context)
{
    int ordinal = -1;
    int count = __atomic_load_n(&device_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++) {
        if (__atomic_load_n(&device_all[i].context, __ATOMIC_ACQUIRE) == context) {
            return &device_all[i];
        }
    }
    if (!device_is_primary(driver, context, &ordinal)) {
        return NULL;
    }
    pthread_mutex_lock(&device_lock);
    device_know(driver, &device_all[ordinal], context, ordinal);
    pthread_mutex_unlock(&device_lock);
    return &device_all[ordinal];
}

preload_device *weir_preload_device(void)
{
    const preload_driver *driver = weir_preload_driver_needed();
    void *context = NULL;
    if (weir_preload_is_off() || __atomic_load_n(&device_exits, __ATOMIC_RELAXED) || !driver ||
        !driver->cuCtxGetCurrent || driver->cuCtxGetCurrent(&context) != PRELOAD_OK || !context) {
        return NULL;
    }
    preload_device *device = device_of(driver, context);
    return device && device->state != PRELOAD_PASSED ? device : NULL;
}

/* The stream and the events of the device end with its context. */
void weir_preload_device_end(int ordinal)
{
    const preload_runtime *runtime = weir_preload_runtime_if();
    if (!runtime || weir_preload_is_off() || ordinal < 0 || ordinal >= WEIR_RUNTIME_DEVICES) {
        return;
    }
    preload_device *device = &device_all[ordinal];
    pthread_mutex_lock(&device_lock);
    if (device->context && device->state == PRELOAD_ON) {
        weir_preload_blocks_end(device);
        (void)runtime->stop(ordinal); /* blocks that others took from it may be live */
    }
    device->host = NULL;
    device->own_pool = false;
    device->state = PRELOAD_UNKNOWN;
    __atomic_store_n(&device->context, NULL, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&device_lock);
}
