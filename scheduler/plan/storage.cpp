#include "ringsched/scheduler/storage.hpp"

#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ringsched {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

constexpr std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kHugePage - 1) & ~(kHugePage - 1);
}

}  // namespace

void* allocate_pages(std::size_t bytes) {
  if (bytes < kHugePage) return ::operator new(bytes);
  void* block = ::operator new (rounded_up(bytes), std::align_val_t{kHugePage});
#if defined(__linux__)
  // Only a hint: if the system refuses it, the block has ordinary pages.
  madvise(block, rounded_up(bytes), MADV_HUGEPAGE);
#endif
  return block;
}

void free_pages(void* block, std::size_t bytes) noexcept {
  if (bytes < kHugePage) {
    ::operator delete(block);
  } else {
    ::operator delete (block, std::align_val_t{kHugePage});
  }
}

}  // namespace ringsched
