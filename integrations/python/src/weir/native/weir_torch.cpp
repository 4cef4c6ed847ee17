/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's CUDA allocator on Weir's runtime, with all that PyTorch's own one can do.
 *
 * Built on the user's machine against the PyTorch that is there (python -m weir.torch build), since
 * the interface is C++ and changes with it. `weir_torch_install` puts it in place; weir_runtime.h
 * is found in the library that is already loaded.
 *
 * Owns      the map from a live address to its stream (PyTorch frees by address alone), the private
 *           pools, and the observers of out of memory.
 * Threads   every call is safe from any thread. No lock is held while PyTorch or Python is called.
 * Cost      one lookup in a map of 64 parts beside what the runtime costs.
 */
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <atomic>
#include <mutex>
#include <string>

#include "live_map.h"
#include "marks.h"
#include "private_pool.h"
#include "runtime_calls.h"

namespace weir_torch {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

/* Of weir_status: there is no memory; the process is the child of a fork, or the device is lost. */
constexpr int kNoMemory = 2, kLost = 10;

Runtime runtime;
void weir_delete(void* pointer);

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }
std::uint64_t number(cudaStream_t stream) { return reinterpret_cast<std::uint64_t>(stream); }

/* A private pool with what PyTorch knows about it. Guarded by WeirAllocator::pools_mutex_. */
struct Pool {
  c10::DeviceIndex device = 0;
  c10::MempoolId_t id;
  int use_count = 0;
  PrivatePool memory;
  std::shared_ptr<caching::CUDAAllocator> source;  /* of the segments; null: Weir */
};

struct Route {
  Pool* pool;
  std::function<bool(cudaStream_t)> wanted;
};

struct State : caching::AllocatorState {
  c10::MempoolId_t id;
  std::vector<PrivatePool::Saved> live;
};

[[noreturn]] void unsupported(const char* what) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Weir: ", what);
}

Stat stat(const weir_runtime_amount& from) {
  Stat to;
  to.current = static_cast<std::int64_t>(from.current);
  to.peak = static_cast<std::int64_t>(from.peak);
  to.allocated = static_cast<std::int64_t>(from.added);
  to.freed = static_cast<std::int64_t>(from.taken);
  return to;
}

StatArray stats(const weir_runtime_amount (&from)[3]) {
  StatArray to;
  to[static_cast<std::size_t>(StatType::AGGREGATE)] = stat(from[0]);
  to[static_cast<std::size_t>(StatType::LARGE_POOL)] = stat(from[1]);
  to[static_cast<std::size_t>(StatType::SMALL_POOL)] = stat(from[2]);
  return to;
}

/* Weir has one arena: what is not split by size stands under both "all" and "large_pool". */
StatArray stats(const weir_runtime_amount& from) {
  StatArray to;
  to[static_cast<std::size_t>(StatType::AGGREGATE)] = stat(from);
  to[static_cast<std::size_t>(StatType::LARGE_POOL)] = stat(from);
  return to;
}

class WeirAllocator final : public caching::CUDAAllocator {
 public:
  /* ---------------------------------------------------------------------------------- blocks -- */

  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::DeviceIndex device = c10::cuda::current_device();
    void* made = nullptr;
    if (bytes != 0) made = take(device, bytes, c10::cuda::getCurrentCUDAStream(device).stream());
    return {made, made, &weir_delete, c10::Device(c10::DeviceType::CUDA, device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &weir_delete; }

  void* raw_alloc(std::size_t bytes) override {
    const c10::DeviceIndex device = c10::cuda::current_device();
    if (bytes == 0) return nullptr;
    return take(device, bytes, c10::cuda::getCurrentCUDAStream(device).stream());
  }

  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    return bytes == 0 ? nullptr : take(c10::cuda::current_device(), bytes, stream);
  }

  void raw_delete(void* address) override { give(address); }

