#include "held.hpp"

namespace ringsched::python {

const ProvedPlan& HeldPlan::proved() const {
  const std::lock_guard lock(guard_);
  if (!is_proved_) proved_.peak = require_proved(proved_.plan, file_);
  is_proved_ = true;
  return proved_;
}

PlanPointer with_communication(Plan plan, const Communication& how, bool own_schedule) {
  std::vector<LoweredForm> forms;
  if (how.exchanges != Lowering::Native) {
    if (own_schedule) require_proved(plan);
    Lowered lowered = lower_exchanges(plan, how.exchanges);
    plan = std::move(lowered.plan);
    forms = std::move(lowered.forms);
  }
  return std::make_shared<const HeldPlan>(limit_communication(std::move(plan), how.limits), "",
                                          std::move(forms), how.exchanges);
}

}  // namespace ringsched::python
