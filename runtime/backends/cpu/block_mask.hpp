// What the rows of one block of queries see of one block of keys, so that what nobody sees is not
// computed and what all see is not masked.
#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace ringsched::cpu {

inline constexpr std::int32_t kBlockRows = 96;  // a multiple of kRowGroup
inline constexpr std::int32_t kBlockKeys = 128;
inline constexpr std::int32_t kBlockGroups = kBlockRows / kRowGroup;

struct BlockMask {
  bool any;   // some row sees some key
  bool full;  // every row sees every key
  KeySpans spans[kBlockRows];
  // From the first to the last key that one of the kRowGroup rows of the group sees.
  std::int32_t begin[kBlockGroups];
  std::int32_t end[kBlockGroups];
};

// Row r of the block sees *visible[r], of which the keys [first, first + keys) count.
void find_block_mask(const VisibleKeys* const* visible, std::int32_t rows, std::int32_t first,
                     std::int32_t keys, BlockMask&);

// Whether a row of the group sees one of the keys [begin, end) of the block.
bool sees(const BlockMask&, std::int32_t group, std::int32_t rows, std::int32_t begin,
          std::int32_t end);

}  // namespace ringsched::cpu
