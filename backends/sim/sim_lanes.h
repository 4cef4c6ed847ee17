/* SPDX-License-Identifier: MIT */
/* What sim_event.c and sim_work.c need of the queues that sim_stream.c owns. */
#ifndef WEIR_SIM_LANES_H
#define WEIR_SIM_LANES_H

#include "sim_internal.h"

/* The lane of a stream, or 0 after a breach that names `verb`. */
uint32_t weir_sim_lane_need(weir_sim *sim, const char *verb, uint64_t stream);

/* When a piece of work ends: 0 if it has ended, NEVER while it is stalled. */
uint64_t weir_sim_end_of(weir_sim *sim, uint32_t lane, uint64_t seq);

/* When all work queued so far ends. */
uint64_t weir_sim_last_end(weir_sim *sim);

/* Later work of `lane` ends not before the work `dep_seq` of `dep_lane`. */
bool weir_sim_queue_wait(weir_sim *sim, uint32_t lane, uint32_t dep_lane, uint64_t dep_seq);

#endif
