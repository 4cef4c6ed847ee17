/* SPDX-License-Identifier: MIT */
/* Bits, rounding and thousandths, against loops and naive sums; names and texts of statuses. */
#include "base.h"
#include "random.h"

#include <criterion/criterion.h>

static uint32_t base_naive_high(uint64_t word)
{
    uint32_t bit = 0;
    while (word >>= 1) bit++;
    return bit;
}

static uint32_t base_naive_low(uint64_t word)
{
    uint32_t bit = 0;
    for (; (word & 1) == 0; word >>= 1) bit++;
    return bit;
}

Test(base, bits_agree_with_a_loop_around_every_power)
{
    for (uint32_t k = 0; k < 64; k++) {
        uint64_t power = UINT64_C(1) << k;
        cr_expect_eq(weir_bit_high(power), k);
        cr_expect_eq(weir_bit_low(power), k);
        cr_expect_eq(weir_bit_high(power + 1), base_naive_high(power + 1));
        cr_expect_eq(weir_bit_low(power + 1), base_naive_low(power + 1));
        if (k == 0) continue;
        cr_expect_eq(weir_bit_high(power - 1), base_naive_high(power - 1));
        cr_expect_eq(weir_bit_low(power - 1), base_naive_low(power - 1));
    }
    cr_expect_eq(weir_bit_high(UINT64_MAX), 63);
}

Test(base, powers_are_told_from_other_numbers)
{
    cr_expect_not(weir_is_power(0));
    cr_expect_not(weir_is_power(UINT64_MAX));
    for (uint32_t k = 0; k < 64; k++) {
        cr_expect(weir_is_power(UINT64_C(1) << k));
        if (k > 1) cr_expect_not(weir_is_power((UINT64_C(1) << k) - 1));
        if (k > 0) cr_expect_not(weir_is_power((UINT64_C(1) << k) + 1));
    }
}

Test(base, rounding_holds_up_to_the_last_address)
{
    cr_expect_eq(weir_round_up(0, 512), 0);
    cr_expect_eq(weir_round_up(1, 512), 512);
    cr_expect_eq(weir_round_up(512, 512), 512);
    cr_expect_eq(weir_round_down(511, 512), 0);
    cr_expect_eq(weir_round_down(UINT64_MAX, 4096), UINT64_MAX - 4095);
    cr_expect(weir_fits_up(UINT64_MAX - 511, 512));
    cr_expect_not(weir_fits_up(UINT64_MAX - 510, 512));
    cr_expect_eq(weir_round_up(UINT64_MAX - 511, 512), UINT64_MAX - 511);
    cr_expect_lt(weir_round_up(UINT64_MAX - 510, 512), UINT64_MAX - 510, "it does not wrap");
    cr_expect(weir_fits_up(UINT64_MAX, 1));
}

Test(base, less_and_more)
{
    cr_expect_eq(weir_min(1, UINT64_MAX), 1);
    cr_expect_eq(weir_max(1, UINT64_MAX), UINT64_MAX);
    cr_expect_eq(weir_min(7, 7), 7);
}

/* bytes * permille / 1000 without overflow, rounded down. */
static uint64_t base_part_naive(uint64_t bytes, uint64_t permille)
{
    return bytes / 1000 * permille + bytes % 1000 * permille / 1000;
}

Test(base, thousandths_are_within_their_bounds)
{
    uint64_t state = 1;
    for (uint32_t i = 0; i < 100000; i++) {
        uint64_t bytes = random_next(&state) >> random_below(&state, 64);
        uint32_t permille = (uint32_t)random_below(&state, 1100);
        if (bytes >> 62 != 0) bytes >>= 2; /* so that the naive product fits */
        uint64_t exact = base_part_naive(bytes, permille);
        uint64_t got = weir_part(bytes, permille);
        uint64_t slack = bytes >> 44 == 0 ? 3 * 4096 : UINT64_C(3) << 32;
        cr_assert_leq(got, exact, "%llu of %u", (unsigned long long)bytes, permille);
        cr_assert_leq(exact - got, slack, "%llu of %u", (unsigned long long)bytes, permille);
    }
}

Test(base, thousandths_of_round_amounts_are_exact)
{
    cr_expect_eq(weir_part(0, 1020), 0);
    cr_expect_eq(weir_part(UINT64_C(1000) << 20, 5), UINT64_C(5) << 20);
    cr_expect_eq(weir_part(UINT64_C(1000) << 20, 1000), UINT64_C(1000) << 20);
    cr_expect_eq(weir_part(UINT64_C(4096000), 1), 4096);
}

Test(base, every_status_has_its_own_name_number_and_text)
{
#define EXPECT_STATUS_ENTRY(name, number, text) \
    cr_expect_eq(WEIR_##name, number); \
    cr_expect_str_eq(weir_status_name(WEIR_##name), #name); \
    cr_expect_str_eq(weir_status_text(WEIR_##name), text);
    WEIR_STATUS_MAP(EXPECT_STATUS_ENTRY)
#undef EXPECT_STATUS_ENTRY
    cr_expect_str_eq(weir_status_name((weir_status)99), "UNKNOWN");
    cr_expect_str_eq(weir_status_text((weir_status)99), "not a status of this version");
}
