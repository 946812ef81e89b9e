// Plans read back as they were written, and a file's defaults.
#include "ringsched/scheduler/plan_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/more_lanes.hpp"
#include "support/plan_texts.hpp"
#include "support/same_plan.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;

std::string backward(std::string file) { return file.replace(file.find("forward"), 7, "backward"); }

TEST(PlanFile, AnyPlanReadsBackAsItWasWritten) {
  for (const Schedule& schedule : schedules())
    for (const std::uint32_t workers : {1u, 2u, 3u, 4u, 5u, 8u})
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
        for (const char* mask : {"full", "causal", "window:20", "prefix:3,window:9"}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", schedule.name, workers, to_text(pass), mask));
          expect_round_trip(
              build_plan(problem(workers, 16 * workers + 3, parse_mask(mask), pass), schedule));
        }
}

TEST(PlanFile, PlansOverPackedDocumentsReadBack) {
  const Mask mask = Mask::documents({Tokens{5}, Tokens{30}, Tokens{1}, Tokens{28}});
  for (const Schedule& schedule : schedules())
    expect_round_trip(build_plan(problem(4, 64, mask, Pass::Both), schedule));
}

TEST(PlanFile, AScheduleOnAnyLayoutReadsBack) {
  for (Schedule schedule : {find_schedule("ring"), find_schedule("balanced")})
    for (const auto layout : {contiguous, striped, zigzag, halves}) {
      schedule.layout = layout;
      expect_round_trip(build_plan(problem(4, 50, Mask::causal(), Pass::Both), schedule));
    }
}

TEST(PlanFile, AListedLayoutReadsBack) {
  Schedule schedule = find_schedule("ring");
  schedule.layout = [](std::uint32_t, Tokens) {
    return custom_layout({{0, 2, 4}, {8, 1, 3}, {1, 2, 4}, {11, 1, 1}},
                         {{{0}, 2}, {{2}, 1}, {{3}, 1}});
  };
  const Plan plan = build_plan(problem(3, 12, Mask::causal(), Pass::Both), schedule);
  EXPECT_THAT(write_plan(plan), HasSubstr(R"({"worker":0,"start":0,"count":4,"stride":2},)"));
  EXPECT_THAT(write_plan(plan), HasSubstr(R"({"worker":2,"start":11,"count":1})"));
  expect_round_trip(plan);
}

TEST(PlanFile, SharesInAnotherOrderThanWorkersReadBack) {
  Schedule schedule = find_schedule("ring");
  schedule.layout = [](std::uint32_t, Tokens) {
    return custom_layout({{0, 2, 4}, {8, 1, 3}, {1, 2, 4}, {11, 1, 1}},
                         {{{3}, 1}, {{0}, 2}, {{2}, 1}});
  };
  const Plan plan = build_plan(problem(3, 12, Mask::causal(), Pass::Both), schedule);
  EXPECT_TRUE(verify(plan).holds());
  EXPECT_THAT(write_plan(plan), HasSubstr(R"("layout":{"chunks":[
  {"worker":1,"start":0,"count":4,"stride":2},
  {"worker":1,"start":8,"count":3},
  {"worker":2,"start":1,"count":4,"stride":2},
  {"worker":0,"start":11,"count":1}
 ]},)"));
  expect_round_trip(plan);
}

TEST(PlanFile, DummyHeadsReadBack) {
  Problem p = problem(3, 12, Mask::causal(), Pass::Both);
  p.heads = p.kv_heads = 4;
  const Plan plan = build_plan(p, find_schedule("ulysses:pad=1"));
  EXPECT_THAT(write_plan(plan), HasSubstr("\n \"dummy_heads\":[2,2],\n"));
  expect_round_trip(plan);
  EXPECT_EQ(read_plan(write_plan(plan), "plan").without_padding(), p);
  const Plan unpadded = build_plan(plan.problem, find_schedule("ulysses"));
  EXPECT_THAT(write_plan(unpadded), Not(HasSubstr("dummy_heads")));
}

TEST(PlanFile, ControlEdgesAndBufferSlotsReadBack) {
  const Plan plan =
      limit_communication(build_plan(problem(6, 96, Mask::full()), find_schedule("ring")),
                          {.overlap = Overlap::Prefetch, .buffers = 2});
  EXPECT_FALSE(plan.controls.empty());
  EXPECT_FALSE(plan.slots.empty());
  expect_round_trip(plan);
}

