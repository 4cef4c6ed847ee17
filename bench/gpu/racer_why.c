/* SPDX-License-Identifier: MIT */
/* The first reason why something failed; later ones mostly follow from it. */
#include "racer.h"

#include <stdarg.h>
#include <stdio.h>

bool racer_why_set(racer_why *why, const char *format, ...)
{
    va_list list;

    if (why->text[0] != '\0') return false;
    va_start(list, format);
    (void)vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    return false;
}
