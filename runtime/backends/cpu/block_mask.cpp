#include "block_mask.hpp"

#include <algorithm>

namespace ringsched::cpu {

void find_block_mask(const VisibleKeys* const* visible, std::int32_t rows, std::int32_t first,
                     std::int32_t keys, BlockMask& mask) {
  mask.any = false;
  mask.full = true;
  for (std::int32_t group = 0; group * kRowGroup < rows; ++group) {
    std::int32_t begin = keys, end = 0;
    for (std::int32_t r = group * kRowGroup; r < std::min(rows, (group + 1) * kRowGroup); ++r) {
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

bool sees(const BlockMask& mask, std::int32_t group, std::int32_t rows, std::int32_t begin,
          std::int32_t end) {
  if (mask.begin[group] >= end || mask.end[group] <= begin) return false;
  for (std::int32_t r = group * kRowGroup; r < std::min(rows, (group + 1) * kRowGroup); ++r)
    for (int i = 0; i < 2; ++i)
      if (std::max(mask.spans[r].begin[i], begin) < std::min(mask.spans[r].end[i], end))
        return true;
  return false;
}

}  // namespace ringsched::cpu
