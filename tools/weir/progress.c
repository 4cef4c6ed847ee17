/* SPDX-License-Identifier: MIT */
/* The bar: drawn again only when its thousandths change, so that it costs little. */
#define _POSIX_C_SOURCE 200809L

#include "progress.h"

#include <stdio.h>
#include <unistd.h>

enum { PROGRESS_WIDTH = 40, PROGRESS_WHOLE = 1000 };

void weir_progress_begin(weir_progress *progress, const char *label)
{
    progress->label = label;
    progress->shown = isatty(STDERR_FILENO) == 1;
    progress->last = UINT32_MAX;
}

void weir_progress_show(weir_progress *progress, uint64_t done, uint64_t total)
{
    static const char full[] = "########################################";
    uint32_t part = total == 0 ? PROGRESS_WHOLE : (uint32_t)(done * PROGRESS_WHOLE / total);
    int filled;

    part = part < PROGRESS_WHOLE ? part : PROGRESS_WHOLE;
    if (!progress->shown || part == progress->last) return;
    progress->last = part;
    filled = (int)(part * PROGRESS_WIDTH / PROGRESS_WHOLE);
    (void)fprintf(stderr, "\r%-16.40s [%.*s%*s] %3u %%", progress->label, filled, full,
                  PROGRESS_WIDTH - filled, "", part / 10);
}

void weir_progress_end(weir_progress *progress)
{
    if (progress->shown && progress->last != UINT32_MAX)
        (void)fprintf(stderr, "\r%*s\r", PROGRESS_WIDTH + 50, "");
}
