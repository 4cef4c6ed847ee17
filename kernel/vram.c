// SPDX-License-Identifier: MIT
/*
 * A driver's own memory manager on Weir: the example of docs/kernel.md, and a test of it.
 *
 * The card is made up, the kernel's parts are not: rings are timelines of dma_fences, a job ends
 * when its fence signals. What the pool asks of the driver is small:
 *   memory   vram_handle_* hands out runs of 2 MiB pages of VRAM, vram_map writes the card's page
 *            table, so the pool can move memory without copying it;
 *   order    a ring has a tail, the fence after which its next job begins: its last job's, or that
 *            and what it waits for since, merged. An event is the tail when it was recorded, so a
 *            wait counts also where no job followed it.
 * A real driver writes its hardware's page table and ring where this one writes arrays.
 *
 * The pool makes some calls with its own lock held and some without: all that the card has is under
 * the card's lock, which nests inside the pool's.
 */
#include <linux/dma-fence-unwrap.h>
#include <linux/dma-fence.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "weir_kernel.h"

#define VRAM_SHIFT 21
#define VRAM_GRANULE BIT_ULL(VRAM_SHIFT)
#define VRAM_PAGES 64 /* 128 MiB of VRAM */
#define VRAM_SPACE 1024 /* pages of the card's address space */
#define VRAM_RINGS 2

/* ---------------------------------------------------------------------------------------- rings */

struct vram_ring {
	u64 context;
	u64 seqno;
	struct dma_fence *tail; /* the next job begins after this */
};

struct vram_event {
	struct dma_fence *fence; /* NULL: not recorded yet */
};

struct vram {
	struct weir_kernel_sleeping host;
	weir_pool *pool;
	struct mutex lock; /* of all below but the streams */
	spinlock_t fence_lock; /* of the fences */
	struct vram_ring ring[VRAM_RINGS];
	weir_stream stream[VRAM_RINGS];
	DECLARE_BITMAP(used, VRAM_PAGES);
	u16 table[VRAM_SPACE]; /* the page under each page of the address space, plus one */
	unsigned int handles, events, waits;
};

static const char *vram_fence_name(struct dma_fence *fence)
{
	return "weir_vram";
}

static const struct dma_fence_ops vram_fence_ops = {
	.get_driver_name = vram_fence_name,
	.get_timeline_name = vram_fence_name,
};

/* Takes over the reference to `fence`. */
static void vram_ring_set_tail(struct vram_ring *ring, struct dma_fence *fence)
{
	dma_fence_put(ring->tail);
	ring->tail = fence;
}

/*
 * Queues a job; it ends when its fence is signalled, which hardware would not do before ring->tail.
 * The caller has a reference.
 */
static struct dma_fence *vram_submit(struct vram *card, unsigned int index)
{
	struct vram_ring *ring = &card->ring[index];
	struct dma_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	if (!fence)
		return NULL;
	mutex_lock(&card->lock);
	dma_fence_init(fence, &vram_fence_ops, &card->fence_lock, ring->context, ++ring->seqno);
	vram_ring_set_tail(ring, dma_fence_get(fence));
	mutex_unlock(&card->lock);
	return fence;
}

static weir_status vram_event_create(void *self, weir_event *event)
{
	struct vram *card = self;
	struct vram_event *made = kzalloc(sizeof(*made), GFP_KERNEL);

	if (!made)
		return WEIR_NO_METADATA;
	mutex_lock(&card->lock);
	card->events++;
	mutex_unlock(&card->lock);
	*event = (uintptr_t)made;
	return WEIR_OK;
}

static void vram_event_destroy(void *self, weir_event event)
{
	struct vram *card = self;
	struct vram_event *made = (struct vram_event *)(uintptr_t)event;

	mutex_lock(&card->lock);
	card->events--;
	mutex_unlock(&card->lock);
	dma_fence_put(made->fence);
	kfree(made);
}

static weir_status vram_event_record(void *self, weir_event event, u64 stream)
{
	struct vram *card = self;
	struct vram_event *made = (struct vram_event *)(uintptr_t)event;

	dma_fence_put(made->fence);
	mutex_lock(&card->lock);
	made->fence = dma_fence_get(card->ring[stream].tail);
	mutex_unlock(&card->lock);
	return WEIR_OK;
}

static bool vram_event_passed(weir_event event)
{
	struct vram_event *made = (struct vram_event *)(uintptr_t)event;

	return dma_fence_is_signaled(made->fence);
}

static weir_status vram_event_query(void *self, weir_event event, bool *passed)
{
	*passed = vram_event_passed(event);
	return WEIR_OK;
}

static weir_status vram_stream_wait(void *self, u64 stream, weir_event event)
{
	struct vram *card = self;
	struct vram_event *made = (struct vram_event *)(uintptr_t)event;
	struct vram_ring *ring = &card->ring[stream];
	struct dma_fence *both;

	if (vram_event_passed(event))
		return WEIR_OK;
	mutex_lock(&card->lock);
	both = dma_fence_unwrap_merge(ring->tail, made->fence);
	if (!IS_ERR_OR_NULL(both)) {
		card->waits++;
		vram_ring_set_tail(ring, both);
	}
	mutex_unlock(&card->lock);
	return IS_ERR_OR_NULL(both) ? WEIR_NO_METADATA : WEIR_OK;
}

