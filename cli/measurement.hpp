// A measured run as text and JSON, beside its prediction if there is one.
#pragma once

#include <string>

#include "prediction.hpp"
#include "ringsched/runtime/session.hpp"

namespace ringsched {

struct Measurement {
  const ProvedPlan& proved;
  Measured run;
  const Prediction* prediction = nullptr;
};

std::string measurement_text(const Measurement&);
std::string measurement_json(const Measurement&);

}  // namespace ringsched
