// What `balanced` and `balanced-split` share: idle workers help busy ones.
#pragma once

#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

enum class LastHelp : bool { Rest, Split };
void balance_with_helpers(const Problem&, PlanBuilder&, LastHelp);

}  // namespace ringsched
