// SPDX-License-Identifier: MIT
/*
 * The same allocations and frees through Weir and through the kernel's own range allocators, when
 * the module is loaded: time per operation, and requests that failed although enough was free.
 *
 * The workload is blocks of 4 KiB to 2 MiB, small ones as likely as large ones, in 256 MiB; it
 * allocates while less than `fill` percent of that is asked for and frees a random block else. The
 * sequence of sizes and of places is the same for all; a request that fails is passed over.
 */
#include <linux/genalloc.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/numa.h>

#include <drm/drm_buddy.h>
#include <drm/drm_mm.h>

#include "weir_kernel.h"

#define COMPARE_SPACE (256ull << 20)
#define COMPARE_BASE BIT_ULL(30)
#define COMPARE_PAGE 4096ull
#define COMPARE_STEPS 40000
#define COMPARE_LIVE 4096

static unsigned int fill = 92; /* percent */
module_param(fill, uint, 0444);
MODULE_PARM_DESC(fill, "Percent of the space that the workload asks for");

/* One allocator; `block` holds what it needs to free one. */
union compare_block {
	u64 addr;
	struct drm_mm_node node;
	struct list_head blocks;
};

struct compare_kind {
	const char *name;
	int (*open)(void);
	int (*take)(union compare_block *block, u64 bytes);
	void (*give)(union compare_block *block, u64 bytes);
	void (*close)(void);
};

/* ----------------------------------------------------------------------------------------- Weir */

static struct weir_kernel_sleeping compare_host;
static weir_pool *compare_pool;
static weir_stream compare_stream;
static u64 compare_held;

static weir_status compare_describe(void *self, weir_device_info *info)
{
	info->granule_bytes = 2ull << 20;
	info->memory_bytes = COMPARE_SPACE;
	return WEIR_OK;
}

static weir_status compare_va_reserve(void *self, u64 bytes, weir_addr *base)
{
	*base = COMPARE_BASE;
	return WEIR_OK;
}

static weir_status compare_range(void *self, weir_addr addr, u64 bytes)
{
	return WEIR_OK;
}

static weir_status compare_create(void *self, u64 bytes, weir_handle *handle)
{
	if (compare_held + bytes > COMPARE_SPACE)
		return WEIR_NO_MEMORY;
	compare_held += bytes;
	*handle = 1;
	return WEIR_OK;
}

static weir_status compare_release(void *self, weir_handle handle, u64 bytes)
{
	compare_held -= bytes;
	return WEIR_OK;
}

static weir_status compare_map(void *self, weir_addr addr, u64 bytes, weir_handle handle)
{
	return WEIR_OK;
}

static weir_status compare_event(void *self, weir_event *event)
{
	*event = 1;
	return WEIR_OK;
}

static void compare_event_end(void *self, weir_event event)
{
}

static weir_status compare_record(void *self, weir_event event, u64 stream)
{
	return WEIR_OK;
}

static weir_status compare_query(void *self, weir_event event, bool *passed)
{
	*passed = true;
	return WEIR_OK;
}

static weir_status compare_wait(void *self, u64 stream, weir_event event)
{
	return WEIR_OK;
}

static weir_status compare_quiesce(void *self, u64 wait_us)
{
	return WEIR_OK;
}

static weir_status compare_copy(void *self, weir_addr to, weir_addr from, u64 bytes)
{
	return WEIR_OK;
}

static weir_status compare_resume(void *self)
{
	return WEIR_OK;
}

#define COMPARE_OPS_COMMON \
	.size = sizeof(weir_device_ops), .describe = compare_describe, \
	.va_reserve = compare_va_reserve, .va_free = compare_range, \
	.handle_create = compare_create, .handle_release = compare_release, .map = compare_map, \
	.set_access = compare_range, .unmap = compare_range, .event_create = compare_event, \
	.event_destroy = compare_event_end, .event_record = compare_record, \
	.event_query = compare_query, .stream_wait = compare_wait

