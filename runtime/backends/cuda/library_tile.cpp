#include "backends/cuda/library_tile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/rows.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched::cuda {

std::optional<LibraryTile> library_tile(const Problem& p, TileForm form, std::int64_t rows,
                                        std::int64_t keys, bool backward) {
  Shape s{p.dtype, backward, false, p.heads, p.kv_heads, p.head_dim, rows, keys};
  switch (form) {
    case TileForm::Full:
      return LibraryTile{s, 0};
    case TileForm::Causal:
      s.keys = std::min(rows, keys);
      s.causal = s.keys > 1;  // one key is seen by all
      return LibraryTile{s, 0};
    case TileForm::StrictlyCausal:
      s.rows = rows - 1;
      s.keys = std::min(s.rows, keys);
      s.causal = s.keys > 1;
      return LibraryTile{s, 1};
    case TileForm::Empty:
    case TileForm::Other:
      break;
  }
  return std::nullopt;
}

std::string refusal(const Problem& p) {
  if (p.dtype == Dtype::Fp32) return "cuDNN has no fp32";
  if (p.head_dim % 8 != 0)
    return fmt::format("head dimension {} is not a multiple of 8", p.head_dim);
  return "";
}

void check_for_gpu(const Problem& p) {
  if (p.head_dim > kMostHeadDim)
    fail("head dimension is {}; use at most {} on a GPU", p.head_dim, kMostHeadDim);
}

}  // namespace ringsched::cuda