  void give(void* address) {
    if (address == nullptr) return;
    Live live;
    TORCH_CHECK(live_.take(address, &live), "Weir: ", address, " is no live address of it");
    trace_free(address);
    if (live.pool != nullptr) {
      const std::lock_guard<std::mutex> lock(pools_mutex_);
      live.pool->memory.give(number(address));
      if (live.pool->use_count == 0) drain(live.pool);
    } else {
      const int status = runtime.free(number(address), live.stream);
      if (status != 0 && status != kLost) {
        TORCH_WARN("Weir could not free ", address, ": ", runtime.why());
      }
    }
    report(address, -static_cast<std::int64_t>(live.bytes), live.device);
  }

  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    Live live;
    void* address = data.get();
    /* As PyTorch's own: memory of others is theirs to keep. */
    if (address == nullptr || data.get_deleter() != &weir_delete) return;
    if (!live_.look(address, &live) || live.stream == number(stream.stream())) return;
    if (live.pool != nullptr) {
      const std::lock_guard<std::mutex> lock(pools_mutex_);
      live.pool->memory.use(number(address), number(stream.stream()));
      return;
    }
    TORCH_CHECK(runtime.use(number(address), number(stream.stream())) == 0, "Weir: ",
                runtime.why());
  }

  void* getBaseAllocation(void* address, std::size_t* bytes) override {
    std::uint64_t base = 0, whole = 0;
    TORCH_CHECK(runtime.find(number(address), nullptr, &base, &whole) == 0, "Weir: ",
                runtime.why());
    if (bytes != nullptr) *bytes = whole;
    return pointer(base);
  }

  /* ---------------------------------------------------------------------------- life, limits -- */

  void init(int /*device_count*/) override {
    initialized_ = true;
  }
  bool initialized() override { return initialized_; }
  void enable(bool /*value*/) override {}
  bool isEnabled() const override { return true; }
  std::string name() override { return "weir"; }

  double getMemoryFraction(c10::DeviceIndex device) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = fractions_.find(device);
    return found == fractions_.end() ? 1.0 : found->second;
  }

  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    TORCH_CHECK(fraction > 0 && fraction <= 1, "Weir: a fraction is above 0 and at most 1, not ",
                fraction);
    TORCH_CHECK(runtime.limit_part(device, fraction) == 0, "Weir: ", runtime.why());
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    fractions_[device] = fraction;
  }

  /* Of one pool: what it holds without being in use; else everything that is free. */
  void emptyCache(c10::MempoolId_t id) override {
    {
      const std::lock_guard<std::mutex> lock(pools_mutex_);
      for (auto it = pools_.begin(); it != pools_.end();) {
        Pool* pool = (it++)->second.get(); /* which may go */
        if (pool->use_count == 0) drain(pool);
      }
    }
    if (id == c10::MempoolId_t{0, 0}) (void)runtime.trim(-1, 0, nullptr);
  }

  /* The most that a block may have: what is free in the pool, on the device and under the limit. */
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override {
    std::uint64_t free = 0, total = 0;
    TORCH_CHECK(runtime.memory(device, &free, &total) == 0, "Weir: ", runtime.why());
    if (*largest == 0 || *largest > free) *largest = free;
  }

  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    std::uint64_t free = 0, total = 0;
    TORCH_CHECK(runtime.memory(device, &free, &total) == 0, "Weir: ", runtime.why());
    return {free, total};
  }

  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex /*device*/) override {
    return {};
  }

  /* --------------------------------------------------------------------------------- looking -- */

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    weir_runtime_stats from{};
    from.size = sizeof from;
    TORCH_CHECK(runtime.stats_read(device, &from) == 0, "Weir: ", runtime.why());
    DeviceStats to;
    to.allocation = stats(from.allocations);
    to.allocated_bytes = stats(from.allocated);
    to.requested_bytes = stats(from.requested);
    to.reserved_bytes = stats(from.reserved);
    to.segment = stats(from.segments);
    less_the_slack(device, &to.allocated_bytes);
    to.active = to.allocation;
    to.active_bytes = to.allocated_bytes;
    Stat& active = to.active_bytes[static_cast<std::size_t>(StatType::AGGREGATE)];
    active.current += static_cast<std::int64_t>(from.pending.current);
    active.peak = std::max(active.peak, active.current);
    to.max_split_size = -1;  /* anything is split */
    to.num_ooms = static_cast<std::int64_t>(from.ooms);
    to.num_alloc_retries = static_cast<std::int64_t>(from.retries);
    to.num_sync_all_streams = static_cast<std::int64_t>(from.host_waits);
    to.num_device_alloc = static_cast<std::int64_t>(from.device_allocs);
    to.num_device_free = static_cast<std::int64_t>(from.device_frees);
    return to;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    TORCH_CHECK(runtime.stats_reset_totals(device) == 0, "Weir: ", runtime.why());
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    TORCH_CHECK(runtime.stats_reset_peaks(device) == 0, "Weir: ", runtime.why());
  }

  caching::SnapshotInfo snapshot(c10::MempoolId_t /*id*/, bool /*include_traces*/) override {
    unsupported("snapshots are made in Python: torch.cuda.memory._snapshot or weir.snapshot");
  }

  bool isHistoryEnabled() override { return history_; }

  void recordHistory(bool enabled, caching::CreateContextFn /*recorder*/, std::size_t entries,
                     caching::RecordContext /*when*/, bool /*clear*/,
                     const std::vector<std::string>& /*skip*/) override {
    TORCH_CHECK(runtime.history(enabled ? entries : 0) == 0, "Weir: ", runtime.why());
    history_ = enabled;
  }

  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    observers_.push_back(std::move(observer));
  }

  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker /*tracker*/) override {
    unsupported("it calls no trace trackers");
  }

  /* --------------------------------------------------------------------------- private pools -- */

  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    Pool* pool = pool_of(device, id);
    pool->use_count++;
    for (const Route& route : routes_) {
      TORCH_CHECK(route.pool != pool, "Weir: this pool is being allocated to already");
    }
    routes_.push_back({pool, std::move(filter)});
    routed_.store(routes_.size(), std::memory_order_release);
  }

  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = std::find_if(routes_.begin(), routes_.end(), [&](const Route& route) {
      return route.pool->device == device && route.pool->id == id;
    });
    TORCH_CHECK(found != routes_.end(), "Weir: this pool is not being allocated to");
    routes_.erase(found);
    routed_.store(routes_.size(), std::memory_order_release);
  }

  void releasePool(c10::DeviceIndex device, c10::MempoolId_t id) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = pools_.find({device, id});
    TORCH_CHECK(found != pools_.end() && found->second->use_count > 0,
                "Weir: a pool was released more often than it was taken");
    if (--found->second->use_count == 0) drain(found->second.get());
  }

  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t id) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = pools_.find({device, id});
    return found == pools_.end() ? 0 : found->second->use_count;
  }

  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t id,
                          std::shared_ptr<caching::CUDAAllocator> source) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    Pool* pool = pool_of(device, id);
    pool->use_count++;
    if (source) pool->source = std::move(source);
  }

  /* A private pool gives nothing to others here, so neither changes what is right. */
  void setUseOnOOM(c10::DeviceIndex /*device*/, c10::MempoolId_t /*id*/, bool /*use*/) override {}
  void setNoSplit(c10::DeviceIndex /*device*/, c10::MempoolId_t /*id*/) override {}

  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t id,
                                const std::unordered_set<void*>& expected) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = pools_.find({device, id});
    TORCH_CHECK(found != pools_.end(), "Weir: there is no such pool");
    return found->second->memory.is_live(expected);
  }

  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                              c10::MempoolId_t id) override {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = pools_.find({device, id});
    TORCH_CHECK(found != pools_.end(), "Weir: there is no such pool");
    auto state = std::make_shared<State>();
    state->id = id;
    state->live = found->second->memory.save();
    return state;
  }

  caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<caching::AllocatorState> saved) override {
    const auto state = std::dynamic_pointer_cast<State>(saved);
    TORCH_CHECK(state, "Weir: this checkpoint is none of its own");
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    const auto found = pools_.find({device, state->id});
    TORCH_CHECK(found != pools_.end(), "Weir: there is no such pool");
    Pool* pool = found->second.get();
    caching::CheckpointDelta delta;
    Live live;
    for (const auto& one : pool->memory.save()) {
      live_.take(pointer(one.address), &live);
      delta.ptrs_freed.push_back(pointer(one.address));
    }
    pool->memory.restore(state->live);
    for (const auto& one : state->live) {
      void* address = pointer(one.address);
      live_.add(address, {one.stream, one.requested, device, pool});
      delta.dataptrs_allocd.emplace_back(address, address, &weir_delete,
                                         c10::Device(c10::DeviceType::CUDA, device));
    }
    return delta;
  }

  /* ---------------------------------------------------------------- other devices, processes -- */

  caching::ShareableHandle shareIpcHandle(void* /*address*/) override {
    unsupported("its memory cannot be sent to another process as a CUDA tensor; send the tensor "
                "from the CPU, or run this program on PyTorch's own allocator");
  }

  std::shared_ptr<void> getIpcDevPtr(std::string /*handle*/) override {
    unsupported("it cannot open a CUDA tensor of another process");
  }

  /* Lets kernels on `device` touch memory of `other`. CUDA's own switch does nothing for mapped
   * memory; it is turned all the same, for what others allocate. */
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override {
    if (runtime.peer == nullptr) {
      unsupported("it cannot open the memory of one GPU to another yet; let each process see one "
                  "GPU only (CUDA_VISIBLE_DEVICES)");
    }
    TORCH_CHECK(runtime.peer(other, device) == 0, "Weir: ", runtime.why());
    const c10::cuda::CUDAGuard guard(device);
    const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
    } else {
      C10_CUDA_CHECK(error);
    }
  }

  /* Mapped memory of another device is copied by the call that needs no peer access. */
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                          std::size_t count, cudaStream_t stream, bool /*p2p_enabled*/) override {
    if (to_device != from_device) {
      return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
    }
    return cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, stream);
  }

  void copy_data(void* to, const void* from, std::size_t count) const override {
    C10_CUDA_CHECK(cudaMemcpy(to, from, count, cudaMemcpyDeviceToDevice));
  }

 private:
  void* take(c10::DeviceIndex device, std::size_t bytes, cudaStream_t stream) {
    Pool* pool = routed_.load(std::memory_order_acquire) == 0 ? nullptr : routed(device, stream);
    const std::uint64_t address = pool != nullptr ? take_private(pool, bytes, stream)
                                                  : take_plain(device, bytes, number(stream));
    void* made = pointer(address);
    live_.add(made, {number(stream), bytes, device, pool});
    const c10::impl::PyInterpreter* python = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(python)) {
      (*python)->trace_gpu_memory_allocation(c10::DeviceType::CUDA, address);
    }
    report(made, static_cast<std::int64_t>(bytes), device);
    return made;
  }

  std::uint64_t take_plain(c10::DeviceIndex device, std::uint64_t bytes, std::uint64_t stream) {
    std::uint64_t address = 0;
    int status = runtime.alloc(device, bytes, stream, &address);
    if (C10_UNLIKELY(status == kNoMemory) && reclaimed()) {
      status = runtime.alloc(device, bytes, stream, &address);
    }
    if (C10_UNLIKELY(status == kNoMemory)) out_of_memory(device, bytes);
    TORCH_CHECK(status == 0, "Weir: ", runtime.why());
    return address;
  }

  /* Segments are fetched without a lock: that may call Python. */
  std::uint64_t take_private(Pool* pool, std::uint64_t bytes, cudaStream_t stream) {
    for (;;) {
      {
        const std::lock_guard<std::mutex> lock(pools_mutex_);
        if (pool->memory.waits() && !capturing(stream)) settle(pool);
        const std::uint64_t address = pool->memory.take(bytes, number(stream));
        if (address != 0) return address;
      }
      const std::uint64_t whole = PrivatePool::segment_bytes(bytes);
      const std::uint64_t base = pool->source ? number(pool->source->raw_alloc(whole))
                                              : take_plain(pool->device, whole, number(stream));
      const std::lock_guard<std::mutex> lock(pools_mutex_);
      pool->memory.add(base, whole, number(stream));
    }
  }

  Pool* routed(c10::DeviceIndex device, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    for (const Route& route : routes_) {
      if (route.pool->device == device && route.wanted(stream)) return route.pool;
    }
    return nullptr;
  }

  Pool* pool_of(c10::DeviceIndex device, c10::MempoolId_t id) {
    auto& pool = pools_[{device, id}];
    if (!pool) {
      pool = std::make_unique<Pool>();
      pool->device = device;
      pool->id = id;
    }
    return pool.get();
  }

  static void settle(Pool* pool) {
    if (!pool->memory.waits()) return;
    const c10::cuda::CUDAStreamCaptureModeGuard relaxed{cudaStreamCaptureModeRelaxed};
    pool->memory.settle(mark, passed);
  }

  /* What a pool without a user holds goes back, block by block as they end. */
  void drain(Pool* pool) {
    settle(pool);
    pool->memory.drain([&](std::uint64_t base, std::uint64_t stream) {
      if (pool->source) {
        pool->source->raw_delete(pointer(base));
      } else {
        (void)runtime.free(base, stream);
      }
    });
    if (pool->memory.empty()) pools_.erase({pool->device, pool->id});
  }

  /* A private pool's segments are live blocks to Weir; PyTorch counts what is cut out of them. */
  void less_the_slack(c10::DeviceIndex device, StatArray* bytes) {
    std::int64_t slack = 0;
    {
      const std::lock_guard<std::mutex> lock(pools_mutex_);
      for (const auto& [key, pool] : pools_) {
        if (pool->device != device || pool->source) continue;
        slack += static_cast<std::int64_t>(pool->memory.held_bytes()) -
                 static_cast<std::int64_t>(pool->memory.live_bytes());
      }
    }
    for (const StatType type : {StatType::AGGREGATE, StatType::LARGE_POOL}) {
      (*bytes)[static_cast<std::size_t>(type)].current -= slack;
    }
  }

  /* Asks the parts of PyTorch that hold memory which they can do without. */
  static bool reclaimed() {
    bool any = false;
    for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
      any |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    }
    return any;
  }

  [[noreturn]] void out_of_memory(c10::DeviceIndex device, std::uint64_t bytes) {
    const std::string why = runtime.why();
    const DeviceStats now = getDeviceStats(device);
    const auto whole = static_cast<std::size_t>(StatType::AGGREGATE);
    const auto allocated = static_cast<std::size_t>(now.allocated_bytes[whole].current);
    const auto reserved = static_cast<std::size_t>(now.reserved_bytes[whole].current);
    c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes), allocated, reserved,
                                     c10::Device(c10::DeviceType::CUDA, device));
    std::uint64_t free = 0, total = 0;
    (void)runtime.memory(device, &free, &total);
    for (const auto& observer : observers()) observer(device, allocated, total, free);
    TORCH_CHECK_WITH(OutOfMemoryError, false, why);  /* begins as PyTorch's own does */
  }

  std::vector<caching::OutOfMemoryObserver> observers() {
    const std::lock_guard<std::mutex> lock(pools_mutex_);
    return observers_;
  }

  static void trace_free(void* address) {
    const c10::impl::PyInterpreter* python = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(python)) {
      (*python)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA, number(address));
    }
  }

  void report(void* address, std::int64_t bytes, c10::DeviceIndex device) {
    if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
    const DeviceStats now = getDeviceStats(device);
    const auto whole = static_cast<std::size_t>(StatType::AGGREGATE);
    c10::reportMemoryUsageToProfiler(
        address, bytes, static_cast<std::size_t>(now.allocated_bytes[whole].current),
        static_cast<std::size_t>(now.reserved_bytes[whole].current),
        c10::Device(c10::DeviceType::CUDA, device));
  }

  LiveMap live_;
  std::mutex pools_mutex_;
  std::map<std::pair<c10::DeviceIndex, c10::MempoolId_t>, std::unique_ptr<Pool>> pools_;
  std::vector<Route> routes_;
  std::atomic<std::size_t> routed_{0};
  std::vector<caching::OutOfMemoryObserver> observers_;
  std::map<c10::DeviceIndex, double> fractions_;
  std::atomic<bool> initialized_{false};
  std::atomic<bool> history_{false};
};