TEST(PlanFile, HeadsReadBack) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 5u})
    for (const Schedule& schedule : schedules_for(workers))
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
        for (const bool given : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", schedule.name, workers, to_text(pass), given));
          const Plan whole = build_plan(small_problem(workers, 2 * workers + 1, pass), schedule);
          expect_round_trip(by_half_the_heads(whole, given));
        }
}

TEST(PlanFile, LanesReadBack) {
  for (const Schedule& schedule : schedules()) {
    const Plan plan = on_more_lanes(build_plan(small_problem(4, 9, Pass::Both), schedule));
    EXPECT_GT(plan.lanes.size(), 3u);
    expect_round_trip(plan);
  }
}

// Of the changed plans, the ones with sound tasks, though the whole may not compute what it should.
TEST(PlanFile, PlansChangedAtRandomReadBack) {
  std::mt19937_64 random(1);
  int wrong = 0, right = 0;
  for (const Schedule& schedule : schedules())
    for (const bool given : {false, true}) {
      const Plan valid =
          by_half_the_heads(build_plan(small_problem(3, 7, Pass::Both), schedule), given);
      for (int i = 0; i < 200; ++i) {
        Plan plan = valid;
        SCOPED_TRACE(mutate(plan, random));
        const Verification v = verify(plan);
        if (!v.holds() && v.violations[0].rule < Rule::Coverage) continue;
        ++(v.holds() ? right : wrong);
        expect_round_trip(plan);
        if (HasFailure()) return;
      }
    }
  EXPECT_GT(wrong, 100);
  EXPECT_GT(right, 100);
}

TEST(PlanFile, WhatFollowsFromTheRestMayBeLeftOut) {
  Problem p = problem(2, 8);
  p.heads = 4;
  p.kv_heads = 2;
  p.head_dim = 16;
  Plan built = build_plan(p, find_schedule("ring"));
  built.schedule = "";
  expect_same(built, read_plan(file_of(kRing), "sparse"));
}

TEST(PlanFile, WhatIsLeftOutMayAlsoBeSaid) {
  const std::string full = R"(
{"do":"attend","worker":0,"step":0,"in":["Q0","KV0"],"rows":[0,1],"keys":[0,1],"pairs":10},
{"pairs":10,"keys":[1,1],"lane":"compute","in":["Q1","KV1"],"do":"attend","after":[]},
{"do":"send","worker":0,"in":["KV0"],"to":1,"step":1,"bytes":512,"tensor":"key_value","rows":[0,1]},
{"do":"receive","worker":1,"from":2,"bytes":512,"lane":"fetch","with_previous":false},
{"do":"attend","in":["Q1",3],"pairs":16},
{"do":"merge","in":[1,4],"rows":[1,1]},
{"do":"output","worker":0,"in":[0]},
{"do":"output","worker":1,"in":[5]})";
  expect_same(read_plan(file_of(kRing), "sparse"), read_plan(file_of(full), "full"));
}

TEST(PlanFile, AFileOfVersionOneMeansWhatItMeant) {
  std::string old = file_of(kRing);
  old.replace(old.find("\"version\":2"), 11, "\"version\":1");
  expect_same(read_plan(old, "old"), read_plan(file_of(kRing), "new"));
}

TEST(PlanFile, TheSchedulesNeedNothingOfVersionTwo) {
  for (const Schedule& schedule : schedules())
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
      const Plan plan = build_plan(problem(5, 40, Mask::causal(), pass), schedule);
      if (!plan.exchanges.empty()) continue;  // version 1 knew of none
      const std::string text = write_plan(plan);
      const std::string tasks = text.substr(text.find("\"tasks\""));
      for (const char* field : {"heads", "complete", "given", "lanes"})
        EXPECT_EQ(tasks.find(field), tasks.npos) << schedule.name << " " << field;
      EXPECT_EQ(text.find("given"), text.npos);
    }
}

ColumnRange heads_of(const Plan& plan, std::uint32_t task) {
  return plan.piece(plan.tasks[task]).columns;
}

