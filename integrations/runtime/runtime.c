/* SPDX-License-Identifier: MIT */
/*
 * The process: which devices have a pool, the settings, the sentence of the last failure, fork and
 * exit. This is the one place of Weir with state of the process.
 *
 * Invariants  A device's pool is made once, with the lock held, and published by its pointer; what
 *             follows needs no lock. `driven` is set, with the lock held, before the driver is first
 *             called and stays: a child of a fork after that is `forked` and touches nothing else
 *             of this, since other threads may have held any lock. A fork before it takes all locks
 *             first, and its child goes on like any process.
 */
#define _GNU_SOURCE
#include "runtime_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

typedef struct rt_process {
    pthread_once_t once;
    pthread_mutex_t lock;
    atomic_bool driven, forked;
    atomic_uint promises;
    bool recorded; /* what the environment wants recorded has been begun */
    char *conf;    /* NULL: the environment's */
    weir_rt_device device[WEIR_RUNTIME_DEVICES];
} rt_process;

static rt_process rt = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local char rt_why[WEIR_RT_WHY_BYTES];
static _Thread_local bool rt_forking; /* this thread holds all locks for its fork */

int weir_runtime_abi(void)
{
    return WEIR_RUNTIME_ABI;
}

const char *weir_runtime_status_name(int status)
{
    return weir_status_name((weir_status)status);
}

const char *weir_runtime_status_text(int status)
{
    return weir_status_text((weir_status)status);
}

const char *weir_runtime_why(void)
{
    return rt_why;
}

int weir_rt_fail(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(rt_why, sizeof(rt_why), format, list);
    va_end(list);
    return status;
}

static uint64_t process_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t weir_rt_now_us(void)
{
    return process_clock(CLOCK_REALTIME);
}

uint64_t weir_rt_about_now_us(void)
{
#ifdef CLOCK_REALTIME_COARSE
    return process_clock(CLOCK_REALTIME_COARSE);
#else
    return process_clock(CLOCK_REALTIME);
#endif
}

const char *weir_rt_environment(const char *name)
{
    const char *value = getauxval(AT_SECURE) != 0 ? NULL : getenv(name);
    return value && value[0] != '\0' ? value : NULL;
}

/* ------------------------------------------------------------------------------- process's ends -- */

static void process_hold(bool hold)
{
    if (hold) {
        pthread_mutex_lock(&rt.lock);
    }
    weir_rt_history_hold(hold);
    weir_rt_stack_hold(hold);
    weir_rt_trace_hold(hold);
    if (!hold) {
        pthread_mutex_unlock(&rt.lock);
    }
}

/* The driver forks when it loads its kernel module, with our lock held: `driven` is set by then. */
static void process_before_fork(void)
{
    rt_forking = !atomic_load(&rt.driven);
    if (rt_forking) {
        process_hold(true);
    }
}

static void process_after_fork(void)
{
    if (rt_forking) {
        process_hold(false);
        rt_forking = false;
    }
}

static void process_in_child(void)
{
    if (atomic_load(&rt.driven)) {
        atomic_store(&rt.forked, true);
    } else {
        weir_rt_trace_disown();
    }
    process_after_fork();
}

static void process_print_leaks(void)
{
    for (weir_rt_device *on = weir_rt_first(-1); on; on = weir_rt_next(-1, on)) {
        size_t room = weir_runtime_leaks(on->ordinal, 20, NULL, 0) + 4096;
        char *text = (char *)malloc(room);
        if (text) {
            (void)weir_runtime_leaks(on->ordinal, 20, text, room);
            fputs(text, stderr);
        }
        free(text);
    }
}

static void process_exit(void)
{
    if (atomic_load(&rt.forked)) {
        return;
    }
    const char *leaks = weir_rt_environment("WEIR_LEAKS");
    if (leaks && strcmp(leaks, "0") != 0) {
        process_print_leaks();
    }
    if (weir_rt_trace_end() != WEIR_OK) {
        fprintf(stderr, "weir: WEIR_TRACE: %s\n", rt_why);
    }
}

static void process_begin(void)
{
    for (int i = 0; i < WEIR_RUNTIME_DEVICES; i++) {
        rt.device[i].ordinal = i;
        pthread_mutex_init(&rt.device[i].lock, NULL);
    }
    pthread_atfork(process_before_fork, process_after_fork, process_in_child);
    atexit(process_exit);
}

