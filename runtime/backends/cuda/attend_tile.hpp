// Everything about an attend except addresses: its tile, and where that lies in the worker's
// tensors.
#pragma once

#include <optional>

#include "backends/cuda/library_tile.hpp"
#include "ringsched/runtime/tensor_form.hpp"

namespace ringsched::cuda {

struct AttendTile {
  TileForm form;
  bool backward;
  std::int64_t rows, keys;                  // of the tile
  std::int64_t query_row, key_row;          // where it begins in what is held
  std::int64_t gradient_row = 0;            // likewise, of prepared gradients
  TensorForm query, key_value, gradient{};  // what is held
  std::optional<LibraryTile> library;

  // Whether the library needs a copy of the gradient, because it needs aligned addresses.
  bool copies_gradient() const;
};

AttendTile attend_tile(const Plan&, const Task&);

// The held part of an input; a task may read a part of it.
Region held(const Plan&, const Task&, std::size_t input);

}  // namespace ringsched::cuda
