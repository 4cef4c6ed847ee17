/* SPDX-License-Identifier: MIT */
/* The kinds of synthetic traces. */
#ifndef WEIR_KINDS_H
#define WEIR_KINDS_H

#include "workload.h"

typedef struct weir_kind {
    const char *name;
    void (*write)(weir_workload *load); /* until weir_workload_full */
} weir_kind;

/* NULL if there is none of this name. */
const weir_kind *weir_kind_find(const char *name);

#endif
