// SPDX-License-Identifier: MIT
/*
 * Runs the tests on a kernel without KUnit (see kunit.c): when the module is loaded, each in a
 * thread of its own, and prints KTAP. Who reads that decides; loading succeeds.
 *
 * A failed assertion ends its thread. Memory of a test that passed must be all given back.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

#include <criterion/criterion.h>
#include <stdlib.h>

static struct completion ktap_done;
static bool ktap_failed;
static const char *ktap_skipped; /* why, where the test was */

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "Run tests whose names contain this");

static void __noreturn ktap_leave(void)
{
	kthread_complete_and_exit(&ktap_done, 0);
}

void weir_ktap_abort(void)
{
	pr_info("# abort\n");
	ktap_failed = true;
	ktap_leave();
}

void weir_ktap_check(bool good, bool stop, const char *file, int line, const char *what,
		     const char *format, ...)
{
	struct va_format text;
	va_list list;

	if (good)
		return;
	va_start(list, format);
	text.fmt = format;
	text.va = &list;
	pr_info("# %s:%d: %s:%pV\n", kbasename(file), line, what, &text);
	va_end(list);
	ktap_failed = true;
	if (stop)
		ktap_leave();
}

void weir_ktap_skip(const char *why)
{
	ktap_skipped = why;
	ktap_leave();
}

static int ktap_thread(void *self)
{
	const struct weir_ktap_test *test = self;

	test->run();
	ktap_leave();
}

static bool ktap_passes(const struct weir_ktap_test *test)
{
	struct task_struct *thread;
	unsigned int left;

	ktap_failed = false;
	ktap_skipped = NULL;
	init_completion(&ktap_done);
	thread = kthread_run(ktap_thread, (void *)test, "weir-test");
	if (IS_ERR(thread))
		return false;
	wait_for_completion(&ktap_done);
	left = weir_ktap_give_all();
	if (left && !ktap_failed) {
		pr_info("# %u pieces of memory were not given back\n", left);
		ktap_failed = true;
	}
	return !ktap_failed;
}

static int __init ktap_init(void)
{
	const struct weir_ktap_test *test;
	unsigned int count = 0, number = 0;

	for (test = weir_ktap_tests; test->name; test++)
		count += !!strstr(test->name, only);
	pr_info("KTAP version 1\n1..%u\n", count);
	for (test = weir_ktap_tests; test->name; test++) {
		bool good;

		if (!strstr(test->name, only))
			continue;
		good = ktap_passes(test);
		pr_info("%sok %u %s%s%s\n", good ? "" : "not ", ++number, test->name,
			ktap_skipped ? " # SKIP " : "", ktap_skipped ?: "");
	}
	return 0;
}

static void __exit ktap_exit(void)
{
}

module_init(ktap_init);
module_exit(ktap_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Weir's core and simulated device under their tests");
