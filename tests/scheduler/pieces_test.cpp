// verify()'s messages about tasks that read what is not there, or state work that they do not have.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

Plan plan_by(std::string_view schedule, std::uint32_t workers, Pass pass = Pass::Both,
             std::int64_t tokens = 0) {
  return build_plan(small_problem(workers, tokens > 0 ? tokens : 4 * std::int64_t{workers}, pass),
                    find_schedule(schedule));
}

std::vector<std::string> faults_of(const Plan& plan) {
  std::vector<std::string> out;
  for (const Violation& v : verify(plan, {.most = 1000}).violations) out.push_back(v.text);
  return out;
}

// Many tasks of this plan share a piece, and some of them have other work than the rest.
TEST(Works, NoTaskMayStateAnotherThanItsOwn) {
  Plan plan = plan_by("balanced-split", 4, Pass::Both, 35);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const WorkId own = plan.tasks[id].work;
    for (std::uint32_t work = 0; work < plan.works.size(); ++work) {
      plan.tasks[id].work = {work};
      ASSERT_EQ(faults_of(plan).empty(), own == WorkId{work})
          << name_of(plan, {id}) << " states work " << work;
    }
    plan.tasks[id].work = own;
  }
}

TEST(Works, AWrongOneIsFoundInEachTaskThatStatesIt) {
  const Plan plan = plan_by("balanced-split", 5);
  for (std::uint32_t work = 0; work < plan.works.size(); ++work) {
    Plan spoilt = plan;
    ++spoilt.works[work].rows;
    const auto stating = std::ranges::count(plan.tasks, WorkId{work}, &Task::work);
    EXPECT_EQ(std::ssize(faults_of(spoilt)), stating) << "work " << work;
  }
}

TEST(Works, OfAttendsAreRightInEachField) {
  const Plan plan = plan_by("balanced-split", 4);
  const auto count =
      std::ranges::count_if(plan.tasks, [](const Task& t) { return is_attend(t.kind); });
  const auto refused = [&](auto change) {
    Plan spoilt = plan;
    for (Work& w : spoilt.works) change(w);
    return std::ranges::count_if(faults_of(spoilt), [](const std::string& text) {
      return text.find(": it states ") != text.npos && text.find(" bytes, and") == text.npos;
    });
  };
  EXPECT_EQ(refused([](Work&) {}), 0);
  EXPECT_EQ(refused([](Work& w) { ++w.rows; }), count);
  EXPECT_EQ(refused([](Work& w) { ++w.keys; }), count);
  EXPECT_EQ(refused([](Work& w) { ++w.pairs.value; }), count);
  EXPECT_EQ(refused([](Work& w) { w.form = TileForm::Empty; }), count);
  EXPECT_EQ(refused([](Work& w) { ++w.columns; }), count);
}

// Tables from elsewhere may hold the same thing several times.
TEST(Pieces, AreWhatTheyHoldAndNotTheirPlaceInATable) {
  const auto twice = [](auto& table) {
    const auto once = table;
    table.insert(table.end(), once.begin(), once.end());
    return static_cast<std::uint32_t>(once.size());
  };
  for (const std::string_view schedule : {"zigzag", "balanced-split"}) {
    Plan plan = plan_by(schedule, 5);
    const std::uint32_t regions = twice(plan.regions), works = twice(plan.works);
    // Each piece is there as it was and with the second of two equal regions, and both again.
    const std::uint32_t pieces = twice(plan.pieces);
    for (std::uint32_t p = pieces; p < 2 * pieces; ++p) plan.pieces[p].rows.value += regions;
    twice(plan.pieces);
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      Task& t = plan.tasks[id];
      if (is_attend(t.kind)) t.keys.value += id % 2 * regions;
      if (is_send(t.kind)) t.piece.value += pieces;
      if (is_receive(t.kind)) t.piece.value += 3 * pieces;
      t.work.value += id % 3 / 2 * works;
    }
    EXPECT_THAT(faults_of(plan), ElementsAre());
  }
}

