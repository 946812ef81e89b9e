// The name of an exchange, by which members give and get what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringsched {

enum class ExchangeForm : std::uint8_t {
  AllGather,      // all members get the same cells, which several have
  AllToAll,       // each member gets what it wants straight from each that has it
  ReduceScatter,  // all members have parts of all sums, and each gets some of these
  AllReduce,      // likewise, and all get the same
  Broadcast,      // all members get the same cells from one
  Scatter,        // one member gives others different cells
  Gather,         // one member gets cells of others
  Reduce,         // one member gets the sums of parts that all members have
  Other,
};
inline constexpr std::size_t kExchangeForms = 9;

constexpr std::string_view to_text(ExchangeForm f) {
  constexpr std::array<std::string_view, kExchangeForms> names = {
      "all-gather", "all-to-all", "reduce-scatter", "all-reduce", "broadcast",
      "scatter",    "gather",     "reduce",         "exchange"};
  return names[static_cast<std::size_t>(f)];
}

}  // namespace ringsched
