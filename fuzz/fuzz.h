/* SPDX-License-Identifier: MIT */
/*
 * What every fuzz target has: one entry, which libFuzzer, AFL++ and the plain replayer call alike,
 * and a shape, by which the mutator keeps inputs meaningful.
 *
 * An input is a head of fixed length and then records. No input is refused: bytes that are missing
 * read as zero, and a choice among n things is made by scaling a byte, so that every value means
 * something and neighbouring values mean neighbouring things. Nothing outlives an input.
 */
#ifndef WEIR_FUZZ_H
#define WEIR_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_input {
    const uint8_t *at;
    size_t left;
} fuzz_input;

static inline uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

/* Fills `count` bytes from the input. */
static inline void fuzz_bytes(fuzz_input *in, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] = fuzz_byte(in);
}

/* One of `count` things. */
static inline uint32_t fuzz_of(uint8_t byte, uint32_t count)
{
    return byte * count >> 8;
}

/* One of the things that are given a weight each; the weights sum up to 256 at most, and what is
 * left belongs to the first. */
static inline uint32_t fuzz_weighted(uint8_t byte, const uint8_t *weights, uint32_t count)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += weights[i];
        if (byte < sum) return i;
    }
    return 0;
}

/* How inputs of a target are made, for the mutator. */
typedef struct fuzz_shape {
    size_t head;           /* bytes before the first record */
    size_t record;         /* bytes of each; 0: records end with `end` */
    uint8_t end;           /* of records of text */
    const char *words;     /* what they are made of, each ended by '\n' */
    const uint8_t *idioms; /* records that mean something one after the other */
    size_t idioms_count;   /* how many of them */
    size_t idiom_records;  /* how long each is */
} fuzz_shape;

extern const fuzz_shape weir_fuzz_shape;

/* Changes [data, data + size) in place and returns the new size, at most `most`. The same seed
 * makes the same change. */
size_t weir_fuzz_mutate(uint8_t *data, size_t size, size_t most, uint32_t seed);
/* Writes a mixture of two inputs and returns its size. */
size_t weir_fuzz_cross(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                       uint8_t *out, size_t most, uint32_t seed);

/* Says what is wrong and aborts, which every engine takes for a crash. */
void weir_fuzz_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

#define FUZZ_SAY(cond, ...) \
    do { \
        if (!(cond)) weir_fuzz_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)
#define FUZZ_CHECK(cond) FUZZ_SAY(cond, "%s", #cond)

#endif
