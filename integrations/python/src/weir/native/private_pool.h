/* SPDX-License-Identifier: MIT */
/*
 * A private pool of PyTorch: the memory of CUDA graphs and of torch.cuda.MemPool.
 *
 * Owns segments that are live blocks of Weir, and cuts PyTorch's blocks out of them. It exists
 * because graph trees (torch.compile, mode "reduce-overhead") put a pool back into an earlier
 * state, block by block at the same addresses, while graphs hold these addresses.
 *
 * Invariants  blocks of a segment are neighbours without a gap; two free neighbours are one; a
 *             block is in `free_` exactly if it is free. A stream reuses what was freed on it, no
 *             other does.
 * Threads     none of its own: the caller holds a lock.
 * Cost        O(log blocks) a call; save and restore O(blocks).
 */
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

namespace weir_torch {

class PrivatePool {
 public:
  /* Gets a segment back. */
  using Sink = std::function<void(std::uint64_t address, std::uint64_t stream)>;
  /* An event made on a stream, or null where that cannot be now; and whether one has passed. */
  using Event = std::shared_ptr<void>;
  using Mark = std::function<Event(std::uint64_t stream)>;
  using Passed = std::function<bool(const Event& event)>;

  struct Saved {
    std::uint64_t address, bytes, requested, stream;
  };

  /* A block from what is there, or 0: then a segment of segment_bytes(requested) must be added. */
  std::uint64_t take(std::uint64_t requested, std::uint64_t stream) {
    const std::uint64_t bytes = rounded(requested);
    auto& fits = free_[{stream, bytes <= kSmall}];
    const auto found = fits.lower_bound({bytes, 0});
    if (found == fits.end()) return 0;
    const std::uint64_t address = found->second;
    carve(address, bytes, requested);
    return address;
  }

  /* Small blocks share small segments, middling ones large segments; the rest have their own. */
  static std::uint64_t segment_bytes(std::uint64_t requested) {
    const std::uint64_t bytes = rounded(requested);
    if (bytes <= kSmall) return kSmallSegment;
    return bytes < kLargeSegment / 2 ? kLargeSegment : round_up(bytes, kGranule);
  }

  void add(std::uint64_t base, std::uint64_t bytes, std::uint64_t stream) {
    segments_[base] = {bytes, stream};
    blocks_[base] = {bytes, 0, stream, base, State::kFree, bytes == kSmallSegment, {}};
    insert(base);
  }

  /* The block is free for its stream, after the streams that use it too have come so far. */
  void give(std::uint64_t address) {
    Block& block = blocks_.at(address);
    live_bytes_ -= block.bytes;
    if (block.uses.empty()) {
      release(address);
    } else {
      block.state = State::kWaiting;
      waiting_.push_back({address, {}});
    }
  }

  void use(std::uint64_t address, std::uint64_t stream) {
    Block& block = blocks_.at(address);
    if (stream != block.stream) block.uses.insert(stream);
  }

  /* Frees what was waiting for other streams and need not any more. */
  void settle(const Mark& mark, const Passed& passed) {
    auto done = std::remove_if(waiting_.begin(), waiting_.end(), [&](Waiting& one) {
      auto& uses = blocks_.at(one.address).uses;
      for (auto stream = uses.begin(); stream != uses.end();) {
        Event event = mark(*stream);
        stream = event ? uses.erase(stream) : std::next(stream);
        if (event) one.events.push_back(std::move(event));
      }
      one.events.erase(std::remove_if(one.events.begin(), one.events.end(), passed),
                       one.events.end());
      if (!uses.empty() || !one.events.empty()) return false;
      release(one.address);
      return true;
    });
    waiting_.erase(done, waiting_.end());
  }

  std::vector<Saved> save() const {
    std::vector<Saved> live;
    for (const auto& [address, block] : blocks_) {
      if (block.state == State::kLive) {
        live.push_back({address, block.bytes, block.requested, block.stream});
      }
    }
    return live;
  }

  /* Makes exactly the saved blocks live. Segments that came since are free. The device is quiet. */
  void restore(const std::vector<Saved>& live) {
    blocks_.clear();
    free_.clear();
    waiting_.clear();
    live_bytes_ = 0;
    const auto segments = segments_;
    for (const auto& [base, segment] : segments) add(base, segment.bytes, segment.stream);
    for (const Saved& one : live) place(one);
  }

