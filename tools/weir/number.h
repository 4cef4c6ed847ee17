/* SPDX-License-Identifier: MIT */
/* Numbers of the command line. */
#ifndef WEIR_NUMBER_H
#define WEIR_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Decimal digits and nothing else; false also where the number passes 64 bits. */
bool weir_number_read(const char *text, uint64_t *number);

/* "1.02x": a factor, in millionths, with at most six decimals, above 0 and at most 1000. */
bool weir_number_factor(const char *text, uint64_t *millionths);

#endif
