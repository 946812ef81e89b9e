#include "scratch.hpp"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ringsched::cpu {

Scratch::Memory::~Memory() {
  for (const Buffer& buffer : buffers) std::free(buffer.data);
}

void Scratch::Memory::between_blocks() {
  if (pause) pause();
}

void* Scratch::Memory::bytes(std::size_t count) {
  assert(used < kBuffers);
  Buffer& buffer = buffers[used++];
  if (buffer.data == nullptr || buffer.bytes < count) {
    // A page, so that large buffers do not share their first page with anything.
    const std::size_t rounded = (count + 4095) / 4096 * 4096 + 4096;
    void* const data = std::aligned_alloc(4096, rounded);
    if (data == nullptr) throw std::bad_alloc();
    std::memset(data, 0, rounded);
    std::free(buffer.data);
    buffer = {.data = data, .bytes = rounded};
  }
  return buffer.data;
}

float* Scratch::Memory::floats(std::size_t count) {
  return static_cast<float*>(bytes(count * sizeof(float)));
}

void Scratch::on_pause(std::function<void()> pause) { memory_->pause = std::move(pause); }

Scratch::Scratch() : memory_(std::make_unique<Memory>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;

}  // namespace ringsched::cpu