/* A driver with a page table, and one that also copies live memory together near the end. */
static const weir_device_ops compare_ops = { COMPARE_OPS_COMMON };
static const weir_device_ops compare_copying = {
	COMPARE_OPS_COMMON,
	.quiesce = compare_quiesce,
	.copy = compare_copy,
	.resume = compare_resume,
};

static int weir_open_with(const weir_device_ops *ops)
{
	weir_config config = {
		.size = sizeof(config),
		.ops = ops,
		.platform = &compare_host.platform,
		.unit_bytes = COMPARE_PAGE,
	};
	weir_stream_desc desc = { .size = sizeof(desc), .unique = 1, .outlives = true };

	weir_kernel_sleeping_init(&compare_host);
	if (weir_pool_create(&config, &compare_pool) != WEIR_OK)
		return -ENOMEM;
	if (weir_stream_attach(compare_pool, &desc, &compare_stream) != WEIR_OK)
		return -ENOMEM;
	return 0;
}

static int weir_open(void)
{
	return weir_open_with(&compare_ops);
}

static int weir_open_copying(void)
{
	return weir_open_with(&compare_copying);
}

static int weir_take(union compare_block *block, u64 bytes)
{
	if (weir_alloc_on(compare_pool, compare_stream, bytes, &block->addr) != WEIR_OK)
		return -ENOSPC;
	return 0;
}

static void weir_give(union compare_block *block, u64 bytes)
{
	WARN_ON_ONCE(weir_free(compare_pool, block->addr, compare_stream) != WEIR_OK);
}

static void weir_close(void)
{
	WARN_ON_ONCE(weir_pool_destroy(compare_pool) != WEIR_OK);
	weir_kernel_sleeping_destroy(&compare_host);
}

/* ------------------------------------------------------------------------------ the kernel's own */

static struct drm_mm compare_mm;

static int mm_open(void)
{
	drm_mm_init(&compare_mm, COMPARE_BASE, COMPARE_SPACE);
	return 0;
}

static int mm_take(union compare_block *block, u64 bytes)
{
	memset(&block->node, 0, sizeof(block->node));
	return drm_mm_insert_node_generic(&compare_mm, &block->node, bytes, COMPARE_PAGE, 0,
					  DRM_MM_INSERT_BEST);
}

static void mm_give(union compare_block *block, u64 bytes)
{
	drm_mm_remove_node(&block->node);
}

static void mm_close(void)
{
	drm_mm_takedown(&compare_mm);
}

static struct drm_buddy compare_buddy;

static int buddy_open(void)
{
	return drm_buddy_init(&compare_buddy, COMPARE_SPACE, COMPARE_PAGE);
}

/* Not from one piece where several make up the size, as drivers with a page table ask for. */
static int buddy_take(union compare_block *block, u64 bytes)
{
	INIT_LIST_HEAD(&block->blocks);
	return drm_buddy_alloc_blocks(&compare_buddy, 0, COMPARE_SPACE, bytes, COMPARE_PAGE,
				      &block->blocks, 0);
}

static void buddy_give(union compare_block *block, u64 bytes)
{
	drm_buddy_free_list(&compare_buddy, &block->blocks);
}

static void buddy_close(void)
{
	drm_buddy_fini(&compare_buddy);
}

static struct gen_pool *compare_gen;

static int gen_open(void)
{
	compare_gen = gen_pool_create(PAGE_SHIFT, NUMA_NO_NODE);
	if (!compare_gen)
		return -ENOMEM;
	gen_pool_set_algo(compare_gen, gen_pool_best_fit, NULL);
	return gen_pool_add(compare_gen, COMPARE_BASE, COMPARE_SPACE, NUMA_NO_NODE);
}

static int gen_take(union compare_block *block, u64 bytes)
{
	block->addr = gen_pool_alloc(compare_gen, bytes);
	return block->addr ? 0 : -ENOSPC;
}

static void gen_give(union compare_block *block, u64 bytes)
{
	gen_pool_free(compare_gen, block->addr, bytes);
}

