// SPDX-License-Identifier: MIT
/*
 * The same allocations and frees through Weir and through the kernel's own range allocators, when
 * the module is loaded: time per operation, and requests that failed although enough was free.
 *
 * The workload is blocks of 4 KiB to 2 MiB, small ones as likely as large ones, in 256 MiB; it
 * allocates while less than a part of that is asked for, 80 to 98 percent, and frees a random block
 * else. The sequence of sizes and of places is the same for all; a request that fails is passed
 * over. All times are the least of some rounds, in which the allocators take turns; the percentages
 * are of the first one's. Weir is there with three sizes of the device's page.
 */
#include <linux/genalloc.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/numa.h>

#include <drm/drm_buddy.h>
#include <drm/drm_mm.h>

#include "flat.h"

#define COMPARE_SPACE (256ull << 20)
#define COMPARE_PAGE 4096ull
#define COMPARE_STEPS 40000
#define COMPARE_LIVE 4096

#define COMPARE_ROUNDS 3

static const unsigned int compare_fills[] = { 80, 92, 98 }; /* percent of the space */

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
static struct weir_flat compare_flat;

/* Only whole handles move, so none is larger than a page. */
static int weir_open_with(u64 granule)
{
	weir_config config = {
		.size = sizeof(config),
		.ops = &weir_flat_ops,
		.device_self = &compare_flat,
		.platform = &compare_host.platform,
		.unit_bytes = COMPARE_PAGE,
		.growth_bytes = granule,
	};
	weir_stream_desc desc = { .size = sizeof(desc), .unique = 1, .outlives = true };

	compare_flat.bytes = COMPARE_SPACE;
	compare_flat.granule = granule;
	weir_kernel_sleeping_init(&compare_host);
	if (weir_pool_create(&config, &compare_pool) != WEIR_OK)
		return -ENOMEM;
	if (weir_stream_attach(compare_pool, &desc, &compare_stream) != WEIR_OK)
		return -ENOMEM;
	return 0;
}

static int weir_open_large(void)
{
	return weir_open_with(2ull << 20);
}

static int weir_open_small(void)
{
	return weir_open_with(64ull << 10);
}

static int weir_open_least(void)
{
	return weir_open_with(COMPARE_PAGE);
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

/* ----------------------------------------------------------------------------- the kernel's own */

static struct drm_mm compare_mm;

static int mm_open(void)
{
	drm_mm_init(&compare_mm, WEIR_FLAT_BASE, COMPARE_SPACE);
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

/* In one piece, as the drivers of this kernel do that: a power of two, and the rest given back. */
static int buddy_take_one(union compare_block *block, u64 bytes)
{
	u64 power = roundup_pow_of_two(bytes);
	int error;

	INIT_LIST_HEAD(&block->blocks);
	error = drm_buddy_alloc_blocks(&compare_buddy, 0, COMPARE_SPACE, power, power,
				       &block->blocks, 0);
	if (!error && power != bytes)
		error = drm_buddy_block_trim(&compare_buddy, bytes, &block->blocks);
	return error;
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
	return gen_pool_add(compare_gen, WEIR_FLAT_BASE, COMPARE_SPACE, NUMA_NO_NODE);
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
	{ "drm_mm", mm_open, mm_take, mm_give, mm_close },
	{ "drm_buddy, pieces", buddy_open, buddy_take, buddy_give, buddy_close },
	{ "drm_buddy, whole", buddy_open, buddy_take_one, buddy_give, buddy_close },
	{ "genalloc", gen_open, gen_take, gen_give, gen_close },
	{ "weir, 4 KiB", weir_open_least, weir_take, weir_give, weir_close },
	{ "weir, 64 KiB", weir_open_small, weir_take, weir_give, weir_close },
	{ "weir, 2 MiB", weir_open_large, weir_take, weir_give, weir_close },
};

/* -------------------------------------------------------------------------------------- the run */

struct compare_run {
	union compare_block block[COMPARE_LIVE]; /* drm_mm's may not be moved: */
	unsigned int slot[COMPARE_LIVE]; /* the live ones come first in this order */
	u64 bytes[COMPARE_LIVE]; /* by slot */
	unsigned int live, allocs, failed;
	u64 asked, state;
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

	run->allocs++;
	if (kind->take(&run->block[slot], bytes)) {
		run->failed++;
		return;
	}
	run->bytes[slot] = bytes;
	run->live++;
	run->asked += bytes;
}

static void compare_give_one(const struct compare_kind *kind, struct compare_run *run, u32 place)
{
	unsigned int slot = run->slot[place];

	kind->give(&run->block[slot], run->bytes[slot]);
	run->asked -= run->bytes[slot];
	run->live--;
	swap(run->slot[place], run->slot[run->live]);
}

static void compare_run_ops(const struct compare_kind *kind, struct compare_run *run, u64 most)
{
	unsigned int i;

	for (i = 0; i < COMPARE_STEPS; i++) {
		u64 bytes = compare_bytes(run);
		u32 place = compare_random(run);
		bool room = run->asked + bytes <= most;

		if (!run->live || (room && run->live < COMPARE_LIVE))
			compare_take_one(kind, run, bytes);
		else
			compare_give_one(kind, run, place % run->live);
	}
}

/* What became of one allocator at one fill. */
struct compare_result {
	u64 ns;
	unsigned int allocs, failed;
};

static int compare_one(const struct compare_kind *kind, struct compare_run *run, u64 most,
		       struct compare_result *result)
{
	unsigned int i;
	u64 ns;

	memset(run, 0, sizeof(*run));
	for (i = 0; i < COMPARE_LIVE; i++)
		run->slot[i] = i;
	run->state = 1;
	if (kind->open())
		return -ENOMEM;
	ns = ktime_get_ns();
	compare_run_ops(kind, run, most);
	ns = ktime_get_ns() - ns;
	while (run->live)
		compare_give_one(kind, run, 0);
	kind->close();
	result->ns = result->ns ? min(ns, result->ns) : ns;
	result->allocs = run->allocs;
	result->failed = run->failed;
	return 0;
}

static int compare_fill(struct compare_run *run, unsigned int fill)
{
	static struct compare_result result[ARRAY_SIZE(compare_kinds)];
	u64 most = div_u64(COMPARE_SPACE, 100) * fill;
	unsigned int i, round;

	memset(result, 0, sizeof(result));
	for (round = 0; round < COMPARE_ROUNDS; round++)
		for (i = 0; i < ARRAY_SIZE(compare_kinds); i++)
			if (compare_one(&compare_kinds[i], run, most, &result[i]))
				return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(compare_kinds); i++)
		pr_info("weir_compare: %u%% | %s | %llu ns | %llu%% | %u of %u failed\n", fill,
			compare_kinds[i].name, div_u64(result[i].ns, COMPARE_STEPS),
			div64_u64(result[i].ns * 100, result[0].ns), result[i].failed,
			result[i].allocs);
	return 0;
}

static int __init compare_init(void)
{
	struct compare_run *run = kvzalloc(sizeof(*run), GFP_KERNEL);
	unsigned int i;
	int error = 0;

	if (!run)
		return -ENOMEM;
	for (i = 0; !error && i < ARRAY_SIZE(compare_fills); i++)
		error = compare_fill(run, compare_fills[i]);
	kvfree(run);
	return error;
}

static void __exit compare_exit(void)
{
}

module_init(compare_init);
module_exit(compare_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Weir beside the kernel's own range allocators");
