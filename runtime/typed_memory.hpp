// Bytes of memory as numbers of a type.
#pragma once

#include <cstddef>

namespace ringsched {

template <class T>
const T* as(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}
template <class T>
T* as(std::byte* p) {
  return reinterpret_cast<T*>(p);
}

}  // namespace ringsched