static void gen_close(void)
{
	gen_pool_destroy(compare_gen);
}

static const struct compare_kind compare_kinds[] = {
	{ "weir", weir_open, weir_take, weir_give, weir_close },
	{ "weir, with copies", weir_open_copying, weir_take, weir_give, weir_close },
	{ "drm_mm, best fit", mm_open, mm_take, mm_give, mm_close },
	{ "drm_buddy", buddy_open, buddy_take, buddy_give, buddy_close },
	{ "genalloc, best fit", gen_open, gen_take, gen_give, gen_close },
};

/* -------------------------------------------------------------------------------------- the run */

struct compare_run {
	union compare_block block[COMPARE_LIVE]; /* drm_mm's may not be moved: */
	unsigned int slot[COMPARE_LIVE]; /* the live ones come first in this order */
	u64 bytes[COMPARE_LIVE]; /* by slot */
	unsigned int live, failed;
	u64 asked, most, state;
};

static u32 compare_random(struct compare_run *run)
{
	run->state = run->state * 6364136223846793005ull + 1442695040888963407ull;
	return run->state >> 33;
}

/* 1 to 512 pages: every power of two is as likely as another, and so is every size in one. */
static u64 compare_bytes(struct compare_run *run)
{
	u32 power = compare_random(run) % 9;
	u32 within = compare_random(run) % (1u << power);

	return ((1u << power) + within) * COMPARE_PAGE;
}

static void compare_take_one(const struct compare_kind *kind, struct compare_run *run, u64 bytes)
{
	unsigned int slot = run->slot[run->live];

	if (kind->take(&run->block[slot], bytes)) {
		run->failed++;
		return;
	}
	run->bytes[slot] = bytes;
	run->live++;
	run->asked += bytes;
	run->most = max(run->most, run->asked);
}

static void compare_give_one(const struct compare_kind *kind, struct compare_run *run, u32 place)
{
	unsigned int slot = run->slot[place];

	kind->give(&run->block[slot], run->bytes[slot]);
	run->asked -= run->bytes[slot];
	run->live--;
	swap(run->slot[place], run->slot[run->live]);
}

static void compare_run_ops(const struct compare_kind *kind, struct compare_run *run)
{
	unsigned int i;

	for (i = 0; i < COMPARE_STEPS; i++) {
		u64 bytes = compare_bytes(run);
		u32 place = compare_random(run);
		bool room = run->asked + bytes <= div_u64(COMPARE_SPACE, 100) * fill;

		if (!run->live || (room && run->live < COMPARE_LIVE))
			compare_take_one(kind, run, bytes);
		else
			compare_give_one(kind, run, place % run->live);
	}
}

static int compare_one(const struct compare_kind *kind, u64 *first_ns)
{
	struct compare_run *run = kvzalloc(sizeof(*run), GFP_KERNEL);
	unsigned int i;
	u64 ns;

	if (!run)
		return -ENOMEM;
	if (kind->open()) {
		kvfree(run);
		return -ENOMEM;
	}
	for (i = 0; i < COMPARE_LIVE; i++)
		run->slot[i] = i;
	run->state = 1;
	ns = ktime_get_ns();
	compare_run_ops(kind, run);
	ns = ktime_get_ns() - ns;
	if (!*first_ns)
		*first_ns = ns;
	pr_info("weir_compare: %s: %llu percent of weir's time, %u of %u failed, %llu MiB live\n",
		kind->name, div64_u64(ns * 100, *first_ns), run->failed, COMPARE_STEPS,
		run->most >> 20);
	while (run->live)
		compare_give_one(kind, run, 0);
	kind->close();
	kvfree(run);
	return 0;
}

static int __init compare_init(void)
{
	u64 first_ns = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(compare_kinds); i++)
		if (compare_one(&compare_kinds[i], &first_ns))
			return -ENOMEM;
	return 0;
}

static void __exit compare_exit(void)
{
}

module_init(compare_init);
module_exit(compare_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Weir beside the kernel's own range allocators");
