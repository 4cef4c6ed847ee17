/* SPDX-License-Identifier: MIT */
/*
 * Runs tests that registered themselves (tests/plain/criterion) until the first one fails: what the
 * search for surviving mutants needs is one bit, soon.
 *
 * A mutant may loop, or take all memory there is, so each test has a bound on its processor time
 * and the process one on its addresses; both count as a failure, as does a crash.
 *
 * Usage: quick [WORD]...   the tests whose "suite::name" holds one of the words, all without one; and
 *                          of these none that holds one of the words written "-WORD"
 * WEIR_QUICK_MS            processor time that one test may take, 5000 by default
 * WEIR_QUICK_TIMES         set: prints what each test took
 */
#include <criterion/criterion.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define QUICK_ADDRESSES (UINT64_C(3) << 30)

static struct weir_plain_test *quick_first;
static struct weir_plain_test **quick_last = &quick_first;
static const struct weir_plain_test *quick_now;
static jmp_buf quick_leave;
static unsigned quick_count;

void weir_plain_add(struct weir_plain_test *test)
{
    *quick_last = test;
    quick_last = &test->next;
}

void weir_plain_check(bool good, bool stop, const char *file, int line, const char *what,
                      const char *format, ...)
{
    va_list list;
    (void)stop;
    if (good) return;
    fprintf(stderr, "%s::%s: %s:%d: %s:", quick_now->suite, quick_now->name, file, line, what);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    _exit(1);
}

void weir_plain_skip(const char *format, ...)
{
    (void)format;
    longjmp(quick_leave, 1);
}

static void quick_bound(unsigned ms)
{
    struct itimerval bound = {
        .it_value = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000}};
    setitimer(ITIMER_VIRTUAL, &bound, NULL); /* ends the process by a signal */
}

static void quick_body(const struct weir_plain_test *test, void *param)
{
    if (setjmp(quick_leave) != 0) return;
    if (test->init != NULL) test->init();
    if (test->run_with != NULL) test->run_with(param);
    else test->run();
    if (test->fini != NULL) test->fini();
}

static void quick_one(const struct weir_plain_test *test, void *param, unsigned ms)
{
    clock_t begun = clock();
    quick_now = test;
    quick_bound(ms);
    quick_body(test, param);
    quick_bound(0);
    quick_count++;
    if (getenv("WEIR_QUICK_TIMES") != NULL)
        printf("%8.3f ms %s::%s\n", 1e3 * (double)(clock() - begun) / CLOCKS_PER_SEC, test->suite,
               test->name);
}

static bool quick_wanted(const struct weir_plain_test *test, int count, char **words)
{
    char name[256];
    bool asked = false, all = true;
    snprintf(name, sizeof(name), "%s::%s", test->suite, test->name);
    for (int i = 1; i < count; i++) {
        bool leave = words[i][0] == '-';
        bool here = strstr(name, words[i] + leave) != NULL;
        if (leave && here) return false;
        all = all && leave;
        asked = asked || here;
    }
    return (all || asked) && !test->disabled;
}

static void quick_test(const struct weir_plain_test *test, unsigned ms)
{
    if (test->params == NULL) {
        quick_one(test, NULL, ms);
        return;
    }
    struct criterion_test_params params = test->params();
    for (size_t i = 0; i < params.length; i++)
        quick_one(test, (char *)params.params + i * params.size, ms);
}

int main(int argc, char **argv)
{
    const char *text = getenv("WEIR_QUICK_MS");
    unsigned ms = text == NULL ? 5000 : (unsigned)strtoul(text, NULL, 10);
    struct rlimit addresses = {QUICK_ADDRESSES, QUICK_ADDRESSES};
    setrlimit(RLIMIT_AS, &addresses);
    for (const struct weir_plain_test *test = quick_first; test != NULL; test = test->next)
        if (quick_wanted(test, argc, argv)) quick_test(test, ms);
    printf("%u tests passed\n", quick_count);
    return quick_count == 0;
}
