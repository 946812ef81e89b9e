// Timelines of plans with exchanges: which workers take part, what tasks work on, and when things
// move.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "ringsched/timeline/compare.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Task i starts at 10 i and takes 1000.
Timeline with_times(const Plan& plan) {
  Timeline t = timeline_of(plan, TimelineSource::Predicted, "m");
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    t.tasks[i].start_ps = static_cast<std::int64_t>(10 * i);
    t.tasks[i].end_ps = t.tasks[i].start_ps + 1000;
  }
  return t;
}

TEST(ExchangeTimeline, ReadsAsItWasWritten) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 5u})
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
      const Problem p = small_problem(workers, 4 * workers, pass);
      for (const Plan& plan : {ulysses_by_hand(p), all_gather_by_hand(p, 1)}) {
        const Timeline t = with_times(plan);
        const std::string text = write_timeline(t);
        EXPECT_EQ(read_timeline(text, "text"), t);
        EXPECT_EQ(write_timeline(read_timeline(text, "text")), text);
      }
    }
}

TEST(ExchangeTimeline, HasTheExchangesOfThePlan) {
  const Plan plan = ulysses_by_hand(small_problem(3, 12));
  const Timeline t = timeline_of(plan, TimelineSource::Predicted, "m");
  ASSERT_EQ(t.exchanges.size(), plan.exchanges.size());
  for (std::size_t i = 0; i < t.exchanges.size(); ++i) {
    EXPECT_EQ(t.exchanges[i].first, plan.exchanges[i].first);
    EXPECT_EQ(t.exchanges[i].members, plan.exchanges[i].members);
    EXPECT_EQ(t.exchanges[i].form, form_of(plan, plan.exchanges[i]));
  }
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const TimelineExchange* const e = t.exchange(id);
    EXPECT_EQ(e != nullptr, plan.tasks[id].kind == TaskKind::Exchange) << id;
    if (e) {
      EXPECT_EQ(e->first, plan.exchange(plan.tasks[id]).first) << id;
    }
  }
}

TEST(ExchangeTimeline, SaysWhatTasksWorkOnThatAreOfSeveralWorkersOrOfSomeHeads) {
  const Plan plan = ulysses_by_hand(small_problem(3, 12));
  const Timeline t = timeline_of(plan, TimelineSource::Predicted, "m");
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (!is_attend(task.kind)) continue;
    EXPECT_EQ(t.tasks[id].queries, task.worker_index) << "it is among those that have them";
    EXPECT_EQ(t.tasks[id].other, task.worker_index);
    const TaskSpan* const span = t.span(id);
    ASSERT_TRUE(span);
    EXPECT_EQ(*span, (TaskSpan{{id}, {0, 2}, {0, 2}, plan.piece(task).columns}));
  }
  // Nothing more than before of a plan in which each task is of one worker and of all heads.
  const Plan ring = build_plan(small_problem(3, 12), find_schedule("ring"));
  const Timeline without = timeline_of(ring, TimelineSource::Predicted, "m");
  EXPECT_TRUE(without.spans.empty());
  EXPECT_THAT(write_timeline(without), Not(HasSubstr("\"spans\"")));
  EXPECT_THAT(write_timeline(without), Not(HasSubstr("\"exchanges\"")));
}

// A part of what an exchange brought may be at home elsewhere altogether.
TEST(ExchangeTimeline, QueriesThatAnExchangeBroughtAreTheirWorkersOwn) {
  const auto helps = [](const char* schedule) {
    const Plan plan = build_plan(small_problem(8, 64), find_schedule(schedule));
    int n = 0;
    for (const TimelineTask& t : timeline_of(plan, TimelineSource::Predicted, "m").tasks)
      n += is_attend(t.kind) && t.queries != t.worker ? 1 : 0;
    return n;
  };
  EXPECT_EQ(helps("usp:ulysses=4:ring=zigzag"), 0);
  EXPECT_GT(helps("usp:ulysses=2:ring=balanced"), 0) << "these came by a message";
}

TEST(ExchangeTimeline, RowsOfWorkersThatAreNoNeighboursAreNotThoseOfTheWorkersBetween) {
  const Plan plan =
      build_plan(small_problem(6, 12), find_schedule("usp:ulysses=2:consecutive=ring"));
  const Timeline t = timeline_of(plan, TimelineSource::Predicted, "m");
  bool met_others = false;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    if (!is_attend(plan.tasks[id].kind)) continue;
    const std::uint32_t worker = plan.tasks[id].worker_index, step = plan.tasks[id].step;
    const auto owner = static_cast<std::uint16_t>(worker % 3 - step);  // in the first group
    const TaskSpan* const span = t.span(id);
    ASSERT_TRUE(span);
    EXPECT_EQ(*span, (TaskSpan{{id},
                               {static_cast<std::uint16_t>(worker % 3),
                                static_cast<std::uint16_t>(worker % 3 + 3)},
                               {owner, static_cast<std::uint16_t>(owner + 3)},
                               plan.piece(plan.tasks[id]).columns,
                               {3, 3}}));
    EXPECT_EQ(homes_text(span->other, span->every[1]), fmt::format("{}+{}", owner, owner + 3));
    EXPECT_EQ(t.tasks[id].other, step == 0 ? worker : owner) << id;
    met_others = met_others || step > 0;
  }
  EXPECT_TRUE(met_others);
}

TEST(ExchangeTimeline, NothingMovesBeforeAllMembersArePosted) {
  const Plan plan = ulysses_by_hand(small_problem(3, 12));
  const Timeline t = with_times(plan);
  const std::vector<std::int64_t> from = moving_from(t);
  for (const Exchange& e : plan.exchanges)
    for (std::uint32_t id = e.first.value; id < e.end(); ++id)
      EXPECT_EQ(from[id], 10 * (e.end() - 1)) << id;
}

