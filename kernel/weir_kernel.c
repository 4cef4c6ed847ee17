// SPDX-License-Identifier: MIT
/*
 * The platform hooks: memory, locks and a clock.
 *
 * Metadata is asked for inside the pool's lock. With a mutex it may sleep; with a spinlock it
 * comes from the store, and where that is empty the call is refused, so drivers fill it before they
 * enter. Which of the two a pool has is the driver's choice and never guessed from the context,
 * which not every kernel can tell.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "weir_kernel.h"

#undef current

u64 weir_kernel_amount(const struct weir_amount *amount)
{
	return amount->current;
}

static u64 kernel_now_us(void *self)
{
	return ktime_to_us(ktime_get());
}

static void *sleeping_take(void *self, size_t bytes)
{
	return kvmalloc(bytes, GFP_KERNEL);
}

static void sleeping_give(void *self, void *mem, size_t bytes)
{
	kvfree(mem);
}

static void sleeping_lock(void *self)
{
	struct weir_kernel_sleeping *host = self;

	mutex_lock(&host->lock);
}

static void sleeping_unlock(void *self)
{
	struct weir_kernel_sleeping *host = self;

	mutex_unlock(&host->lock);
}

void weir_kernel_sleeping_init(struct weir_kernel_sleeping *host)
{
	mutex_init(&host->lock);
	host->platform = (weir_platform) {
		.size = sizeof(host->platform),
		.self = host,
		.mem_alloc = sleeping_take,
		.mem_free = sleeping_give,
		.lock = sleeping_lock,
		.unlock = sleeping_unlock,
		.now_us = kernel_now_us,
	};
}

void weir_kernel_sleeping_destroy(struct weir_kernel_sleeping *host)
{
	mutex_destroy(&host->lock);
}

static void *store_take(struct weir_kernel_atomic *host, size_t bytes)
{
	void *piece = NULL;
	unsigned long flags;

	if (bytes > host->bytes)
		return NULL;
	spin_lock_irqsave(&host->store_lock, flags);
	if (host->count)
		piece = host->piece[--host->count];
	spin_unlock_irqrestore(&host->store_lock, flags);
	return piece;
}

/* Whether the piece went into the store. */
static bool store_keep(struct weir_kernel_atomic *host, void *piece)
{
	unsigned long flags;
	bool kept;

	spin_lock_irqsave(&host->store_lock, flags);
	kept = host->count < WEIR_KERNEL_STORE;
	if (kept)
		host->piece[host->count++] = piece;
	spin_unlock_irqrestore(&host->store_lock, flags);
	return kept;
}

/* Only while the pool is made does it ask unlocked, and then nobody else can hold the lock. */
static void *atomic_take(void *self, size_t bytes)
{
	struct weir_kernel_atomic *host = self;

	if (!host->held)
		return kvmalloc(max(bytes, host->bytes), GFP_KERNEL);
	return store_take(host, bytes);
}

static void atomic_give(void *self, void *mem, size_t bytes)
{
	struct weir_kernel_atomic *host = self;

	if (!store_keep(host, mem))
		llist_add(mem, &host->retired);
}

/* sparse can't see through hooks that one undoes the other. */
static void atomic_lock(void *self) __acquires(lock)
{
	struct weir_kernel_atomic *host = self;
	unsigned long flags;

	spin_lock_irqsave(&host->lock, flags);
	host->flags = flags;
	host->held = true;
}

static void atomic_unlock(void *self) __releases(lock)
{
	struct weir_kernel_atomic *host = self;

	host->held = false;
	spin_unlock_irqrestore(&host->lock, host->flags);
}

void weir_kernel_atomic_init(struct weir_kernel_atomic *host, size_t bytes)
{
	memset(host, 0, sizeof(*host));
	host->bytes = max(bytes, sizeof(struct llist_node));
	spin_lock_init(&host->lock);
	spin_lock_init(&host->store_lock);
	init_llist_head(&host->retired);
	host->platform = (weir_platform) {
		.size = sizeof(host->platform),
		.self = host,
		.mem_alloc = atomic_take,
		.mem_free = atomic_give,
		.lock = atomic_lock,
		.unlock = atomic_unlock,
		.now_us = kernel_now_us,
	};
}

static void store_free_retired(struct weir_kernel_atomic *host)
{
	struct llist_node *piece = llist_del_all(&host->retired);

	while (piece) {
		struct llist_node *next = piece->next;

		kvfree(piece);
		piece = next;
	}
}

int weir_kernel_store_fill(struct weir_kernel_atomic *host, unsigned int count)
{
	might_sleep();
	store_free_retired(host);
	while (READ_ONCE(host->count) < min_t(unsigned int, count, WEIR_KERNEL_STORE)) {
		void *piece = kvmalloc(host->bytes, GFP_KERNEL);

		if (!piece)
			return -ENOMEM;
		if (!store_keep(host, piece))
			kvfree(piece);
	}
	return 0;
}

void weir_kernel_atomic_destroy(struct weir_kernel_atomic *host)
{
	store_free_retired(host);
	while (host->count)
		kvfree(host->piece[--host->count]);
}
