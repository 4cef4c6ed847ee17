/* SPDX-License-Identifier: MIT */
/*
 * The CUDA device: making it, its source of memory, its table of calls, its balance.
 *
 * Owns        the driver's table, the context where it is the primary one, the carrier stream and
 *             its event.
 * Invariants  Driver calls are made inside a scope: our context current and, but for calls that no
 *             capture minds, the thread in relaxed capture mode.
 *             Once the driver says that it has shut down, only host memory is given back.
 * Cost        A scope is three driver calls of some ten nanoseconds each.
 */
#include "cuda_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_GRANULE (UINT64_C(2) << 20) /* of segments */
#define DEVICE_LEAST_MAJOR 7               /* compute capability */

/* ------------------------------------------------------------------------------------ scopes -- */

weir_cu_result weir_cuda_enter_plain(weir_cuda *cuda, weir_cuda_scope *scope)
{
    weir_cu_context current = NULL;
    weir_cu_result result = cuda->driver.context_get(&current);
    scope->relaxed = false;
    scope->pushed = false;
    if (result == WEIR_CU_OK && current != cuda->context) {
        result = cuda->driver.context_push(cuda->context);
        scope->pushed = result == WEIR_CU_OK;
    }
    return result;
}

weir_cu_result weir_cuda_enter(weir_cuda *cuda, weir_cuda_scope *scope)
{
    weir_cu_result result = weir_cuda_enter_plain(cuda, scope);
    if (result != WEIR_CU_OK) {
        return result;
    }
    scope->mode = WEIR_CU_MODE_RELAXED;
    result = cuda->driver.capture_mode(&scope->mode);
    scope->relaxed = result == WEIR_CU_OK;
    if (result != WEIR_CU_OK) {
        weir_cuda_leave(cuda, scope);
    }
    return result;
}

void weir_cuda_leave(weir_cuda *cuda, const weir_cuda_scope *scope)
{
    weir_cu_context ours = NULL;
    int mode = scope->mode;
    if (scope->relaxed) {
        cuda->driver.capture_mode(&mode);
    }
    if (scope->pushed) {
        cuda->driver.context_pop(&ours);
    }
}

weir_status weir_cuda_answer(weir_cuda *cuda, weir_cu_result result)
{
    if (result != WEIR_CU_OK) {
        atomic_store(&cuda->native_error, result);
    }
    return weir_driver_status(result);
}

/* ------------------------------------------------------------------------------------- calls -- */

/* Writes no more than the caller's struct holds; a size of 0 stands for this version's. */
static weir_status device_describe(void *self, weir_device_info *info)
{
    const weir_cuda *cuda = (const weir_cuda *)self;
    weir_device_info full;
    memset(&full, 0, sizeof(full));
    full.size = sizeof(full);
    full.granule_bytes = cuda->source == WEIR_CONF_VMM ? cuda->probe.granule_bytes : DEVICE_GRANULE;
    full.memory_bytes = cuda->probe.memory_bytes / full.granule_bytes * full.granule_bytes;
    if (info->size != 0 && info->size < full.size) {
        full.size = info->size;
    }
    memcpy(info, &full, full.size);
    return WEIR_OK;
}

static weir_status device_memory_info(void *self, uint64_t *free_bytes, uint64_t *total_bytes)
{
    weir_cuda *cuda = (weir_cuda *)self;
    size_t free_now = 0;
    size_t total = 0;
    weir_cu_result result;
    WEIR_CUDA_CALL(cuda, result, memory_info(&free_now, &total));
    if (result == WEIR_CU_OK) {
        *free_bytes = free_now;
        *total_bytes = total;
    }
    return weir_cuda_answer(cuda, result);
}

static int64_t device_native_error(void *self)
{
    return atomic_load(&((weir_cuda *)self)->native_error);
}

static void device_fill_memory(weir_cuda *cuda)
{
    weir_device_ops *ops = &cuda->ops;
    if (cuda->source != WEIR_CONF_VMM) {
        ops->segment_alloc = weir_cuda_op_segment_alloc;
        ops->segment_free = weir_cuda_op_segment_free;
        return;
    }
    ops->va_reserve = weir_cuda_op_va_reserve;
    ops->va_free = weir_cuda_op_va_free;
    ops->handle_create = weir_cuda_op_handle_create;
    ops->handle_release = weir_cuda_op_handle_release;
    ops->map = weir_cuda_op_map;
    ops->set_access = weir_cuda_op_set_access;
    ops->unmap = weir_cuda_op_unmap;
}

