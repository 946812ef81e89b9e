// The numbers of inputs, one by one: what Inputs and the GPU's fill kernel share.
#pragma once

#include <cstdint>

#include "host_device.hpp"

namespace ringsched {

// The finaliser of splitmix64: every bit of the result depends on every bit of x.
RINGSCHED_BOTH inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The sum of four uniform ones, with variance 1: close to normal, within 3.5.
RINGSCHED_BOTH inline float normal(std::uint64_t bits) {
  const auto sum = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                      (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float mean = 2 * 65535.0f, deviation = 37836.6f;  // 65536 / sqrt(3)
  return (sum - mean) / deviation;
}

inline constexpr float kLargeInputs = 100;  // queries and keys of InputKind::Large are times this

inline std::uint64_t mixed_seed(std::uint64_t seed) { return mixed(seed + 0x9e3779b97f4a7c15); }

// The seed of all numbers of a row of a head.
RINGSCHED_BOTH inline std::uint64_t row_of_numbers(std::uint64_t mixed_seed, std::int64_t token,
                                                   std::uint32_t head, std::uint32_t matrix) {
  return mixed(mixed_seed +
               (static_cast<std::uint64_t>(token) << 17 | std::uint64_t{head} << 2 | matrix));
}

RINGSCHED_BOTH inline float number_of_row(std::uint64_t row, std::uint64_t place) {
  return normal(mixed(row + 0x9e3779b97f4a7c15 * (place + 1)));
}

}  // namespace ringsched
