// What is typed after the name of a schedule.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

constexpr std::array kParameters = {Parameter{"hop", "how far keys go", 3, 1, 99},
                                    Parameter{"start", "where they begin", 0, 0, 7}};

std::string refusal(std::string_view text, std::span<const Parameter> of = kParameters) {
  try {
    Arguments::parse("mine", of, text);
  } catch (const Error& e) {
    return e.what();
  }
  return "read";
}

TEST(ScheduleArguments, AreReadInAnyOrderAndHaveDefaults) {
  const Arguments none(kParameters), one = Arguments::parse("mine", kParameters, "start=7"),
                                     both = Arguments::parse("mine", kParameters, "start=2:hop=99");
  EXPECT_EQ(none["hop"], 3u);
  EXPECT_EQ(none["start"], 0u);
  EXPECT_EQ(one["hop"], 3u);
  EXPECT_EQ(one["start"], 7u);
  EXPECT_EQ(both["hop"], 99u);
  EXPECT_EQ(both["start"], 2u);
}

TEST(ScheduleArguments, ThatAreWrongAreRefusedWithWhatIsAllowed) {
  EXPECT_EQ(refusal("hop"), "mine: parameter hop needs a value, e.g. mine:hop=3");
  for (const char* text : {"0", "100", "-1", "1.5", "4k", "", " 1", "99999999999999999999"})
    EXPECT_EQ(refusal(std::string("hop=") + text),
              std::string("mine: parameter 'hop' cannot be '") + text +
                  "'; use a whole number from 1 to 99");
  EXPECT_EQ(refusal("hop=1:hop=2"), "mine: parameter hop is given twice");
  EXPECT_EQ(refusal("hops=1"),
            "schedule mine has no parameter 'hops'; did you mean hop? (known: hop, start)");
  EXPECT_EQ(
      refusal("hop=1:"),
      "--schedule mine: a parameter is missing before or after ':'; write NAME:PARAMETER=VALUE");
  EXPECT_EQ(refusal("x=1", {}), "schedule mine has no parameters, but was given \"x\"");
}

TEST(ScheduleArguments, AreFoundBehindTheName) {
  const Schedule found = find_schedule("double-ring:node=3");
  EXPECT_EQ(found.name, "double-ring:node=3");
  EXPECT_EQ(found.arguments["node"], 3u);
  EXPECT_EQ(find_schedule("double-ring").arguments["node"], 0u);
  EXPECT_EQ(build_plan(small_problem(6, 48), found).schedule, "double-ring:node=3");
  for (const char* same : {"double-ring:node=03", "double-ring:node=3"})
    EXPECT_EQ(find_schedule(same).name, "double-ring:node=3");
  EXPECT_EQ(find_schedule("double-ring:node=0").name, "double-ring");
  EXPECT_THROW(find_schedule("ring:node=3"), Error);
  EXPECT_THROW(find_schedule("double-ring:"), Error);
  EXPECT_THROW(find_schedule(":node=3"), Error);
}

TEST(ScheduleArguments, HaveNamesAndRangesThatMakeSense) {
  for (const Schedule& s : schedules()) {
    std::set<std::string_view> names;
    for (const Parameter& p : s.parameters) {
      EXPECT_TRUE(names.insert(p.name).second) << s.name << " has two parameters " << p.name;
      EXPECT_EQ(p.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), p.name.npos) << p.name;
      EXPECT_LE(p.least, p.initial) << s.name << ":" << p.name;
      EXPECT_LE(p.initial, p.most) << s.name << ":" << p.name;
      EXPECT_FALSE(p.words.empty());
    }
  }
}

TEST(ScheduleArguments, AreGivenToAScheduleThatTakesThem) {
  std::uint32_t seen = 0;
  Schedule schedule = {"test",
                       "",
                       "",
                       contiguous,
                       [&](const Problem& problem, PlanBuilder& plan, const Arguments& given) {
                         seen = given["hop"];
                         for (std::uint32_t w = 0; w < problem.workers; ++w)
                           plan.merge(plan.attend(plan.queries({w}), plan.keys({w})));
                       },
                       {kParameters.begin(), kParameters.end()}};
  build_plan(small_problem(2, 8), schedule);
  EXPECT_EQ(seen, 3u);
  schedule.arguments = Arguments::parse("test", schedule.parameters, "hop=5");
  build_plan(small_problem(2, 8), schedule);
  EXPECT_EQ(seen, 5u);
  EXPECT_THROW(schedule.arguments["start point"], Error);
}

}  // namespace
}  // namespace ringsched
