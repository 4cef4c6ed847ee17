/* SPDX-License-Identifier: MIT */
/* stdint.h as the kernel has it. */
#ifndef WEIR_KERNEL_STDINT_H
#define WEIR_KERNEL_STDINT_H
#include <linux/types.h>
#include <linux/limits.h>
#include <vdso/limits.h>

#ifndef UINT64_C
#define UINT64_C(value) value##ULL
#endif

/* As numbers, so that #if can compare them. */
#define UINT64_MAX 0xffffffffffffffffULL
#define UINT32_MAX 0xffffffffU
#define UINT16_MAX 0xffffU
#define UINTPTR_MAX ULONG_MAX
#endif
