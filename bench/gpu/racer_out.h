/* SPDX-License-Identifier: MIT */
/* Results: one JSON object a line, on the standard output, written whole and at once. */
#ifndef RACER_OUT_H
#define RACER_OUT_H

#include <stdbool.h>
#include <stdint.h>

#define RACER_OUT_BYTES 8192u

typedef struct racer_out {
    char line[RACER_OUT_BYTES];
    uint32_t bytes; /* of it; what would not fit is left out and said by racer_out_end */
    bool over;
} racer_out;

void racer_out_begin(racer_out *out, const char *kind);
void racer_out_text(racer_out *out, const char *key, const char *text);
void racer_out_count(racer_out *out, const char *key, uint64_t count);
void racer_out_flag(racer_out *out, const char *key, bool flag);
/* Not a number becomes null. */
void racer_out_decimal(racer_out *out, const char *key, double value, int decimals);
/* An object or array of counts or decimals: open, any of the calls above, close. */
void racer_out_open(racer_out *out, const char *key, char bracket);
void racer_out_close(racer_out *out, char bracket);
void racer_out_end(racer_out *out);

#endif
