/* SPDX-License-Identifier: MIT */
/* The writer of results. A line is built in memory, so that a process that dies leaves whole lines
 * only. */
#include "racer_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void out_put(racer_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void out_put(racer_out *out, const char *format, ...)
{
    size_t room = sizeof out->line - out->bytes;
    va_list list;

    va_start(list, format);
    int bytes = vsnprintf(out->line + out->bytes, room, format, list);
    va_end(list);
    if (bytes < 0 || (size_t)bytes >= room) out->over = true;
    else out->bytes += (uint32_t)bytes;
}

static void out_escaped(racer_out *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') out_put(out, "\\%c", c);
        else if (c < 0x20) out_put(out, "\\u%04x", c);
        else out_put(out, "%c", c);
    }
}

/* A comma unless something has just been opened; then the key, which arrays lack. */
static void out_key(racer_out *out, const char *key)
{
    char last = out->bytes > 0 ? out->line[out->bytes - 1] : '{';

    if (last != '{' && last != '[') out_put(out, ",");
    if (key != NULL) out_put(out, "\"%s\":", key);
}

void racer_out_begin(racer_out *out, const char *kind)
{
    memset(out, 0, sizeof *out);
    out_put(out, "{");
    racer_out_text(out, "kind", kind);
}

void racer_out_text(racer_out *out, const char *key, const char *text)
{
    out_key(out, key);
    out_put(out, "\"");
    out_escaped(out, text);
    out_put(out, "\"");
}

void racer_out_count(racer_out *out, const char *key, uint64_t count)
{
    out_key(out, key);
    out_put(out, "%" PRIu64, count);
}

void racer_out_flag(racer_out *out, const char *key, bool flag)
{
    out_key(out, key);
    out_put(out, flag ? "true" : "false");
}

void racer_out_decimal(racer_out *out, const char *key, double value, int decimals)
{
    out_key(out, key);
    if (isfinite(value)) out_put(out, "%.*f", decimals, value);
    else out_put(out, "null");
}

void racer_out_open(racer_out *out, const char *key, char bracket)
{
    out_key(out, key);
    out_put(out, "%c", bracket);
}

void racer_out_close(racer_out *out, char bracket)
{
    out_put(out, "%c", bracket);
}

void racer_out_end(racer_out *out)
{
    out_put(out, "}");
    if (out->over) (void)fprintf(stderr, "racer: a result was too long to write\n");
    else (void)printf("%s\n", out->line);
    (void)fflush(stdout);
}
