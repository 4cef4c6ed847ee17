/* SPDX-License-Identifier: MIT */
/*
 * Whole files in memory, unpacked.
 *
 * Invariant  A compressed stream is taken only if it ends where its format says it ends: a cut or a
 *            damaged one is an error, never a shorter text.
 * Bound      What comes out is at most text_bytes_max() long, so that a small hostile file cannot
 *            take all memory.
 */
#include "text.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { TEXT_STEP_BYTES = 1 << 20 };

static size_t text_bytes_max(void)
{
    const uint64_t most = UINT64_C(1) << 32;
    return SIZE_MAX / 2 < most ? SIZE_MAX / 2 : (size_t)most;
}

static void text_drop(weir_text *text)
{
    free(text->data);
    text->data = NULL;
    text->bytes = 0;
}

/* Makes room for one more step behind what is there. *room is how much there is in all. */
static bool text_grow(weir_text *text, size_t *room, const char *path, weir_fault *fault)
{
    size_t more = *room == 0 ? TEXT_STEP_BYTES : *room * 2;
    char *data;

    if (*room - text->bytes >= TEXT_STEP_BYTES / 2) return true;
    if (more > text_bytes_max())
        return weir_fault_set(fault, "%s: the text is longer than %zu bytes; split the trace", path,
                              text_bytes_max());
    data = realloc(text->data, more);
    if (data == NULL) return weir_fault_set(fault, "%s: not enough memory to read it", path);
    text->data = data;
    *room = more;
    return true;
}

static bool text_slurp(FILE *file, const char *path, weir_text *text, weir_fault *fault)
{
    size_t room = 0;

    while (text_grow(text, &room, path, fault)) {
        size_t got = fread(text->data + text->bytes, 1, room - text->bytes, file);
        text->bytes += got;
        if (ferror(file)) return weir_fault_set(fault, "%s: %s", path, strerror(errno));
        if (feof(file)) return true;
    }
    return false;
}

/* Unpacks one gzip member after another; `stream` is ready. */
static bool text_inflate(z_stream *stream, const weir_text *packed, const char *path,
                         weir_text *text, weir_fault *fault)
{
    size_t room = 0, taken = 0;
    int status = Z_OK;

    while (taken < packed->bytes) {
        size_t step = packed->bytes - taken;
        size_t space;
        if (!text_grow(text, &room, path, fault)) return false;
        space = room - text->bytes;
        step = step < TEXT_STEP_BYTES ? step : TEXT_STEP_BYTES;
        space = space < TEXT_STEP_BYTES ? space : TEXT_STEP_BYTES;
        if (status == Z_STREAM_END) (void)inflateReset(stream);
        stream->next_in = (Bytef *)packed->data + taken;
        stream->avail_in = (uInt)step;
        stream->next_out = (Bytef *)text->data + text->bytes;
        stream->avail_out = (uInt)space;
        status = inflate(stream, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END)
            return weir_fault_set(fault, "%s: the gzip stream is damaged (%s)", path,
                                  stream->msg != NULL ? stream->msg : "no reason given");
        taken += step - stream->avail_in;
        text->bytes += space - stream->avail_out;
    }
    if (status != Z_STREAM_END)
        return weir_fault_set(fault, "%s: the gzip stream is cut short", path);
    return true;
}

static bool text_gunzip(const weir_text *packed, const char *path, weir_text *text,
                        weir_fault *fault)
{
    const int gzip_only = 15 + 16;
    z_stream stream;
    bool good;

    memset(&stream, 0, sizeof stream);
    if (inflateInit2(&stream, gzip_only) != Z_OK)
        return weir_fault_set(fault, "%s: not enough memory to unpack it", path);
    good = text_inflate(&stream, packed, path, text, fault);
    (void)inflateEnd(&stream);
    return good;
}

static bool text_unpack_zstd(ZSTD_DStream *stream, const weir_text *packed, const char *path,
                             weir_text *text, weir_fault *fault)
{
    ZSTD_inBuffer in = {packed->data, packed->bytes, 0};
    size_t room = 0, left = 1;
    bool full = false;

    /* A full output buffer may leave decoded bytes inside the stream after the last input. */
    while (in.pos < in.size || (left != 0 && full)) {
        ZSTD_outBuffer out;
        if (!text_grow(text, &room, path, fault)) return false;
        out.dst = text->data;
        out.size = room;
        out.pos = text->bytes;
        left = ZSTD_decompressStream(stream, &out, &in);
        if (ZSTD_isError(left))
            return weir_fault_set(fault, "%s: the zstd stream is damaged (%s)", path,
                                  ZSTD_getErrorName(left));
        full = out.pos == out.size;
        text->bytes = out.pos;
    }
    if (left != 0) return weir_fault_set(fault, "%s: the zstd stream is cut short", path);
    return true;
}

static bool text_unzstd(const weir_text *packed, const char *path, weir_text *text,
                        weir_fault *fault)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    bool good;

    if (stream == NULL) return weir_fault_set(fault, "%s: not enough memory to unpack it", path);
    good = text_unpack_zstd(stream, packed, path, text, fault);
    (void)ZSTD_freeDStream(stream);
    return good;
}

static bool text_starts(const weir_text *text, const char *magic, size_t bytes)
{
    return text->bytes >= bytes && memcmp(text->data, magic, bytes) == 0;
}

/* Replaces *text by what it unpacks to. */
static bool text_unpack(const char *path, weir_text *text, weir_fault *fault)
{
    weir_text out = {NULL, 0};
    bool good;

    if (text_starts(text, "\x1f\x8b", 2)) good = text_gunzip(text, path, &out, fault);
    else if (text_starts(text, "\x28\xb5\x2f\xfd", 4)) good = text_unzstd(text, path, &out, fault);
    else return true;
    text_drop(text);
    *text = out;
    return good;
}

bool weir_text_read(const char *path, weir_text *text, weir_fault *fault)
{
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    bool good;

    text->data = NULL;
    text->bytes = 0;
    if (file == NULL) return weir_fault_set(fault, "%s: %s", path, strerror(errno));
    good = text_slurp(file, path, text, fault);
    if (!from_stdin) (void)fclose(file);
    good = good && text_unpack(path, text, fault);
    if (!good) text_drop(text);
    return good;
}
