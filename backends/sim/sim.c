/* SPDX-License-Identifier: MIT */
/*
 * The simulated device: making it, faults, totals, and what happens at a breach.
 *
 * Owns        the simulator's record, its lock, the ring of notes about recent calls and the text
 *             of a breach.
 * Invariants  A call that is made to fail has no effect. A breach is counted before its callback.
 * Cost        All O(1) but for balance and a breach, which read the tables and the ring.
 */
#include "sim_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIM_GRANULE_DEFAULT (UINT64_C(2) << 20)
#define SIM_MEMORY_DEFAULT (UINT64_C(1) << 40)
#define SIM_VA_DEFAULT (UINT64_C(64) << 40)
#define SIM_FIRST_UNIQUE 1000u /* unlike any number of a stream, so that a mix-up shows */

static const char *const sim_call_names[WEIR_SIM_CALLS] = {
#define SIM_CALL_NAME(name) #name,
    WEIR_SIM_CALL_MAP(SIM_CALL_NAME)
#undef SIM_CALL_NAME
};

const char *weir_sim_call_name(weir_sim_call call)
{
    return (unsigned)call < (unsigned)WEIR_SIM_CALLS ? sim_call_names[call] : "unknown";
}

void weir_sim_lock(const weir_sim *sim)
{
    if (sim->mutex) {
        pthread_mutex_lock(sim->mutex);
    }
}

void weir_sim_unlock(const weir_sim *sim)
{
    if (sim->mutex) {
        pthread_mutex_unlock(sim->mutex);
    }
}

bool weir_sim_grow(void **array, uint32_t *capacity, uint32_t need, size_t element_bytes)
{
    if (need <= *capacity) {
        return true;
    }
    uint64_t wished = *capacity ? (uint64_t)*capacity * 2 : 16;
    if (wished < need) {
        wished = need;
    }
    if (wished > UINT32_MAX) {
        return false;
    }
    char *grown = (char *)realloc(*array, (size_t)wished * element_bytes);
    if (!grown) {
        return false;
    }
    memset(grown + (size_t)*capacity * element_bytes, 0,
           ((size_t)wished - *capacity) * element_bytes);
    *array = grown;
    *capacity = (uint32_t)wished;
    return true;
}

/* ------------------------------------------------------------------------------------ making -- */

static bool sim_config_fix(weir_sim_config *config)
{
    config->memory_bytes = config->memory_bytes ? config->memory_bytes : SIM_MEMORY_DEFAULT;
    config->granule_bytes = config->granule_bytes ? config->granule_bytes : SIM_GRANULE_DEFAULT;
    config->va_bytes = config->va_bytes ? config->va_bytes : SIM_VA_DEFAULT;
    return config->granule_bytes >= 4096 &&
           (config->granule_bytes & (config->granule_bytes - 1)) == 0;
}

static uint32_t sim_shift_of(uint64_t power)
{
    uint32_t shift = 0;
    while ((UINT64_C(1) << shift) < power) {
        shift++;
    }
    return shift;
}

static bool sim_mutex_make(weir_sim *sim)
{
    if (!sim->config.locked) {
        return true;
    }
    sim->mutex = (pthread_mutex_t *)malloc(sizeof(*sim->mutex));
    if (sim->mutex && pthread_mutex_init(sim->mutex, NULL) != 0) {
        free(sim->mutex);
        sim->mutex = NULL;
    }
    return sim->mutex != NULL;
}

/* Slot 0 of each table exists and means none. */
static void sim_tables_start(weir_sim *sim)
{
    sim->piece_table.count = 1;
    sim->mapping_table.count = 1;
    sim->event_table.count = 1;
    sim->node_table.count = 1;
    sim->lane_count = 1;
    sim->native_count = 1;
    sim->unique_next = SIM_FIRST_UNIQUE;
    sim->random = 0x9e3779b9u;
}

weir_sim *weir_sim_create(const weir_sim_config *config)
{
    weir_sim *sim = (weir_sim *)calloc(1, sizeof(*sim));
    if (!sim) {
        return NULL;
    }
    sim->config.oracle = true;
    if (config) {
        sim->config = *config;
    }
    if (!sim_config_fix(&sim->config) || !sim_mutex_make(sim)) {
        free(sim);
        return NULL;
    }
    sim->granule_shift = sim_shift_of(sim->config.granule_bytes);
    sim_tables_start(sim);
    weir_sim_ops_fill(sim);
    return sim;
}

void weir_sim_destroy(weir_sim *sim)
{
    if (!sim) {
        return;
    }
    weir_sim_memory_free(sim);
    weir_sim_stream_free(sim);
    free(sim->nodes);
    if (sim->mutex) {
        pthread_mutex_destroy(sim->mutex);
        free(sim->mutex);
    }
    free(sim);
}

const weir_device_ops *weir_sim_ops(weir_sim *sim)
{
    return &sim->ops;
}

/* ------------------------------------------------------------------------------------ faults -- */

void weir_sim_fail(weir_sim *sim, weir_sim_call call, uint64_t k, bool on, weir_status status)
{
    weir_sim_lock(sim);
    sim->faults[call].left = k;
    sim->faults[call].on = on;
    sim->faults[call].status = status;
    weir_sim_unlock(sim);
}

