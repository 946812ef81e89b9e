// Numbers that say what they count. Ids name a thing and cannot be added; quantities count
// something and can be added only to their own kind. All are as cheap as the integer inside.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace ringsched {

template <class Tag>
struct Id {
  std::uint32_t value = std::numeric_limits<std::uint32_t>::max();  // max: "none"

  constexpr bool valid() const { return value != std::numeric_limits<std::uint32_t>::max(); }
  friend constexpr auto operator<=>(Id, Id) = default;
};

template <class Tag>
struct Quantity {
  std::int64_t value = 0;

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(std::int64_t n, Quantity a) { return {n * a.value}; }
  constexpr Quantity& operator+=(Quantity b) {
    value += b.value;
    return *this;
  }
};

// The sum of two numbers that are not negative; it saturates, for plans of any size: one message
// may have 2^60 bytes.
template <class Tag>
constexpr Quantity<Tag> capped_sum(Quantity<Tag> a, Quantity<Tag> b) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return {a.value > most - b.value ? most : a.value + b.value};
}

using WorkerId = Id<struct WorkerTag>;
using ChunkId = Id<struct ChunkTag>;
using RegionId = Id<struct RegionTag>;
using ValueId = Id<struct ValueTag>;
using PieceId = Id<struct PieceTag>;
using WorkId = Id<struct WorkTag>;
using TensorId = Id<struct TensorTag>;
using TaskId = Id<struct TaskTag>;
using ExchangeId = Id<struct ExchangeTag>;

using Tokens = Quantity<struct TokensTag>;
using Bytes = Quantity<struct BytesTag>;
using Pairs = Quantity<struct PairsTag>;  // visible (query, key) pairs: the exact work of a tile
using Picoseconds = Quantity<struct PicosecondsTag>;  // 63 bits of them are 106 days

using Step = std::uint32_t;  // an ordinal: compared and printed, never mixed with the rest

}  // namespace ringsched
