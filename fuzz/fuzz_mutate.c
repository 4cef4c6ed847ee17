/* SPDX-License-Identifier: MIT */
/*
 * The mutator: changes an input record by record, so that what follows a change keeps its meaning.
 * One source for libFuzzer (LLVMFuzzerCustomMutator) and for AFL++ (a shared library with
 * afl_custom_ functions), without help of either engine.
 *
 * Invariant  The same input and seed give the same result, which is the head and whole records.
 * Cost       O(size of the input).
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mutation {
    uint8_t *data;
    size_t size, most;
    uint64_t state;
} mutation;

static uint32_t mutate_below(mutation *of, size_t bound)
{
    of->state = of->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t word = of->state >> 33;
    return bound < 2 ? 0 : (uint32_t)(word % bound);
}

static uint8_t mutate_byte(mutation *of)
{
    return (uint8_t)mutate_below(of, 256);
}

/* ---------------------------------------------------------------------------------- records -- */

static size_t mutate_head(const mutation *of)
{
    return of->size < weir_fuzz_shape.head ? of->size : weir_fuzz_shape.head;
}

/* Where the record that begins at `at` ends. */
static size_t mutate_next(const mutation *of, size_t at)
{
    if (weir_fuzz_shape.record != 0) {
        size_t end = at + weir_fuzz_shape.record;
        return end < of->size ? end : of->size;
    }
    const uint8_t *end = memchr(of->data + at, weir_fuzz_shape.end, of->size - at);
    return end == NULL ? of->size : (size_t)(end - of->data) + 1;
}

static size_t mutate_count(const mutation *of)
{
    size_t count = 0;
    for (size_t at = mutate_head(of); at < of->size; at = mutate_next(of, at)) count++;
    return count;
}

static size_t mutate_start(const mutation *of, size_t index)
{
    size_t at = mutate_head(of);
    while (index-- > 0 && at < of->size) at = mutate_next(of, at);
    return at;
}

/* A stretch of one to about eight records, short ones more often. */
static void mutate_stretch(mutation *of, size_t *from, size_t *to)
{
    size_t length = (size_t)1 << mutate_below(of, 4);
    *from = mutate_start(of, mutate_below(of, mutate_count(of)));
    *to = *from;
    for (size_t i = mutate_below(of, length) + 1; i > 0 && *to < of->size; i--)
        *to = mutate_next(of, *to);
}

static void mutate_remove(mutation *of, size_t from, size_t to)
{
    memmove(of->data + from, of->data + to, of->size - to);
    of->size -= to - from;
}

/* Puts `bytes` of `what`, which may lie in the input, at `at`. */
static void mutate_insert(mutation *of, size_t at, const uint8_t *what, size_t bytes)
{
    if (bytes == 0 || bytes > of->most - of->size) return;
    uint8_t *copy = malloc(bytes);
    if (copy == NULL) return;
    memcpy(copy, what, bytes);
    memmove(of->data + at + bytes, of->data + at, of->size - at);
    memcpy(of->data + at, copy, bytes);
    of->size += bytes;
    free(copy);
}

/* The place of some record, or the end. */
static size_t mutate_seam(mutation *of)
{
    return mutate_start(of, mutate_below(of, mutate_count(of) + 1));
}

/* ------------------------------------------------------------------------------------- words -- */

static const char *mutate_word(mutation *of, size_t *bytes)
{
    size_t count = 0;
    const char *at = weir_fuzz_shape.words;
    for (const char *word = at; *word != '\0'; word = strchr(word, '\n') + 1) count++;
    for (size_t skip = mutate_below(of, count); skip > 0; skip--) at = strchr(at, '\n') + 1;
    *bytes = (size_t)(strchr(at, '\n') - at);
    return at;
}

static void mutate_put_word(mutation *of)
{
    size_t bytes, at = mutate_head(of) + mutate_below(of, of->size - mutate_head(of) + 1);
    const char *word = mutate_word(of, &bytes);
    if (mutate_below(of, 2) == 0) at = mutate_seam(of);
    size_t before = of->size;
    mutate_insert(of, at, (const uint8_t *)word, bytes);
    if (of->size != before && mutate_below(of, 2) == 0)
        mutate_insert(of, at + bytes, &weir_fuzz_shape.end, 1);
}

