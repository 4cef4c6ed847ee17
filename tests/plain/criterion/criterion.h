/* SPDX-License-Identifier: MIT */
/*
 * The part of Criterion's interface that the tests use, run in one process: Criterion
 * itself starts a process per test in a way that the thread sanitizer does not allow. Only builds
 * for that sanitizer use this.
 */
#ifndef CRITERION_CRITERION_H
#define CRITERION_CRITERION_H
#pragma GCC system_header /* variadic macros without arguments, as Criterion's own */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct criterion_test_params {
    size_t size; /* of one parameter */
    void *params;
    size_t length;
};

struct weir_plain_test {
    const char *suite, *name;
    void (*run)(void);
    void (*run_with)(void *param); /* for each parameter, instead of run */
    struct criterion_test_params (*params)(void);
    void (*init)(void);
    void (*fini)(void);
    double timeout;
    bool disabled;
    const char *description;
    struct weir_plain_test *next;
};

void weir_plain_add(struct weir_plain_test *test);
void weir_plain_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* `stop`: the test ends where `good` is false. */
void weir_plain_check(bool good, bool stop, const char *file, int line, const char *what,
                      const char *format, ...) __attribute__((format(printf, 6, 7)));

#define WEIR_PLAIN_ADD(suite_, name_, ...) \
    __attribute__((constructor)) static void suite_##_##name_##_add(void) \
    { \
        static struct weir_plain_test test = {.suite = #suite_, .name = #name_, __VA_ARGS__}; \
        weir_plain_add(&test); \
    }

#define Test(suite_, name_, ...) \
    static void suite_##_##name_##_test(void); \
    WEIR_PLAIN_ADD(suite_, name_, .run = suite_##_##name_##_test, __VA_ARGS__) \
    static void suite_##_##name_##_test(void)

#define ParameterizedTestParameters(suite_, name_) \
    static struct criterion_test_params suite_##_##name_##_params(void)

#define ParameterizedTest(param_, suite_, name_, ...) \
    static void suite_##_##name_##_test(param_); \
    static void suite_##_##name_##_with(void *param) \
    { \
        suite_##_##name_##_test(param); \
    } \
    WEIR_PLAIN_ADD(suite_, name_, .run_with = suite_##_##name_##_with, \
                   .params = suite_##_##name_##_params, __VA_ARGS__) \
    static void suite_##_##name_##_test(param_)

#define cr_make_param_array(type_, array_, length_) \
    ((struct criterion_test_params){sizeof(type_), (array_), (length_)})

#define cr_skip_test(...) weir_plain_skip(" " __VA_ARGS__)

#define WEIR_PLAIN(good, stop, ...) \
    weir_plain_check((good), stop, __FILE__, __LINE__, #good, " " __VA_ARGS__)

#define cr_assert(cond, ...) WEIR_PLAIN((bool)(cond), true, __VA_ARGS__)
#define cr_assert_not(cond, ...) WEIR_PLAIN(!(cond), true, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) WEIR_PLAIN((a) == (b), true, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) WEIR_PLAIN((a) != (b), true, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) WEIR_PLAIN((a) < (b), true, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) WEIR_PLAIN((a) <= (b), true, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) WEIR_PLAIN((a) > (b), true, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) WEIR_PLAIN((a) >= (b), true, __VA_ARGS__)
#define cr_assert_null(a, ...) WEIR_PLAIN((a) == NULL, true, __VA_ARGS__)
#define cr_assert_not_null(a, ...) WEIR_PLAIN((a) != NULL, true, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) WEIR_PLAIN(strcmp(a, b) == 0, true, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, bytes, ...) \
    WEIR_PLAIN(memcmp(a, b, bytes) == 0, true, __VA_ARGS__)
#define cr_assert_fail(...) WEIR_PLAIN(false, true, __VA_ARGS__)

#define cr_expect(cond, ...) WEIR_PLAIN((bool)(cond), false, __VA_ARGS__)
#define cr_expect_not(cond, ...) WEIR_PLAIN(!(cond), false, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) WEIR_PLAIN((a) == (b), false, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) WEIR_PLAIN((a) != (b), false, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) WEIR_PLAIN((a) < (b), false, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) WEIR_PLAIN((a) <= (b), false, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) WEIR_PLAIN((a) > (b), false, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) WEIR_PLAIN((a) >= (b), false, __VA_ARGS__)
#define cr_expect_null(a, ...) WEIR_PLAIN((a) == NULL, false, __VA_ARGS__)
#define cr_expect_not_null(a, ...) WEIR_PLAIN((a) != NULL, false, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) WEIR_PLAIN(strcmp(a, b) == 0, false, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, bytes, ...) \
    WEIR_PLAIN(memcmp(a, b, bytes) == 0, false, __VA_ARGS__)
#define cr_expect_fail(...) WEIR_PLAIN(false, false, __VA_ARGS__)

#endif
