// A plan's table of lanes: what verify makes of plans with up to eight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"
#include "support/more_lanes.hpp"
#include "support/peak_oracle.hpp"

namespace ringsched {
namespace {

using testing::HasSubstr;

Plan plan_on_more_lanes(const Schedule& s, std::uint32_t workers, CommunicationLimits limits = {},
                        Pass pass = Pass::Both) {
  return on_more_lanes(
      limit_communication(build_plan(small_problem(workers, 3 * workers + 1, pass), s), limits));
}

class SmallScheduleOnMoreLanes : public testing::TestWithParam<Case> {};

TEST_P(SmallScheduleOnMoreLanes, HoldsAndIsRight) {
  const auto [schedule, workers] = GetParam();
  for (const CommunicationLimits limits :
       {CommunicationLimits{}, {Overlap::Unbounded, 0}, {Overlap::Prefetch, 2}}) {
    const Plan plan = plan_on_more_lanes(*schedule, workers, limits);
    const Verification v = verify(plan);
    ASSERT_TRUE(v.holds()) << v.violations[0].text;
    EXPECT_EQ(interpret(plan, 5), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Lanes, SmallScheduleOnMoreLanes, testing::ValuesIn(all_schedules(8)),
                         [](const auto& i) { return i.param.name(); });

TEST(Lanes, OfStepsApartAreUsed) {
  const Plan plan = plan_on_more_lanes(find_schedule("ring"), 4);
  for (const std::uint32_t lane : {0u, 1u, 2u, 3u, 7u})
    EXPECT_TRUE(std::any_of(plan.tasks.begin(), plan.tasks.end(), [&](const Task& t) {
      return t.lane == static_cast<Lane>(lane);
    })) << lane;
}

TEST(Lanes, BoundThePeakAsTheOrderInThemDoes) {
  for (const Schedule& s : schedules()) {
    const Plan plan = plan_on_more_lanes(s, 3, {}, Pass::Forward);
    const Verification v = verify(plan);
    const std::vector<std::int64_t> needed = most_memory(plan);
    for (std::size_t w = 0; w < needed.size(); ++w) EXPECT_GE(v.peak[w].value, needed[w]) << s.name;
  }
}

std::string refusal(const std::function<void(Plan&)>& change) {
  Plan plan = plan_on_more_lanes(find_schedule("ring"), 3);
  change(plan);
  const Verification v = verify(plan);
  return v.holds() ? "" : v.violations[0].text;
}

TEST(Lanes, ThatNoPlanMayHaveAreRefused) {
  EXPECT_EQ(refusal([](Plan& p) { p.lanes.push_back("ninth"); }),
            "there are 9 lanes; 3 to 8 are allowed");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes.clear(); }), "there are 0 lanes; 3 to 8 are allowed");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[2] = "back"; }), "lane 2 is 'back'; it must be 'return'");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[4] = ""; }),
            "the name of lane 4 has 0 bytes; 1 to 40 are allowed");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[4] = std::string(41, 'x'); }),
            "the name of lane 4 has 41 bytes; 1 to 40 are allowed");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[5] = "a\nb"; }),
            "the name of lane 5, 'a?b', has a control character");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[6] = "outer"; }), "two lanes are called 'outer'");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[6] = "fetch"; }), "two lanes are called 'fetch'");
  EXPECT_EQ(refusal([](Plan& p) { p.lanes[3] = std::string(40, 'x'); }), "");
}

TEST(Lanes, ThatTheTableLacksAreRefused) {
  EXPECT_THAT(refusal([](Plan& p) { p.lanes.pop_back(); }),
              HasSubstr("names a worker, lane, piece or work that the plan does not have"));
}

TEST(Lanes, AreForTransfers) {
  EXPECT_THAT(refusal([](Plan& p) {
                const auto attend = std::find_if(p.tasks.begin(), p.tasks.end(), [](const Task& t) {
                  return t.kind == TaskKind::Attend;
                });
                attend->lane = static_cast<Lane>(3);
              }),
              HasSubstr("it computes, but not on the compute lane"));
}

}  // namespace
}  // namespace ringsched
