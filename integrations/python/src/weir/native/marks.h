/* SPDX-License-Identifier: MIT */
/*
 * CUDA's events and captures, as the private pools need them. No error is left behind for PyTorch
 * to find.
 */
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "private_pool.h"

namespace weir_torch {

inline cudaStream_t handle(std::uint64_t stream) { return reinterpret_cast<cudaStream_t>(stream); }

/* Whether a call succeeded. */
inline bool worked(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess;
}

inline bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return !worked(cudaStreamIsCapturing(stream, &status)) || status != cudaStreamCaptureStatusNone;
}

/* An event on a stream that is not being captured. */
inline PrivatePool::Event mark(std::uint64_t stream) {
  cudaEvent_t event = nullptr;
  if (capturing(handle(stream))) return nullptr;
  if (!worked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming))) return nullptr;
  PrivatePool::Event owned(event, [](void* made) {
    (void)worked(cudaEventDestroy(static_cast<cudaEvent_t>(made)));
  });
  return worked(cudaEventRecord(event, handle(stream))) ? owned : nullptr;
}

inline bool passed(const PrivatePool::Event& event) {
  return worked(cudaEventQuery(static_cast<cudaEvent_t>(event.get())));
}

}  /* namespace weir_torch */