TEST(Inputs, MustBeMadeByATaskBefore) {
  Plan plan = plan_by("ring", 3);
  const TaskId merge = find_task(plan, TaskKind::Merge, 2);
  plan.tasks[merge.value].inputs[0] = plan.output(merge);
  EXPECT_THAT(faults_of(plan),
              Contains(fmt::format("{0} uses its input 0 before it is there: it is made by {0}",
                                   name_of(plan, merge))));
}

TEST(Inputs, MustBeOutputsThatTasksHave) {
  Plan plan = plan_by("ring", 3, Pass::Forward);
  const TaskId merge = find_task(plan, TaskKind::Merge, 2);
  const TaskId attend = find_task(plan, TaskKind::Attend, 2);
  plan.tasks[merge.value].inputs[0] = plan.output(attend, 1);
  EXPECT_THAT(faults_of(plan), Contains(EndsWith("input 0 is an output that " +
                                                 name_of(plan, attend) + " does not have")));
  plan.tasks[merge.value].inputs[0] =
      plan.output({static_cast<std::uint32_t>(plan.tasks.size()) - 1}, 2);
  EXPECT_THAT(faults_of(plan), Contains(EndsWith("input 0 is not a tensor of this plan")));
}

TEST(Inputs, ThatAreNotThereAreSaidOnce) {
  Plan plan = plan_by("ring", 3, Pass::Forward);
  Task& merge = plan.tasks[find_task(plan, TaskKind::Merge, 2).value];
  merge.inputs[1] = TensorId{};
  EXPECT_THAT(faults_of(plan), ElementsAre(EndsWith("input 1 is missing")));
  merge.inputs[1] = {3};  // the keys of worker 0, at home
  EXPECT_THAT(faults_of(plan),
              ElementsAre(EndsWith("held by worker 0 without having received it")));
}

TEST(Inputs, MustHoldTheRowsThatAreReadOfThem) {
  Plan plan = plan_by("ring", 3, Pass::Forward);
  const TaskId attend = find_task(plan, TaskKind::Attend, 2, 1);
  ASSERT_EQ(plan.tasks[attend.value].keys, RegionId{1});
  plan.tasks[attend.value].keys = {0};
  restate_work(plan, attend);
  EXPECT_THAT(faults_of(plan),
              Contains(EndsWith("it uses chunk 0, but its key_value tensor holds only chunk 1")));
}

TEST(Inputs, AreSentWithRowsAndHeadsThatTheyHold) {
  const auto refused = [](Plan plan, auto change) {
    const TaskId send = find_task(plan, TaskKind::Send, 0);
    for (const TaskId half : {send, plan.tasks[send.value].peer}) {
      change(plan, plan.tasks[half.value]);
      restate_work(plan, half);
    }
    return faults_of(plan);
  };
  const Plan plan = plan_by("ring", 3, Pass::Forward);
  EXPECT_THAT(refused(plan, [](Plan& p, Task& t) { set_rows(p, t, {1}); }),
              Contains(EndsWith("it uses chunk 1, but its key_value tensor holds only chunk 0")));
  EXPECT_THAT(
      refused(by_half_the_heads(plan, true),
              [](Plan& p, Task& t) {
                set_columns(p, t, {1, 1});
              }),
      Contains(EndsWith("it uses kv_heads 1, but its key_value tensor holds only kv_heads 0")));
}

TEST(Inputs, ArePutOutAsTheyAre) {
  Plan plan = plan_by("ring", 3, Pass::Forward);
  const TaskId output = find_task(plan, TaskKind::Output, 2);
  set_rows(plan, plan.tasks[output.value], {1});
  restate_work(plan, output);
  EXPECT_THAT(faults_of(plan), Contains(EndsWith("its input holds chunk 2")));
}

TEST(Inputs, DoNotGoToTheirOwnWorker) {
  Plan plan = plan_by("ring", 3, Pass::Forward);
  const TaskId send = find_task(plan, TaskKind::Send, 0);
  plan.tasks[plan.tasks[send.value].peer.value].worker_index = 0;
  EXPECT_THAT(faults_of(plan), Contains(EndsWith("it sends to its own worker")));
}

