// Exchanges in plans: what verify() accepts, and what it says of those that cannot be.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"

namespace ringsched {
namespace {

std::string first_fault(const Plan& plan) {
  const Verification v = verify(plan);
  return v.holds() ? "" : v.violations[0].text;
}

struct Heads {
  std::uint32_t query, key_value;
};
constexpr Heads kHeads[] = {{4, 4}, {8, 2}, {33, 33}, {5, 1}, {32, 4}, {1, 1}};

TEST(Exchanges, PlansByHandHold) {
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
    for (const Heads heads : kHeads)
      for (std::uint32_t workers = 1; workers <= 17; ++workers) {
        Problem p = small_problem(workers, 3 * std::int64_t{workers} - 1, pass);
        p.heads = heads.query;
        p.kv_heads = heads.key_value;
        SCOPED_TRACE(testing::Message() << to_text(pass) << ", " << workers << " workers, "
                                        << heads.query << ":" << heads.key_value << " heads");
        ASSERT_EQ(first_fault(ulysses_by_hand(p)), "");
        ASSERT_EQ(first_fault(gather_queries_by_hand(p)), "");
        for (const std::uint32_t stride : {0u, 1u, 3u})
          ASSERT_EQ(first_fault(all_gather_by_hand(p, stride)), "");
      }
}

}  // namespace
}  // namespace ringsched