void weir_sim_tenant(weir_sim *sim, uint64_t bytes)
{
    weir_sim_lock(sim);
    sim->tenant_bytes = bytes;
    weir_sim_unlock(sim);
}

void weir_sim_lose(weir_sim *sim)
{
    weir_sim_lock(sim);
    sim->lost = true;
    weir_sim_unlock(sim);
}

/* ------------------------------------------------------------------------------------ totals -- */

void weir_sim_charge(weir_sim *sim, weir_sim_call call, uint64_t cost_ns)
{
    sim->totals.cost_ns[call] += cost_ns;
}

void weir_sim_totals_read(const weir_sim *sim, weir_sim_totals *totals)
{
    weir_sim_lock(sim);
    *totals = sim->totals;
    weir_sim_unlock(sim);
}

const char *weir_sim_balance(weir_sim *sim)
{
    weir_sim_lock(sim);
    uint32_t segments = 0;
    for (uint32_t i = 0; i < sim->range_count; i++) {
        segments += sim->ranges[i].segment != 0;
    }
    uint32_t ranges = sim->range_count - segments;
    uint32_t handles = sim->piece_table.live - segments;
    uint32_t mappings = sim->mapping_table.live - segments;
    bool even = sim->lost || segments + ranges + handles + mappings + sim->event_table.live == 0;
    if (!even) {
        snprintf(sim->balance, sizeof(sim->balance),
                 "not given back: %" PRIu32 " handles, %" PRIu32 " address ranges, %" PRIu32
                 " mappings, %" PRIu32 " segments, %" PRIu32 " events (%" PRIu64 " bytes held)",
                 handles, ranges, mappings, segments, sim->event_table.live,
                 sim->totals.held_bytes);
    }
    weir_sim_unlock(sim);
    return even ? NULL : sim->balance;
}

/* ------------------------------------------------------------------------------------ breach -- */

void weir_sim_note_add(weir_sim *sim, const weir_sim_note *note)
{
    weir_sim_note *kept = &sim->notes[sim->note_count++ % WEIR_SIM_HISTORY];
    *kept = *note;
    kept->time_us = sim->now_us;
}

/* Appends to the text of a breach; what does not fit is cut off. */
static size_t sim_text_add(weir_sim *sim, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t sim_text_add(weir_sim *sim, size_t at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sim->text + at, sizeof(sim->text) - at, format, arguments);
    va_end(arguments);
    size_t end = at + (length > 0 ? (size_t)length : 0);
    return end < sizeof(sim->text) ? end : sizeof(sim->text) - 1;
}

static bool sim_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a <= b ? b - a < a_bytes && b_bytes : a - b < b_bytes && a_bytes;
}

/* Whether a note speaks of the bytes in question, by their address or, where they are mapped at
 * several, by their place in physical memory. */
static bool sim_note_touches(const weir_sim *sim, const weir_sim_note *note, weir_addr addr,
                             uint64_t bytes)
{
    if (sim_overlap(note->addr, note->bytes, addr, bytes)) {
        return true;
    }
    const weir_sim_mapping *mapping = weir_sim_mapping_at(sim, addr);
    return mapping && note->handle == weir_sim_piece_name(sim, mapping->piece) &&
           sim_overlap(note->offset, note->bytes, addr - mapping->addr, bytes);
}

static size_t sim_note_print(weir_sim *sim, size_t at, const weir_sim_note *note)
{
    at = sim_text_add(sim, at, "\n    at %" PRIu64 " us: %s [0x%" PRIx64 ", +%" PRIu64 ")",
                      note->time_us, note->verb, note->addr, note->bytes);
    if (note->stream) {
        at = sim_text_add(sim, at, " on stream %" PRIu64 ", tag 0x%" PRIx64, note->stream,
                          note->tag);
    }
    if (note->handle) {
        at =
            sim_text_add(sim, at, ", handle 0x%" PRIx64 " at %" PRIu64, note->handle, note->offset);
    }
    return at;
}

static void sim_history_add(weir_sim *sim, size_t at, weir_addr addr, uint64_t bytes)
{
    uint64_t first = sim->note_count > WEIR_SIM_HISTORY ? sim->note_count - WEIR_SIM_HISTORY : 0;
    at = sim_text_add(sim, at, "\n  what touched these bytes lately, oldest first:");
    for (uint64_t i = first; i < sim->note_count; i++) {
        const weir_sim_note *note = &sim->notes[i % WEIR_SIM_HISTORY];
        if (sim_note_touches(sim, note, addr, bytes)) {
            at = sim_note_print(sim, at, note);
        }
    }
}

weir_status weir_sim_breach(weir_sim *sim, weir_addr addr, uint64_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(sim->text, sizeof(sim->text), format, arguments);
    va_end(arguments);
    size_t at = length < 0 ? 0 : (size_t)length;
    if (bytes && at < sizeof(sim->text)) {
        sim_history_add(sim, at, addr, bytes);
    }
    sim->totals.breaches++;
    if (sim->config.breach) {
        sim->config.breach(sim->config.breach_self, sim->text);
        return WEIR_INVALID;
    }
    fprintf(stderr, "simulated device: %s\n", sim->text);
    abort();
}
