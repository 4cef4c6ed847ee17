/* SPDX-License-Identifier: MIT */
/* The devices that the conformance suite runs on. Add yours here. */
#include "conformance.h"

extern const weir_conformance_device weir_conformance_sim;
extern const weir_conformance_device weir_conformance_sim_segments;
extern const weir_conformance_device weir_conformance_host;
extern const weir_conformance_device weir_conformance_host_segments;
#ifdef WEIR_HAS_CUDA
extern const weir_conformance_device weir_conformance_cuda_vmm;
extern const weir_conformance_device weir_conformance_cuda_async;
extern const weir_conformance_device weir_conformance_cuda_malloc;
#endif

const weir_conformance_device *const weir_conformance_devices[] = {
    &weir_conformance_sim,
    &weir_conformance_sim_segments,
    &weir_conformance_host,
    &weir_conformance_host_segments,
#ifdef WEIR_HAS_CUDA
    &weir_conformance_cuda_vmm,
    &weir_conformance_cuda_async,
    &weir_conformance_cuda_malloc,
#endif
    NULL,
};
