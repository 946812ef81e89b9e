#include "block_mask.hpp"

#include <algorithm>

namespace ringsched::cpu {

void find_block_mask(const VisibleKeys* const* visible, std::int32_t rows, std::int32_t group_rows,
                     std::int32_t first, std::int32_t keys, BlockMask& mask) {
  mask.any = false;
  mask.full = true;
  mask.rows = rows;
  mask.group = group_rows;
  for (std::int32_t group = 0; group * group_rows < rows; ++group) {
    std::int32_t begin = keys, end = 0;
    for (std::int32_t r = group * group_rows; r < std::min(rows, (group + 1) * group_rows); ++r) {
      std::int32_t seen = 0;
      for (int i = 0; i < 2; ++i) {
        const std::int32_t from = std::clamp(visible[r]->begin[i], first, first + keys) - first;
        const std::int32_t to = std::clamp(visible[r]->end[i], first, first + keys) - first;
        mask.spans[r].begin[i] = from;
        mask.spans[r].end[i] = to;
        if (from >= to) continue;
        seen += to - from;
        begin = std::min(begin, from);
        end = std::max(end, to);
      }
      if (seen != keys) mask.full = false;
      if (seen != 0) mask.any = true;
    }
    mask.begin[group] = begin;
    mask.end[group] = std::max(begin, end);
  }
}

bool sees(const BlockMask& mask, std::int32_t group, std::int32_t begin, std::int32_t end) {
  if (mask.begin[group] >= end || mask.end[group] <= begin) return false;
  for (std::int32_t r = group * mask.group; r < std::min(mask.rows, (group + 1) * mask.group); ++r)
    for (int i = 0; i < 2; ++i)
      if (std::max(mask.spans[r].begin[i], begin) < std::min(mask.spans[r].end[i], end))
        return true;
  return false;
}

}  // namespace ringsched::cpu
