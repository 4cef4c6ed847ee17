// SPDX-License-Identifier: MIT
/*
 * The platform hooks, as a driver uses them: several threads, a spinlock with interrupts off, an
 * interrupt, and the kernel's own allocations failing one after another.
 */
#include <linux/completion.h>
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "flat.h"

#include <criterion/criterion.h>

#define PLATFORM_BLOCKS 64
#define PLATFORM_PIECE (64u << 10)

/* A pool on the device of numbers, over one of the two kinds of hooks. */
struct platform_rig {
	struct weir_flat flat;
	struct weir_kernel_sleeping sleeping;
	struct weir_kernel_atomic atomic;
	weir_pool *pool;
	weir_stream stream;
	weir_addr block[PLATFORM_BLOCKS];
};

static struct platform_rig platform;

static weir_status platform_pool(struct platform_rig *rig, const weir_platform *hooks)
{
	weir_config config = {
		.size = sizeof(config),
		.ops = &weir_flat_ops,
		.device_self = &rig->flat,
		.platform = hooks,
	};
	weir_stream_desc desc = { .size = sizeof(desc), .unique = 1, .outlives = true };
	weir_status status;

	rig->pool = NULL;
	rig->flat.bytes = 256ull << 20;
	rig->flat.granule = 2ull << 20;
	atomic64_set(&rig->flat.held, 0);
	status = weir_pool_create(&config, &rig->pool);
	if (status == WEIR_OK)
		status = weir_stream_attach(rig->pool, &desc, &rig->stream);
	return status;
}

static void platform_pool_end(struct platform_rig *rig)
{
	const char *why = "";

	cr_expect_eq(weir_check(rig->pool, &why), WEIR_OK, "%s", why);
	cr_expect_eq(weir_pool_destroy(rig->pool), WEIR_OK);
	cr_expect_eq(atomic64_read(&rig->flat.held), 0);
}

static void platform_atomic(struct platform_rig *rig, size_t bytes, unsigned int pieces)
{
	weir_kernel_atomic_init(&rig->atomic, bytes);
	cr_assert_eq(weir_kernel_store_fill(&rig->atomic, pieces), 0);
	cr_assert_eq(platform_pool(rig, &rig->atomic.platform), WEIR_OK);
}

/* Returns the first answer that is not OK. */
static weir_status platform_take(struct platform_rig *rig, unsigned int first, unsigned int count)
{
	unsigned int i;

	for (i = first; i < first + count; i++) {
		weir_status status = weir_alloc_on(rig->pool, rig->stream, (i + 1) * 4096ull,
						   &rig->block[i]);

		if (status != WEIR_OK) {
			rig->block[i] = 0;
			return status;
		}
	}
	return WEIR_OK;
}

static bool platform_give(struct platform_rig *rig, unsigned int first, unsigned int count)
{
	bool good = true;
	unsigned int i;

	for (i = first; i < first + count; i++) {
		if (rig->block[i])
			good &= weir_free(rig->pool, rig->block[i], rig->stream) == WEIR_OK;
		rig->block[i] = 0;
	}
	return good;
}

/* ---------------------------------------------------------------------------------- threads */

#define PLATFORM_THREADS 4

struct platform_worker {
	unsigned int number;
	bool good;
	struct completion done;
};

static int platform_work(void *self)
{
	struct platform_worker *worker = self;
	unsigned int each = PLATFORM_BLOCKS / PLATFORM_THREADS;
	unsigned int first = worker->number * each, round;

	worker->good = true;
	for (round = 0; round < 200; round++) {
		worker->good &= platform_take(&platform, first, each) == WEIR_OK;
		worker->good &= platform_give(&platform, first, each);
		cond_resched();
	}
	kthread_complete_and_exit(&worker->done, 0);
}

static void platform_threads(void)
{
	static struct platform_worker worker[PLATFORM_THREADS];
	unsigned int i;

	for (i = 0; i < PLATFORM_THREADS; i++) {
		worker[i].number = i;
		init_completion(&worker[i].done);
		cr_assert_not(IS_ERR(kthread_run(platform_work, &worker[i], "weir-worker")));
	}
	for (i = 0; i < PLATFORM_THREADS; i++) {
		wait_for_completion(&worker[i].done);
		cr_expect(worker[i].good, "thread %u", i);
	}
}

Test(platform, threads_share_a_pool_under_a_mutex)
{
	weir_kernel_sleeping_init(&platform.sleeping);
	cr_assert_eq(platform_pool(&platform, &platform.sleeping.platform), WEIR_OK);
	platform_threads();
	platform_pool_end(&platform);
	weir_kernel_sleeping_destroy(&platform.sleeping);
}

Test(platform, threads_share_a_pool_under_a_spinlock)
{
	platform_atomic(&platform, PLATFORM_PIECE, WEIR_KERNEL_STORE);
	platform_threads();
	platform_pool_end(&platform);
	weir_kernel_atomic_destroy(&platform.atomic);
}

/* ------------------------------------------------------------------- where nothing may sleep */

