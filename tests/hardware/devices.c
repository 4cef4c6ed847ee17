/* SPDX-License-Identifier: MIT */
/* The devices that hw_conformance runs the conformance suite on. */
#include "conformance.h"

extern const weir_conformance_device weir_conformance_cuda_vmm;
extern const weir_conformance_device weir_conformance_cuda_async;
extern const weir_conformance_device weir_conformance_cuda_malloc;

const weir_conformance_device *const weir_conformance_devices[] = {
    &weir_conformance_cuda_vmm,
    &weir_conformance_cuda_async,
    &weir_conformance_cuda_malloc,
    NULL,
};
