/* SPDX-License-Identifier: MIT */
/*
 * The kernel's macro `current` would take the place of the field weir_amount.current. Included
 * before the sources of the core, the simulated device and the tests: all that uses the macro comes
 * first, then it goes.
 */
#ifndef WEIR_CURRENT_H
#define WEIR_CURRENT_H
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/string.h>

#include <asm/current.h>

#undef current
#endif
