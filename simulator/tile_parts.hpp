// The parts of a tile that a kernel computes on their own, in blocks that no other part shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringsched/scheduler/layout.hpp"
#include "ringsched/scheduler/mask.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct TilePart {
  Work work;
  std::uint32_t count = 1;  // of such parts, one after the other

  friend bool operator==(const TilePart&, const TilePart&) = default;
};

// What each packed document has of some tokens, in the order of the documents.
struct DocumentCut {
  std::int64_t document = 0;
  std::vector<TokenRange> ranges;
};
std::vector<DocumentCut> cut_by_document(const Mask&, std::span<const TokenRange>);

// What each packed document has of a tile, in their order. Documents without a visible pair are
// left out. `heads`: query heads of the tile.
std::vector<TilePart> parts_by_document(const Mask&, std::span<const DocumentCut> queries,
                                        std::span<const DocumentCut> keys, std::uint32_t heads);

// Under a causal mask, each stretch of queries without gaps, against the keys up to its last query.
// Libraries call a kernel for each: for the first and the second chunk of a zigzag share, say.
std::vector<TilePart> parts_by_stretch(std::span<const TokenRange> queries,
                                       std::span<const TokenRange> keys, std::uint32_t heads);

}  // namespace ringsched
