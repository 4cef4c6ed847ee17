/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's allocators as contestants, without Python: libc10 and libc10_cuda alone. Which of them
 * a process has is decided by PYTORCH_ALLOC_CONF before it starts, so each asks for its own value
 * and checks what it got.
 *
 * The cap is setMemoryFraction. cudaMallocAsync as a backend holds it against the bytes in use, not
 * against what is held of the device, so it has no least capacity here.
 */
#include "racer.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

/* Exported by libc10_cuda, for libtorch_cuda to say how it asks the driver. */
namespace c10::cuda::_internal
{
C10_CUDA_API void setHasPrimaryContext(bool (*answer)(DeviceIndex device));
}

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

struct Entrant {
    caching::CUDAAllocator *allocator = nullptr;
    std::vector<c10::cuda::CUDAStream> streams;
    c10::DeleterFnPtr deleter = nullptr;
    uint64_t device_bytes = 0;
    char fault[256] = "";
};

/* The rest is a backtrace. */
std::string first_line(const std::exception &error)
{
    std::string what = error.what();
    return what.substr(0, what.find('\n'));
}

void fault_note(Entrant *me, const char *call, const std::exception &error)
{
    if (me->fault[0] == '\0')
        std::snprintf(me->fault, sizeof me->fault, "%s: %s", call, first_line(error).c_str());
}

/* ----------------------------------------------------------------------------------- opening -- */

struct Wanted {
    const char *key, *conf, *name;
    bool expandable;
};

const Wanted wanted[] = {{"torch-native", "", "native", false},
                         {"torch-expandable", "expandable_segments:True", "native", true},
                         {"torch-async", "backend:cudaMallocAsync", "cudaMallocAsync", false}};

bool check_conf(const racer_contestant *entry, racer_why *why)
{
    const char *conf = std::getenv("PYTORCH_ALLOC_CONF");
    const char *old_conf = std::getenv("PYTORCH_CUDA_ALLOC_CONF");

    for (const Wanted &want : wanted) {
        if (std::strcmp(want.key, entry->key) != 0) continue;
        std::string name = caching::get()->name();
        bool expandable =
            c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments();
        if (old_conf == nullptr && std::strcmp(conf != nullptr ? conf : "", want.conf) == 0 &&
            name == want.name && expandable == want.expandable)
            return true;
        return racer_why_set(why,
                             "start it with PYTORCH_ALLOC_CONF='%s' and without "
                             "PYTORCH_CUDA_ALLOC_CONF; this process has the allocator '%s', "
                             "expandable segments %s",
                             want.conf, name.c_str(), expandable ? "on" : "off");
    }
    return racer_why_set(why, "no such allocator");
}

/* set_device has made the context by the time that anything asks. */
bool has_primary_context(c10::DeviceIndex device)
{
    return device == 0;
}

Entrant *open_checked()
{
    Entrant *me = new Entrant;

    c10::cuda::_internal::setHasPrimaryContext(has_primary_context);
    caching::init(static_cast<int>(c10::cuda::device_count_ensure_non_zero()));
    c10::cuda::set_device(0);
    me->allocator = caching::get();
    me->deleter = me->allocator->raw_deleter();
    for (unsigned i = 0; i < RACER_STREAMS; i++)
        me->streams.push_back(c10::cuda::getStreamFromPool(false, 0));
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    me->device_bytes = properties.totalGlobalMem;
    return me;
}

/* That the setting is taken does not mean that the segments are there. */
bool check_segments(const racer_contestant *entry, Entrant *me, racer_why *why)
{
    bool wanted_here = (entry->traits & RACER_PEER) != 0;
    if (std::strcmp(entry->key, "torch-async") == 0) return true;
    void *mem = me->allocator->raw_alloc_with_stream(UINT64_C(4) << 20, me->streams[0].stream());
    bool there = !me->allocator->getExpandableSegmentSizes(0).empty();

    me->allocator->raw_delete(mem);
    return there == wanted_here ||
           racer_why_set(why, "expandable segments are %s", there ? "in use" : "not in use");
}

void *entrant_open(const racer_contestant *entry, racer_gpu *, racer_why *why)
{
    if (!check_conf(entry, why)) return nullptr;
    try {
        Entrant *me = open_checked();
        if (check_segments(entry, me, why)) return me;
        delete me;
        return nullptr;
    } catch (const std::exception &error) {
        (void)racer_why_set(why, "%s", first_line(error).c_str());
        return nullptr;
    }
}

void entrant_close(void *self)
{
    delete static_cast<Entrant *>(self);
}

/* --------------------------------------------------------------------------------- resetting -- */

