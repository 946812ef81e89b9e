// Takes valid plans and spoils each in one random way, thousands of times. Whether the meaning
// changed is decided without verify(): the interpreter runs the spoilt plan on real sets of pairs,
// in several random orders. If any order gets stuck, reads what is not there, or puts out anything
// but each visible pair once, verify() must have refused the plan.
#include <gtest/gtest.h>

#include <random>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

class Mutation : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Mutation, testing::ValuesIn(all_schedules(5)),
                         [](const auto& c) { return c.param.name(); });

std::string any_wrong_run(const Plan& plan, int runs) {
  for (int seed = 0; seed < runs; ++seed)
    if (std::string wrong = interpret(plan, static_cast<std::uint64_t>(seed)); !wrong.empty())
      return wrong;
  return "";
}

TEST_P(Mutation, IsRefusedWheneverItChangesTheMeaning) {
  const auto [schedule, w] = GetParam();
  std::mt19937_64 random(w);
  int changed = 0, refused = 0, harmless = 0;
  for (const Pass pass : {Pass::Forward, Pass::Both})
    for (const CommunicationLimits limits :
         {CommunicationLimits{Overlap::Prefetch, 0}, CommunicationLimits{Overlap::Unbounded, 2},
          CommunicationLimits{Overlap::None, 0}}) {
      Plan valid;
      try {
        valid = limit_communication(
            build_plan(small_problem(w, 2 * std::int64_t{w}, pass), *schedule), limits);
      } catch (const std::runtime_error&) {
        continue;  // two buffers are too few for it
      }
      for (int i = 0; i < (kSanitized ? 50 : 250); ++i) {
        Plan spoilt = valid;
        const std::string what = mutate(spoilt, random);
        const bool holds = verify(spoilt).holds();
        // A plan that is refused needs only one look, to know how often that was for cause.
        const std::string wrong = holds ? any_wrong_run(spoilt, 6) : any_wrong_run(spoilt, 1);
        ASSERT_TRUE(!holds || wrong.empty()) << what << ": " << wrong << ", and verify accepts it";
        ++(wrong.empty() ? harmless : changed);
        if (!holds) ++refused;
      }
    }
  RecordProperty("changed", changed);
  RecordProperty("refused", refused);
  RecordProperty("harmless", harmless);
  EXPECT_GT(changed, 0);
  EXPECT_GE(refused, changed);
}

}  // namespace
}  // namespace ringsched
