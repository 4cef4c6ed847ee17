/* SPDX-License-Identifier: MIT */
/* Captures and graphs that use a pool's memory, for the tests of both. */
#ifndef WEIR_CUDA_RIG_GRAPH_H
#define WEIR_CUDA_RIG_GRAPH_H

#include "rig.h"

#define RIG_GRAPH_BYTES (2 * MIB)

/* The capture of a stream is sound, and no rule was broken so far. */
void rig_expect_active(const cuda_rig *rig, weir_cu_stream stream);

/* Captures a fill and a check of one block of RIG_GRAPH_BYTES that is allocated and freed inside;
 * *addr is where it lay. The executable graph is all that remains. */
void *rig_graph(const cuda_rig *rig, weir_cu_stream stream, int mode, weir_addr *addr);

/* What graphs held is given back: one block can have all of the limit. */
void rig_expect_given_back(const cuda_rig *rig, uint64_t limit);

bool rig_overlap(weir_addr a, weir_addr b, uint64_t bytes);

#endif