  bool is_live(const std::unordered_set<void*>& expected) const {
    std::size_t count = 0;
    for (const auto& [address, block] : blocks_) {
      if (block.state != State::kLive) continue;
      count++;
      if (expected.count(reinterpret_cast<void*>(address)) == 0) return false;
    }
    return count == expected.size();
  }

  /* Gives segments without a live block back. Only once no graph can use them any more. */
  void drain(const Sink& sink) {
    for (auto it = segments_.begin(); it != segments_.end();) {
      const auto block = blocks_.find(it->first);
      if (block->second.state != State::kFree || block->second.bytes != it->second.bytes) {
        ++it;
        continue;
      }
      remove(block->first);
      blocks_.erase(block);
      sink(it->first, it->second.stream);
      it = segments_.erase(it);
    }
  }

  bool empty() const { return segments_.empty(); }
  bool waits() const { return !waiting_.empty(); }
  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t held_bytes() const {
    std::uint64_t total = 0;
    for (const auto& [base, segment] : segments_) total += segment.bytes;
    return total;
  }

 private:
  enum class State { kFree, kLive, kWaiting };
  struct Block {
    std::uint64_t bytes, requested, stream, segment;
    State state;
    bool small;
    std::set<std::uint64_t> uses;
  };
  struct Segment {
    std::uint64_t bytes, stream;
  };
  struct Waiting {
    std::uint64_t address;
    std::vector<Event> events;
  };

  static constexpr std::uint64_t kUnit = 512, kSmall = 1u << 20, kSmallSegment = 2u << 20,
                                 kLargeSegment = 20u << 20, kGranule = 2u << 20;

  static std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }

  static std::uint64_t rounded(std::uint64_t bytes) {
    return std::max(kUnit, round_up(bytes, kUnit));
  }

  void insert(std::uint64_t address) {
    const Block& block = blocks_.at(address);
    free_[{block.stream, block.small}].insert({block.bytes, address});
  }

  void remove(std::uint64_t address) {
    const Block& block = blocks_.at(address);
    free_[{block.stream, block.small}].erase({block.bytes, address});
  }

  /* Makes the first `bytes` of a free block live. */
  void carve(std::uint64_t address, std::uint64_t bytes, std::uint64_t requested) {
    remove(address);
    Block& block = blocks_.at(address);
    if (block.bytes > bytes) {
      blocks_[address + bytes] = {block.bytes - bytes, 0,           block.stream, block.segment,
                                  State::kFree,        block.small, {}};
      insert(address + bytes);
    }
    block.bytes = bytes;
    block.requested = requested;
    block.state = State::kLive;
    live_bytes_ += bytes;
  }

  /* Makes a saved block live where it was: it lies inside one free block. */
  void place(const Saved& one) {
    auto holder = std::prev(blocks_.upper_bound(one.address));
    const std::uint64_t before = one.address - holder->first;
    if (before > 0) {
      remove(holder->first);
      Block rest = holder->second;
      rest.bytes -= before;
      holder->second.bytes = before;
      insert(holder->first);
      blocks_[one.address] = rest;
      insert(one.address);
    }
    carve(one.address, one.bytes, one.requested);
  }

  /* Makes a block free, one with its free neighbours. */
  void release(std::uint64_t address) {
    auto block = blocks_.find(address);
    block->second.state = State::kFree;
    block->second.uses.clear();
    auto next = std::next(block);
    if (next != blocks_.end() && joins(block->second, next->second)) {
      remove(next->first);
      block->second.bytes += next->second.bytes;
      blocks_.erase(next);
    }
    if (block != blocks_.begin() && joins(std::prev(block)->second, block->second)) {
      auto left = std::prev(block);
      remove(left->first);
      left->second.bytes += block->second.bytes;
      blocks_.erase(block);
      block = left;
    }
    insert(block->first);
  }

  static bool joins(const Block& left, const Block& right) {
    return left.state == State::kFree && right.state == State::kFree &&
           left.segment == right.segment;
  }

  std::map<std::uint64_t, Block> blocks_;
  std::map<std::uint64_t, Segment> segments_;
  std::map<std::pair<std::uint64_t, bool>, std::set<std::pair<std::uint64_t, std::uint64_t>>> free_;
  std::vector<Waiting> waiting_;
  std::uint64_t live_bytes_ = 0;
};

}  /* namespace weir_torch */
