/* SPDX-License-Identifier: MIT */
/* The sentence that says what went wrong. A text too long for its place is cut, never overrun. */
#include "fault.h"

#include <stdarg.h>
#include <stdio.h>

bool weir_fault_set(weir_fault *fault, const char *format, ...)
{
    va_list list;

    if (fault->text[0] != '\0') return false;
    va_start(list, format);
    (void)vsnprintf(fault->text, sizeof fault->text, format, list);
    va_end(list);
    return false;
}

void weir_fault_print(const weir_fault *fault)
{
    (void)fprintf(stderr, "weir: %s\n", fault->text);
}
