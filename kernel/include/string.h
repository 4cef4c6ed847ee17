/* SPDX-License-Identifier: MIT */
/* string.h as the kernel has it. */
#include <linux/string.h>
