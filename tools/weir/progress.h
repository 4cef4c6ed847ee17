/* SPDX-License-Identifier: MIT */
/* A bar on stderr while something takes long; nothing where stderr is no terminal. */
#ifndef WEIR_PROGRESS_H
#define WEIR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_progress {
    const char *label;
    bool shown;
    uint32_t last; /* what was drawn last, in thousandths */
} weir_progress;

void weir_progress_begin(weir_progress *progress, const char *label);
/* Draws `done` of `total`. */
void weir_progress_show(weir_progress *progress, uint64_t done, uint64_t total);
/* Clears the line. */
void weir_progress_end(weir_progress *progress);

#endif
