// Timelines as one self-contained page: no network, no framework, nothing to install.
#pragma once

#include <span>
#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// Zooms and pans, says what each task is and why it waited, shows its dependencies, and switches
// between the given timelines. Throws Error for a timeline without tasks.
std::string html_page(std::span<const Timeline>);

}  // namespace ringsched
