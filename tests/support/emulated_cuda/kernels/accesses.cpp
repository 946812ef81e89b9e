#include "support/emulated_cuda/kernels/accesses.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "support/emulated_cuda/shadow.hpp"

namespace emulated {

namespace {

struct Allowed {
  std::uintptr_t stack = 0, stack_bytes = 0, arguments = 0, arguments_bytes = 0, constant = 0;
};
thread_local Allowed allowed;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// Constants and shared memory are in the program.
bool is_of_the_program(const void* p) {
  const std::uintptr_t page = address(p) / 4096;
  if (page == allowed.constant) return true;
  Dl_info info{};
  if (dladdr(p, &info) == 0) return false;
  allowed.constant = page;
  return true;
}

inline void look(const void* p, std::size_t bytes, Access access) {
  if (allowed.arguments == 0) return;  // the host's part of the file
  if (address(p) - allowed.stack < allowed.stack_bytes) return;
  if (address(p) - allowed.arguments < allowed.arguments_bytes) return;
  if (address(p) - recent_memory.first < recent_memory.bytes || owner(p, 1) != -2 ||
      !is_of_the_program(p))
    touch(p, bytes, access, access == Access::Read ? "reads" : "writes");
}

}  // namespace

void kernel_stack(const std::byte* first, std::size_t bytes) {
  allowed.stack = address(first);
  allowed.stack_bytes = bytes;
}

void kernel_arguments(const void* first, std::size_t bytes) {
  allowed.arguments = address(first);
  allowed.arguments_bytes = bytes;
}

}  // namespace emulated

// Under the thread sanitizer the names are taken: loads and stores of kernels are not looked at
// then, but what the host's threads do is.
#if !defined(__SANITIZE_THREAD__)

using emulated::Access;
using emulated::look;

#define OURS extern "C" __attribute__((visibility("default")))
#define LOOKED_AT(n)                                                        \
  OURS void __tsan_read##n(void* p) { look(p, n, Access::Read); }           \
  OURS void __tsan_write##n(void* p) { look(p, n, Access::Write); }         \
  OURS void __tsan_unaligned_read##n(void* p) { look(p, n, Access::Read); } \
  OURS void __tsan_unaligned_write##n(void* p) { look(p, n, Access::Write); }
LOOKED_AT(1)
LOOKED_AT(2)
LOOKED_AT(4)
LOOKED_AT(8)
LOOKED_AT(16)
OURS void __tsan_read_range(void* p, unsigned long n) { look(p, n, Access::Read); }
OURS void __tsan_write_range(void* p, unsigned long n) { look(p, n, Access::Write); }
OURS void __tsan_vptr_update(void**, void*) {}
OURS void __tsan_vptr_read(void**) {}
OURS void __tsan_func_entry(void*) {}
OURS void __tsan_func_exit() {}
OURS void __tsan_init() {}
// Of the host's part of the file: counts of shared pointers.
OURS int __tsan_atomic32_fetch_add(volatile int* p, int x, int) {
  return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST);
}
OURS int __tsan_atomic32_load(const volatile int* p, int) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
OURS signed char __tsan_atomic8_load(const volatile signed char* p, int) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

// What the compiler says where a pointer is not a multiple of what its type wants.
struct TypeMismatch {
  const char* file;
  unsigned line, column;
};
OURS void __ubsan_handle_type_mismatch_v1(TypeMismatch* at, std::uintptr_t at_address) {
  if (emulated::allowed.arguments == 0) return;
  emulated::finding(std::string(at->file) + ":" + std::to_string(at->line) +
                    ": a kernel uses an address that ends in " + std::to_string(at_address % 256) +
                    " (of 256), which is not aligned for its type");
}
OURS void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* at, std::uintptr_t at_address) {
  __ubsan_handle_type_mismatch_v1(at, at_address);
}

#endif