static weir_status vram_event_wait(void *self, weir_event event, u64 wait_us, bool *passed)
{
	struct vram_event *made = (struct vram_event *)(uintptr_t)event;
	unsigned long most = MAX_SCHEDULE_TIMEOUT;

	if (wait_us != WEIR_FOREVER)
		most = usecs_to_jiffies(min_t(u64, wait_us, UINT_MAX));
	(void)dma_fence_wait_timeout(made->fence, false, most);
	*passed = vram_event_passed(event);
	return WEIR_OK;
}

/* --------------------------------------------------------------------------------------- memory */

static weir_status vram_describe(void *self, weir_device_info *info)
{
	info->granule_bytes = VRAM_GRANULE;
	info->memory_bytes = VRAM_PAGES * VRAM_GRANULE;
	info->va_bytes = VRAM_SPACE * VRAM_GRANULE;
	return WEIR_OK;
}

/* One pool has the card's address space to itself. It begins at its own size: 0 is no address. */
static weir_status vram_va_reserve(void *self, u64 bytes, weir_addr *base)
{
	*base = VRAM_SPACE * VRAM_GRANULE;
	return bytes <= VRAM_SPACE * VRAM_GRANULE ? WEIR_OK : WEIR_NO_MEMORY;
}

static weir_status vram_va_free(void *self, weir_addr base, u64 bytes)
{
	return WEIR_OK;
}

static weir_status vram_handle_create(void *self, u64 bytes, weir_handle *handle)
{
	struct vram *card = self;
	unsigned int count = bytes >> VRAM_SHIFT;
	unsigned long at;

	mutex_lock(&card->lock);
	at = bitmap_find_next_zero_area(card->used, VRAM_PAGES, 0, count, 0);
	if (at < VRAM_PAGES) {
		bitmap_set(card->used, at, count);
		card->handles++;
		*handle = at + 1;
	}
	mutex_unlock(&card->lock);
	return at < VRAM_PAGES ? WEIR_OK : WEIR_NO_MEMORY;
}

static weir_status vram_handle_release(void *self, weir_handle handle, u64 bytes)
{
	struct vram *card = self;

	mutex_lock(&card->lock);
	bitmap_clear(card->used, handle - 1, bytes >> VRAM_SHIFT);
	card->handles--;
	mutex_unlock(&card->lock);
	return WEIR_OK;
}

/* Entries of the table under `addr` become those of the pages from `first` on, or nothing for 0. */
static void vram_write(struct vram *card, weir_addr addr, u64 bytes, u16 first)
{
	u16 *entry = &card->table[(addr >> VRAM_SHIFT) - VRAM_SPACE];
	unsigned int i;

	for (i = 0; i < bytes >> VRAM_SHIFT; i++)
		entry[i] = first ? first + i : 0;
}

static weir_status vram_map(void *self, weir_addr addr, u64 bytes, weir_handle handle)
{
	struct vram *card = self;

	mutex_lock(&card->lock);
	vram_write(card, addr, bytes, handle);
	mutex_unlock(&card->lock);
	return WEIR_OK;
}

/* The page table is written; a card with a cache of it would have it looked at again here. */
static weir_status vram_set_access(void *self, weir_addr addr, u64 bytes)
{
	return WEIR_OK;
}

static weir_status vram_unmap(void *self, weir_addr addr, u64 bytes)
{
	struct vram *card = self;

	mutex_lock(&card->lock);
	vram_write(card, addr, bytes, 0);
	mutex_unlock(&card->lock);
	return WEIR_OK;
}

static const weir_device_ops vram_ops = {
	.size = sizeof(vram_ops),
	.describe = vram_describe,
	.va_reserve = vram_va_reserve,
	.va_free = vram_va_free,
	.handle_create = vram_handle_create,
	.handle_release = vram_handle_release,
	.map = vram_map,
	.set_access = vram_set_access,
	.unmap = vram_unmap,
	.event_create = vram_event_create,
	.event_destroy = vram_event_destroy,
	.event_record = vram_event_record,
	.event_query = vram_event_query,
	.stream_wait = vram_stream_wait,
	.event_wait = vram_event_wait,
};

/* ------------------------------------------------------------------------------------- the card */

