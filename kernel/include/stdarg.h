/* SPDX-License-Identifier: MIT */
/* stdarg.h as the kernel has it. */
#include <linux/stdarg.h>
