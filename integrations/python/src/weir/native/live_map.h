/* SPDX-License-Identifier: MIT */
/*
 * The live addresses of PyTorch and what is known about them: PyTorch frees by address alone.
 *
 * Threads  every call is safe from any thread.
 * Cost     one look into one of 64 maps, under that one's lock.
 */
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace weir_torch {

inline std::uint64_t number(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

struct Pool;

struct Live {
  std::uint64_t stream = 0, bytes = 0;
  signed char device = 0;
  Pool* pool = nullptr;
};

/* Live addresses. Parts have locks of their own; no two are held at once. */
class LiveMap {
 public:
  void add(void* address, const Live& live) {
    Part& part = part_of(address);
    const std::lock_guard<std::mutex> lock(part.mutex);
    part.map[address] = live;
  }

  bool take(void* address, Live* live) {
    Part& part = part_of(address);
    const std::lock_guard<std::mutex> lock(part.mutex);
    const auto found = part.map.find(address);
    if (found == part.map.end()) return false;
    *live = found->second;
    part.map.erase(found);
    return true;
  }

  bool look(void* address, Live* live) {
    Part& part = part_of(address);
    const std::lock_guard<std::mutex> lock(part.mutex);
    const auto found = part.map.find(address);
    if (found == part.map.end()) return false;
    *live = found->second;
    return true;
  }

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_map<void*, Live> map;
  };
  Part& part_of(const void* address) { return parts_[(number(address) >> 9) % parts_.size()]; }
  std::array<Part, 64> parts_;
};

}  /* namespace weir_torch */
