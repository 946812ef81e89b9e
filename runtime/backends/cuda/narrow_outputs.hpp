// Which partial results and gradients stay as the library has made them.
#pragma once

#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched::cuda {

// Whether something is kept as the library has made it, in 16 bits, because all that reads it is a
// merge or sum on the same worker. By task and output: [2 * task + output].
std::vector<bool> narrow_outputs(const Plan&, const std::vector<bool>& by_library);

}  // namespace ringsched::cuda
