/* SPDX-License-Identifier: MIT */
/* stdio.h, of what tests and the simulated device use: texts in buffers, and lines to the log. */
#ifndef WEIR_KERNEL_STDIO_H
#define WEIR_KERNEL_STDIO_H
#include <linux/kernel.h>
#include <linux/printk.h>

#define stderr NULL
#define stdout NULL
#define fflush(stream) ((void)(stream))
#define printf(format, ...) pr_info("# " format, ##__VA_ARGS__)
#define fprintf(stream, format, ...) ((void)(stream), pr_info("# " format, ##__VA_ARGS__))
#endif
