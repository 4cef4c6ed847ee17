/* SPDX-License-Identifier: MIT */
/* One sentence that says what went wrong, carried up to the place that prints it. No state. */
#ifndef WEIR_FAULT_H
#define WEIR_FAULT_H

#include <stdbool.h>

/* What the command ends with. */
enum { WEIR_EXIT_OK = 0, WEIR_EXIT_FAILED = 1, WEIR_EXIT_USAGE = 2 };

typedef struct weir_fault {
    char text[768]; /* empty: nothing went wrong */
} weir_fault;

/* Keeps the sentence, unless an earlier one is there: the first cause is the one to tell. Returns
 * false, so that a caller can fail and say why in one statement. */
bool weir_fault_set(weir_fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints "weir: " and the sentence to stderr. */
void weir_fault_print(const weir_fault *fault);

#endif
