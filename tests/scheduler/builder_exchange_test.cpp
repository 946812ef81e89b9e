// What the builder does for schedules with exchanges, and what it refuses.
#include <gtest/gtest.h>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using Author = void (*)(const Problem&, PlanBuilder&);

constexpr WorkerId kMember0{0}, kMember1{1}, kMember2{2};
constexpr Region kAllChunks{{0}, 3};

// Of three workers with one chunk each, 4 heads and 2 key/value heads.
std::string told_author(Author schedule, Pass pass = Pass::Forward) {
  try {
    build_plan(small_problem(3, 12, pass), {"test", "", "", contiguous, schedule});
  } catch (const Error& e) {
    return e.what();
  }
  return "built";
}

std::vector<Queries> all_queries(const PlanBuilder& p) {
  return {p.queries(kMember0), p.queries(kMember1), p.queries(kMember2)};
}
std::vector<Keys> all_keys(const PlanBuilder& p) {
  return {p.keys(kMember0), p.keys(kMember1), p.keys(kMember2)};
}
std::vector<Wanted> everything(ColumnRange heads) {
  return {
      {kMember0, kAllChunks, heads}, {kMember1, kAllChunks, heads}, {kMember2, kAllChunks, heads}};
}

TEST(BuilderExchange, RefusesWantsThatMakeNoSense) {
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) { p.exchange(all_queries(p), {}); }),
            "schedule test, step 0: an exchange has 3 given and 0 wanted; use one of each per "
            "member");
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              auto wanted = everything({0, 4});
              wanted[1].rows = {{1}, 3};
              p.exchange(all_queries(p), wanted);
            }),
            "schedule test, step 0: worker 1 wants chunks 1-3 of an exchange; there are 3");
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              auto wanted = everything({0, 2});
              wanted[2].heads = {1, 2};
              p.exchange(all_keys(p), wanted);
            }),
            "schedule test, step 0: worker 2 wants kv_heads 1-2 of an exchange; there are 2");
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              auto wanted = everything({0, 4});
              wanted[2].worker = kMember0;
              p.exchange(all_queries(p), wanted);
            }),
            "schedule test, step 0: worker 0 takes part in an exchange twice");
}

TEST(BuilderExchange, RefusesToTakeWhatIsNotThereToGive) {
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              auto given = all_queries(p);
              std::swap(given[0], given[1]);
              p.exchange(given, everything({0, 4}));
            }),
            "schedule test, step 0: worker 0 cannot give an exchange what worker 1 has");
  const char* const moved =
      "schedule test, step 0: an exchange takes the keys of worker 1 only whole and at home";
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              auto given = all_keys(p);
              given[0] = p.move(given[1], kMember0);
              p.exchange(given, everything({0, 2}));
            }),
            moved);
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              p.exchange(std::vector<Queries>(3), everything({0, 4}));
            }),
            "schedule test, step 0: no member of an exchange gives queries");
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              p.exchange(all_queries(p), everything({0, 4}), {Lane::Return});
            }),
            "schedule test, step 0: queries and keys cannot move on lane return; use fetch, or a "
            "lane that the schedule made with lane(name)");
}

TEST(BuilderExchange, RefusesResultsOfOthersEvenWhereNothingWouldMove) {
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              auto results = p.merged();
              for (Merged& r : results) r.view = kAllChunks;
              std::swap(results[0], results[2]);
              p.exchange(results, everything({0, 4}));
            }),
            "schedule test, step 0: worker 0 cannot give an exchange a result of worker 2");
}

TEST(BuilderExchange, RefusesHeadsThatDoNotGoTogether) {
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              p.attend(p.only(p.queries(kMember0), {0, 2}), p.keys(kMember0));
            }),
            "schedule test, step 0: worker 0 attends heads 0-1 of queries to kv_heads 0-1 of keys, "
            "but these queries read others");
  EXPECT_EQ(
      told_author([](const Problem&, PlanBuilder& p) {
        p.only(p.queries(kMember1), {3, 2});
      }),
      "schedule test, step 0: only() takes heads 3-4 of the queries of worker 1, which have heads "
      "0-3");
  EXPECT_EQ(
      told_author([](const Problem&, PlanBuilder& p) {
        p.only(p.move(p.queries(kMember1), kMember0), {0, 2});
      }),
      "schedule test, step 0: only() needs queries at home, but those of worker 1 have moved");
}

TEST(BuilderExchange, RefusesToMergeIntoAResultThatHasGone) {
  EXPECT_EQ(told_author([](const Problem&, PlanBuilder& p) {
              const Partial late = p.attend(p.queries(kMember0), p.keys(kMember0));
              p.exchange(p.merged(), everything({0, 4}));
              p.step(1);
              p.merge(late);
            }),
            "schedule test, step 1: a partial is merged on worker 0 into a result that an exchange "
            "has taken");
}

int exchanges_of(const Plan& plan, ValueId value) {
  int n = 0;
  for (const Exchange& e : plan.exchanges)
    n += plan.value(plan.tasks[e.first.value]) == value ? 1 : 0;
  return n;
}

// What came is kept for the backward pass, unless the schedule wants it to come again.
TEST(BuilderExchange, ComesAgainOnlyWhereTheScheduleSaysSo) {
  const auto plan = [](const char* schedule) {
    return build_plan(small_problem(4, 16, Pass::Both), find_schedule(schedule));
  };
  EXPECT_EQ(exchanges_of(plan("ulysses"), attention::kQuery), 1);
  EXPECT_EQ(exchanges_of(plan("ulysses"), attention::kKeyValue), 1);
  EXPECT_EQ(exchanges_of(plan("all-gather"), attention::kKeyValue), 2);
  EXPECT_EQ(exchanges_of(plan("all-gather:stride=1"), attention::kKeyValue), 4);
  EXPECT_THROW(plan("all-gather:stride=1000"), Error) << "more heads than there are";
}

// Gradients of the keys of one group of heads go home while the next group is attended.
TEST(BuilderExchange, GradientsGoHomeOnceAllThatAddsToThemIsDone) {
  const Plan plan =
      build_plan(small_problem(4, 16, Pass::Both), find_schedule("all-gather:stride=1"));
  std::vector<Step> sums, attends;
  for (const Exchange& e : plan.exchanges)
    if (const Task& t = plan.tasks[e.first.value]; plan.value(t) == attention::kKeyValueGradient)
      sums.push_back(t.step);
  for (const Task& t : plan.tasks)
    if (t.kind == TaskKind::AttendBackward && t.worker_index == 0) attends.push_back(t.step);
  ASSERT_EQ(sums.size(), 2u);
  ASSERT_EQ(attends.size(), 2u);
  EXPECT_EQ(sums[0], attends[1]);
  EXPECT_EQ(sums[1], attends[1] + 1);
}

}  // namespace
}  // namespace ringsched
