// What the rows of one block of queries see of one block of keys. Keys that no row sees are not
// computed, and keys that all rows see are not masked.
#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace ringsched::cpu {

struct BlockMask {
  static constexpr std::int32_t kMostRows = 256;
  static constexpr std::int32_t kMostGroups = (kMostRows + kRowGroup - 1) / kRowGroup;
  bool any;            // some row sees some key
  bool full;           // every row sees every key
  std::int32_t rows;   // of the block
  std::int32_t group;  // rows computed together, which are one group
  KeySpans spans[kMostRows];
  // From the first to the last key that one of the rows of the group sees.
  std::int32_t begin[kMostGroups];
  std::int32_t end[kMostGroups];
};

// Row r of the block sees *visible[r]; only the keys [first, first + keys) of it count.
void find_block_mask(const VisibleKeys* const* visible, std::int32_t rows, std::int32_t group,
                     std::int32_t first, std::int32_t keys, BlockMask&);

// Whether a row of the group sees one of the keys [begin, end) of the block.
bool sees(const BlockMask&, std::int32_t group, std::int32_t begin, std::int32_t end);

}  // namespace ringsched::cpu
