// The first pass over a tape: what of each copy is read by anyone, and when for the last time.
#pragma once

#include <cstdint>
#include <vector>

#include "tape.hpp"

namespace ringsched {

struct Survey {
  static constexpr std::uint32_t kNone = ~0u;

  // Chunks of a copy that are read where it is or further on; none if equal.
  struct Use {
    std::uint32_t first = 0, end = 0;
    bool any() const { return first != end; }
  };
  // For the backward pass: where a copy of keys goes on to, and when. Attends are counted.
  struct Path {
    std::uint32_t attends_when_moved = 0;
    std::uint32_t last_attend = kNone;
    std::uint32_t onward = kNone;  // the last copy made from this one that is used
    std::uint32_t attends_when_moved_on = 0;
  };

  std::vector<Use, PageAllocator<Use>> copies;
  std::vector<Path> paths;  // by copy; empty where only the forward pass is wanted
  std::uint64_t attends = 0, query_moves = 0, key_moves = 0, returns = 0;
};

Survey survey(const Tape&, const Plan& regions_of, bool backward);

}  // namespace ringsched
