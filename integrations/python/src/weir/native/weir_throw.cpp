/* SPDX-License-Identifier: MIT */
/*
 * Allocation for PyTorch's pluggable interface that throws where there is no memory.
 *
 * That interface has no failure: an address of 0 becomes a tensor without memory. So this throws
 * what PyTorch would, c10::OutOfMemoryError, made through the symbols of the PyTorch that is
 * loaded; no header of it is needed. Where a symbol is missing, it is std::bad_alloc, a
 * RuntimeError in Python.
 *
 * Cost  one indirect call beside weir_torch_alloc.
 */
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <typeinfo>

#include <sys/types.h>

namespace {

using Alloc = void* (*)(ssize_t, int, void*);
using Why = const char* (*)();

/* As c10::SourceLocation. */
struct Place {
  const char* function;
  const char* file;
  std::uint32_t line;
};

using MakeError = void (*)(void* self, Place where, std::string text);
using Destroy = void (*)(void*);

constexpr std::size_t kErrorRoom = 1024;  /* c10::Error takes less than 300 bytes */
constexpr const char* kOutOfMemory = "CUDA out of memory";
constexpr const char* kMake =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";

Alloc alloc_hook = nullptr;
Why why_hook = nullptr;
MakeError make_error = nullptr;
void** memory_table = nullptr;
const std::type_info* memory_type = nullptr;
const std::type_info* error_type = nullptr;

/* The runtime's sentence begins as PyTorch's does where there is no memory. */
[[noreturn]] void throw_error(const char* why) {
  const bool memory = std::strncmp(why, kOutOfMemory, std::strlen(kOutOfMemory)) == 0;
  if (make_error == nullptr) throw std::bad_alloc();
  void* error = abi::__cxa_allocate_exception(kErrorRoom);
  std::memset(error, 0, kErrorRoom);
  make_error(error, {"weir_torch_alloc_or_throw", "weir", 0}, why);
  void** table = memory_table + 2; /* behind the offset and the type */
  if (memory) std::memcpy(error, &table, sizeof table);
  std::memcpy(&table, error, sizeof table);
  abi::__cxa_throw(error, const_cast<std::type_info*>(memory ? memory_type : error_type),
                   reinterpret_cast<Destroy>(table[0]));
}

}  /* namespace */

extern "C" {

/* The runtime's library and PyTorch's c10 and c10_cuda, by their paths. 1: out of memory will be
 * torch.OutOfMemoryError; 0: a RuntimeError; -1: the runtime lacks the hooks. */
int weir_torch_throw_setup(const char* runtime, const char* c10, const char* c10_cuda) {
  void* weir = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
  void* errors = dlopen(c10, RTLD_NOW | RTLD_NOLOAD);
  void* cuda = dlopen(c10_cuda, RTLD_NOW | RTLD_NOLOAD);
  if (weir != nullptr) {
    alloc_hook = reinterpret_cast<Alloc>(dlsym(weir, "weir_torch_alloc"));
    why_hook = reinterpret_cast<Why>(dlsym(weir, "weir_runtime_why"));
  }
  if (alloc_hook == nullptr || why_hook == nullptr) return -1;
  if (errors == nullptr || cuda == nullptr) return 0;
  memory_table = static_cast<void**>(dlsym(cuda, "_ZTVN3c1016OutOfMemoryErrorE"));
  memory_type = static_cast<const std::type_info*>(dlsym(cuda, "_ZTIN3c1016OutOfMemoryErrorE"));
  error_type = static_cast<const std::type_info*>(dlsym(errors, "_ZTIN3c105ErrorE"));
  auto make = reinterpret_cast<MakeError>(dlsym(errors, kMake));
  if (memory_table != nullptr && memory_type != nullptr && error_type != nullptr) make_error = make;
  return make_error != nullptr ? 1 : 0;
}

void* weir_torch_alloc_or_throw(ssize_t bytes, int device, void* stream) {
  void* made = alloc_hook(bytes, device, stream);
  if (made == nullptr && bytes > 0) {
    const char* why = why_hook();
    throw_error(why != nullptr ? why : "Weir gave no reason");
  }
  return made;
}
}
