// The data that Python's objects hold. Arrays, runs and pictures share it, so nothing is copied and
// nothing is freed too early.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/simulator/study.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched::python {

class HeldPlan {
 public:
  // `lowered`: if its exchanges became messages: which, and how.
  explicit HeldPlan(Plan plan, std::string file = "", std::vector<LoweredForm> lowered = {},
                    Lowering exchanges = Lowering::Native)
      : proved_{std::move(plan), {}, std::move(lowered), exchanges}, file_(std::move(file)) {}
  const Plan& plan() const { return proved_.plan; }
  const std::string& file() const { return file_; }
  // Verifies the plan the first time. Throws Error if it does not hold.
  const ProvedPlan& proved() const;

 private:
  mutable std::mutex guard_;
  mutable bool is_proved_ = false;
  mutable ProvedPlan proved_;
  std::string file_;
};
using PlanPointer = std::shared_ptr<const HeldPlan>;

struct Communication {
  Lowering exchanges = Lowering::Native;
  CommunicationLimits limits;
};
// As the builder made it, with communication limited as requested. Lowering exchanges needs a plan
// that verifies, so a user's own schedule is proved first.
PlanPointer with_communication(Plan, const Communication&, bool own_schedule);

using TimelinePointer = std::shared_ptr<const Timeline>;

}  // namespace ringsched::python
