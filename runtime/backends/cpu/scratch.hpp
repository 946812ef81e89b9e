// The buffers of a Scratch: they grow, and hold zeros when new.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention.hpp"

namespace ringsched::cpu {

struct Scratch::Memory {
  static constexpr int kBuffers = 16;
  struct Buffer {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  Buffer buffers[kBuffers];

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  // At least so many bytes, aligned to 64.
  void* bytes(int buffer, std::size_t count);
  float* floats(int buffer, std::size_t count);
};

}  // namespace ringsched::cpu
