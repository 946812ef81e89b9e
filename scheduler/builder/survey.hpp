// The first pass over a tape: which chunks of each move any task reads, and when for the last time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tape.hpp"

namespace ringsched {

struct Survey {
  Survey(const Tape&, const Plan& regions_of, bool backward);

  // Chunks that tasks read where a move brings them, or further on; none if equal.
  struct Use {
    std::uint32_t first = 0, end = 0;
    bool any() const { return first != end; }
  };
  // For the backward pass: where moved keys go on to, and when. Attends are counted.
  struct Path {
    std::uint32_t attends_when_moved = 0;
    std::uint32_t last_attend = ~0u;
    CallId onward;  // the last move of these that is used
  };

  CallColumn<Use> uses;
  CallColumn<Path> paths;  // empty if only the forward pass is wanted
  std::uint32_t attends = 0;
  std::uint64_t query_moves = 0, key_moves = 0, returns = 0;
  std::uint64_t members = 0, result_members = 0;  // of exchanges of operands, and of results

  // By their first members, in the order of the plan.
  std::vector<CallId> exchanges, result_exchanges;
  std::set<std::uint32_t> given_on;  // calls: an exchange takes the result
  // By first member, of exchanges of keys: the members whose keys are attended where they came.
  // Empty for an exchange whose keys move on.
  std::map<std::uint32_t, std::uint32_t> open_members;

 private:
  void find_open_members(const Tape&);
  void mark_used(const Tape&, CallId, Region rows, std::uint64_t& moves, bool backward);
};

}  // namespace ringsched
