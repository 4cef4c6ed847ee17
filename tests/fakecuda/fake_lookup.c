/* SPDX-License-Identifier: MIT */
/*
 * Names: of functions, for cuGetProcAddress, and of errors.
 *
 * A look-up is answered by the version that was asked for, as the driver does it: a version between
 * the function's own and its next is right, an earlier one finds nothing, a later one finds the
 * next variant, which the stand-in does not have; its place is taken by a function that complains.
 */
#define _GNU_SOURCE
#include "fake_internal.h"

#include <dlfcn.h>
#include <string.h>

typedef struct fakelookup_entry {
    const char *exported, *symbol;
    int since, until;
} fakelookup_entry;

static const fakelookup_entry fakelookup_map[] = {
#define FAKELOOKUP_ENTRY(exported, symbol, since, until) {#exported, symbol, since, until},
    FAKE_MAP(FAKELOOKUP_ENTRY)
#undef FAKELOOKUP_ENTRY
};

const char *weir_fake_name(fake_name name)
{
    return fakelookup_map[name].exported;
}

int weir_fake_name_find(const char *exported)
{
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (strcmp(fakelookup_map[i].exported, exported) == 0) {
            return i;
        }
    }
    return -1;
}

/* ------------------------------------------------------------------------------------ look-up -- */

static weir_cu_result fakelookup_other_variant(void)
{
    fake_state *state = weir_fake_lock();
    weir_fake_breach(state, "a function was asked for by the version of another signature");
    weir_fake_unlock(state);
    return WEIR_CU_INVALID_VALUE;
}

static bool fakelookup_is_hidden(const fake_state *state, const char *symbol)
{
    for (unsigned i = 0; i < state->hidden_count; i++) {
        if (strcmp(state->hidden[i], symbol) == 0) {
            return true;
        }
    }
    return false;
}

static const fakelookup_entry *fakelookup_entry_of(const char *symbol)
{
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (symbol[0] && strcmp(fakelookup_map[i].symbol, symbol) == 0) {
            return &fakelookup_map[i];
        }
    }
    return NULL;
}

static void *fakelookup_address(const fake_state *state, const fakelookup_entry *entry, int version)
{
    void *found = NULL;
    if (entry->until != 0 && version >= entry->until) {
        weir_cu_result (*other)(void) = fakelookup_other_variant;
        memcpy(&found, &other, sizeof(found));
        return found;
    }
    void *self = dlopen(state->path, RTLD_NOW | RTLD_NOLOAD);
    if (self) {
        found = dlsym(self, entry->exported);
        dlclose(self);
    }
    return found;
}

enum { FAKELOOKUP_FOUND, FAKELOOKUP_NONE, FAKELOOKUP_TOO_OLD };

static weir_cu_result fakelookup_do(fake_call *call, const char *symbol, void **function,
                                    int version, uint64_t flags, int *presence)
{
    fake_state *state = call->state;
    int unread = 0;
    int *status = presence ? presence : &unread;
    if (!symbol || !function || flags != 0 || version > state->config.driver_version) {
        return WEIR_CU_INVALID_VALUE;
    }
    const fakelookup_entry *entry = fakelookup_entry_of(symbol);
    *function = NULL;
    *status = FAKELOOKUP_NONE;
    if (!entry || fakelookup_is_hidden(state, symbol) ||
        entry->since > state->config.driver_version) {
        return WEIR_CU_OK;
    }
    if (version < entry->since) {
        *status = FAKELOOKUP_TOO_OLD;
        return WEIR_CU_OK;
    }
    *function = fakelookup_address(state, entry, version);
    *status = *function ? FAKELOOKUP_FOUND : FAKELOOKUP_NONE;
    return WEIR_CU_OK;
}

FAKE_FUNCTION(cuGetProcAddress_v2, FAKE_NAMING,
              (const char *symbol, void **function, int version, uint64_t flags, int *presence),
              fakelookup_do(&call, symbol, function, version, flags, presence))

/* Before 12.0: a symbol that is not there is an error. */
static weir_cu_result fakelookup_first(fake_call *call, const char *symbol, void **function,
                                       int version, uint64_t flags)
{
    weir_cu_result result = fakelookup_do(call, symbol, function, version, flags, NULL);
    return result == WEIR_CU_OK && !*function ? WEIR_CU_NOT_FOUND : result;
}

FAKE_FUNCTION(cuGetProcAddress, FAKE_NAMING,
              (const char *symbol, void **function, int version, uint64_t flags),
              fakelookup_first(&call, symbol, function, version, flags))

/* ------------------------------------------------------------------------------------- errors -- */

typedef struct fakelookup_error {
    weir_cu_result code;
    const char *name;
} fakelookup_error;

static const fakelookup_error fakelookup_errors[] = {
    {WEIR_CU_OK, "CUDA_SUCCESS"},
    {WEIR_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {WEIR_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {WEIR_CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {WEIR_CU_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED"},
    {WEIR_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {WEIR_CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {WEIR_CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {WEIR_CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {WEIR_CU_NOT_READY, "CUDA_ERROR_NOT_READY"},
    {WEIR_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {WEIR_CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {WEIR_CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {WEIR_CU_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {FAKE_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
};

static const fakelookup_error *fakelookup_error_of(weir_cu_result code)
{
    for (size_t i = 0; i < sizeof(fakelookup_errors) / sizeof(fakelookup_errors[0]); i++) {
        if (fakelookup_errors[i].code == code) {
            return &fakelookup_errors[i];
        }
    }
    return NULL;
}

static weir_cu_result fakelookup_describe(weir_cu_result code, const char **name)
{
    const fakelookup_error *error = fakelookup_error_of(code);
    *name = error ? error->name : NULL;
    return error ? WEIR_CU_OK : WEIR_CU_INVALID_VALUE;
}

FAKE_FUNCTION(cuGetErrorName, FAKE_NAMING, (weir_cu_result error, const char **name),
              fakelookup_describe(error, name))
