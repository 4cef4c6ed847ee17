/* SPDX-License-Identifier: MIT */
/* stdlib.h, of what tests and the simulated device use: memory of the test, see ktap.c. */
#ifndef WEIR_KERNEL_STDLIB_H
#define WEIR_KERNEL_STDLIB_H
#include <linux/kernel.h>
#include <linux/types.h>

#include <criterion/criterion.h>

void *weir_ktap_take(size_t count, size_t size);
void *weir_ktap_again(void *memory, size_t bytes);
void weir_ktap_give(void *memory);

#define malloc(bytes) weir_ktap_take(1, bytes)
#define calloc(count, size) weir_ktap_take(count, size)
#define realloc(memory, bytes) weir_ktap_again(memory, bytes)
#define free(memory) weir_ktap_give(memory)
/* No variables: tests run with their own seeds. */
#define getenv(name) NULL
#define strtoull(text, end, base) simple_strtoull(text, end, base)
#define abort() \
	do { \
		weir_ktap_abort(); \
		for (;;) \
			; \
	} while (0)
#endif
