// What exchanges are called, by who gives and who gets what.
#include <gtest/gtest.h>

#include <functional>

#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/plan_tables.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

// What member m of 4 gets: so many chunks of 4, from one on. What it gives stays as it is.
using Wanted = std::function<Region(std::uint32_t)>;

ExchangeForm form_with(Plan plan, std::uint32_t exchange, const Wanted& wanted,
                       std::uint32_t givers = 4) {
  PlanTables tables(plan);
  const Exchange& e = plan.exchanges[exchange];
  for (std::uint32_t m = 0; m < e.members; ++m) {
    Task& t = plan.tasks[e.first.value + m];
    set_rows(plan, t, tables.id(wanted(m)));
    if (m >= givers) t.inputs[0] = {};
  }
  return form_of(plan, e);
}

Region own(std::uint32_t m) { return {{m}, 1}; }
Region all(std::uint32_t) { return {{0}, 4}; }
Region all_to_one(std::uint32_t m) { return {{0}, m == 2 ? 4u : 0u}; }

TEST(ExchangeForm, OfCopiesGoesByWhoHasWhatAndWhoWantsIt) {
  const Plan plan = all_gather_by_hand(small_problem(4, 32, Pass::Both));
  const auto form = [&](const Wanted& wanted, std::uint32_t givers = 4) {
    return form_with(plan, 0, wanted, givers);
  };
  EXPECT_EQ(form_of(plan, plan.exchanges[0]), ExchangeForm::AllGather);
  EXPECT_EQ(form(all), ExchangeForm::AllGather);
  EXPECT_EQ(form(all, 1), ExchangeForm::Broadcast);
  EXPECT_EQ(form(all_to_one), ExchangeForm::Gather);
  EXPECT_EQ(form([](std::uint32_t) { return Region{{0}, 1}; }, 1), ExchangeForm::Broadcast);
  EXPECT_EQ(form([](std::uint32_t m) { return Region{{(m + 1) % 4}, 1}; }), ExchangeForm::AllToAll);
  // Two get the same, two get nothing.
  EXPECT_EQ(form([](std::uint32_t m) {
              return Region{{0}, m < 2 ? 4u : 0u};
            }),
            ExchangeForm::AllToAll);
  EXPECT_EQ(form([](std::uint32_t m) { return Region{{m / 2}, 2}; }), ExchangeForm::Other);
  EXPECT_EQ(form(all, 0), ExchangeForm::Other);
}

TEST(ExchangeForm, OfOneThatHandsOutDifferentHeadsIsScatter) {
  Plan plan = ulysses_by_hand(small_problem(4, 32));
  const Exchange& e = plan.exchanges[0];
  EXPECT_EQ(form_of(plan, e), ExchangeForm::AllToAll);
  for (std::uint32_t m = 1; m < 4; ++m) plan.tasks[e.first.value + m].inputs[0] = {};
  EXPECT_EQ(form_of(plan, e), ExchangeForm::Scatter);
}

TEST(ExchangeForm, OfSumsGoesByWhoGetsThem) {
  const Plan plan = all_gather_by_hand(small_problem(4, 32, Pass::Both));
  const auto form = [&](const Wanted& wanted, std::uint32_t givers = 4) {
    return form_with(plan, 2, wanted, givers);
  };
  EXPECT_EQ(form(own), ExchangeForm::ReduceScatter);
  EXPECT_EQ(form(all), ExchangeForm::AllReduce);
  EXPECT_EQ(form(all_to_one), ExchangeForm::Reduce);
  // Only some have terms, or only some get sums: straight from each to each.
  EXPECT_EQ(form(own, 3), ExchangeForm::AllToAll);
  EXPECT_EQ(form(all, 3), ExchangeForm::AllToAll);
  EXPECT_EQ(form([](std::uint32_t m) {
              return Region{{0}, m < 2 ? 4u : 0u};
            }),
            ExchangeForm::AllToAll);
}

// Under this mask only the last worker has keys that the new token sees.
TEST(ExchangeForm, OfAPartThatOneMemberAloneHasIsACopy) {
  Problem p = small_problem(4, 4096, Pass::Forward, Mask::window({64}));
  p.new_tokens = {1};
  const Plan plan = build_plan(p, find_schedule("flash-decode"));
  ASSERT_EQ(plan.exchanges.size(), 1u);
  EXPECT_TRUE(adds_up(plan, plan.exchanges[0]));
  EXPECT_FALSE(combines(plan, plan.exchanges[0]));
  EXPECT_EQ(form_of(plan, plan.exchanges[0]), ExchangeForm::Broadcast);
  p.mask = Mask::causal();
  const Plan whole = build_plan(p, find_schedule("flash-decode"));
  EXPECT_TRUE(combines(whole, whole.exchanges[0]));
  EXPECT_EQ(form_of(whole, whole.exchanges[0]), ExchangeForm::AllReduce);
}

}  // namespace
}  // namespace ringsched
