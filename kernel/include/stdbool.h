/* SPDX-License-Identifier: MIT */
/* stdbool.h as the kernel has it. */
#ifndef WEIR_KERNEL_STDBOOL_H
#define WEIR_KERNEL_STDBOOL_H
#include <linux/types.h>
#endif
