// What is known about the memory of the emulated GPUs: who may use which bytes, and which work
// touched them last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/emulated_cuda/state.hpp"

namespace emulated {

// Work that runs now, or none.
struct Running {
  std::uint32_t id = 0;
  const Past* past = nullptr;
  int device = 0;
  std::uint32_t first_multiprocessor = 0, multiprocessors = 1;
  double bytes = 0;           // that it has touched
  std::uint32_t ordered = 0;  // an op that comes before it
};
Running* running();
void set_running(Running*);

// A number for an op, by which findings name it.
std::uint32_t new_op(std::uint32_t chain, std::uint32_t position, const std::string& name,
                     int stream);

enum class Access : std::uint8_t { Read, Write };
// By the work that runs. `what`: "reads", "copies from", for a finding.
void touch(const void* at, std::size_t bytes, Access, const char* what);

// The allocation that was used last: most accesses are to it.
struct Recent {
  std::uintptr_t first = 0, bytes = 0;
};
extern Recent recent_memory;

void* allocate(std::size_t bytes, int device);  // device -1: of the host, pinned
// False: there is no such allocation. A finding where work may still use it.
bool release(void* at, const char* what);
// Which GPU has all of these bytes; -1: the host, pinned; -2: none.
int owner(const void* at, std::size_t bytes);
std::size_t size_of_allocation(const void* at);  // 0: it does not begin there
std::size_t allocations();
// Overwrites what kernels and copies between GPUs have made, so that work which is left out the
// next time cannot use what it made this time. What the host has written stays, and so do inputs.
// Or overwrites the inputs alone.
void spoil(bool inputs);

}  // namespace emulated
