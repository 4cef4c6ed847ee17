/* SPDX-License-Identifier: MIT */
/*
 * Which look-ups are answered with a function of ours: a name that stands in the table, found in the
 * driver's library and nowhere else, asked for by a program and not by the driver or by Weir.
 *
 * cuGetProcAddress is answered by addresses: the driver looks a name up by version and flags, and
 * only where it answers with the very function that is caught, ours takes its place. A name that
 * the driver has not is not there for the program either.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "preload.h"

#include <dlfcn.h>
#include <string.h>

#define LOOKUP_SECOND 12000 /* where cuGetProcAddress has its second form, the first of the table */

#define LOOKUP_ONE(name, symbol, version, flags, parameters, arguments) +1
enum { LOOKUP_HOOKS = 0 PRELOAD_HOOKS(LOOKUP_ONE) };
#undef LOOKUP_ONE

static const char *const lookup_names[] = {
#define LOOKUP_NAME(name, symbol, version, flags, parameters, arguments) #name,
    PRELOAD_HOOKS(LOOKUP_NAME)
#undef LOOKUP_NAME
};

static const char *const lookup_symbols[] = {
#define LOOKUP_SYMBOL(name, symbol, version, flags, parameters, arguments) symbol,
    PRELOAD_HOOKS(LOOKUP_SYMBOL)
#undef LOOKUP_SYMBOL
};

/* ISO C has no cast between functions and objects. */
static void *lookup_ours(size_t hook)
{
    void *ours[LOOKUP_HOOKS];
    size_t i = 0;
#define LOOKUP_OURS(name, symbol, version, flags, parameters, arguments) \
    { \
        preload_result(*function) parameters = name; \
        memcpy(&ours[i++], &function, sizeof(function)); \
    }
    PRELOAD_HOOKS(LOOKUP_OURS)
#undef LOOKUP_OURS
    return ours[hook];
}

static void lookup_reals(const preload_driver *driver, void *real[LOOKUP_HOOKS])
{
    size_t i = 0;
#define LOOKUP_REAL(name, symbol, version, flags, parameters, arguments) \
    memcpy(&real[i++], &driver->name, sizeof(driver->name));
    PRELOAD_HOOKS(LOOKUP_REAL)
#undef LOOKUP_REAL
}

static size_t lookup_find(const char *name)
{
    size_t hook = 0;
    while (hook < LOOKUP_HOOKS && strcmp(lookup_names[hook], name) != 0) {
        hook++;
    }
    return hook;
}

/* The caller's own look-up comes last, so that dlerror tells of it. */
void *weir_preload_stand_in(void *handle, const char *name, const void *caller)
{
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !name || name[0] != 'c' ||
        name[1] != 'u') {
        return NULL;
    }
    size_t hook = lookup_find(name);
    if (hook == LOOKUP_HOOKS || weir_preload_is_off()) {
        return NULL;
    }
    const void *plain = weir_preload_driver_symbol(name);
    if (!plain || weir_preload_is_inside(caller)) {
        return NULL;
    }
    return weir_preload_dlsym()(handle, name) == plain ? lookup_ours(hook) : NULL;
}

/* What the driver found under a name, or what stands for it. Two functions of one name may be one in
 * the driver: then the version tells which is meant. */
static void *lookup_swap(const char *symbol, void *found, int version)
{
    void *real[LOOKUP_HOOKS];
    void *swapped = found;
    lookup_reals(weir_preload_driver(), real);
    for (size_t hook = 0; hook < LOOKUP_HOOKS; hook++) {
        if (strcmp(symbol, lookup_symbols[hook]) == 0 &&
            (found == real[hook] || found == weir_preload_driver_symbol(lookup_names[hook])) &&
            (swapped == found || version < LOOKUP_SECOND)) {
            swapped = lookup_ours(hook);
        }
    }
    return swapped;
}

preload_result cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                                   int *presence)
{
    preload_result result =
        PRELOAD_REAL(cuGetProcAddress_v2, (symbol, function, version, flags, presence));
    if (result == PRELOAD_OK && function && *function && !weir_preload_is_off()) {
        *function = lookup_swap(symbol, *function, version);
    }
    return result;
}

preload_result cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    preload_result result = PRELOAD_REAL(cuGetProcAddress, (symbol, function, version, flags));
    if (result == PRELOAD_OK && function && *function && !weir_preload_is_off()) {
        *function = lookup_swap(symbol, *function, version);
    }
    return result;
}
