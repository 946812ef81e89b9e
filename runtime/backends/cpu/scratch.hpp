// The buffers of a Scratch: they grow, and hold zeros when new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "attention.hpp"

namespace ringsched::cpu {

struct Scratch::Memory {
  static constexpr std::size_t kBuffers = 16;
  struct Buffer {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  Buffer buffers[kBuffers];
  std::size_t used = 0;
  std::function<void()> pause;

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  // Starts handing out the buffers again, in the same order.
  void restart() { used = 0; }
  // Kernels call this now and then. It is not inline, because kernels are compiled with special
  // flags.
  void between_blocks();
  // At least this many bytes, aligned to 64.
  void* bytes(std::size_t count);
  float* floats(std::size_t count);
};

}  // namespace ringsched::cpu
