// What `ringsched validate` prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ringsched/simulator/validation.hpp"

namespace ringsched {

// "1,508 results: median error 9.1%, ...", then the worst one, how many are too fast, and the
// intervals.
std::vector<std::string> summary_lines(const Errors&);

// Summaries are as wide as the page at most.
enum class ValidationDetail : std::uint8_t { Summary, Groups, Rows };
std::string text_of(const Validation&, ValidationDetail);
// A page: docs/validation-published.md, or of a user's file.
std::string markdown_of(const Validation&, std::string_view file);
std::string json_of(const Validation&);
std::string csv_of(const Validation&);  // a line for each result

}  // namespace ringsched