/* What the environment wants recorded, once there is something to record: a process that never
 * uses a GPU leaves no file. */
static void process_record(void)
{
    const char *trace = weir_rt_environment("WEIR_TRACE");
    const char *leaks = weir_rt_environment("WEIR_LEAKS");
    if (trace && weir_rt_trace_begin(trace) != WEIR_OK) {
        fprintf(stderr, "weir: WEIR_TRACE: %s\n", rt_why);
    }
    if (leaks && strcmp(leaks, "stacks") == 0) {
        weir_rt_history_leaks();
    }
}

bool weir_rt_alive(void)
{
    if (atomic_load_explicit(&rt.forked, memory_order_relaxed)) {
        (void)weir_rt_fail(WEIR_LOST, "this process was forked from one that uses CUDA, which "
                                      "does not work in a child: start workers by spawn");
        return false;
    }
    pthread_once(&rt.once, process_begin);
    return true;
}

/* ------------------------------------------------------------------------------------- starting -- */

void weir_runtime_promise(unsigned promises)
{
    atomic_fetch_or(&rt.promises, promises);
}

static bool process_any_started(void)
{
    for (int i = 0; i < WEIR_RUNTIME_DEVICES; i++) {
        if (weir_rt_cuda(&rt.device[i])) {
            return true;
        }
    }
    return false;
}

int weir_runtime_configure(const char *conf)
{
    char error[WEIR_CONF_ERROR_BYTES];
    weir_conf parsed;
    char *copy = NULL;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    weir_conf_init(&parsed);
    if (conf && weir_conf_parse(&parsed, conf, error) != WEIR_OK) {
        return weir_rt_fail(WEIR_INVALID, "%s", error);
    }
    if (conf && !(copy = strdup(conf))) {
        return weir_rt_fail(WEIR_NO_METADATA, "not enough host memory");
    }
    pthread_mutex_lock(&rt.lock);
    bool late = process_any_started();
    if (!late) {
        free(rt.conf);
        rt.conf = copy;
        for (int i = 0; i < WEIR_RUNTIME_DEVICES; i++) {
            rt.device[i].status = 0; /* with other settings it may work */
        }
    }
    pthread_mutex_unlock(&rt.lock);
    if (late) {
        free(copy);
        return weir_rt_fail(WEIR_BUSY, "the settings came too late: a pool is in use already");
    }
    return WEIR_OK;
}

static weir_status process_settings(weir_conf *conf, char *why)
{
    weir_conf_init(conf);
    return rt.conf ? weir_conf_parse(conf, rt.conf, why) : weir_conf_environment(conf, why);
}

/* The lock is held, as for device_make. */
static void device_open(weir_rt_device *on, weir_cuda_pool *pool)
{
    weir_stats core = {.size = sizeof(core)};
    weir_stats_read(weir_cuda_pool_core(pool), &core);
    memset(&on->stats, 0, sizeof(on->stats));
    memset(&on->zero, 0, sizeof(on->zero));
    on->settings_limit = core.limit_bytes == 0 ? WEIR_NO_LIMIT : core.limit_bytes;
    atomic_store_explicit(&on->cuda, pool, memory_order_release);
    if (!rt.recorded) {
        rt.recorded = true;
        process_record();
    }
    if (weir_rt_history_on()) {
        weir_rt_history_watch(on, true);
    }
}

static void device_make(weir_rt_device *on)
{
    weir_conf conf;
    weir_cuda_pool *pool = NULL;
    unsigned promises = atomic_load(&rt.promises);
    weir_cuda_pool_config config = {.size = sizeof(config), .conf = &conf};
    config.device.size = sizeof(config.device);
    config.device.device = on->ordinal;
    config.device.one_launcher = (promises & WEIR_RUNTIME_ONE_LAUNCHER) != 0;
    config.device.libcuda = weir_rt_environment("WEIR_CUDA_LIBRARY");
    config.streams_told = (promises & WEIR_RUNTIME_ENDS_TOLD) != 0;
    config.captures_told = (promises & WEIR_RUNTIME_CAPTURES_TOLD) != 0;
    weir_status status = process_settings(&conf, on->why);
    if (status == WEIR_OK) {
        atomic_store(&rt.driven, true);
        status = weir_cuda_pool_create(&config, &pool, on->why);
    }
    on->status = (int)status;
    if (status == WEIR_OK) {
        device_open(on, pool);
    }
}

