/* SPDX-License-Identifier: MIT */
/*
 * How a target says that something is wrong. tests/support states what it expects in Criterion's
 * words; here, as in tests/plain, they lead to a function of our own, and an expectation that is
 * not met ends the process at once, so that the engine keeps the input.
 */
#include "fuzz.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void weir_fuzz_fail(const char *file, int line, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    abort();
}

void weir_plain_check(bool good, bool stop, const char *file, int line, const char *what,
                      const char *format, ...)
{
    va_list list;
    (void)stop;
    if (good) return;
    fprintf(stderr, "%s:%d: %s:", file, line, what);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    abort();
}
