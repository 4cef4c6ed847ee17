/* SPDX-License-Identifier: MIT */
/* `weir run`: a command whose GPU memory comes from Weir. */
#ifndef WEIR_RUN_H
#define WEIR_RUN_H

#include "fault.h"

/* What is put into the environment of the command. */
typedef struct weir_run_options {
    const char *conf;  /* NULL: as the environment has it */
    const char *trace; /* a path, or NULL */
    bool leaks;
    char **command; /* ends with NULL */
} weir_run_options;

/* Reads the arguments (argv[0] is the verb) up to the command, settings included. */
bool weir_run_options_read(weir_run_options *options, int argc, char **argv, weir_fault *fault);

/* `list` with `entry` after what is in it, unless it is there already; names are parted by the
 * characters of `marks`, of which the first is put between. NULL: no memory. The caller frees it. */
char *weir_run_join(const char *list, const char *entry, const char *marks);

/* The verb: does not return where the command starts. 127 where it is not found, 126 where it can't
 * be run. */
int weir_run(int argc, char **argv);

#endif
