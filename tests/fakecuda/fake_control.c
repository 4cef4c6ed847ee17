/* SPDX-License-Identifier: MIT */
/* The calls of fakecuda.h that look and disturb. None counts as a call of the driver. */
#include "fake_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weir_fakecuda_path(void)
{
    fake_state *state = weir_fake_lock();
    const char *path = state->path; /* never changes */
    weir_fake_unlock(state);
    return path;
}

/* ------------------------------------------------------------------------------------- disturb -- */

void weir_fakecuda_hide(const char *symbol)
{
    fake_state *state = weir_fake_lock();
    if (state->hidden_count == FAKE_HIDDEN_MAX) {
        abort();
    }
    snprintf(state->hidden[state->hidden_count++], sizeof(state->hidden[0]), "%s", symbol);
    weir_fake_unlock(state);
}

void weir_fakecuda_fail(const char *name, uint64_t kth, weir_cu_result result, bool forever)
{
    fake_state *state = weir_fake_lock();
    int number = name ? weir_fake_name_find(name) : -1;
    if ((name && number < 0) || state->fault_count == FAKE_FAULTS_MAX) {
        abort(); /* a misspelt name would make a test pass for nothing */
    }
    state->faults[state->fault_count++] = (fake_fault){number, kth, result, forever};
    weir_fake_unlock(state);
}

const char *weir_fakecuda_failed(void)
{
    fake_state *state = weir_fake_lock();
    const char *hit = state->fault_hit;
    state->fault_hit = NULL;
    state->fault_count = 0;
    weir_fake_unlock(state);
    return hit;
}

void weir_fakecuda_lose(int device, weir_cu_result result)
{
    fake_state *state = weir_fake_lock();
    if (device < 0) {
        state->lost = result;
    }
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        if (device < 0 || device == i) {
            state->devices[i].lost = result;
        }
    }
    weir_fake_unlock(state);
}

void weir_fakecuda_end(void)
{
    fake_state *state = weir_fake_lock();
    state->ended = true;
    weir_fake_unlock(state);
}

void weir_fakecuda_go(void)
{
    fake_state *state = weir_fake_lock();
    state->holds++;
    pthread_cond_broadcast(&state->changed);
    weir_fake_unlock(state);
}

/* Work may queue a destructor when it ends, so twice. */
void weir_fakecuda_settle(void)
{
    fake_state *state = weir_fake_lock();
    weir_host *host = state->host;
    weir_fake_unlock(state);
    weir_host_sync(host, 0);
    weir_host_sync(host, 0);
}

/* ---------------------------------------------------------------------------------------- look -- */

uint64_t weir_fakecuda_calls(const char *name)
{
    fake_state *state = weir_fake_lock();
    int number = name ? weir_fake_name_find(name) : -1;
    uint64_t calls = 0;
    if (name && number < 0) {
        abort();
    }
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (number == i || (number < 0 && i != FAKE_cuGetErrorName)) {
            calls += state->calls[i];
        }
    }
    weir_fake_unlock(state);
    return calls;
}

const char *weir_fakecuda_breach(void)
{
    fake_state *state = weir_fake_lock();
    const char *breach = state->breaches ? state->breach : NULL;
    weir_fake_unlock(state);
    return breach;
}

uint64_t weir_fakecuda_breaches(void)
{
    fake_state *state = weir_fake_lock();
    uint64_t breaches = state->breaches;
    weir_fake_unlock(state);
    return breaches;
}

void weir_fakecuda_forgive(void)
{
    fake_state *state = weir_fake_lock();
    state->breaches = 0;
    weir_fake_unlock(state);
}

bool weir_fakecuda_peek(uint64_t addr, void *to, size_t bytes)
{
    fake_state *state = weir_fake_lock();
    bool there = false;
    for (int device = 0; device < state->device_count && !there; device++) {
        there = weir_fake_area_wrong(state, (fake_range){addr, bytes}, device) == NULL;
    }
    if (there) {
        memcpy(to, FAKE_HANDLE(addr), bytes);
    }
    weir_fake_unlock(state);
    return there;
}

static uint64_t fakecontrol_pools(int device, bool used)
{
    fake_state *state = weir_fake_lock();
    const fake_table *table = &state->tables[FAKE_IS_POOL];
    uint64_t bytes = 0;
    for (size_t i = 0; i < table->count; i++) {
        const fake_pool *pool = (const fake_pool *)table->at[i];
        if (pool && pool->device == device) {
            bytes += used ? pool->used : pool->reserved;
        }
    }
    weir_fake_unlock(state);
    return bytes;
}

uint64_t weir_fakecuda_pool_reserved(int device)
{
    return fakecontrol_pools(device, false);
}

uint64_t weir_fakecuda_pool_used(int device)
{
    return fakecontrol_pools(device, true);
}

uint64_t weir_fakecuda_held(int device)
{
    fake_state *state = weir_fake_lock();
    uint64_t held = state->devices[device].held_bytes;
    weir_fake_unlock(state);
    return held;
}

int weir_fakecuda_mode(void)
{
    fake_state *state = weir_fake_lock();
    int mode = weir_fake_thread(state)->mode;
    weir_fake_unlock(state);
    return mode;
}

unsigned weir_fakecuda_depth(void)
{
    fake_state *state = weir_fake_lock();
    unsigned depth = weir_fake_thread(state)->depth;
    weir_fake_unlock(state);
    return depth;
}

/* ------------------------------------------------------------------------------------- balance -- */

static unsigned fakecontrol_contexts(const fake_state *state)
{
    const fake_table *table = &state->tables[FAKE_IS_CONTEXT];
    unsigned alive = 0;
    for (size_t i = 0; i < table->count; i++) {
        alive += ((const fake_context *)table->at[i])->alive;
    }
    return alive;
}

const char *weir_fakecuda_balance(void)
{
    fake_state *state = weir_fake_lock();
    const fake_table *tables = state->tables;
    unsigned contexts = fakecontrol_contexts(state);
    uint64_t left = contexts + state->ranges + state->area_count;
    for (int kind = FAKE_IS_STREAM; kind < FAKE_IS_FUNCTION; kind++) {
        left += tables[kind].live;
    }
    snprintf(state->balance, sizeof(state->balance),
             "not given back: %u contexts, %zu streams, %zu events, %zu handles, %" PRIu64
             " address ranges, %zu mappings and allocations, %zu pools, %zu graphs, %zu executable "
             "graphs, %zu user objects, %zu modules",
             contexts, tables[FAKE_IS_STREAM].live, tables[FAKE_IS_EVENT].live,
             tables[FAKE_IS_HANDLE].live, state->ranges, state->area_count,
             tables[FAKE_IS_POOL].live, tables[FAKE_IS_GRAPH].live, tables[FAKE_IS_EXEC].live,
             tables[FAKE_IS_OBJECT].live, tables[FAKE_IS_MODULE].live);
    weir_fake_unlock(state);
    return left == 0 ? NULL : state->balance;
}
