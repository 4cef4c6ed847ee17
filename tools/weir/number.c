/* SPDX-License-Identifier: MIT */
/* Strict readers: no signs, no blanks, no floating point, so every machine reads the same. */
#include "number.h"

#include <stddef.h>

enum { NUMBER_MILLION = 1000000, NUMBER_FACTOR_MAX = 1000 };

/* Reads the digits at *text and moves it behind them. */
static bool number_digits(const char **text, uint64_t *number)
{
    const char *at = *text;
    uint64_t sum = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    if (at == *text) return false;
    *text = at;
    *number = sum;
    return true;
}

bool weir_number_read(const char *text, uint64_t *number)
{
    return number_digits(&text, number) && *text == '\0';
}

static bool number_decimals(const char **text, uint64_t *millionths)
{
    uint64_t place = NUMBER_MILLION / 10;

    *millionths = 0;
    if (**text != '.') return true;
    (*text)++;
    for (; **text >= '0' && **text <= '9' && place > 0; (*text)++, place /= 10)
        *millionths += (uint64_t)(**text - '0') * place;
    return place < NUMBER_MILLION / 10;
}

bool weir_number_factor(const char *text, uint64_t *millionths)
{
    uint64_t whole, part;

    if (!number_digits(&text, &whole) || whole > NUMBER_FACTOR_MAX ||
        !number_decimals(&text, &part) || text[0] != 'x' || text[1] != '\0')
        return false;
    *millionths = whole * NUMBER_MILLION + part;
    return *millionths > 0 && *millionths <= (uint64_t)NUMBER_FACTOR_MAX * NUMBER_MILLION;
}
