/* SPDX-License-Identifier: MIT */
/* The runtime on the stand-in for libcuda. Each test begins with the stand-in anew and no pool, and
 * ends with every block free, the pools stopped and no rule of the driver broken. */
#ifndef WEIR_RUNTIME_RIG_H
#define WEIR_RUNTIME_RIG_H

#include "fakecuda.h"
#include "weir.h"
#include "weir_runtime.h"

#include <criterion/criterion.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

void runtime_rig_open(const char *settings, const weir_fakecuda_config *fake);
void runtime_rig_close(void);

/* On the legacy stream of device 0. */
uint64_t runtime_rig_alloc(uint64_t bytes);
void runtime_rig_free(uint64_t addr);
weir_runtime_stats runtime_rig_stats(void);
/* A non-blocking stream of device 0's primary context. */
uint64_t runtime_rig_stream(void);
void runtime_rig_stream_destroy(uint64_t stream);

#define EXPECT_STATUS(call, status) \
    cr_expect_eq((call), (status), "%s: %s", #call, weir_runtime_why())
#define ASSERT_OK(call) cr_assert_eq((call), WEIR_OK, "%s: %s", #call, weir_runtime_why())
#define EXPECT_SAYS(part) \
    cr_expect_not_null(strstr(weir_runtime_why(), (part)), "'%s' lacks '%s'", weir_runtime_why(), \
                       (part))

#endif
