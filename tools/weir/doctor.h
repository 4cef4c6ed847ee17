/* SPDX-License-Identifier: MIT */
/* The verb `weir doctor`. */
#ifndef WEIR_DOCTOR_H
#define WEIR_DOCTOR_H

#include <stdio.h>

#include "fault.h"

typedef struct weir_doctor_options {
    bool json;
    int device; /* look at this one alone; -1: at all */
} weir_doctor_options;

/* Writes the report, as text or as one line of JSON (schema weir.doctor/1). Returns the exit status:
 * 0; 1 where a self-test failed, or what is asked for is not here; 2 where the settings cannot be
 * read or the report not written. *fault says what is wrong where it is not 0. */
int weir_doctor_report(FILE *out, const weir_doctor_options *options, weir_fault *fault);

/* argv[0] is the verb. Returns the exit status. */
int weir_doctor(int argc, char **argv);

#endif