static void device_fill_ops(weir_cuda *cuda)
{
    weir_device_ops *ops = &cuda->ops;
    ops->size = sizeof(*ops);
    ops->describe = device_describe;
    device_fill_memory(cuda);
    ops->event_create = weir_cuda_op_event_create;
    ops->event_destroy = weir_cuda_op_event_destroy;
    ops->event_record = weir_cuda_op_event_record;
    ops->event_query = weir_cuda_op_event_query;
    ops->stream_wait = weir_cuda_op_stream_wait;
    ops->event_wait = weir_cuda_op_event_wait;
    if (cuda->config.one_launcher) {
        ops->quiesce = weir_cuda_op_quiesce;
        ops->copy = weir_cuda_op_copy;
        ops->resume = weir_cuda_op_resume;
    }
    ops->memory_info = device_memory_info;
    ops->native_error = device_native_error;
}

/* ------------------------------------------------------------------------------------ making -- */

static weir_status device_refuse(char *why, weir_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why, WEIR_CUDA_WHY_BYTES, format, list);
    va_end(list);
    return status;
}

/* What the driver refused, with its own word for it. */
static weir_status device_failed(weir_cuda *cuda, char *why, const char *what,
                                 weir_cu_result result)
{
    weir_status status = weir_cuda_answer(cuda, result);
    return device_refuse(why, status, "%s failed: %s", what,
                         weir_driver_error(&cuda->driver, result));
}

static weir_status device_find(weir_cuda *cuda, char *why)
{
    weir_driver *driver = &cuda->driver;
    int count = 0;
    weir_cu_result result = driver->device_count(&count);
    if (result != WEIR_CU_OK) {
        return device_failed(cuda, why, "counting the devices", result);
    }
    if (cuda->config.device < 0 || cuda->config.device >= count) {
        return device_refuse(why, WEIR_UNSUPPORTED, "there is no CUDA device %d: %s %d",
                             cuda->config.device, "the driver sees devices 0 to", count - 1);
    }
    result = driver->device_get(&cuda->device, cuda->config.device);
    if (result == WEIR_CU_OK) {
        result = driver->primary_retain(&cuda->context, cuda->device);
        cuda->retained = result == WEIR_CU_OK;
    }
    return result == WEIR_CU_OK ? WEIR_OK : device_failed(cuda, why, "the primary context", result);
}

/* The device of the caller's context. */
static weir_status device_adopt(weir_cuda *cuda, char *why)
{
    weir_cuda_scope scope;
    cuda->context = cuda->config.context;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result == WEIR_CU_OK) {
        result = cuda->driver.context_device(&cuda->device);
        weir_cuda_leave(cuda, &scope);
    }
    return result == WEIR_CU_OK ? WEIR_OK : device_failed(cuda, why, "the given context", result);
}

static const char *device_source_name(weir_conf_source source)
{
    static const char *const names[] = {"vmm", "async", "malloc"};
    return names[source];
}

static bool device_has(const weir_cuda *cuda, weir_conf_source source)
{
    return source == WEIR_CONF_MALLOC || (source == WEIR_CONF_VMM && cuda->probe.vmm) ||
           (source == WEIR_CONF_ASYNC && cuda->probe.pools);
}

/* The wished source, or the next below it that the device has. */
static weir_status device_choose(weir_cuda *cuda, char *why)
{
    weir_conf_source source = cuda->config.source;
    if (cuda->config.strict && !device_has(cuda, source)) {
        return device_refuse(why, WEIR_UNSUPPORTED,
                             "device %d with this driver (%d.%d) lacks source:%s; take another "
                             "source, or let Weir choose",
                             cuda->device, cuda->driver.driver_version / 1000,
                             cuda->driver.driver_version % 1000 / 10, device_source_name(source));
    }
    while (!device_has(cuda, source)) {
        source = source == WEIR_CONF_VMM ? WEIR_CONF_ASYNC : WEIR_CONF_MALLOC;
    }
    cuda->source = source;
    return WEIR_OK;
}

/* What the device owns itself; the scope is entered. */
static weir_cu_result device_equip(weir_cuda *cuda)
{
    weir_driver *driver = &cuda->driver;
    weir_cu_result result = driver->stream_create(&cuda->carrier, WEIR_CU_STREAM_NON_BLOCKING);
    if (result == WEIR_CU_OK) {
        result = driver->event_create(&cuda->carried, WEIR_CU_EVENT_NO_TIMING);
    }
    if (result == WEIR_CU_OK && cuda->source == WEIR_CONF_ASYNC) {
        result = weir_cuda_segment_open(cuda);
    }
    return result;
}

