/* SPDX-License-Identifier: MIT */
/* A measured release threshold as a table for people, or as a line of JSON. */
#ifndef WEIR_THRESHOLD_PRINT_H
#define WEIR_THRESHOLD_PRINT_H

#include <stdio.h>

#include "card.h"
#include "threshold.h"

/* A heading, one row a threshold, and the recommendation with its rule. */
void weir_threshold_table(FILE *out, const weir_threshold *result);

/* Schema weir.threshold/1. `card` is the one that was measured, empty on other backends. False where
 * memory is short or the stream does not take it. */
bool weir_threshold_json(FILE *out, const weir_threshold *result, const weir_card *card);

#endif
