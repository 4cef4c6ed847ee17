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
    longjmp(plain_leave, 1);
}

static bool plain_run(const struct weir_plain_test *test)
{
    atomic_store(&plain_failed, false);
    if (setjmp(plain_leave) == 0) {
        if (test->init != NULL) test->init();
        test->run();
        if (test->fini != NULL) test->fini();
    }
    if (atomic_load(&plain_failed)) fprintf(stderr, "%s::%s failed\n", test->suite, test->name);
    return !atomic_load(&plain_failed);
}

int main(void)
{
    unsigned tested = 0;
    unsigned passing = 0;
    plain_main = pthread_self();
    for (const struct weir_plain_test *test = plain_first; test != NULL; test = test->next) {
        if (test->disabled) continue;
        tested++;
        passing += plain_run(test);
    }
    printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: 0\n", tested,
           passing, tested - passing);
    return tested == passing ? 0 : 1;
}