TEST(PlanFile, TasksHaveTheHeadsOfTheirFirstInputUnlessTheySayOthers) {
  const std::string tasks = R"({"do":"attend","in":["Q0","KV0"],"heads":[2,1]},
{"do":"attend","in":["Q0","KV0"]},
{"do":"merge","in":[0,0]},
{"do":"send","in":[0],"to":1},
{"do":"receive","from":3},
{"do":"send","in":["KV0"],"to":1,"heads":[1,1]},
{"do":"receive","from":5},
{"do":"receive","from":null,"worker":1,"tensor":"key_value","rows":[0,1]},
{"do":"send","in":["Q0"],"to":1,"heads":[3,1]},
{"do":"receive","from":8,"tensor":"key_value"},
{"do":"output","in":[2]})";
  const Plan plan = read_plan(file_of(tasks), "plan");
  const ColumnRange expected[] = {{2, 1}, {0, 4}, {2, 1}, {2, 1}, {2, 1}, {1, 1},
                                  {1, 1}, {0, 2}, {3, 1}, {0, 2}, {2, 1}};
  for (std::uint32_t t = 0; t < plan.tasks.size(); ++t)
    EXPECT_EQ(heads_of(plan, t), expected[t]) << t;
  EXPECT_EQ(plan.works[plan.tasks[5].work.value].bytes, Bytes{4 * 16 * 2 * 2});
  EXPECT_EQ(plan.works[plan.tasks[0].work.value].columns, 1u);
  expect_round_trip(plan);
}

TEST(PlanFile, ThePairsOfManyChunksAreThoseOfTheirRowsAndKeys) {
  std::string chunks;
  for (int t = 0; t < 8; ++t)
    chunks += fmt::format(R"({}{{"worker":{},"start":{},"count":1}})", t > 0 ? "," : "", t / 4, t);
  std::string file = file_with_layout(fmt::format(R"({{"chunks":[{}]}})", chunks));
  const std::string tasks = R"({"do":"attend","in":["Q0","KV0"],"rows":[0,8],"keys":[0,4]},
{"do":"attend","in":["Q0","KV0"],"rows":[2,6],"keys":[0,4]},
{"do":"attend","in":["Q0","KV0"],"rows":[0,8],"keys":[2,4]},
{"do":"attend","in":["Q0","KV0"],"rows":[0,8],"keys":[0,4],"heads":[1,2]})";
  const Plan plan = read_plan(file.insert(file.size() - 2, tasks), "plan");
  const std::int64_t expected[] = {26, 23, 18, 26};
  for (std::uint32_t t = 0; t < std::size(expected); ++t)
    EXPECT_EQ(plan.works[plan.tasks[t].work.value].pairs.value, expected[t]) << t;
  EXPECT_EQ(plan.works[plan.tasks[3].work.value].columns, 2u);
}

TEST(PlanFile, TheHeadsOfKeyGradientsFollowFromThoseOfTheQueries) {
  const std::string tasks = R"({"do":"prepare","in":["O0","dO0"],"heads":[2,2]},
{"do":"attend_backward","in":["Q0",0,"KV0"],"heads":[2,1]},
{"do":"send","in":["1.1"],"to":1})";
  const Plan plan = read_plan(backward(file_of(tasks)), "plan");
  EXPECT_EQ(heads_of(plan, 1), (ColumnRange{2, 1}));
  EXPECT_EQ(heads_of(plan, 2), (ColumnRange{1, 1}));
  ASSERT_EQ(plan.tasks.size(), 4u);  // the query gradient is put out
  EXPECT_EQ(heads_of(plan, 3), (ColumnRange{2, 1}));
}

TEST(PlanFile, WhatIsNoResultIsCompleteAndSoIsWhatAnOutputReadsUnlessTheFileSaysOtherwise) {
  const std::string tasks = R"({"do":"prepare","in":["O0","dO0"]},
{"do":"attend_backward","in":["Q0",0,"KV0"]},
{"do":"output","in":["1.1"]},
{"do":"attend_backward","in":["Q0",0,"KV0"],"complete":[true,false]},
{"do":"output","in":["3.1"]},
{"do":"prepare","in":["O0","dO0"],"complete":false},
{"do":"send","in":["KV0"],"to":1},
{"do":"receive","from":6,"complete":true},
{"do":"reduce","in":[1,3],"complete":true})";
  const Plan plan = read_plan(backward(file_of(tasks)), "plan");
  const int expected[] = {1, 2, 0, 1, 0, 0, 0, 1, 1};
  for (std::uint32_t t = 0; t < std::size(expected); ++t)
    EXPECT_EQ(plan.tasks[t].completes, expected[t]) << t;
  EXPECT_THAT(write_plan(plan), HasSubstr("\"complete\":[true,false]"));
  EXPECT_THAT(write_plan(plan), HasSubstr("\"complete\":false"));
  expect_round_trip(plan);
}

