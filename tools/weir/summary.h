/* SPDX-License-Identifier: MIT */
/* Where the memory is at the end of a trace, in the layout of PyTorch's memory_summary. */
#ifndef WEIR_SUMMARY_H
#define WEIR_SUMMARY_H

#include <stdio.h>

#include "pass.h"

/* Plays `setup` once more and prints 75 columns. False: *fault says why, nothing is printed. */
bool weir_summary_print(FILE *out, const weir_pass_setup *setup, weir_fault *fault);

#endif
