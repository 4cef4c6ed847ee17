/* SPDX-License-Identifier: MIT */
/*
 * The calls of the runtime that PyTorch's allocator makes, found by name in the library that the
 * process has, so that this library links with none.
 */
#pragma once

#include <dlfcn.h>

#include "weir_runtime.h"

namespace weir_torch {

/* The runtime's calls, found by name in its library. */
struct Runtime {
#define WEIR_TORCH_CALLS(X)                                                                       \
  X(abi) X(why) X(alloc) X(free) X(use) X(find) X(trim) X(limit_part) X(memory)          \
  X(history) X(stats_read) X(stats_reset_peaks) X(stats_reset_totals)
#define WEIR_TORCH_MEMBER(name) decltype(&weir_runtime_##name) name = nullptr;
  WEIR_TORCH_CALLS(WEIR_TORCH_MEMBER)
  int (*peer)(int device, int other) = nullptr; /* of newer runtimes */

  /* The name of what the library lacks, or null. */
  const char* resolve(void* library) {
#define WEIR_TORCH_RESOLVE(name)                                                              \
  name = reinterpret_cast<decltype(name)>(dlsym(library, "weir_runtime_" #name));             \
  if (name == nullptr) return "weir_runtime_" #name;
    WEIR_TORCH_CALLS(WEIR_TORCH_RESOLVE)
    peer = reinterpret_cast<decltype(peer)>(dlsym(library, "weir_runtime_peer"));
    return nullptr;
  }
};

}  /* namespace weir_torch */
