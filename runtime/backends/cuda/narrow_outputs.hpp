// Which partial results and gradients keep the library's dtype.
#pragma once

#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched::cuda {

// Whether a result stays as the library made it, in 16 bits, because only merges or sums on the
// same worker read it. By task and output: [2 * task + output].
std::vector<bool> narrow_outputs(const Plan&, const std::vector<bool>& by_library);

}  // namespace ringsched::cuda
