#include "scratch.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace ringsched::cpu {

Scratch::Memory::~Memory() {
  for (const Buffer& buffer : buffers) std::free(buffer.data);
}

void* Scratch::Memory::bytes(int number, std::size_t count) {
  Buffer& buffer = buffers[number];
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

float* Scratch::Memory::floats(int buffer, std::size_t count) {
  return static_cast<float*>(bytes(buffer, count * sizeof(float)));
}

Scratch::Scratch() : memory_(std::make_unique<Memory>()) {}
Scratch::~Scratch() = default;
Scratch::Scratch(Scratch&&) noexcept = default;
Scratch& Scratch::operator=(Scratch&&) noexcept = default;

}  // namespace ringsched::cpu