/* Lives as long as the process: tensors outlast whatever would end it. */
WeirAllocator* allocator() {
  static auto* only = new WeirAllocator;
  return only;
}

void weir_delete(void* address) { allocator()->give(address); }

std::string complaint;

}  /* namespace weir_torch */

extern "C" {

/* What went wrong in weir_torch_install. */
const char* weir_torch_why() { return weir_torch::complaint.c_str(); }

/* Makes this PyTorch's CUDA allocator. `library` is the path of libweir_runtime.so, as it was
 * loaded. 0, or 1 with the reason in weir_torch_why. */
int weir_torch_install(const char* library) {
  using namespace weir_torch;
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const char* lacks = loaded == nullptr ? dlerror() : runtime.resolve(loaded);
  if (lacks == nullptr && runtime.abi() != WEIR_RUNTIME_ABI) lacks = "the ABI it was built for";
  if (lacks != nullptr) {
    complaint = std::string("the runtime library lacks ") + lacks;
    return 1;
  }
  try {
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(
        std::shared_ptr<caching::CUDAAllocator>(allocator(), [](caching::CUDAAllocator*) {}));
    /* What asks for the allocator by the type of device would get PyTorch's own otherwise. */
    c10::SetAllocator(c10::DeviceType::CUDA, allocator(), 0);
  } catch (const std::exception& error) {
    complaint = error.what();
    return 1;
  }
  return 0;
}
}