weir_rt_device *weir_rt_device_get(int device, int *status)
{
    *status = WEIR_LOST;
    if (!weir_rt_alive()) {
        return NULL;
    }
    if (device < 0 || device >= WEIR_RUNTIME_DEVICES) {
        *status = weir_rt_fail(WEIR_INVALID, "device %d: the runtime knows devices 0 to %d", device,
                               WEIR_RUNTIME_DEVICES - 1);
        return NULL;
    }
    weir_rt_device *on = &rt.device[device];
    if (weir_rt_cuda(on)) {
        return on;
    }
    pthread_mutex_lock(&rt.lock);
    if (!weir_rt_cuda(on) && on->status == 0) {
        device_make(on);
    }
    if (!weir_rt_cuda(on)) {
        *status = weir_rt_fail(on->status, "%s", on->why);
        on = NULL;
    }
    pthread_mutex_unlock(&rt.lock);
    return on;
}

weir_rt_device *weir_rt_device_peek(int device)
{
    if (device < 0 || device >= WEIR_RUNTIME_DEVICES || atomic_load(&rt.forked)) {
        return NULL;
    }
    return weir_rt_cuda(&rt.device[device]) ? &rt.device[device] : NULL;
}

weir_rt_device *weir_rt_first(int device)
{
    if (device >= 0) {
        return weir_rt_device_peek(device);
    }
    for (int i = 0; i < WEIR_RUNTIME_DEVICES; i++) {
        if (weir_rt_device_peek(i)) {
            return &rt.device[i];
        }
    }
    return NULL;
}

weir_rt_device *weir_rt_next(int device, const weir_rt_device *on)
{
    if (device >= 0) {
        return NULL;
    }
    for (int i = on->ordinal + 1; i < WEIR_RUNTIME_DEVICES; i++) {
        if (weir_rt_device_peek(i)) {
            return &rt.device[i];
        }
    }
    return NULL;
}

int weir_runtime_start(int device)
{
    int status = 0;
    return weir_rt_device_get(device, &status) ? WEIR_OK : status;
}

int weir_runtime_started(int device)
{
    return weir_rt_device_peek(device) ? 1 : 0;
}

static int device_stop(weir_rt_device *on)
{
    weir_cuda_pool *pool = weir_rt_cuda(on);
    weir_rt_history_watch(on, false);
    weir_status status = weir_cuda_pool_destroy(pool);
    if (status != WEIR_OK) {
        weir_rt_history_watch(on, weir_rt_history_on());
        return weir_rt_fail((int)status, "device %d: %s", on->ordinal, weir_status_text(status));
    }
    atomic_store(&on->cuda, NULL);
    free(on->pools);
    free(on->books.slot);
    on->pools = NULL;
    on->pool_room = 0;
    atomic_store(&on->pools_begun, 0);
    memset(&on->books, 0, sizeof(on->books));
    return WEIR_OK;
}

int weir_runtime_stop(int device)
{
    int status = WEIR_OK;
    if (!weir_rt_alive()) {
        return WEIR_LOST;
    }
    pthread_mutex_lock(&rt.lock);
    for (weir_rt_device *on = weir_rt_first(device); on && status == WEIR_OK;) {
        weir_rt_device *next = weir_rt_next(device, on);
        status = device_stop(on);
        on = next;
    }
    pthread_mutex_unlock(&rt.lock);
    return status;
}

size_t weir_runtime_conf(char *text, size_t room)
{
    char why[WEIR_CUDA_WHY_BYTES];
    weir_conf conf;
    if (!weir_rt_alive()) {
        return 0;
    }
    pthread_mutex_lock(&rt.lock);
    weir_status status = process_settings(&conf, why);
    pthread_mutex_unlock(&rt.lock);
    if (status != WEIR_OK) {
        return (size_t)snprintf(text, room, "%s", why);
    }
    return weir_conf_print(&conf, text, room);
}
