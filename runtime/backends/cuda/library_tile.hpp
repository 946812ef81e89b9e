// What the library may be asked for: tiles in its own terms, and problems that it takes at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device_calls.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched::cuda {

// A tile as the library is given it: without the first rows, which see nothing, and without the
// last keys, which nobody sees.
struct LibraryTile {
  Shape shape;
  std::int64_t dropped_rows = 0;
};

// None: the library has no mask for that.
std::optional<LibraryTile> library_tile(const Problem&, TileForm, std::int64_t rows,
                                        std::int64_t keys, bool backward);

// What cuDNN says of shapes, one refusal for each (empty: it takes it), and the workspace that the
// largest needs.
struct LibraryAnswers {
  std::vector<std::string> refusals;
  std::int64_t workspace_bytes = 0;
};

// Why the library does not take what all of this plan's attends have in common; empty: it may.
std::string refusal(const Problem&);

// Throws Error where no kernel takes the problem at all.
void check_for_gpu(const Problem&);

}  // namespace ringsched::cuda
