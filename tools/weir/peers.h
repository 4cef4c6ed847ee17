/* SPDX-License-Identifier: MIT */
/* Recorded results of other allocators on the same traces: one JSON object a line. */
#ifndef WEIR_PEERS_H
#define WEIR_PEERS_H

#include <stddef.h>

#include "fault.h"

typedef struct weir_peer {
    char *trace;
    char *allocator;
    double reserved_ratio; /* of each number: negative where it was not recorded */
    double ns_per_op;
    double least_capacity_ratio;
    double least_capacity_ns_per_op;
} weir_peer;

typedef struct weir_peers {
    weir_peer *list; /* in the order of the file */
    size_t count;
} weir_peers;

/* False: *peers is empty and *fault names file, line and reason. */
bool weir_peers_read(const char *path, weir_peers *peers, weir_fault *fault);
void weir_peers_free(weir_peers *peers);

#endif
