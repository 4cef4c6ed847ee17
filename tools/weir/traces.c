/* SPDX-License-Identifier: MIT */
/* Reading traces, and whether they fit. Simulated memory fits everything. */
#define _DEFAULT_SOURCE /* sysconf's free pages */

#include "traces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* The least scale at which `peak` is not above `most`. */
static uint64_t traces_scale(const weir_options *options, uint64_t peak, uint64_t most)
{
    return most == 0 ? UINT64_MAX : options->scale * (peak / most + 1);
}

/* Host memory is filled to the trace's peak: more than half of what is free would starve others. */
static bool traces_fit_host(const weir_options *options, const weir_trace *trace, weir_fault *fault)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t peak = trace->peak_requested_bytes, half;

    if (pages < 1 || page_bytes < 1) return true;
    half = (uint64_t)pages * (uint64_t)page_bytes / 2;
    if (peak <= half) return true;
    return weir_fault_set(fault,
                          "%s: its peak of %" PRIu64 " bytes is more than half of the free "
                          "memory; give --scale %" PRIu64 " or more",
                          trace->name, peak, traces_scale(options, peak, half));
}

static bool traces_fit_card(const weir_options *options, const weir_card *card,
                            const weir_trace *trace, weir_fault *fault)
{
    uint64_t peak = trace->peak_requested_bytes;
    uint64_t capacity = weir_options_capacity(options, trace);

    if (peak > card->free_bytes)
        return weir_fault_set(fault,
                              "%s: its peak of %" PRIu64 " bytes is more than the %" PRIu64
                              " that are free on device %d (%s); give --scale %" PRIu64 " or more",
                              trace->name, peak, card->free_bytes, options->device, card->name,
                              traces_scale(options, peak, card->free_bytes));
    if (capacity > card->free_bytes)
        return weir_fault_set(fault,
                              "%s: a capacity of %" PRIu64 " bytes is more than the %" PRIu64
                              " that are free on device %d (%s)",
                              trace->name, capacity, card->free_bytes, options->device, card->name);
    return true;
}

static bool traces_fit(const weir_options *options, const weir_card *card, const weir_trace *trace,
                       weir_fault *fault)
{
    switch (options->kind) {
    case WEIR_STAGE_HOST:
        return traces_fit_host(options, trace, fault);
    case WEIR_STAGE_CUDA:
        return traces_fit_card(options, card, trace, fault);
    case WEIR_STAGE_SIM:
    default:
        return true;
    }
}

bool weir_traces_read(weir_traces *traces, const weir_options *options, const weir_card *card,
                      weir_fault *fault)
{
    size_t count = (size_t)options->paths_count;

    traces->count = 0;
    traces->list = calloc(count, sizeof *traces->list);
    if (traces->list == NULL)
        return weir_fault_set(fault, "not enough memory for %zu traces", count);
    while (traces->count < count) {
        weir_trace *trace = &traces->list[traces->count];
        if (!weir_trace_read(options->paths[traces->count], trace, fault)) return false;
        traces->count++;
        if (options->scale > 1) weir_trace_scale(trace, options->scale);
        if (!traces_fit(options, card, trace, fault)) return false;
    }
    return true;
}

void weir_traces_free(weir_traces *traces)
{
    for (size_t i = 0; i < traces->count; i++) weir_trace_free(&traces->list[i]);
    free(traces->list);
    traces->list = NULL;
    traces->count = 0;
}
