/* SPDX-License-Identifier: MIT */
/* Writing documents. The opcodes are those of Python's pickletools. */
#include "runtime_doc.h"

#include <inttypes.h>
#include <string.h>

#define DOC_BATCH 1000u

static void doc_byte(weir_rt_doc *doc, int byte)
{
    (void)putc(byte, doc->file);
}

/* Before a value that is an element: in a dict its key has been here already. */
static void doc_element(weir_rt_doc *doc)
{
    if (doc->depth == 0 || !doc->open[doc->depth - 1].list) {
        return;
    }
    uint64_t before = doc->open[doc->depth - 1].count++;
    if (doc->json && before != 0) {
        doc_byte(doc, ',');
    }
    if (!doc->json && before != 0 && before % DOC_BATCH == 0) {
        fputs("e(", doc->file); /* APPENDS, MARK */
    }
}

static void doc_open(weir_rt_doc *doc, bool list)
{
    doc_element(doc);
    doc->open[doc->depth].list = list;
    doc->open[doc->depth].count = 0;
    doc->depth++;
    if (doc->json) {
        doc_byte(doc, list ? '[' : '{');
    } else {
        fputs(list ? "](" : "}(", doc->file); /* EMPTY_LIST or EMPTY_DICT, MARK */
    }
}

void weir_rt_doc_begin(weir_rt_doc *doc, FILE *file, bool json)
{
    memset(doc, 0, sizeof(*doc));
    doc->file = file;
    doc->json = json;
    if (!json) {
        fputs("\x80\x02", file); /* PROTO 2 */
    }
}

void weir_rt_doc_end(weir_rt_doc *doc)
{
    doc_byte(doc, doc->json ? '\n' : '.'); /* STOP */
}

void weir_rt_doc_dict(weir_rt_doc *doc)
{
    doc_open(doc, false);
}

void weir_rt_doc_list(weir_rt_doc *doc)
{
    doc_open(doc, true);
}

void weir_rt_doc_close(weir_rt_doc *doc)
{
    bool list = doc->open[--doc->depth].list;
    if (doc->json) {
        doc_byte(doc, list ? ']' : '}');
    } else {
        doc_byte(doc, list ? 'e' : 'u'); /* APPENDS or SETITEMS */
    }
}

/* The bytes of the character of UTF-8 that begins here; 0: none does. The second byte's range is
 * what keeps out long forms, surrogates and what lies above the last character. */
static size_t doc_character(const unsigned char *at)
{
    unsigned char least = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char most = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] < 0xC2 || at[0] > 0xF4 || at[1] < least || at[1] > most) {
        return 0;
    }
    size_t bytes = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    for (size_t i = 2; i < bytes; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return bytes;
}

/* The text, with a question mark for each byte that is no UTF-8: names of files need not be, and
 * readers would refuse the whole document. */
static void doc_characters(weir_rt_doc *doc, const char *text)
{
    while (*text != '\0') {
        size_t bytes = doc_character((const unsigned char *)text);
        if (bytes == 0) {
            doc_byte(doc, '?');
        } else if (doc->json && (*text == '"' || *text == '\\')) {
            fprintf(doc->file, "\\%c", *text);
        } else if (doc->json && (unsigned char)*text < 0x20) {
            fprintf(doc->file, "\\u%04x", (unsigned)*text);
        } else {
            (void)fwrite(text, 1, bytes, doc->file);
        }
        text += bytes != 0 ? bytes : 1;
    }
}

static void doc_little(weir_rt_doc *doc, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        doc_byte(doc, (int)(value >> (8 * i) & 0xFF));
    }
}

static void doc_string(weir_rt_doc *doc, const char *text)
{
    if (doc->json) {
        doc_byte(doc, '"');
        doc_characters(doc, text);
        doc_byte(doc, '"');
        return;
    }
    doc_byte(doc, 'X'); /* BINUNICODE */
    doc_little(doc, strlen(text), 4);
    doc_characters(doc, text);
}

void weir_rt_doc_key(weir_rt_doc *doc, const char *key)
{
    if (doc->json && doc->open[doc->depth - 1].count++ != 0) {
        doc_byte(doc, ',');
    }
    doc_string(doc, key);
    if (doc->json) {
        doc_byte(doc, ':');
    }
}

void weir_rt_doc_text(weir_rt_doc *doc, const char *text)
{
    doc_element(doc);
    doc_string(doc, text);
}

/* LONG1 is two's complement, so a number whose top bit is set takes one byte more. */
static void doc_long(weir_rt_doc *doc, uint64_t number)
{
    unsigned bytes = 1;
    while (bytes < 8 && number >> (8 * bytes) != 0) {
        bytes++;
    }
    unsigned pad = (unsigned)(number >> (8 * bytes - 1) & 1);
    doc_byte(doc, 0x8a);
    doc_byte(doc, (int)(bytes + pad));
    doc_little(doc, number, bytes);
    if (pad != 0) {
        doc_byte(doc, 0);
    }
}

static void doc_value(weir_rt_doc *doc, uint64_t number)
{
    if (doc->json) {
        fprintf(doc->file, "%" PRIu64, number);
    } else if (number < 0x100) {
        doc_byte(doc, 'K'); /* BININT1 */
        doc_little(doc, number, 1);
    } else if (number < 0x10000) {
        doc_byte(doc, 'M'); /* BININT2 */
        doc_little(doc, number, 2);
    } else {
        doc_long(doc, number);
    }
}

void weir_rt_doc_number(weir_rt_doc *doc, uint64_t number)
{
    doc_element(doc);
    doc_value(doc, number);
}

void weir_rt_doc_bool(weir_rt_doc *doc, bool yes)
{
    doc_element(doc);
    if (doc->json) {
        fputs(yes ? "true" : "false", doc->file);
    } else {
        doc_byte(doc, yes ? 0x88 : 0x89); /* NEWTRUE, NEWFALSE */
    }
}

void weir_rt_doc_pair(weir_rt_doc *doc, uint64_t first, uint64_t second)
{
    doc_element(doc);
    if (doc->json) {
        fprintf(doc->file, "[%" PRIu64 ",%" PRIu64 "]", first, second);
        return;
    }
    doc_value(doc, first);
    doc_value(doc, second);
    doc_byte(doc, 0x86); /* TUPLE2 */
}
