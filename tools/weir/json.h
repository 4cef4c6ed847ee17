/* SPDX-License-Identifier: MIT */
/* A result as one line of JSON, schema weir.replay/1. */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include <stdio.h>

#include "measure.h"

/* False where memory is short or the stream does not take it. */
bool weir_json_print(FILE *out, const weir_result *result);

#endif
