// SPDX-License-Identifier: MIT
/*
 * Runs the tests on a kernel that has KUnit, as one suite with a parameter for each test: a report
 * of the undefined behaviour sanitizer then fails the test that it is about.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include <criterion/criterion.h>

static struct kunit *kunit_now;

void weir_ktap_abort(void)
{
	KUNIT_FAIL_ASSERTION(kunit_now, KUNIT_ASSERTION, "abort");
}

void weir_ktap_skip(const char *why)
{
	kunit_skip(kunit_now, "%s", why);
}

void weir_ktap_check(bool good, bool stop, const char *file, int line, const char *what,
		     const char *format, ...)
{
	char text[256];
	va_list list;

	if (good)
		return;
	va_start(list, format);
	vscnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (stop)
		KUNIT_FAIL_ASSERTION(kunit_now, KUNIT_ASSERTION, "%s:%d: %s:%s", kbasename(file),
				     line, what, text);
	else
		KUNIT_FAIL(kunit_now, "%s:%d: %s:%s", kbasename(file), line, what, text);
}

static const void *kunit_next(const void *last, char *name)
{
	const struct weir_ktap_test *test = last ? (const struct weir_ktap_test *)last + 1 :
						   weir_ktap_tests;

	if (!test->name)
		return NULL;
	strscpy(name, test->name, KUNIT_PARAM_DESC_SIZE);
	return test;
}

static void kunit_run(struct kunit *test)
{
	const struct weir_ktap_test *of = test->param_value;

	kunit_now = test;
	of->run();
}

/* After each, also after one that ended early. */
static void kunit_after(struct kunit *test)
{
	unsigned int left = weir_ktap_give_all();

	if (left && test->status == KUNIT_SUCCESS)
		KUNIT_FAIL(test, "%u pieces of memory were not given back", left);
}

static struct kunit_case kunit_cases[] = {
	KUNIT_CASE_PARAM(kunit_run, kunit_next),
	{}
};

static struct kunit_suite kunit_weir = {
	.name = "weir",
	.exit = kunit_after,
	.test_cases = kunit_cases,
};

kunit_test_suite(kunit_weir);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Weir's core and simulated device under their tests");
