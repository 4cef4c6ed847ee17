/* SPDX-License-Identifier: MIT */
/* The contestants of the program racer, by the files that hold them. */
#ifndef RACER_ENTRANTS_H
#define RACER_ENTRANTS_H

#include "racer.h"

/* entrant_weir.c */
extern const racer_contestant racer_weir_vmm, racer_weir_shared, racer_weir_async,
    racer_weir_malloc;

/* entrant_runtime.c, where the CUDA runtime is there at compile time */
extern const racer_contestant racer_malloc_async, racer_malloc_plain;

#endif
