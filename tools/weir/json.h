/* SPDX-License-Identifier: MIT */
/*
 * A result as one line of JSON, schema weir.replay/1. Keys are only ever added, at the end of an
 * object.
 *
 * driver_calls counts the device's calls as docs/backend.md names them, and driver_call_ns says what
 * those of each name took together: by the simulator's table, elsewhere by the clock. On CUDA a call
 * is what the backend does for it, of one driver call or a few. `device`, `driver_version`,
 * `source` and `predicted` are null on other backends; the last is what a simulated device of the
 * same memory said of the same settings, and same_calls whether every count is as it said.
 */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include <stdio.h>

#include "card.h"
#include "measure.h"

/* `card` is the one that was played on, NULL or empty on other backends. False where memory is
 * short or the stream does not take it. */
bool weir_json_print(FILE *out, const weir_result *result, const weir_card *card);

#endif
