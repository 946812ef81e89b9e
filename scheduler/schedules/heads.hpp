// From tokens to heads and back: what Ulysses and USP share.
#pragma once

#include <span>
#include <vector>

#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

// Part i of n consecutive parts of all heads, as even as they can be.
ColumnRange part_of_heads(std::uint32_t heads, std::uint32_t i, std::uint32_t n);

// With dummy heads, so that they split evenly over n workers. Each query head still reads the
// key/value head that it read before: groups of query heads get longer, or there are more of them,
// whichever takes fewer heads.
Problem with_padded_heads(Problem, std::uint32_t n);

// What each of some workers has after an exchange: all tokens that they hold together, of its part
// of the heads.
struct ByHeads {
  std::vector<Queries> queries;
  std::vector<Keys> keys;
};
ByHeads exchange_tokens_for_heads(const Problem&, PlanBuilder&, std::span<const WorkerId>);

// The reverse, for results: each worker gets all heads of its own tokens.
void exchange_heads_for_tokens(PlanBuilder&, std::span<const WorkerId>, std::span<const Merged>);

}  // namespace ringsched