Test(platform, blocks_come_and_go_with_interrupts_off)
{
	weir_status status;
	bool good;

	platform_atomic(&platform, PLATFORM_PIECE, WEIR_KERNEL_STORE);
	local_irq_disable();
	status = platform_take(&platform, 0, PLATFORM_BLOCKS);
	good = platform_give(&platform, 0, PLATFORM_BLOCKS);
	local_irq_enable();
	cr_expect_eq(status, WEIR_OK);
	cr_expect(good);
	platform_pool_end(&platform);
	weir_kernel_atomic_destroy(&platform.atomic);
}

static void platform_interrupt(void *self)
{
	weir_status *status = self;

	*status = in_hardirq() ? platform_take(&platform, 0, PLATFORM_BLOCKS) : WEIR_INVALID;
	if (!platform_give(&platform, 0, PLATFORM_BLOCKS))
		*status = WEIR_NOT_FOUND;
}

Test(platform, an_interrupt_allocates_and_frees)
{
	weir_status status = WEIR_INVALID;
	unsigned int here, cpu;

	platform_atomic(&platform, PLATFORM_PIECE, WEIR_KERNEL_STORE);
	here = get_cpu();
	cpu = cpumask_any_but(cpu_online_mask, here);
	put_cpu();
	if (cpu < nr_cpu_ids)
		smp_call_function_single(cpu, platform_interrupt, &status, 1);
	cr_expect_lt(cpu, nr_cpu_ids, "a second processor is needed");
	cr_expect_eq(status, WEIR_OK);
	platform_pool_end(&platform);
	weir_kernel_atomic_destroy(&platform.atomic);
}

/* Takes all that the store has, so that the pool gets nothing. */
static unsigned int platform_drain(struct platform_rig *rig, void **piece)
{
	const weir_platform *hooks = &rig->atomic.platform;
	unsigned int count = 0;

	hooks->lock(hooks->self);
	while ((piece[count] = hooks->mem_alloc(hooks->self, 1)))
		count++;
	hooks->unlock(hooks->self);
	return count;
}

static void platform_refill(struct platform_rig *rig, void **piece, unsigned int count)
{
	while (count)
		rig->atomic.platform.mem_free(&rig->atomic, piece[--count], 1);
}

Test(platform, an_empty_store_refuses_and_changes_nothing)
{
	static void *piece[WEIR_KERNEL_STORE + 1];
	unsigned int count;

	platform_atomic(&platform, PLATFORM_PIECE, WEIR_KERNEL_STORE);
	count = platform_drain(&platform, piece);
	cr_expect_gt(count, 0);
	cr_expect_eq(platform_take(&platform, 0, 1), WEIR_NO_METADATA);
	cr_expect_eq(atomic64_read(&platform.flat.held), 0);
	platform_refill(&platform, piece, count);
	cr_expect_eq(platform_take(&platform, 0, PLATFORM_BLOCKS), WEIR_OK);
	count = platform_drain(&platform, piece);
	cr_expect(platform_give(&platform, 0, PLATFORM_BLOCKS), "to free needs nothing");
	platform_refill(&platform, piece, count);
	platform_pool_end(&platform);
	weir_kernel_atomic_destroy(&platform.atomic);
}

Test(platform, a_piece_beyond_those_of_the_store_is_refused)
{
	weir_kernel_atomic_init(&platform.atomic, 64);
	cr_assert_eq(weir_kernel_store_fill(&platform.atomic, WEIR_KERNEL_STORE), 0);
	cr_expect_eq(platform_pool(&platform, &platform.atomic.platform), WEIR_NO_METADATA,
		     "the first stream needs more than 64 bytes");
	platform_pool_end(&platform);
	weir_kernel_atomic_destroy(&platform.atomic);
}

/* ------------------------------------------------------------------- the kernel's memory fails */

#ifdef CONFIG_FAILSLAB
/* One whole life of a pool. Everything answers OK or NO_METADATA. */
static bool platform_life(struct platform_rig *rig)
{
	weir_status status = platform_pool(rig, &rig->sleeping.platform);
	bool good = true;

	if (status == WEIR_OK)
		status = platform_take(rig, 0, PLATFORM_BLOCKS);
	good = status == WEIR_OK || status == WEIR_NO_METADATA;
	if (!rig->pool)
		return good;
	good &= platform_give(rig, 0, PLATFORM_BLOCKS);
	good &= weir_pool_destroy(rig->pool) == WEIR_OK;
	return good && atomic64_read(&rig->flat.held) == 0;
}
#endif

Test(platform, each_allocation_of_the_kernel_fails_in_turn)
{
#ifdef CONFIG_FAILSLAB
	unsigned int nth = 0, left;
	bool good;

	weir_kernel_sleeping_init(&platform.sleeping);
	do {
		current->fail_nth = ++nth;
		good = platform_life(&platform);
		left = current->fail_nth;
		current->fail_nth = 0;
		cr_assert(good, "allocation %u", nth);
	} while (!left);
	pr_info("# %u allocations failed in turn\n", nth - 1);
	cr_expect_gt(nth, 5, "failslab/ignore-gfp-wait must be N");
	weir_kernel_sleeping_destroy(&platform.sleeping);
#else
	cr_skip("a kernel with CONFIG_FAILSLAB is needed");
#endif
}
