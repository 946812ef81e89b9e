// What each packed document has of a tile.
//
// A kernel for packed sequences computes each document on its own: its rows against its keys, in
// blocks that no other document shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ringsched/scheduler/layout.hpp"
#include "ringsched/scheduler/mask.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

struct DocumentTile {
  Work work;
  std::uint32_t count = 1;  // of documents that have such a tile

  friend bool operator==(const DocumentTile&, const DocumentTile&) = default;
};

// Without documents of which nothing is visible. `heads`: query heads of each tile.
std::vector<DocumentTile> document_tiles(const Mask&, std::span<const TokenRange> queries,
                                         std::span<const TokenRange> keys, std::uint32_t heads);

}  // namespace ringsched
