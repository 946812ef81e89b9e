// What verify found, in words.
#pragma once

#include <cstdint>
#include <string>

#include "ringsched/scheduler/verify.hpp"

namespace ringsched {

// `most`: how many violations were looked for.
std::string verification_text(const Plan&, const Verification&, std::int64_t most);

}  // namespace ringsched
