/* SPDX-License-Identifier: MIT */
/*
 * A device that is numbers only: nothing lies behind its addresses and all work has passed. It
 * never sleeps, and may be called by several threads at once.
 */
#ifndef WEIR_FLAT_H
#define WEIR_FLAT_H

#include <linux/atomic.h>

#include "weir_kernel.h"

#define WEIR_FLAT_BASE BIT_ULL(30)

struct weir_flat {
	u64 bytes; /* of memory */
	u64 granule; /* of mapping: a page of the device */
	atomic64_t held;
};

extern const weir_device_ops weir_flat_ops;

#endif
