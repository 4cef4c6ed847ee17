/* SPDX-License-Identifier: MIT */
/* A text that grows in a caller's buffer, and goes on counting what it would need beyond that. */
#ifndef WEIR_RUNTIME_TEXT_H
#define WEIR_RUNTIME_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct weir_rt_text {
    char *at;
    size_t room, used;
} weir_rt_text;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void weir_rt_text_add(weir_rt_text *text, const char *format, ...);

/* "512 bytes", "1.50 GiB": two decimals, in the unit that keeps the number below 1024. */
void weir_rt_text_bytes(weir_rt_text *text, uint64_t bytes);

#endif