static weir_status device_start(weir_cuda *cuda, char *why)
{
    weir_cuda_scope scope;
    weir_cu_result result = weir_cuda_enter(cuda, &scope);
    if (result != WEIR_CU_OK) {
        return device_failed(cuda, why, "entering the context", result);
    }
    weir_cuda_probe_device(&cuda->driver, cuda->device, &cuda->probe);
    weir_status status = WEIR_OK;
    if (cuda->probe.major < DEVICE_LEAST_MAJOR) {
        status = device_refuse(why, WEIR_UNSUPPORTED,
                               "device %d has compute capability %d.%d; Weir needs 7.0",
                               cuda->device, cuda->probe.major, cuda->probe.minor);
    } else {
        status = device_choose(cuda, why);
    }
    if (status == WEIR_OK && (result = device_equip(cuda)) != WEIR_CU_OK) {
        status = device_failed(cuda, why, "a stream, an event or a pool of Weir's own", result);
    }
    weir_cuda_leave(cuda, &scope);
    return status;
}

static weir_status device_open(weir_cuda *cuda, char *why)
{
    weir_status status = weir_driver_open(&cuda->driver, cuda->config.libcuda, why);
    if (status == WEIR_OK) {
        status = cuda->config.context ? device_adopt(cuda, why) : device_find(cuda, why);
    }
    if (status == WEIR_OK) {
        status = device_start(cuda, why);
    }
    if (status != WEIR_OK) {
        return status;
    }
    cuda->prop = weir_cuda_probe_prop(cuda->device, &cuda->probe);
    cuda->access[0].location.type = WEIR_CU_LOCATION_DEVICE;
    cuda->access[0].location.id = cuda->device;
    cuda->access[0].flags = WEIR_CU_ACCESS_READWRITE;
    cuda->access_count = 1;
    device_fill_ops(cuda);
    return WEIR_OK;
}

static void device_copy_config(weir_cuda *cuda, const weir_cuda_config *config)
{
    if (!config) {
        return;
    }
    size_t bytes = config->size < sizeof(*config) ? config->size : sizeof(*config);
    memcpy(&cuda->config, config, bytes);
}

weir_status weir_cuda_create(const weir_cuda_config *config, weir_cuda **out,
                             char why[WEIR_CUDA_WHY_BYTES])
{
    char unread[WEIR_CUDA_WHY_BYTES];
    weir_cuda *cuda = (weir_cuda *)calloc(1, sizeof(*cuda));
    char *text = why ? why : unread;
    if (!cuda || pthread_mutex_init(&cuda->lock, NULL) != 0 ||
        pthread_mutex_init(&cuda->mapper, NULL) != 0) {
        free(cuda);
        return device_refuse(text, WEIR_NO_METADATA, "not enough host memory");
    }
    device_copy_config(cuda, config);
    weir_status status = device_open(cuda, text);
    if (status != WEIR_OK) {
        weir_cuda_destroy(cuda);
        return status;
    }
    *out = cuda;
    return WEIR_OK;
}

static void device_strip(weir_cuda *cuda)
{
    weir_cuda_scope scope;
    weir_cu_result result = cuda->context ? weir_cuda_enter(cuda, &scope) : WEIR_CU_OK;
    if (result == WEIR_CU_DEINITIALIZED || result == WEIR_CU_NOT_INITIALIZED) {
        return;
    }
    if (cuda->context && result == WEIR_CU_OK) {
        weir_cuda_segment_close(cuda);
        if (cuda->carried) {
            cuda->driver.event_destroy(cuda->carried);
        }
        if (cuda->carrier) {
            cuda->driver.stream_destroy(cuda->carrier);
        }
        weir_cuda_leave(cuda, &scope);
    }
    if (cuda->retained) {
        cuda->driver.primary_release(cuda->device);
    }
}

void weir_cuda_destroy(weir_cuda *cuda)
{
    if (!cuda) {
        return;
    }
    if (cuda->driver.libcuda) {
        device_strip(cuda);
        weir_driver_close(&cuda->driver);
    }
    pthread_mutex_destroy(&cuda->mapper);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda->extents.at);
    free(cuda);
}

/* ------------------------------------------------------------------------------------- looks -- */

const weir_device_ops *weir_cuda_ops(weir_cuda *cuda)
{
    return &cuda->ops;
}

weir_conf_source weir_cuda_source(const weir_cuda *cuda)
{
    return cuda->source;
}

const char *weir_cuda_error(weir_cuda *cuda)
{
    return weir_driver_error(&cuda->driver, atomic_load(&cuda->native_error));
}

const char *weir_cuda_balance(weir_cuda *cuda)
{
    size_t handles = atomic_load(&cuda->handles);
    size_t ranges = atomic_load(&cuda->ranges);
    size_t events = atomic_load(&cuda->events);
    pthread_mutex_lock(&cuda->lock);
    size_t extents = cuda->extents.count;
    snprintf(cuda->balance, sizeof(cuda->balance),
             "not given back: %zu handles, %zu address ranges, %zu %s, %zu events", handles, ranges,
             extents, cuda->source == WEIR_CONF_VMM ? "mappings" : "segments", events);
    pthread_mutex_unlock(&cuda->lock);
    return handles + ranges + events + extents == 0 ? NULL : cuda->balance;
}
