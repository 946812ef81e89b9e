// Changes to the sums of finished plans that leave nothing dangling: a term less or more, and
// complete copies of what is already there.
#pragma once

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Takes an attend out of the sums it adds to. False, and the plan as it was, if it is all of one.
bool leave_out_terms(Plan&, TaskId attend);
// Computes an attend again and adds that, too, to each of the sums.
void double_terms(Plan&, TaskId attend);

// Computes a complete sum of one worker again, from its attends on, for all that prepares read of
// it. False, and the plan as it was, if messages or second outputs go into it.
bool compute_again(Plan&, TensorId sum);
// In place of a prepared gradient, the message of this task carries the result and its gradient,
// and its receiver prepares.
void prepare_at_receiver(Plan&, TaskId send);

}  // namespace ringsched