static int vram_open(struct vram *card)
{
	weir_config config = {
		.size = sizeof(config),
		.ops = &vram_ops,
		.device_self = card,
		.platform = &card->host.platform,
		.va_bytes = VRAM_SPACE * VRAM_GRANULE,
	};
	unsigned int i;

	mutex_init(&card->lock);
	spin_lock_init(&card->fence_lock);
	weir_kernel_sleeping_init(&card->host);
	for (i = 0; i < VRAM_RINGS; i++) {
		card->ring[i].context = dma_fence_context_alloc(1);
		card->ring[i].tail = dma_fence_get_stub(); /* passed */
	}
	if (weir_pool_create(&config, &card->pool) != WEIR_OK)
		return -ENOMEM;
	for (i = 0; i < VRAM_RINGS; i++) {
		weir_stream_desc desc = {
			.size = sizeof(desc), .native = i, .unique = i + 1, .outlives = true,
		};

		if (weir_stream_attach(card->pool, &desc, &card->stream[i]) != WEIR_OK)
			return -ENOMEM;
	}
	return 0;
}

/* Whether everything came back. */
static bool vram_close(struct vram *card)
{
	unsigned int i;
	bool whole = !card->pool || weir_pool_destroy(card->pool) == WEIR_OK;

	for (i = 0; i < VRAM_RINGS; i++)
		dma_fence_put(card->ring[i].tail);
	weir_kernel_sleeping_destroy(&card->host);
	mutex_destroy(&card->lock);
	return whole && !card->handles && !card->events &&
	       !memchr_inv(card->table, 0, sizeof(card->table));
}

/* ------------------------------------------------------------------------------------ its check */

#define VRAM_MOST (VRAM_PAGES * VRAM_GRANULE)

static bool vram_so(bool good, const char *what)
{
	if (!good)
		pr_err("weir_vram: not so: %s\n", what);
	return good;
}

#define VRAM_SO(cond) vram_so(cond, #cond)

static bool vram_take(struct vram *card, unsigned int ring, u64 bytes, weir_addr *addr)
{
	return VRAM_SO(weir_alloc_on(card->pool, card->stream[ring], bytes, addr) == WEIR_OK);
}

/* Always works: to free a block needs no memory. */
static bool vram_give(struct vram *card, unsigned int ring, weir_addr addr)
{
	return VRAM_SO(weir_free(card->pool, addr, card->stream[ring]) == WEIR_OK);
}

/* Ring 1 queued nothing, and its wait counts all the same: while the job runs no page is let go. */
static bool vram_keep(struct vram *card)
{
	return VRAM_SO(weir_trim(card->pool, 0, 0, NULL) == WEIR_OK) &&
	       VRAM_SO(bitmap_full(card->used, VRAM_PAGES));
}

/* A job of ring 0 uses all VRAM; its memory is wanted by ring 1, which waits on the card. */
static bool vram_lend(struct vram *card)
{
	struct dma_fence *job;
	weir_addr first, second;
	bool good;

	if (!vram_take(card, 0, VRAM_MOST, &first))
		return false;
	job = vram_submit(card, 0);
	good = vram_give(card, 0, first) && VRAM_SO(job);
	if (good && vram_take(card, 1, VRAM_MOST, &second)) {
		good = VRAM_SO(card->waits == 1 && card->ring[1].tail == job);
		good &= vram_give(card, 1, second);
		good &= vram_keep(card);
	} else {
		good = false;
	}
	if (job)
		dma_fence_signal(job);
	dma_fence_put(job);
	return good;
}

/* Every second page free, and a block of half of VRAM: its pages come together by their table. */
static bool vram_gather_in(struct vram *card, weir_addr *page)
{
	weir_addr large;
	bool good = true;
	unsigned int i;

	for (i = 0; good && i < VRAM_PAGES; i++)
		good = vram_take(card, 0, VRAM_GRANULE, &page[i]);
	for (i = 0; good && i < VRAM_PAGES; i += 2) {
		good = vram_give(card, 0, page[i]);
		page[i] = 0;
	}
	if (!good || !vram_take(card, 0, VRAM_MOST / 2, &large))
		return false;
	good = VRAM_SO(bitmap_full(card->used, VRAM_PAGES));
	return vram_give(card, 0, large) && good;
}

static bool vram_gather(struct vram *card)
{
	weir_addr *page = kcalloc(VRAM_PAGES, sizeof(*page), GFP_KERNEL);
	bool good;
	unsigned int i;

	if (!page)
		return false;
	/* What the jobs before left is given back, so that all begins anew. */
	good = VRAM_SO(weir_trim(card->pool, 0, WEIR_FOREVER, NULL) == WEIR_OK) &&
	       vram_gather_in(card, page);
	for (i = 0; i < VRAM_PAGES; i++)
		if (page[i])
			good &= vram_give(card, 0, page[i]);
	kfree(page);
	return good;
}

static int __init vram_init(void)
{
	struct vram *card = kvzalloc(sizeof(*card), GFP_KERNEL);
	bool good;

	if (!card)
		return -ENOMEM;
	good = vram_open(card) == 0 && vram_lend(card) && vram_gather(card);
	good = vram_close(card) && good;
	kvfree(card);
	pr_info("weir_vram: %s\n",
		good ? "lent between rings and gathered by its page table" : "failed");
	return good ? 0 : -EINVAL;
}

static void __exit vram_exit(void)
{
}

module_init(vram_init);
module_exit(vram_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Example: a driver's memory manager on Weir, with dma_fences for order");