TEST(PlanFile, WhatIsGivenMayBeListed) {
  const std::string given = R"("given":[{"tensor":"key_value","worker":1,"heads":[1,1]},
{"tensor":"query","worker":0,"rows":[0,2]},{"tensor":"key_value","worker":0},
{"tensor":"key_value","worker":1,"heads":[0,1]}],)";
  std::string file = file_of(R"({"do":"send","in":["KV1"]},{"do":"send","in":["KV1.1"]})");
  const Plan plan = read_plan(file.insert(file.find("\"tasks\""), given), "plan");
  ASSERT_EQ(plan.initial.size(), 4u);
  EXPECT_EQ(plan.tasks[0].inputs[0], TensorId{0});
  EXPECT_EQ(plan.tasks[1].inputs[0], TensorId{3});
  EXPECT_EQ(heads_of(plan, 1), (ColumnRange{0, 1}));
  EXPECT_EQ(plan.regions[plan.piece(plan.initial[0]).rows.value], plan.layout.share({1}));
  EXPECT_EQ(plan.regions[plan.piece(plan.initial[1]).rows.value], (Region{{0}, 2}));
  expect_round_trip(plan);
}

TEST(PlanFile, FieldsMayStandInAnyOrder) {
  const std::string file = fmt::format(R"({{"tasks":[{}],{})", kRing, kHead.substr(1));
  const std::string reordered = file.substr(0, file.size() - 1) + "}";  // a comma ends the head
  expect_same(read_plan(file_of(kRing), "as usual"), read_plan(reordered, "tasks first"));
}

TEST(PlanFile, OneTaskStandsOnOneLine) {
  const Plan plan = build_plan(problem(4, 64), find_schedule("zigzag"));
  const std::string text = write_plan(plan);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5 + std::ssize(plan.tasks));
  EXPECT_THAT(text, HasSubstr("\n  {\"do\":\"attend\",\"worker\":0,\"step\":0,\"in\":[\"Q0\","));
}

TEST(PlanFile, OutputsAreAddedOnlyToAFileWithoutAny) {
  const Plan added = read_plan(file_of(kRing), "plan");
  ASSERT_EQ(added.tasks.size(), 8u);
  EXPECT_EQ(added.tasks[6].kind, TaskKind::Output);
  EXPECT_EQ(added.tasks[7].inputs[0], added.output(TaskId{5}));
  EXPECT_EQ(added.tasks[7].step, 1u);
  const std::string one = std::string(kRing) + R"(,{"do":"output","in":[0]})";
  EXPECT_EQ(read_plan(file_of(one), "plan").tasks.size(), 7u);
}

TEST(PlanFile, APlanWithoutOutputsStaysWithoutThem) {
  Plan plan = read_plan(file_of(kRing), "plan");
  plan.tasks.resize(6);
  restate_completion(plan);
  EXPECT_THAT(write_plan(plan), HasSubstr("\"add_outputs\":false"));
  expect_round_trip(plan);
}

TEST(PlanFile, BothGradientsOfABackwardPassAreAddedAsOutputs) {
  const std::string tasks = R"({"do":"prepare","in":["O0","dO0"]},
{"do":"prepare","in":["O1","dO1"]},
{"do":"attend_backward","in":["Q0",0,"KV0"]},
{"do":"attend_backward","in":["Q1",1,"KV1"]},
{"do":"reduce","in":["2.1","2.1"]})";
  const Plan plan = read_plan(backward(file_of(tasks)), "plan");
  ASSERT_EQ(plan.tasks.size(), 9u);
  EXPECT_EQ(plan.tasks[5].inputs[0], plan.output(TaskId{2}));
  EXPECT_EQ(plan.tasks[6].inputs[0], plan.output(TaskId{3}));
  EXPECT_EQ(plan.tasks[7].inputs[0], plan.output(TaskId{4}));
  EXPECT_EQ(plan.tasks[8].inputs[0], plan.output(TaskId{3}, 1));
  expect_round_trip(plan);
}

TEST(PlanFile, BrokenPlansCanBeWrittenDown) {
  const std::string unpaired = R"({"do":"send","in":["KV0"],"to":1},
{"do":"receive","from":null,"worker":1,"tensor":"key_value","rows":[0,2]},
{"do":"send","in":["KV0"]},
{"do":"receive","from":2,"worker":1,"tensor":"query","rows":[1,1]},
{"do":"attend","in":["Q1","KV0"],"lane":"return","rows":[0,2]})";
  const Plan plan = read_plan(file_of(unpaired), "plan");
  EXPECT_FALSE(plan.tasks[0].peer.valid());
  EXPECT_FALSE(plan.tasks[1].peer.valid());
  EXPECT_EQ(plan.value(plan.tasks[3]), attention::kQuery);
  expect_round_trip(plan);
}

}  // namespace
}  // namespace ringsched
