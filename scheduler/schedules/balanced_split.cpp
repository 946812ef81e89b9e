// Our own: balanced, with the one idle slot of an even number of workers filled. The last blocks,
// at distance W/2, are cut across the queries. Their owner takes the front half and receives the
// keys; the owner of the keys takes the back half and returns half a partial. (Cutting across the
// keys would move half the keys, but all the queries and a whole partial: more bytes under any head
// ratio.) For an odd number of workers it equals `balanced`.
#include "helpers.hpp"

namespace ringsched {

void balanced_split(const Problem& problem, PlanBuilder& plan) {
  balance_with_helpers(problem, plan, LastHelp::Split);
}

}  // namespace ringsched
