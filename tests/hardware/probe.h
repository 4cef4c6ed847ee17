/* SPDX-License-Identifier: MIT */
/*
 * The probe: what this driver does, on this card, that Weir's design relies on.
 *
 * It prints a fact a line, each a JSON object that names its group, and the suite's "ok" and "not ok"
 * for those that Weir needs. A group runs in a process of its own, which some of them may lose: a
 * driver that is asked for too much can take the context with it.
 */
#ifndef WEIR_PROBE_H
#define WEIR_PROBE_H

#include "hw.h"

#define PROBE_SPIN_US 50000u
#define PROBE_PIECE (2 * HW_MIB)

typedef struct probe_rig {
    weir_driver driver;
    hw_graphs graphs;
    weir_cu_context context; /* the primary one, current on the main thread */
    weir_cuda *cuda;
    weir_cuda_work *work;
    weir_cu_handle_prop prop; /* as Weir makes handles */
    weir_cu_access access;
    bool quick;
} probe_rig;

void probe_open(probe_rig *rig, bool quick);
void probe_close(probe_rig *rig);

/* One fact: `format` gives the members of a JSON object but for its group. */
void probe_fact(const char *group, const char *format, ...);
const char *probe_error(const probe_rig *rig, weir_cu_result result);
/* Ends the process where a call that must work does not. */
void probe_must(const probe_rig *rig, weir_cu_result result, const char *what);
weir_cu_stream probe_stream(probe_rig *rig);
double probe_median(double *values, size_t count);

/* ------------------------------------------------------------------------------ single calls -- */

/* What one call after another needs and leaves: one piece of memory in the seven steps of its life,
 * and things to act on. */
typedef struct probe_kit {
    probe_rig *rig;
    weir_cu_stream busy, other; /* the one that is captured or runs a kernel, and another */
    weir_cu_event passed, fresh;
    weir_cu_pool pool;
    unsigned step; /* of the piece: how many steps of its life it has made */
    uint64_t base, handle, bytes;
    uint64_t block;   /* of cuMemAlloc */
    uint64_t segment; /* of cuMemAllocFromPoolAsync */
    weir_cu_stream spare_stream;
    weir_cu_event spare_event;
} probe_kit;

typedef struct probe_call {
    const char *name;
    unsigned step; /* the piece has made so many; PROBE_ANY: it does not matter */
    bool quick;    /* Weir makes it beside running kernels: it may not wait for them */
    bool captured; /* Weir makes it, in relaxed mode, while a capture runs somewhere */
    weir_cu_result (*make)(probe_kit *kit);
} probe_call;

#define PROBE_ANY 99u

extern const probe_call probe_calls[];
extern const size_t probe_call_count;

void probe_kit_open(probe_kit *kit, probe_rig *rig, uint64_t bytes);
/* Makes everything ready for a call: nothing of the kit is in use by the device then. */
void probe_kit_ready(probe_kit *kit, const probe_call *call);
void probe_kit_close(probe_kit *kit);

/* ------------------------------------------------------------------------------------ groups -- */

void probe_costs(probe_rig *rig);
void probe_waits(probe_rig *rig);
void probe_captures(probe_rig *rig);
void probe_objects(probe_rig *rig);
void probe_bandwidth(probe_rig *rig);
void probe_moves(probe_rig *rig);
void probe_threads(probe_rig *rig, size_t which);
extern const size_t probe_thread_cases;

#endif