static bool mutate_digit(const mutation *of, size_t at)
{
    return at < of->size && of->data[at] >= '0' && of->data[at] <= '9';
}

/* Where some number of the text begins, and where it ends; false: there is none. */
static bool mutate_find_number(mutation *of, size_t *from, size_t *to)
{
    size_t head = mutate_head(of);
    *from = head + mutate_below(of, of->size - head + 1);
    while (*from < of->size && !mutate_digit(of, *from)) ++*from;
    while (*from > head && mutate_digit(of, *from) && mutate_digit(of, *from - 1)) --*from;
    for (*to = *from; mutate_digit(of, *to);) ++*to;
    return *from < *to;
}

/* One number becomes what another is, or one more or less. */
static void mutate_relate(mutation *of)
{
    size_t from, to, other_from, other_to;
    char text[24];
    uint64_t value = 0;
    if (!mutate_find_number(of, &other_from, &other_to) || !mutate_find_number(of, &from, &to))
        return;
    for (size_t at = other_from; at < other_to; at++) value = value * 10 + of->data[at] - '0';
    value += mutate_below(of, 3) - UINT64_C(1);
    int length = snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if ((size_t)length > of->most - (of->size - (to - from))) return;
    mutate_remove(of, from, to);
    mutate_insert(of, from, (const uint8_t *)text, (size_t)length);
}

/* Another number in place of one that is there. */
static void mutate_number(mutation *of)
{
    size_t at = mutate_head(of) + mutate_below(of, of->size - mutate_head(of) + 1);
    while (at < of->size && (of->data[at] < '0' || of->data[at] > '9')) at++;
    if (at == of->size) return;
    if (mutate_below(of, 3) == 0) mutate_insert(of, at, of->data + at, 1);
    else if (mutate_below(of, 4) == 0) mutate_remove(of, at, at + 1);
    else of->data[at] = (uint8_t)('0' + mutate_below(of, 10));
}

/* ----------------------------------------------------------------------------------- changes -- */

static void mutate_field(mutation *of)
{
    static const int8_t steps[] = {1, -1, 8, -8, 32, -32};
    size_t head = mutate_head(of);
    size_t at = head + mutate_below(of, of->size - head);
    if (head > 0 && mutate_below(of, 8) == 0) at = mutate_below(of, head);
    if (at >= of->size) return;
    uint8_t *byte = &of->data[at];
    switch (mutate_below(of, 3)) {
    case 0:
        *byte = (uint8_t)(*byte ^ 1u << mutate_below(of, 8));
        break;
    case 1:
        *byte = (uint8_t)(*byte + steps[mutate_below(of, sizeof steps)]);
        break;
    default:
        *byte = mutate_byte(of);
    }
}

static void mutate_grow(mutation *of)
{
    uint8_t record[16];
    size_t bytes = weir_fuzz_shape.record;
    for (size_t i = 0; i < bytes && i < sizeof record; i++) record[i] = mutate_byte(of);
    mutate_insert(of, mutate_seam(of), record, bytes);
}

static void mutate_idiom(mutation *of)
{
    const fuzz_shape *shape = &weir_fuzz_shape;
    size_t bytes = shape->record * shape->idiom_records;
    size_t which = mutate_below(of, shape->idioms_count);
    if (shape->idioms_count == 0) return;
    mutate_insert(of, mutate_seam(of), shape->idioms + which * bytes, bytes);
}

static void mutate_copy(mutation *of)
{
    size_t from, to;
    mutate_stretch(of, &from, &to);
    mutate_insert(of, mutate_seam(of), of->data + from, to - from);
}

static void mutate_drop(mutation *of)
{
    size_t from, to;
    mutate_stretch(of, &from, &to);
    mutate_remove(of, from, to);
}

static void mutate_again(mutation *of)
{
    size_t from, to;
    mutate_stretch(of, &from, &to);
    for (uint32_t i = mutate_below(of, 4); i > 0; i--)
        mutate_insert(of, from, of->data + from, to - from);
}

