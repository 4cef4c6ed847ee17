/* SPDX-License-Identifier: MIT */
/*
 * Weir's runtime: the library beside this one, shared with whatever else in the process uses it.
 *
 * It is loaded when a program first wants memory of a device, so a process that never does pays
 * for this library alone. One that is loaded already, by Python say, is taken as it is.
 */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "preload.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef WEIR_PRELOAD_RUNTIME
#error "the build says how the runtime's library is called"
#endif

static preload_runtime runtime_one;         /* the process has one */
static bool runtime_ready, runtime_missing; /* at most one becomes true */
static pthread_mutex_t runtime_lock = PTHREAD_MUTEX_INITIALIZER;

void weir_preload_say(const char *what, const char *why)
{
    char line[1024];
    int length = snprintf(line, sizeof(line), "weir: %s: %s\n", what, why);
    size_t bytes = length < (int)sizeof(line) ? (size_t)length : sizeof(line) - 1;
    ssize_t written = write(STDERR_FILENO, line, bytes);
    (void)written; /* there is nowhere else to say it */
}

static void *runtime_open(bool load)
{
    char path[PATH_MAX];
    Dl_info info;
    void *library = dlopen(WEIR_PRELOAD_RUNTIME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library || !load) {
        return library;
    }
    if (dladdr(&runtime_one, &info) && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');
        int folder = slash ? (int)(slash - info.dli_fname) + 1 : 0;
        snprintf(path, sizeof(path), "%.*s%s", folder, info.dli_fname, WEIR_PRELOAD_RUNTIME);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library ? library : dlopen(WEIR_PRELOAD_RUNTIME, RTLD_NOW | RTLD_LOCAL);
}

static bool runtime_find(void *library, const char *name, void *slot)
{
    void *found = weir_preload_dlsym()(library, name);
    memcpy(slot, &found, sizeof(found));
    return found != NULL;
}

static bool runtime_fill(void *library)
{
    preload_runtime *to = &runtime_one;
    int (*abi)(void) = NULL;
    return runtime_find(library, "weir_runtime_abi", &abi) && abi() == WEIR_RUNTIME_ABI &&
           runtime_find(library, "weir_runtime_start", &to->start) &&
           runtime_find(library, "weir_runtime_stop", &to->stop) &&
           runtime_find(library, "weir_runtime_promise", &to->promise) &&
           runtime_find(library, "weir_runtime_alloc", &to->alloc) &&
           runtime_find(library, "weir_runtime_free", &to->free) &&
           runtime_find(library, "weir_runtime_find", &to->find) &&
           runtime_find(library, "weir_runtime_owns", &to->owns) &&
           runtime_find(library, "weir_runtime_pin", &to->pin) &&
           runtime_find(library, "weir_runtime_stream_end", &to->stream_end) &&
           runtime_find(library, "weir_runtime_memory", &to->memory) &&
           runtime_find(library, "weir_runtime_stats_read", &to->stats_read) &&
           runtime_find(library, "weir_runtime_why", &to->why);
}

static void runtime_take(void *library)
{
    if (!library) {
        weir_preload_say("the driver serves this process, as Weir's runtime was not found",
                         dlerror());
    } else if (!runtime_fill(library)) {
        weir_preload_say("the driver serves this process, as Weir's runtime is of another version",
                         WEIR_PRELOAD_RUNTIME);
    } else {
        runtime_one.promise(WEIR_RUNTIME_ENDS_TOLD);
        __atomic_store_n(&runtime_ready, true, __ATOMIC_RELEASE);
    }
    runtime_missing = !runtime_ready;
}

const preload_runtime *weir_preload_runtime_if(void)
{
    return __atomic_load_n(&runtime_ready, __ATOMIC_ACQUIRE) ? &runtime_one : NULL;
}

const preload_runtime *weir_preload_runtime(bool load)
{
    if (!weir_preload_runtime_if() && !runtime_missing) {
        pthread_mutex_lock(&runtime_lock);
        void *library = runtime_ready || runtime_missing ? NULL : runtime_open(load);
        if (library || (load && !runtime_ready && !runtime_missing)) {
            runtime_take(library);
        }
        pthread_mutex_unlock(&runtime_lock);
    }
    return weir_preload_runtime_if();
}
