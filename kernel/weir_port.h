/* SPDX-License-Identifier: MIT */
/*
 * What the core needs of the kernel, in place of a compiler's builtins: the one header that knows
 * both. A broken assertion is a warning, once, and the call goes on.
 */
#ifndef WEIR_PORT_H
#define WEIR_PORT_H

#include <linux/bug.h>
#include <linux/string.h>

#define weir_memset memset
#define weir_memcpy memcpy
#define WEIR_ASSERT_FAILED(text) WARN_ONCE(1, "weir: %s\n", text)

#endif