/* Half a byte more, so that the fraction times the device's memory is not a byte less. */
double fraction_of(const Entrant *me, uint64_t cap_bytes)
{
    double fraction =
        (static_cast<double>(cap_bytes) + 0.5) / static_cast<double>(me->device_bytes);

    return cap_bytes == 0 || fraction > 1.0 ? 1.0 : fraction;
}

bool entrant_reset(void *self, uint64_t cap_bytes, uint32_t, racer_why *why)
{
    Entrant *me = static_cast<Entrant *>(self);

    me->fault[0] = '\0';
    try {
        c10::cuda::device_synchronize();
        me->allocator->emptyCache();
        me->allocator->setMemoryFraction(fraction_of(me, cap_bytes), 0);
        me->allocator->resetPeakStats(0);
        return true;
    } catch (const std::exception &error) {
        return racer_why_set(why, "reset: %s", first_line(error).c_str());
    }
}

/* ------------------------------------------------------------------------------------- calls -- */

uint64_t entrant_alloc(void *self, uint32_t stream, uint64_t bytes)
{
    Entrant *me = static_cast<Entrant *>(self);

    try {
        return reinterpret_cast<uint64_t>(
            me->allocator->raw_alloc_with_stream(bytes, me->streams[stream].stream()));
    } catch (const c10::OutOfMemoryError &) {
        return 0;
    } catch (const std::exception &error) {
        fault_note(me, "raw_alloc_with_stream", error);
        return 0;
    }
}

void entrant_free(void *self, uint64_t addr, uint64_t, uint32_t)
{
    Entrant *me = static_cast<Entrant *>(self);

    try {
        me->allocator->raw_delete(reinterpret_cast<void *>(addr));
    } catch (const std::exception &error) {
        fault_note(me, "raw_delete", error);
    }
}

/* recordStream wants the owner's pointer, which here is only lent for the call. */
void entrant_use(void *self, uint64_t addr, uint32_t, uint32_t side)
{
    Entrant *me = static_cast<Entrant *>(self);
    void *mem = reinterpret_cast<void *>(addr);
    c10::DataPtr lent(mem, mem, me->deleter, c10::Device(c10::DeviceType::CUDA, 0));

    try {
        me->allocator->recordStream(lent, me->streams[side]);
    } catch (const std::exception &error) {
        fault_note(me, "recordStream", error);
    }
    (void)lent.release_context();
}

/* ------------------------------------------------------------------------------------- state -- */

c10::CachingAllocator::Stat reserved_stat(void *self)
{
    Entrant *me = static_cast<Entrant *>(self);

    try {
        return me->allocator->getDeviceStats(0)
            .reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    } catch (const std::exception &error) {
        fault_note(me, "getDeviceStats", error);
        return {};
    }
}

uint64_t entrant_reserved(void *self)
{
    return static_cast<uint64_t>(reserved_stat(self).current);
}

uint64_t entrant_reserved_peak(void *self)
{
    return static_cast<uint64_t>(reserved_stat(self).peak);
}

void entrant_trim(void *self)
{
    Entrant *me = static_cast<Entrant *>(self);

    try {
        me->allocator->emptyCache();
    } catch (const std::exception &error) {
        fault_note(me, "emptyCache", error);
    }
}

void *entrant_stream(void *self, uint32_t stream)
{
    return static_cast<Entrant *>(self)->streams[stream].stream();
}

const char *entrant_fault(void *self)
{
    Entrant *me = static_cast<Entrant *>(self);
    return me->fault[0] != '\0' ? me->fault : nullptr;
}

racer_contestant make(const char *key, const char *name, unsigned traits)
{
    racer_contestant entry{};

    entry.key = key;
    entry.name = name;
    entry.traits = traits;
    entry.open = entrant_open;
    entry.close = entrant_close;
    entry.reset = entrant_reset;
    entry.alloc = entrant_alloc;
    entry.free = entrant_free;
    entry.use = entrant_use;
    entry.reserved = entrant_reserved;
    entry.reserved_peak = entrant_reserved_peak;
    entry.trim = entrant_trim;
    entry.stream = entrant_stream;
    entry.fault = entrant_fault;
    return entry;
}

} // namespace

extern "C" const racer_contestant *const *racer_contestants(void)
{
    static const racer_contestant native = make("torch-native", "PyTorch native", RACER_CAPS);
    static const racer_contestant expandable =
        make("torch-expandable", "PyTorch expandable_segments", RACER_CAPS | RACER_PEER);
    static const racer_contestant async = make("torch-async", "PyTorch cudaMallocAsync", 0);
    static const racer_contestant *const list[] = {&native, &expandable, &async, nullptr};
    return list;
}
