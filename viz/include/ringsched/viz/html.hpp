// Timelines as one self-contained page: no network, no framework, nothing to install.
#pragma once

#include <span>
#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// Zooms and pans, tells what each task is and why it waited, shows what it depends on, and switches
// between the timelines given. Throws Error for a timeline without tasks.
std::string html_page(std::span<const Timeline>);

}  // namespace ringsched
