// The attention matrix step by step: the figure that papers draw to explain a schedule.
#pragma once

#include "ringsched/scheduler/plan.hpp"
#include "ringsched/viz/page.hpp"

namespace ringsched {

// One small matrix for each step. Blocks of this step have the colour of the worker that computes
// them; blocks of earlier steps are pale. Below, for each worker, is how much it computes, with
// which queries and keys, and what it receives for the step. Throws Error if the plan decodes or is
// too large to read.
Picture step_map(const Plan&, const Page& = {});

}  // namespace ringsched
