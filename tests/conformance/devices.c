/* SPDX-License-Identifier: MIT */
/* The devices that the conformance suite runs on. Add yours here. */
#include "conformance.h"

extern const weir_conformance_device weir_conformance_sim;
extern const weir_conformance_device weir_conformance_sim_segments;
extern const weir_conformance_device weir_conformance_host;
extern const weir_conformance_device weir_conformance_host_segments;

const weir_conformance_device *const weir_conformance_devices[] = {
    &weir_conformance_sim,
    &weir_conformance_sim_segments,
    &weir_conformance_host,
    &weir_conformance_host_segments,
    NULL,
};
