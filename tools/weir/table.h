/* SPDX-License-Identifier: MIT */
/* Results as a table for people. */
#ifndef WEIR_TABLE_H
#define WEIR_TABLE_H

#include <stdio.h>

#include "measure.h"
#include "peers.h"

/* One row a result, and with several a last row of geometric means. */
void weir_table_print(FILE *out, const weir_result *results, size_t count);

/* For each result with a prediction: every device call that was made or predicted, how often, and
 * what all of them took. Nothing for the others. */
void weir_table_predicted(FILE *out, const weir_result *results, size_t count);

/* One row a result beside the recorded rows of the same trace. */
void weir_table_peers(FILE *out, const weir_result *results, size_t count, const weir_peers *peers);

#endif
