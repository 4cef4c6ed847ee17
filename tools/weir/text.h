/* SPDX-License-Identifier: MIT */
/* Reads a file whole, plain or compressed with gzip or zstd, told apart by its first bytes. */
#ifndef WEIR_TEXT_H
#define WEIR_TEXT_H

#include <stddef.h>

#include "fault.h"

typedef struct weir_text {
    char *data; /* free() it; not terminated */
    size_t bytes;
} weir_text;

/* `path` "-" is standard input. On false *text holds nothing and *fault says why. O(bytes). */
bool weir_text_read(const char *path, weir_text *text, weir_fault *fault);

#endif
