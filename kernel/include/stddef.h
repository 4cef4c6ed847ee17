/* SPDX-License-Identifier: MIT */
/* stddef.h as the kernel has it. */
#ifndef WEIR_KERNEL_STDDEF_H
#define WEIR_KERNEL_STDDEF_H
#include <linux/types.h>
#include <linux/stddef.h>
#endif
