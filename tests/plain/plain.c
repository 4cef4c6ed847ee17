/* SPDX-License-Identifier: MIT */
/*
 * Runs the tests that registered themselves, one after another in this process, and prints the same
 * summary as Criterion. A failed assertion ends its test on the main thread; on another thread,
 * from which the test cannot be left, it ends the process.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#define PLAIN_STOPPED 1
#define PLAIN_SKIPPED 2

static unsigned plain_tested;
static unsigned plain_passing;
static struct weir_plain_test *plain_first;
static struct weir_plain_test **plain_last = &plain_first;
static jmp_buf plain_leave;
static pthread_t plain_main;
static atomic_bool plain_failed;

void weir_plain_add(struct weir_plain_test *test)
{
    *plain_last = test;
    plain_last = &test->next;
}

void weir_plain_check(bool good, bool stop, const char *file, int line, const char *what,
                      const char *format, ...)
{
    va_list list;
    if (good) return;
    fprintf(stderr, "%s:%d: %s:", file, line, what);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    atomic_store(&plain_failed, true);
    if (!stop) return;
    if (!pthread_equal(pthread_self(), plain_main)) abort();
    longjmp(plain_leave, PLAIN_STOPPED);
}

void weir_plain_skip(const char *format, ...)
{
    va_list list;
    printf("[SKIP]");
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    longjmp(plain_leave, PLAIN_SKIPPED);
}

static void plain_body(const struct weir_plain_test *test, void *param)
{
    if (test->init != NULL) test->init();
    if (test->run_with != NULL) test->run_with(param);
    else test->run();
    if (test->fini != NULL) test->fini();
}

static void plain_one(const struct weir_plain_test *test, void *param)
{
    atomic_store(&plain_failed, false);
    int left = setjmp(plain_leave);
    if (left == 0) plain_body(test, param);
    if (left == PLAIN_SKIPPED) return;
    plain_tested++;
    plain_passing += !atomic_load(&plain_failed);
    if (atomic_load(&plain_failed)) fprintf(stderr, "%s::%s failed\n", test->suite, test->name);
}

static void plain_all(const struct weir_plain_test *test)
{
    if (test->params == NULL) {
        plain_one(test, NULL);
        return;
    }
    struct criterion_test_params params = test->params();
    for (size_t i = 0; i < params.length; i++)
        plain_one(test, (char *)params.params + i * params.size);
}

int main(void)
{
    plain_main = pthread_self();
    for (const struct weir_plain_test *test = plain_first; test != NULL; test = test->next)
        if (!test->disabled) plain_all(test);
    printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: 0\n", plain_tested,
           plain_passing, plain_tested - plain_passing);
    return plain_tested == plain_passing ? 0 : 1;
}