TEST(ExchangeTimeline, ExchangesCompareByWhatTheyCarry) {
  const Timeline t = with_times(ulysses_by_hand(small_problem(3, 12)));
  Timeline slower = t;
  const std::uint32_t last = t.exchanges.back().first.value;
  slower.tasks[last].end_ps += 500;
  const Comparison c = compare(t, slower);
  EXPECT_TRUE(c.same_plan);
  std::string names;
  for (const ComparedPart& p : c.classes) names += p.name + ",";
  EXPECT_THAT(names, HasSubstr("exchange key_value,exchange query,exchange rounded_partial,"));
  ASSERT_EQ(c.worst.size(), 1u);
  EXPECT_EQ(c.worst[0].task, last);
  for (const ComparedPart& w : c.workers) EXPECT_EQ(w.tasks[0], 3) << "attend, round and output";
}

TEST(ExchangeTimeline, HasAnotherHashIfMembersAreGroupedOtherwise) {
  Plan plan = ulysses_by_hand(small_problem(2, 8));
  const std::string before = plan_hash(plan);
  // Two exchanges of one member each, in place of one of two.
  plan.exchanges.insert(plan.exchanges.begin() + 1, {{1}, 1});
  plan.exchanges[0].members = 1;
  for (std::uint32_t e = 1; e < plan.exchanges.size(); ++e)
    for (std::uint32_t id = plan.exchanges[e].first.value; id < plan.exchanges[e].end(); ++id)
      plan.tasks[id].exchange = {e};
  EXPECT_NE(plan_hash(plan), before);
}

std::string refusal_with(const std::string& from, const std::string& to) {
  std::string text = write_timeline(with_times(ulysses_by_hand(small_problem(2, 8))));
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "not in the timeline: " + from;
  try {
    read_timeline(text.replace(at, from.size(), to), "t.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "it was read";
}

TEST(ExchangeTimeline, ExchangesThatAreNotThoseOfTheTasksAreRefused) {
  const std::string first = "[0,2,\"all-to-all\"], [2,2,\"all-to-all\"]";
  EXPECT_EQ(refusal_with(first, first), "it was read");
  EXPECT_EQ(refusal_with(first, "[2,2,\"all-to-all\"]"),
            "t.json: task 0 is an exchange that \"exchanges\" does not list");
  EXPECT_EQ(refusal_with("\"exchanges\"", "\"more\""),
            "t.json: task 0 is an exchange that \"exchanges\" does not list");
  EXPECT_EQ(refusal_with(first, "[0,5,\"all-to-all\"]"),
            "t.json: exchange 0: task 4 is attend, not exchange");
  EXPECT_EQ(refusal_with("[0,2,\"all-to-all\"]", "[0,2,\"all\"]"),
            "t.json: exchange 0: unknown form 'all'; did you mean all-gather? (known: all-gather, "
            "all-to-all, "
            "reduce-scatter, all-reduce, broadcast, scatter, gather, reduce, exchange)");
  EXPECT_THAT(refusal_with("[0,2,\"all-to-all\"]", "[0,0,\"all-to-all\"]"),
              HasSubstr("\"members\" must be a whole number from 1 to"));
  EXPECT_THAT(refusal_with("[0,2,\"all-to-all\"]", "[0,2]"),
              HasSubstr("exchange 0: must be a list of its first task"));
  EXPECT_THAT(refusal_with(first, "[0,2,\"all-to-all\"], [1,2,\"all-to-all\"]"),
              HasSubstr("exchange 1: \"first task\" must be a whole number from 2 to"));
}

TEST(ExchangeTimeline, SpansThatNoTaskHasAreRefused) {
  const std::string first = "\"spans\": [[0,0,1,0,1,0,2]";
  EXPECT_EQ(refusal_with(first, first), "it was read");
  for (const char* wrong : {"[99,0,1,0,1,0,2]", "[0,0,2,0,1,0,2]", "[0,1,0,0,1,0,2]",
                            "[0,0,1,0,1,4,1]", "[0,0,1,0,1,3,2]", "[0,0,1,0,1,0,0]", "[0,0,1]", "7",
                            "[0,0,1,0,1,0,2,1]", "[0,0,1,0,1,0,2,2,1]", "[0,0,1,0,1,0,2,1,2]"})
    EXPECT_THAT(refusal_with(first, std::string("\"spans\": [") + wrong),
                HasSubstr("t.json: span 0: "))
        << wrong;
}

TEST(ExchangeTimeline, HomesThatAreNoNeighboursAreWrittenAndReadAndNamed) {
  Timeline t = with_times(ulysses_by_hand(small_problem(7, 28)));
  EXPECT_THAT(write_timeline(t), HasSubstr("\"spans\": [[1,0,6,0,6,0,1]"));
  t.spans[0].every = {3, 2};
  t.spans[1].every = {6, 0};
  const Timeline back = read_timeline(write_timeline(t), "t.json");
  EXPECT_EQ(back.spans, t.spans);
  EXPECT_EQ(homes_text({0, 6}, 1), "0-6");
  EXPECT_EQ(homes_text({0, 6}, 2), "0-6/2");
  EXPECT_EQ(homes_text({0, 6}, 6), "0+6");
  EXPECT_EQ(homes_text({0, 6}, 0), "0..6");
  EXPECT_EQ(homes_text({4, 4}, 1), "4");
}

}  // namespace
}  // namespace ringsched
