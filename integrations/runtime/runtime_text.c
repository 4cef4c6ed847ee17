/* SPDX-License-Identifier: MIT */
/* Texts that are built piece by piece, with the length they need whatever the room. */
#include "runtime_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void weir_rt_text_add(weir_rt_text *text, const char *format, ...)
{
    va_list list;
    size_t left = text->used < text->room ? text->room - text->used : 0;
    va_start(list, format);
    int length = vsnprintf(left != 0 ? text->at + text->used : NULL, left, format, list);
    va_end(list);
    text->used += length > 0 ? (size_t)length : 0;
}

void weir_rt_text_bytes(weir_rt_text *text, uint64_t bytes)
{
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double size = (double)bytes / 1024.0;
    unsigned i = 0;
    if (bytes < 1024) {
        weir_rt_text_add(text, "%" PRIu64 " bytes", bytes);
        return;
    }
    for (; size >= 1024.0 && i + 1 < sizeof(unit) / sizeof(unit[0]); i++) {
        size /= 1024.0;
    }
    weir_rt_text_add(text, "%.2f %s", size, unit[i]);
}
