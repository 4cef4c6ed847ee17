/* SPDX-License-Identifier: MIT */
/* The image for cuModuleLoadData: PTX, ended by a zero byte. */
#ifndef WEIR_CUDA_KERNEL_H
#define WEIR_CUDA_KERNEL_H

/* weir_fill(addr, bytes, tag), weir_verify(addr, bytes, tag, counter), weir_spin(ns): all u64. */
extern const char weir_cuda_kernels[];

#endif
