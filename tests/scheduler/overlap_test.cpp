#include "ringsched/scheduler/overlap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

Plan plan_of(std::string_view schedule, std::uint32_t w, CommunicationLimits limits,
             Pass pass = Pass::Forward) {
  return limit_communication(
      build_plan(small_problem(w, 4 * std::int64_t{w}, pass), find_schedule(schedule)), limits);
}

TEST(Overlap, NonePutsAllOfAWorkerOnOneLaneAndPostsEachStepTogether) {
  const Plan plan = plan_of("balanced", 8, {Overlap::None, 0}, Pass::Both);
  std::vector<const Task*> last(8, nullptr);
  for (const Task& t : plan.tasks) {
    EXPECT_EQ(t.lane, Lane::Compute);
    const Task* before = last[t.worker_index];
    const bool joins = is_transfer(t.kind) && before && is_transfer(before->kind);
    EXPECT_EQ(t.with_previous, joins && before->step == t.step);
    last[t.worker_index] = &t;
  }
  EXPECT_TRUE(plan.controls.empty());
}

// Straight from the definition, with no regard to cost.
TEST(Overlap, PrefetchHoldsBackTransfersOneStepAndStepsByTheTransfersBefore) {
  std::vector<std::string> names = {"double-ring:node=1", "double-ring:node=2"};
  for (const Schedule& s : schedules_for(8)) names.push_back(s.name);
  for (const std::string& name : names)
    for (const std::uint32_t w : {2u, name == "double-ring:node=2" ? 6u : 5u, 8u}) {
      const Plan plan = plan_of(name, w, {Overlap::Prefetch, 0}, Pass::Both);
      const auto last_before = [&](std::uint32_t id, Lane lane, std::int64_t step) {
        TaskId last;
        for (std::uint32_t b = 0; b < id; ++b)
          if (plan.tasks[b].worker_index == plan.tasks[id].worker_index &&
              plan.tasks[b].lane == lane && plan.tasks[b].step <= step)
            last = {b};
        return last;
      };
      std::vector<ControlEdge> expected;
      std::set<std::pair<std::uint32_t, Step>> begun;
      for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
        const Task& t = plan.tasks[id];
        const auto expect_after = [&](TaskId before) {
          if (before.valid()) expected.push_back({before, {id}});
        };
        if (t.lane > Lane::Return) {
          std::int64_t before = -1;  // the last step that needed something of this lane
          for (std::uint32_t b = 0; b < id; ++b)
            if (plan.tasks[b].worker_index == t.worker_index && plan.tasks[b].lane == t.lane &&
                plan.tasks[b].step < t.step)
              before = plan.tasks[b].step;
          if (!t.with_previous && before >= 0)
            expect_after(last_before(id, Lane::Compute, before - 1));
        } else if (t.lane != Lane::Compute) {
          if (!t.with_previous)
            expect_after(last_before(id, Lane::Compute,
                                     std::int64_t{t.step} - (t.lane == Lane::Return ? 1 : 2)));
        } else if (begun.insert({t.worker_index, t.step}).second) {
          for (std::uint32_t lane = 1; lane < plan.lane_count(); ++lane)
            expect_after(last_before(id, static_cast<Lane>(lane), std::int64_t{t.step} - 1));
        }
      }
      std::sort(expected.begin(), expected.end(), [](const ControlEdge& a, const ControlEdge& b) {
        return a.after != b.after ? a.after < b.after : a.before < b.before;
      });
      EXPECT_EQ(plan.controls, expected) << name << " W=" << w;
    }
}

TEST(Overlap, UnboundedAddsNothing) {
  const Plan plan = plan_of("zigzag", 6, {Overlap::Unbounded, 0});
  EXPECT_TRUE(plan.controls.empty());
  EXPECT_TRUE(plan.slots.empty());
}

TEST(Buffers, AreUsedInTurn) {
  const Plan plan = plan_of("ring", 6, {Overlap::Unbounded, 2});
  std::vector<std::uint32_t> next(6, 0);
  for (const BufferSlot& s : plan.slots)
    EXPECT_EQ(s.slot, next[plan.tasks[s.receive.value].worker_index]++ % 2);
  EXPECT_FALSE(plan.controls.empty());
}

TEST(Buffers, OneIsTooFewForARingAndTheErrorSaysWhere) {
  try {
    plan_of("ring", 6, {Overlap::Prefetch, 1});
    FAIL() << "a ring sends on what it holds while it receives the next";
  } catch (const Error& e) {
    EXPECT_THAT(
        e.what(),
        testing::HasSubstr("ring needs more than 1 key_value buffer per worker (--buffers 0 gives "
                           "it enough): in step 2, worker 2 would overwrite a buffer that"));
  }
}

TEST(Buffers, OneIsEnoughWhereNothingIsPassedOn) {
  EXPECT_NO_THROW(plan_of("balanced", 8, {Overlap::Unbounded, 1}));
}

TEST(Buffers, TwoAreEnoughForRingsAndHelpers) {
  for (const char* name : {"ring", "striped", "zigzag", "balanced", "balanced-split"})
    for (std::uint32_t w = 1; w <= 33; ++w)
      for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded})
        EXPECT_NO_THROW(plan_of(name, w, {overlap, 2}, Pass::Both)) << name << " W=" << w;
}

TEST(Overlap, NamesRoundTrip) {
  for (const Overlap o : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded})
    EXPECT_EQ(parse_overlap(to_text(o)), o);
  EXPECT_THROW(parse_overlap("all"), Error);
}

}  // namespace
}  // namespace ringsched
