// What the library may be asked for: tiles in its own terms, and the problems that it accepts at
// all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device_calls.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched::cuda {

// A tile as the library gets it: without the first rows, which see nothing, and without the last
// keys, which no row sees.
struct LibraryTile {
  Shape shape;
  std::int64_t dropped_rows = 0;
};

// Empty: the library has no mask for that.
std::optional<LibraryTile> library_tile(const Problem&, TileForm, std::int64_t rows,
                                        std::int64_t keys, bool backward);

// cuDNN's answers about shapes, one refusal for each (empty: accepted), and the largest workspace
// they need.
struct LibraryAnswers {
  std::vector<std::string> refusals;
  std::int64_t workspace_bytes = 0;
};

// Why the library refuses what all of this plan's attends have in common; empty: it may accept
// them.
std::string refusal(const Problem&);

// Throws Error if no kernel takes the problem at all.
void check_for_gpu(const Problem&);

}  // namespace ringsched::cuda