TEST(Inputs, ArePutTogetherInOneWayOnly) {
  Plan plan = plan_by("ring", 3, Pass::Forward);
  plan.tasks[find_task(plan, TaskKind::Merge, 2).value].kind = TaskKind::Reduce;
  EXPECT_THAT(faults_of(plan), Contains(EndsWith("this operation cannot combine a partial")));
}

TEST(Inputs, AreNotReadForWhatTheProblemDoesNotNeed) {
  Plan plan = plan_by("ring", 1, Pass::Backward);
  Task& attend = plan.tasks.emplace_back();
  attend.kind = TaskKind::Attend;
  attend.inputs = {TensorId{0}, TensorId{1}, {}};
  attend.keys = {0};
  attend.completes = 1;
  set_piece(plan, attend, attention::kPartial, {0});
  restate_work(plan, {static_cast<std::uint32_t>(plan.tasks.size()) - 1});
  EXPECT_THAT(faults_of(plan), ElementsAre(EndsWith("the problem does not need a partial")));
}

// Query chunks one by one: what has no tokens is in no partial.
Plan by_query_chunks(std::int64_t tokens) {
  const auto calls = [](const Problem& problem, PlanBuilder& p) {
    for (std::uint32_t q = 0; q < problem.workers; ++q)
      for (std::uint32_t k = 0; k < problem.workers; ++k) {
        const Keys there = p.move(p.keys({k}), {q});
        for (const std::uint32_t part : {0u, 1u})
          p.merge(p.attend(p.queries({q}).part(part), there));
      }
  };
  return build_plan(small_problem(2, tokens, Pass::Both), {"test", "", "", zigzag, calls});
}

TEST(Inputs, OfSumsNeedNoRowsWithoutTokens) {
  const Plan plan = by_query_chunks(3);
  const Task& prepare = plan.tasks[find_task(plan, TaskKind::Prepare, 0).value];
  EXPECT_NE(plan.tensor(prepare.inputs[0]).rows, plan.rows(prepare));
  EXPECT_THAT(faults_of(plan), ElementsAre());
  EXPECT_EQ(interpret(plan, 1), "");
}

TEST(Inputs, OfSumsNeedAllRowsWithTokens) {
  Plan plan = by_query_chunks(8);
  const TaskId prepare = find_task(plan, TaskKind::Prepare, 0);
  plan.tasks[prepare.value].inputs[0] = plan.output(find_task(plan, TaskKind::Attend, 0));
  EXPECT_THAT(faults_of(plan),
              Contains(EndsWith("it uses chunks 0-1, but its partial tensor holds only chunk 0")));
}

TEST(Inputs, AMergeMakesTheRowsOfBoth) {
  Plan plan = plan_by("balanced-split", 4, Pass::Forward);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    Task& t = plan.tasks[id];
    if (t.kind != TaskKind::Merge) continue;
    const RegionId part = plan.tensor(t.inputs[1]).rows;
    if (part == plan.rows(t)) continue;
    set_rows(plan, t, part);
    EXPECT_THAT(faults_of(plan),
                Contains(HasSubstr(fmt::format("{}: ", name_of(plan, {id})) + "chunks ")));
    return;
  }
  FAIL() << "no merge adds a part to a whole";
}

TEST(Inputs, APartialIsHandedOverWithAllItsHeads) {
  Plan plan = plan_by("balanced", 5, Pass::Forward);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Send &&
        plan.value(plan.tasks[id]) == attention::kPartial) {
      for (const TaskId half : {TaskId{id}, plan.tasks[id].peer}) {
        set_columns(plan, plan.tasks[half.value], {0, 2});
        restate_work(plan, half);
      }
      EXPECT_THAT(
          faults_of(plan),
          Contains(EndsWith("a partial must be handed over whole, or the rest of it is lost")));
      return;
    }
  FAIL() << "no partial is sent";
}

}  // namespace
}  // namespace ringsched
