/* SPDX-License-Identifier: MIT */
/*
 * The part of Criterion's interface that the tests use, in the kernel: a test is a function that
 * ktap.c or kunit.c runs in a thread of its own. tests.awk lists them, since modules have no constructors.
 */
#ifndef CRITERION_CRITERION_H
#define CRITERION_CRITERION_H

#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel has no library of the compiler's to call. */
#define __builtin_popcount(word) hweight32(word)

struct weir_ktap_test {
	const char *name;
	void (*run)(void);
};

/* The list that tests.awk makes; ends with an entry without a name. */
extern const struct weir_ktap_test weir_ktap_tests[];

/* `stop`: the test ends where `good` is false. */
__printf(6, 7) void weir_ktap_check(bool good, bool stop, const char *file, int line,
				    const char *what, const char *format, ...);

/* Both end the test and do not return, of which objtool is not told. */
void weir_ktap_skip(const char *why);
void weir_ktap_abort(void);

/* Frees what the test left. How many pieces? */
unsigned int weir_ktap_give_all(void);

#define cr_skip(why) weir_ktap_skip(why)

#define Test(suite_, name_, ...) \
	void suite_##__##name_(void); \
	void suite_##__##name_(void)

#define WEIR_KTAP(good, stop, ...) \
	weir_ktap_check((good), stop, __FILE__, __LINE__, #good, " " __VA_ARGS__)

#define cr_assert(cond, ...) WEIR_KTAP((bool)(cond), true, __VA_ARGS__)
#define cr_assert_not(cond, ...) WEIR_KTAP(!(cond), true, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) WEIR_KTAP((a) == (b), true, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) WEIR_KTAP((a) != (b), true, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) WEIR_KTAP((a) < (b), true, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) WEIR_KTAP((a) <= (b), true, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) WEIR_KTAP((a) > (b), true, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) WEIR_KTAP((a) >= (b), true, __VA_ARGS__)
#define cr_assert_null(a, ...) WEIR_KTAP((a) == NULL, true, __VA_ARGS__)
#define cr_assert_not_null(a, ...) WEIR_KTAP((a) != NULL, true, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) WEIR_KTAP(strcmp(a, b) == 0, true, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, bytes, ...) WEIR_KTAP(memcmp(a, b, bytes) == 0, true, __VA_ARGS__)
#define cr_assert_fail(...) WEIR_KTAP(false, true, __VA_ARGS__)

#define cr_expect(cond, ...) WEIR_KTAP((bool)(cond), false, __VA_ARGS__)
#define cr_expect_not(cond, ...) WEIR_KTAP(!(cond), false, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) WEIR_KTAP((a) == (b), false, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) WEIR_KTAP((a) != (b), false, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) WEIR_KTAP((a) < (b), false, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) WEIR_KTAP((a) <= (b), false, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) WEIR_KTAP((a) > (b), false, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) WEIR_KTAP((a) >= (b), false, __VA_ARGS__)
#define cr_expect_null(a, ...) WEIR_KTAP((a) == NULL, false, __VA_ARGS__)
#define cr_expect_not_null(a, ...) WEIR_KTAP((a) != NULL, false, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) WEIR_KTAP(strcmp(a, b) == 0, false, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) WEIR_KTAP(strcmp(a, b) != 0, false, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, bytes, ...) WEIR_KTAP(memcmp(a, b, bytes) == 0, false, __VA_ARGS__)
#define cr_expect_fail(...) WEIR_KTAP(false, false, __VA_ARGS__)

#endif
