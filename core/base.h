/* SPDX-License-Identifier: MIT */
/*
 * What core/ needs of a compiler and of a C library: this is the only file that names either.
 *
 * WEIR_ASSERT       states what must hold; on with WEIR_ASSERT_ON, else it costs nothing.
 * WEIR_ASSERT_SLOW  the same for checks that are not O(1); on with WEIR_ASSERT_SLOW_ON.
 * A port may define WEIR_PORT_HEADER to a file that defines WEIR_ASSERT_FAILED and the four memory
 * functions in its own way (a kernel module does).
 */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include "weir.h"

#ifdef WEIR_PORT_HEADER
#include WEIR_PORT_HEADER
#else
#define weir_memset __builtin_memset
#define weir_memcpy __builtin_memcpy
#define WEIR_ASSERT_FAILED(text) __builtin_trap()
#endif

#ifdef WEIR_ASSERT_ON
#define WEIR_ASSERT(cond) \
    do { \
        if (__builtin_expect(!(cond), 0)) WEIR_ASSERT_FAILED(#cond); \
    } while (0)
#else
#define WEIR_ASSERT(cond) ((void)sizeof(!(cond)))
#endif

#ifdef WEIR_ASSERT_SLOW_ON
#define WEIR_ASSERT_SLOW(cond) WEIR_ASSERT(cond)
#else
#define WEIR_ASSERT_SLOW(cond) ((void)sizeof(!(cond)))
#endif

#define WEIR_LIKELY(cond) __builtin_expect(!!(cond), 1)
#define WEIR_UNLIKELY(cond) __builtin_expect(!!(cond), 0)
#define WEIR_NOINLINE __attribute__((__noinline__))
/* For the few functions that the shortest paths of alloc and free consist of. */
#define WEIR_HOT __attribute__((__always_inline__)) inline

/* Where the machine has no instruction for it the compiler would call a library. */
#if defined(__riscv) && !defined(__riscv_zbb)
static inline int weir_leading_zeros(uint64_t word)
{
    int zeros = 0;
    for (int half = 32; half != 0; half /= 2)
        if (word >> (64 - zeros - half) == 0) zeros += half;
    return zeros;
}

static inline int weir_trailing_zeros(uint64_t word)
{
    return 63 - weir_leading_zeros(word & (0 - word));
}

#define __builtin_clzll(word) weir_leading_zeros(word)
#define __builtin_ctzll(word) weir_trailing_zeros(word)
#endif

/* Position of the highest and lowest set bit; `word` is not 0. In halves where a word has 32 bits,
 * so that no library call is made. */
static inline uint32_t weir_bit_high(uint64_t word)
{
#if UINTPTR_MAX > UINT32_MAX
    return 63u ^ (uint32_t)__builtin_clzll(word); /* xor: one instruction where it is minus */
#else
    uint32_t upper = (uint32_t)(word >> 32);
    return upper != 0 ? 32u + (31u ^ (uint32_t)__builtin_clz(upper))
                      : 31u ^ (uint32_t)__builtin_clz((uint32_t)word);
#endif
}

static inline uint32_t weir_bit_low(uint64_t word)
{
#if UINTPTR_MAX > UINT32_MAX
    return (uint32_t)__builtin_ctzll(word);
#else
    uint32_t lower = (uint32_t)word;
    return lower != 0 ? (uint32_t)__builtin_ctz(lower)
                      : 32u + (uint32_t)__builtin_ctz((uint32_t)(word >> 32));
#endif
}

static inline bool weir_is_power(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static inline uint64_t weir_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t weir_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rounding to a power of two. round_up wraps to less than `value` where it would overflow, so a
 * caller that cannot exclude this checks first with weir_fits_up. */
static inline uint64_t weir_round_down(uint64_t value, uint64_t power)
{
    return value & ~(power - 1);
}

static inline uint64_t weir_round_up(uint64_t value, uint64_t power)
{
    return (value + power - 1) & ~(power - 1);
}

static inline bool weir_fits_up(uint64_t value, uint64_t power)
{
    return value <= UINT64_MAX - (power - 1);
}

/* `permille` thousandths of a number of bytes, to within 4 KiB below 16 TiB and to within 4 GiB
 * above; without a division of 64 bits, which some targets have no instruction for. */
static inline uint64_t weir_part(uint64_t bytes, uint32_t permille)
{
    uint32_t shift = bytes >> 44 == 0 ? 12 : 32;
    uint32_t scaled = (uint32_t)(bytes >> shift);
    uint64_t thousandths = scaled / 1000;
    uint64_t rest = scaled % 1000u * (permille & 0xFFFFF) / 1000u;
    return (thousandths * permille + rest) << shift;
}

#endif
