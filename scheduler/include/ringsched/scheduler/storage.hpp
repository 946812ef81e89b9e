// The memory of a plan's tasks: one flat block, in huge pages if the system has them, because
// otherwise half the time to fill millions of tasks is page faults (docs/decisions/plan-layout.md).
#pragma once

#include <cstddef>
#include <vector>

namespace ringsched {

void* allocate_pages(std::size_t bytes);
void free_pages(void* block, std::size_t bytes) noexcept;

template <class T>
struct PageAllocator {
  using value_type = T;
  PageAllocator() = default;
  template <class U>
  PageAllocator(const PageAllocator<U>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(allocate_pages(n * sizeof(T))); }
  void deallocate(T* block, std::size_t n) noexcept { free_pages(block, n * sizeof(T)); }
  friend bool operator==(PageAllocator, PageAllocator) { return true; }
};

struct Task;
using TaskArray = std::vector<Task, PageAllocator<Task>>;

// A column of data about each task of a plan.
template <class T>
using TaskColumn = std::vector<T, PageAllocator<T>>;

}  // namespace ringsched
