// A mask as a kernel needs it: what a query sees, as at most two runs of positions.
#pragma once

#include <cstdint>

#include "host_device.hpp"
#include "ringsched/scheduler/mask.hpp"

namespace ringsched::cuda {

struct MaskView {
  Mask::Kind kind = Mask::Kind::Full;
  std::int64_t window = 0, prefix = 0;   // 0: none
  const std::int64_t* bounds = nullptr;  // of documents, in memory of whoever asks
  std::int32_t bound_count = 0;
};

// Without the bounds of documents.
inline MaskView mask_view(const Mask& mask) {
  return {mask.kind(), mask.window_size().value, mask.prefix().value, nullptr,
          static_cast<std::int32_t>(mask.document_bounds().size())};
}

struct Seen {
  std::int64_t prefix = 0;          // positions below this,
  std::int64_t from = 0, upto = 0;  // and from here up to, not including, there

  RINGSCHED_BOTH bool has(std::int64_t position) const {
    return position < prefix || (position >= from && position < upto);
  }
};

RINGSCHED_BOTH inline Seen seen_by(const MaskView& mask, std::int64_t query) {
  switch (mask.kind) {
    case Mask::Kind::Full:
      return {0, 0, INT64_MAX};
    case Mask::Kind::Causal:
      return {0, 0, query + 1};
    case Mask::Kind::Window:
      return {0, query + 1 - mask.window, query + 1};
    case Mask::Kind::PrefixWindow:
      return {mask.prefix < query + 1 ? mask.prefix : query + 1, query + 1 - mask.window,
              query + 1};
    case Mask::Kind::Documents: {
      std::int32_t low = 0, high = mask.bound_count - 1;  // bounds[low] <= query < bounds[high]
      while (high - low > 1) {
        const std::int32_t middle = (low + high) / 2;
        (mask.bounds[middle] <= query ? low : high) = middle;
      }
      const std::int64_t near = mask.window > 0 ? query + 1 - mask.window : 0;
      return {0, near > mask.bounds[low] ? near : mask.bounds[low], query + 1};
    }
  }
  return {};
}

}  // namespace ringsched::cuda
