/* SPDX-License-Identifier: MIT */
/*
 * Whether a CUDA device does what a pool needs of it, tried: a pool of 64 MiB, kernels that fill a
 * block and check it, exports, and all given back.
 */
#ifndef WEIR_SELFTEST_H
#define WEIR_SELFTEST_H

#ifdef WEIR_HAS_CUDA

#include <stdint.h>

#include "cuda_device.h"
#include "fault.h"

#define WEIR_SELFTEST_BYTES (UINT64_C(64) << 20)

typedef struct weir_selftest {
    bool passed;
    weir_fault why; /* where it did not pass */
    uint64_t took_us;
    weir_status export_fd; /* what exporting a block answered; UNSUPPORTED also if not tried */
    weir_status export_dma_buf;
    char export_fd_error[64]; /* the driver's name for it, where the status is DEVICE */
    char export_dma_buf_error[64];
} weir_selftest;

/* Leaves nothing on the device. A check that would miss a wrong word is a failure too. */
void weir_selftest_run(weir_cuda *cuda, weir_selftest *result);

#endif

#endif
