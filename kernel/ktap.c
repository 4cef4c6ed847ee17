// SPDX-License-Identifier: MIT
/*
 * Runs the tests when the module is loaded, each in a thread of its own, and prints KTAP. Loading
 * fails where a test did.
 *
 * A failed assertion ends its thread, so a test that fails keeps what it had: its memory is in a
 * list and freed after it. Memory of a test that passed must be all given back.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <criterion/criterion.h>
#include <stdlib.h>

struct ktap_memory {
	struct list_head list;
	size_t bytes;
	u64 data[];
};

static LIST_HEAD(ktap_live);
static DEFINE_SPINLOCK(ktap_lock);
static struct completion ktap_done;
static bool ktap_failed;

static char *only = "";
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "Run tests whose names contain this");

/* ------------------------------------------------------------------------------------- memory */

void *weir_ktap_take(size_t count, size_t size)
{
	size_t bytes = array_size(count, size);
	struct ktap_memory *memory;

	memory = kvzalloc(size_add(sizeof(*memory), bytes), GFP_KERNEL | __GFP_NOWARN);
	if (!memory)
		return NULL;
	memory->bytes = bytes;
	spin_lock(&ktap_lock);
	list_add(&memory->list, &ktap_live);
	spin_unlock(&ktap_lock);
	return memory->data;
}

void weir_ktap_give(void *data)
{
	struct ktap_memory *memory = container_of(data, struct ktap_memory, data);

	if (!data)
		return;
	spin_lock(&ktap_lock);
	list_del(&memory->list);
	spin_unlock(&ktap_lock);
	kvfree(memory);
}

void *weir_ktap_again(void *data, size_t bytes)
{
	struct ktap_memory *memory = container_of(data, struct ktap_memory, data);
	void *more = weir_ktap_take(1, bytes);

	if (!data || !more)
		return more;
	memcpy(more, data, min(bytes, memory->bytes));
	weir_ktap_give(data);
	return more;
}

static unsigned int ktap_free_all(void)
{
	struct ktap_memory *memory, *next;
	unsigned int count = 0;

	list_for_each_entry_safe(memory, next, &ktap_live, list) {
		weir_ktap_give(memory->data);
		count++;
	}
	return count;
}

/* ------------------------------------------------------------------------------------ running */

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
	init_completion(&ktap_done);
	thread = kthread_run(ktap_thread, (void *)test, "weir-test");
	if (IS_ERR(thread))
		return false;
	wait_for_completion(&ktap_done);
	left = ktap_free_all();
	if (left && !ktap_failed) {
		pr_info("# %u pieces of memory were not given back\n", left);
		ktap_failed = true;
	}
	return !ktap_failed;
}

static int __init ktap_init(void)
{
	const struct weir_ktap_test *test;
	unsigned int count = 0, failed = 0, number = 0;

	for (test = weir_ktap_tests; test->name; test++)
		count += !!strstr(test->name, only);
	pr_info("KTAP version 1\n1..%u\n", count);
	for (test = weir_ktap_tests; test->name; test++) {
		bool good;

		if (!strstr(test->name, only))
			continue;
		good = ktap_passes(test);
		failed += !good;
		pr_info("%sok %u %s\n", good ? "" : "not ", ++number, test->name);
	}
	pr_info("# passed %u failed %u\n", count - failed, failed);
	return failed || !count ? -EINVAL : 0;
}

static void __exit ktap_exit(void)
{
}

module_init(ktap_init);
module_exit(ktap_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Weir's core and simulated device under their tests");
