// Takes valid plans and damages each in one random way, thousands of times. The interpreter, not
// verify(), decides whether the meaning changed: it runs the damaged plan on real sets of pairs, in
// several random orders. If any order gets stuck, reads what is not there, or outputs anything but
// each visible pair once, verify() must have refused the plan. Both are counted.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_surgery.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"
#include "support/term_surgery.hpp"

namespace ringsched {
namespace {

class Mutation : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Mutation, testing::ValuesIn(all_schedules(5)),
                         [](const auto& c) { return c.param.name(); });

// Complete copies: results that workers compute again for their gradients, and the first of those
// that is prepared where it is used.
void make_copies(Plan& plan) {
  for (std::uint32_t w = 0; w < plan.problem.workers; ++w)
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
      if (const Task& t = plan.tasks[id];
          t.kind == TaskKind::Prepare && t.worker_index == w && compute_again(plan, t.inputs[0]))
        break;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (const Task& t = plan.tasks[id];
        t.kind == TaskKind::Send && plan.value(t) == attention::kPreparedGradient)
      return prepare_at_receiver(plan, {id});
}

// The plans to be spoilt; fewer where two buffers are too few for the schedule.
std::vector<Plan> valid_plans(const Case& c) {
  std::vector<Plan> plans;
  for (const Pass pass : {Pass::Forward, Pass::Both})
    for (const CommunicationLimits limits :
         {CommunicationLimits{Overlap::Prefetch, 0}, CommunicationLimits{Overlap::Unbounded, 2},
          CommunicationLimits{Overlap::None, 0}})
      try {
        const Problem p = small_problem(c.workers, 2 * std::int64_t{c.workers}, pass);
        plans.push_back(limit_communication(build_plan(p, *c.schedule), limits));
        if (limits.overlap == Overlap::Unbounded) plans.back() = by_half_the_heads(plans.back());
        if (pass == Pass::Both && limits.overlap == Overlap::Prefetch) {
          plans.push_back(plans.back());
          make_copies(plans.back());
        }
      } catch (const std::runtime_error&) {
      }
  return plans;
}

TEST_P(Mutation, IsRefusedWheneverItChangesTheMeaning) {
  const int times = kSanitized ? 15 : cases_to_run(250, 70);
  std::mt19937_64 random(GetParam().workers);
  int changed = 0, changed_and_refused = 0, harmless = 0, harmless_and_accepted = 0;
  std::string first_escape;
  for (const Plan& valid : valid_plans(GetParam())) {
    const Verification proof = verify(valid);
    ASSERT_TRUE(proof.holds()) << proof.violations[0].text;
    ASSERT_EQ(any_wrong_run(valid, 6), "");
    for (int i = 0; i < times; ++i) {
      Plan spoilt = valid;
      const std::string what = spoilt.exchanges.empty() || random() % 2 == 0
                                   ? mutate(spoilt, random)
                                   : mutate_exchange(spoilt, random);
      const bool holds = verify(spoilt).holds();
      // A plan that is refused needs only one look, to know how often that was for cause.
      const std::string wrong = any_wrong_run(spoilt, holds ? 6 : 1);
      ++(wrong.empty() ? harmless : changed);
      if (wrong.empty() && holds) ++harmless_and_accepted;
      if (!wrong.empty() && !holds) ++changed_and_refused;
      if (!wrong.empty() && holds && first_escape.empty()) first_escape = what + ": " + wrong;
    }
  }
  EXPECT_EQ(changed_and_refused, changed) << "verify accepts this: " << first_escape;
  // Both kinds occur, so neither answer alone would do.
  EXPECT_GT(4 * changed, GetParam().workers > 1 ? changed + harmless : 0);
  EXPECT_GT(harmless_and_accepted, 0);
  RecordProperty("changed", changed);
  RecordProperty("harmless", harmless);
  RecordProperty("harmless_and_accepted", harmless_and_accepted);
}

}  // namespace
}  // namespace ringsched
