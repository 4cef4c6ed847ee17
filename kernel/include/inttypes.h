/* SPDX-License-Identifier: MIT */
/* inttypes.h, of what tests print. */
#ifndef WEIR_KERNEL_INTTYPES_H
#define WEIR_KERNEL_INTTYPES_H
#include <stdint.h>
#define PRIu64 "llu"
#define PRIx64 "llx"
#define PRIu32 "u"
#endif
