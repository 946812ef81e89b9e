// What `ringsched validate` prints.
#pragma once

#include <string>
#include <vector>

#include "ringsched/simulator/validation.hpp"

namespace ringsched {

// "1 508 results: median error 9.1 %, ...", then the worst one, how many are too fast, and the
// intervals.
std::vector<std::string> summary_lines(const Errors&);

std::string text_of(const Validation&, bool rows);
std::string markdown_of(const Validation&);  // a page: docs/validation-published.md
std::string json_of(const Validation&);
std::string csv_of(const Validation&);  // a line for each result

}  // namespace ringsched
