/* SPDX-License-Identifier: MIT */
/*
 * Target: trace files. A second reader, which keeps every block in a plain list, says whether the
 * text is a trace and what it holds. The file is given plain, as gzip, as zstd, or as raw bytes;
 * packed files are also cut short or damaged, which must be an error or change nothing.
 *
 * Input: 3 bytes (how the file is made, where it is damaged), then text.
 */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"
#include "trace_second.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { FILE_TEXT = 4096, FILE_PACKED = 8192 };

typedef struct file_bytes {
    uint8_t at[FILE_PACKED];
    size_t size;
} file_bytes;

/* A file in memory, the same for all inputs. */
static const char *file_write(const file_bytes *bytes)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("trace.csv", 0);
        FUZZ_CHECK(file >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    FUZZ_CHECK(ftruncate(file, (off_t)bytes->size) == 0);
    FUZZ_CHECK(pwrite(file, bytes->at, bytes->size, 0) == (ssize_t)bytes->size);
    return path;
}

/* A sentence without control characters, in an answer of the reader that says no. */
static void file_sentence(const weir_fault *fault)
{
    size_t length = strlen(fault->text);
    FUZZ_SAY(length > 0, "refused without a sentence");
    for (size_t i = 0; i < length; i++)
        FUZZ_SAY(fault->text[i] >= ' ' && fault->text[i] <= '~', "byte %d in a sentence",
                 fault->text[i]);
}

static bool file_read(const file_bytes *bytes, weir_trace *trace)
{
    weir_fault fault = {.text = ""};
    bool good = weir_trace_read(file_write(bytes), trace, &fault);
    if (good) FUZZ_SAY(fault.text[0] == '\0', "taken, and yet: %s", fault.text);
    else file_sentence(&fault);
    if (!good) FUZZ_CHECK(trace->ops == NULL && trace->name == NULL && trace->count == 0);
    return good;
}

/* -------------------------------------------------------------------------------------- made -- */

static void file_gzip(const uint8_t *text, size_t size, file_bytes *out)
{
    static z_stream stream;
    static bool ready;
    if (!ready) {
        FUZZ_CHECK(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
        ready = true;
    }
    deflateReset(&stream);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)size;
    stream.next_out = out->at;
    stream.avail_out = sizeof out->at;
    FUZZ_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out->size = sizeof out->at - stream.avail_out;
}

static void file_zstd(const uint8_t *text, size_t size, file_bytes *out)
{
    static ZSTD_CCtx *context;
    if (context == NULL) {
        context = ZSTD_createCCtx();
        FUZZ_CHECK(context != NULL);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    }
    out->size = ZSTD_compress2(context, out->at, sizeof out->at, text, size);
    FUZZ_CHECK(!ZSTD_isError(out->size));
}

static void file_plain(const uint8_t *text, size_t size, file_bytes *out)
{
    if (size != 0) memcpy(out->at, text, size);
    out->size = size;
}

/* ------------------------------------------------------------------------------------ judged -- */

static void file_judge(const file_bytes *bytes, const trace_second *second)
{
    weir_trace trace;
    bool good = file_read(bytes, &trace);
    FUZZ_SAY(good == second->good, "taken: %d, by the second reader: %d, line %u", good,
             second->good, second->line);
    if (!good) return;
    weir_second_compare(second, &trace);
    weir_trace_free(&trace);
}

/* A packed file that ends early is refused; one with a wrong byte is refused or the same. */
static void file_damage(const file_bytes *bytes, const trace_second *second, uint8_t at,
                        uint8_t how)
{
    static file_bytes worse;
    weir_trace trace;
    worse = *bytes;
    size_t place = bytes->size * at >> 8;
    if ((how & 1) != 0) {
        worse.size = place;
        FUZZ_SAY(!file_read(&worse, &trace), "cut to %zu of %zu bytes and taken", place,
                 bytes->size);
        return;
    }
    worse.at[place] ^= (uint8_t)(how | 1);
    if (!file_read(&worse, &trace)) return;
    FUZZ_SAY(second->good, "a damaged file is taken that was none before");
    weir_second_compare(second, &trace);
    weir_trace_free(&trace);
}

/* Bytes as they come: only that nothing breaks, and that the trace hangs together. */
static void file_raw(const uint8_t *data, size_t size)
{
    static file_bytes raw;
    weir_trace trace;
    file_plain(data, size, &raw);
    if (!file_read(&raw, &trace)) return;
    weir_second_sound(&trace);
    weir_trace_free(&trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static file_bytes bytes;
    static trace_second second;
    fuzz_input in = {data, size};
    uint8_t how = fuzz_byte(&in), at = fuzz_byte(&in), damage = fuzz_byte(&in);
    size_t length = in.left < FILE_TEXT ? in.left : FILE_TEXT;
    if (how >= 0xE0) {
        file_raw(in.at, length);
        return 0;
    }
    /* Text that begins like a packed file is one to the reader. */
    if (length > 1 && (in.at[0] == 0x1F || in.at[0] == 0x28)) return 0;
    weir_second_read(&second, in.at, length);
    if (how < 0x60) file_plain(in.at, length, &bytes);
    else if (how < 0xA0) file_gzip(in.at, length, &bytes);
    else file_zstd(in.at, length, &bytes);
    file_judge(&bytes, &second);
    if (how >= 0x60 && (damage & 0x80) != 0) file_damage(&bytes, &second, at, damage & 0x7F);
    return 0;
}
