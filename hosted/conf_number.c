/* SPDX-License-Identifier: MIT */
/*
 * Numbers of the configuration: decimals, sizes and edit distance, in integers throughout.
 *
 * Invariant: what weir_conf_format_* writes, the scanner of the same kind reads back exactly.
 * Cost: O(length of the text). No state.
 */
#include "conf_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MICRO UINT64_C(1000000)
#define WORD_MOST 63

/* A decimal in two integers: whole + micro / 10^6. */
struct number_decimal {
    uint64_t whole;
    uint64_t micro;
};

static bool number_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char number_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static weir_conf_scan number_whole(const char **at, uint64_t *value)
{
    weir_conf_scan scan = WEIR_CONF_SCAN_OK;
    uint64_t sum = 0;
    if (!number_digit(**at)) {
        return WEIR_CONF_SCAN_BAD;
    }
    for (; number_digit(**at); (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            scan = WEIR_CONF_SCAN_LARGE;
        } else {
            sum = sum * 10 + digit;
        }
    }
    *value = scan == WEIR_CONF_SCAN_LARGE ? UINT64_MAX : sum;
    return scan;
}

/* The digits after the point; the seventh and later ones must be zero to be kept exactly. */
static weir_conf_scan number_micro(const char **at, uint64_t *micro)
{
    weir_conf_scan scan = WEIR_CONF_SCAN_OK;
    uint64_t place = MICRO / 10;
    if (!number_digit(**at)) {
        return WEIR_CONF_SCAN_BAD;
    }
    for (; number_digit(**at); (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        *micro += digit * place;
        if (place == 0 && digit != 0) {
            scan = WEIR_CONF_SCAN_FINE;
        }
        place /= 10;
    }
    return scan;
}

/* LARGE wins over FINE, and BAD over both. */
static weir_conf_scan number_decimal(const char **at, struct number_decimal *decimal)
{
    weir_conf_scan scan = number_whole(at, &decimal->whole);
    decimal->micro = 0;
    if (scan == WEIR_CONF_SCAN_BAD || **at != '.') {
        return scan;
    }
    (*at)++;
    weir_conf_scan after = number_micro(at, &decimal->micro);
    return after == WEIR_CONF_SCAN_BAD || scan == WEIR_CONF_SCAN_OK ? after : scan;
}

weir_conf_scan weir_conf_scan_number(const char *text, uint64_t *value)
{
    weir_conf_scan scan = number_whole(&text, value);
    return *text == '\0' ? scan : WEIR_CONF_SCAN_BAD;
}

/* `per_whole` thousandths make one of the decimal's units. */
static weir_conf_scan number_permille(weir_conf_scan scan, const struct number_decimal *decimal,
                                      uint64_t per_whole, uint32_t *permille)
{
    uint64_t step = MICRO / per_whole;
    if (scan == WEIR_CONF_SCAN_LARGE || decimal->whole > UINT32_MAX / per_whole - 1) {
        *permille = UINT32_MAX;
        return WEIR_CONF_SCAN_LARGE;
    }
    *permille = (uint32_t)(decimal->whole * per_whole + decimal->micro / step);
    return decimal->micro % step != 0 ? WEIR_CONF_SCAN_FINE : scan;
}

weir_conf_scan weir_conf_scan_permille(const char *text, uint32_t *permille)
{
    struct number_decimal decimal;
    weir_conf_scan scan = number_decimal(&text, &decimal);
    if (scan == WEIR_CONF_SCAN_BAD || *text != '\0') {
        return WEIR_CONF_SCAN_BAD;
    }
    return number_permille(scan, &decimal, WEIR_CONF_PERMILLE, permille);
}

/* The bytes that a suffix stands for, 0 if it is none: B, or one of K M G T with i, B or iB. */
static uint64_t number_suffix(const char *text)
{
    static const char letters[] = "kmgt";
    const char *letter = strchr(letters, number_lower(*text));
    unsigned shift = 0;
    if (letter != NULL) {
        shift = 10u * (unsigned)(letter - letters + 1);
        text++;
        text += number_lower(*text) == 'i';
    } else if (number_lower(*text) != 'b') {
        return 0;
    }
    text += number_lower(*text) == 'b';
    return *text == '\0' ? UINT64_C(1) << shift : 0;
}

/* Rounds down to the byte. */
static weir_conf_scan number_bytes(weir_conf_scan scan, const struct number_decimal *decimal,
                                   uint64_t unit_bytes, uint64_t *bytes)
{
    uint64_t part = decimal->micro * unit_bytes / MICRO;
    if (scan == WEIR_CONF_SCAN_LARGE || decimal->whole > (UINT64_MAX - part) / unit_bytes) {
        *bytes = UINT64_MAX;
        return WEIR_CONF_SCAN_LARGE;
    }
    *bytes = decimal->whole * unit_bytes + part;
    return unit_bytes == 1 && decimal->micro != 0 ? WEIR_CONF_SCAN_FINE : scan;
}

weir_conf_scan weir_conf_scan_bytes(const char *text, uint64_t unit_bytes, weir_conf_bytes *size)
{
    struct number_decimal decimal;
    weir_conf_scan scan = number_decimal(&text, &decimal);
    *size = (weir_conf_bytes){0, 0};
    if (scan == WEIR_CONF_SCAN_BAD) {
        return scan;
    }
    if (strcmp(text, "%") == 0) {
        return number_permille(scan, &decimal, WEIR_CONF_PERMILLE / 100, &size->permille);
    }
    uint64_t unit = *text == '\0' ? unit_bytes : number_suffix(text);
    return unit == 0 ? WEIR_CONF_SCAN_BAD : number_bytes(scan, &decimal, unit, &size->bytes);
}

weir_status weir_conf_size(const char *text, uint64_t *bytes)
{
    weir_conf_bytes size;
    if (text == NULL || bytes == NULL ||
        weir_conf_scan_bytes(text, 1, &size) != WEIR_CONF_SCAN_OK || strchr(text, '%') != NULL) {
        return WEIR_INVALID;
    }
    *bytes = size.bytes;
    return WEIR_OK;
}

void weir_conf_format_permille(uint32_t permille, char text[WEIR_CONF_WORD_BYTES])
{
    int length = snprintf(text, WEIR_CONF_WORD_BYTES, "%" PRIu32 ".%03" PRIu32,
                          permille / WEIR_CONF_PERMILLE, permille % WEIR_CONF_PERMILLE);
    while (text[length - 1] == '0') {
        text[--length] = '\0';
    }
    if (text[length - 1] == '.') {
        text[length - 1] = '\0';
    }
}

static void number_format_percent(uint32_t permille, char text[WEIR_CONF_WORD_BYTES])
{
    if (permille % 10 == 0) {
        snprintf(text, WEIR_CONF_WORD_BYTES, "%" PRIu32 "%%", permille / 10);
    } else {
        snprintf(text, WEIR_CONF_WORD_BYTES, "%" PRIu32 ".%" PRIu32 "%%", permille / 10,
                 permille % 10);
    }
}

void weir_conf_format_bytes(const weir_conf_bytes *size, uint64_t unit_bytes,
                            char text[WEIR_CONF_WORD_BYTES])
{
    if (size->permille != 0) {
        number_format_percent(size->permille, text);
    } else if (unit_bytes != 0 && size->bytes % unit_bytes == 0) {
        snprintf(text, WEIR_CONF_WORD_BYTES, "%" PRIu64, size->bytes / unit_bytes);
    } else if (size->bytes % WEIR_CONF_MIB == 0) {
        snprintf(text, WEIR_CONF_WORD_BYTES, "%" PRIu64 "M", size->bytes / WEIR_CONF_MIB);
    } else {
        snprintf(text, WEIR_CONF_WORD_BYTES, "%" PRIu64 "B", size->bytes);
    }
}

static unsigned number_least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static size_t number_length(const char *text)
{
    size_t length = strlen(text);
    return length < WORD_MOST ? length : WORD_MOST;
}

/* row[2] is the row being filled, row[1] and row[0] the two before it. */
static unsigned number_edits(unsigned row[3][WORD_MOST + 1], const char *a, const char *b, size_t i,
                             size_t j)
{
    unsigned best = row[1][j - 1] + (a[i - 1] != b[j - 1]);
    best = number_least(best, number_least(row[1][j], row[2][j - 1]) + 1);
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = number_least(best, row[0][j - 2] + 1);
    }
    return best;
}

unsigned weir_conf_distance(const char *a, const char *b)
{
    unsigned row[3][WORD_MOST + 1] = {{0}};
    size_t a_length = number_length(a);
    size_t b_length = number_length(b);
    for (size_t j = 0; j <= b_length; j++) {
        row[2][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
        row[2][0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[2][j] = number_edits(row, a, b, i, j);
        }
    }
    return row[2][b_length];
}
