/* SPDX-License-Identifier: MIT */
/*
 * The platform hooks of a pool in the Linux kernel.
 *
 * weir_kernel_sleeping: metadata from kvmalloc, a mutex for a lock: for pools that are called from
 * process context only.
 * weir_kernel_atomic: a spinlock with interrupts off for a lock, and metadata from a store that is
 * filled beforehand, outside the lock (weir_kernel_store_fill): for pools that are called where
 * nothing may sleep. The device's calls then may not sleep either.
 *
 * Both: one for each pool, in memory of the caller's that outlives it. docs/kernel.md has a whole
 * driver.
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* The kernel's macro would take the place of the field weir_amount.current. */
#pragma push_macro("current")
#undef current
#include "weir.h"
#pragma pop_macro("current")

/* weir_amount.current, for code that has the macro. */
u64 weir_kernel_amount(const struct weir_amount *amount);

struct weir_kernel_sleeping {
	weir_platform platform;
	struct mutex lock; /* the pool's */
};

/* Sets up *host for a pool; give &host->platform to weir_pool_create. */
void weir_kernel_sleeping_init(struct weir_kernel_sleeping *host);
/* After the pool is destroyed. */
void weir_kernel_sleeping_destroy(struct weir_kernel_sleeping *host);

#define WEIR_KERNEL_STORE 64

struct weir_kernel_atomic {
	weir_platform platform;
	spinlock_t lock; /* the pool's */
	unsigned long flags; /* of its holder */
	bool held;
	spinlock_t store_lock; /* of `count` and `piece` */
	size_t bytes; /* of each piece in the store */
	unsigned int count;
	void *piece[WEIR_KERNEL_STORE];
	struct llist_head retired; /* given back where nothing may sleep */
};

/*
 * `bytes`: the largest piece that the pool may ask for while it works; a larger one is refused, and
 * the call answers NO_METADATA and changes nothing. Tables double as they grow: 32 bytes for each
 * block and each free run between blocks, so 64 KiB lasts for about a thousand blocks at once.
 * While the pool is made, what it asks for unlocked comes from kvmalloc in any size.
 */
void weir_kernel_atomic_init(struct weir_kernel_atomic *host, size_t bytes);
/*
 * May sleep. Before weir_pool_create where the pool begins with memory, and from time to time
 * before calls where nothing may sleep: has `count` pieces ready, at most WEIR_KERNEL_STORE, and
 * frees what could not be freed there. -ENOMEM.
 */
int weir_kernel_store_fill(struct weir_kernel_atomic *host, unsigned int count);
void weir_kernel_atomic_destroy(struct weir_kernel_atomic *host);

#endif
