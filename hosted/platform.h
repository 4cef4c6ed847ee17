/* SPDX-License-Identifier: MIT */
/* The platform hooks of a hosted POSIX process: malloc, free, a clock and a lock. */
#ifndef WEIR_PLATFORM_H
#define WEIR_PLATFORM_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A platform for one pool: free it after the pool. `locked` false leaves the lock hooks NULL, for a
 * pool that one thread at a time uses. NULL where memory is short. */
weir_platform *weir_platform_create(bool locked);
void weir_platform_destroy(weir_platform *platform);

#ifdef __cplusplus
}
#endif

#endif
