// SPDX-License-Identifier: MIT
/*
 * The tests' memory: a list, so that what a test leaves behind when an assertion ends it can be
 * freed after it, and what it forgot is seen.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include <criterion/criterion.h>
#include <stdlib.h>

struct ktap_memory {
	struct list_head list;
	size_t bytes;
	u64 data[];
};

static LIST_HEAD(ktap_live);
static DEFINE_SPINLOCK(ktap_lock);

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

unsigned int weir_ktap_give_all(void)
{
	struct ktap_memory *memory, *next;
	unsigned int count = 0;

	list_for_each_entry_safe(memory, next, &ktap_live, list) {
		weir_ktap_give(memory->data);
		count++;
	}
	return count;
}
