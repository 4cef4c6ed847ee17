/* SPDX-License-Identifier: MIT */
/* Of one CUDA device: what a pool would use, what is off, and the self-test. */
#ifndef WEIR_CARDUSE_H
#define WEIR_CARDUSE_H

#ifdef WEIR_HAS_CUDA

#include "conf.h"
#include "driver.h"
#include "object.h"

/* What the device says that it has. */
typedef struct weir_carduse_has {
    bool vmm, pools, posix_fd, rdma, dma_buf;
} weir_carduse_has;

/* Adds "use", "off" and "self_test" to the device's object. True with *source where a pool can be
 * made on it; *healthy is false where the self-test failed. */
bool weir_carduse_describe(weir_object *object, int device, const weir_conf *conf,
                           const weir_carduse_has *has, weir_conf_source *source, bool *healthy);

/* Adds one reason to the list "off" of an object. */
void weir_carduse_off(weir_object *object, const char *what, const char *why);

#endif

#endif