static void mutate_cut(mutation *of)
{
    if (mutate_below(of, 4) == 0) of->size = mutate_seam(of);
}

static void mutate_once(mutation *of)
{
    static void (*const binary[])(mutation *) = {
        mutate_field, mutate_field, mutate_field, mutate_grow,  mutate_grow,
        mutate_idiom, mutate_copy,  mutate_drop,  mutate_again, mutate_cut};
    static void (*const text[])(mutation *) = {mutate_field,  mutate_put_word, mutate_put_word,
                                               mutate_number, mutate_relate,   mutate_copy,
                                               mutate_drop,   mutate_again,    mutate_cut};
    if (weir_fuzz_shape.record != 0) binary[mutate_below(of, sizeof binary / sizeof *binary)](of);
    else text[mutate_below(of, sizeof text / sizeof *text)](of);
}

/* The head whole, and no broken record at the end. */
static void mutate_trim(mutation *of)
{
    size_t head = weir_fuzz_shape.head, record = weir_fuzz_shape.record;
    while (of->size < head && of->size < of->most) of->data[of->size++] = 0;
    if (record != 0 && of->size > head) of->size -= (of->size - head) % record;
    if (of->size == 0 && of->most > 0) of->data[of->size++] = mutate_byte(of);
}

size_t weir_fuzz_mutate(uint8_t *data, size_t size, size_t most, uint32_t seed)
{
    mutation of = {data, size, most, seed};
    if (of.size > most) of.size = most;
    mutate_trim(&of);
    for (uint32_t i = mutate_below(&of, 4) + 1; i > 0; i--) mutate_once(&of);
    mutate_trim(&of);
    return of.size;
}

size_t weir_fuzz_cross(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                       uint8_t *out, size_t most, uint32_t seed)
{
    mutation first = {out, a_size < most ? a_size : most, most, seed};
    mutation second = {(uint8_t *)b, b_size, b_size, seed}; /* only looked at */
    size_t from, to;
    memcpy(out, a, first.size);
    mutate_trim(&first);
    if (b_size <= weir_fuzz_shape.head) return first.size;
    mutate_below(&second, 2);
    mutate_stretch(&second, &from, &to);
    if (mutate_below(&first, 2) == 0) to = second.size;
    mutate_insert(&first, mutate_seam(&first), b + from, to - from);
    mutate_trim(&first);
    return first.size;
}

/* ---------------------------------------------------------------------------------- engines -- */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return weir_fuzz_mutate(data, size, most, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t most, unsigned seed)
{
    return weir_fuzz_cross(a, a_size, b, b_size, out, most, seed);
}

/* What afl-fuzz keeps for us between calls. */
typedef struct mutate_afl {
    uint64_t state;
    uint8_t *out;
    size_t room;
} mutate_afl;

void *afl_custom_init(void *afl, unsigned seed);
void *afl_custom_init(void *afl, unsigned seed)
{
    mutate_afl *made = calloc(1, sizeof *made);
    (void)afl;
    if (made != NULL) made->state = seed;
    return made;
}

size_t afl_custom_fuzz(void *self, uint8_t *data, size_t size, uint8_t **out, uint8_t *other,
                       size_t other_size, size_t most);
size_t afl_custom_fuzz(void *self, uint8_t *data, size_t size, uint8_t **out, uint8_t *other,
                       size_t other_size, size_t most)
{
    mutate_afl *afl = self;
    uint32_t seed = (uint32_t)(++afl->state * UINT64_C(0x9E3779B97F4A7C15) >> 32);
    if (afl->room < most) {
        uint8_t *room = realloc(afl->out, most);
        if (room == NULL) return 0;
        afl->out = room;
        afl->room = most;
    }
    if (size > most) size = most;
    memcpy(afl->out, data, size);
    if (other != NULL && (seed & 15) == 0)
        size = weir_fuzz_cross(data, size, other, other_size, afl->out, most, seed);
    else size = weir_fuzz_mutate(afl->out, size, most, seed);
    *out = afl->out;
    return size;
}

void afl_custom_deinit(void *self);
void afl_custom_deinit(void *self)
{
    mutate_afl *afl = self;
    free(afl->out);
    free(afl);
}
