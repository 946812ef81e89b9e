// Two timelines side by side, in words and as JSON.
#pragma once

#include <string>

#include "ringsched/timeline/compare.hpp"

namespace ringsched {

std::string comparison_text(const Timeline& first, const Timeline& second, const Comparison&);
std::string comparison_json(const Comparison&, TimeUnit);
// Throws Error if the timeline is of a run that did not finish.
void require_complete(const Timeline&, std::string_view name);

}  // namespace ringsched
