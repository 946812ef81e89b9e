// Exchanges and roundings in plan files: what is read, the defaults, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/plan_texts.hpp"
#include "support/same_plan.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;

// Two workers, each with half of the heads.
constexpr std::string_view kUlysses =
    R"({"do":"exchange","in":["Q0"],"rows":[0,2],"heads":[0,2],"members":2},
{"do":"exchange","in":["Q1"],"rows":[0,2],"heads":[2,2]},
{"do":"exchange","in":["KV0"],"rows":[0,2],"heads":[0,1],"members":2},
{"do":"exchange","in":["KV1"],"rows":[0,2],"heads":[1,1]},
{"do":"attend","in":[0,2],"complete":true},
{"do":"attend","in":[1,3],"complete":true},
{"do":"round","in":[4]},
{"do":"round","in":[5]},
{"do":"exchange","in":[6],"rows":[0,1],"heads":[0,4],"members":2,"step":1},
{"do":"exchange","in":[7],"rows":[1,1],"heads":[0,4]})";

std::string error_of(std::string_view tasks, int version = 2) {
  std::string file = file_of(tasks);
  file.replace(file.find("\"version\":2"), 11, fmt::format("\"version\":{}", version));
  try {
    read_plan(file, "plan.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "it was read";
}

// The tasks of kUlysses, with one text in place of another.
std::string ulysses_with(std::string_view from, std::string_view to) {
  std::string tasks(kUlysses);
  return tasks.replace(tasks.find(from), from.size(), to);
}

TEST(PlanFile, TheMembersOfAnExchangeFollowTheFirstOne) {
  const Plan plan = read_plan(file_of(kUlysses), "plan");
  const std::vector<Exchange> expected = {{{0}, 2}, {{2}, 2}, {{8}, 2}};
  EXPECT_EQ(plan.exchanges, expected);
  EXPECT_EQ(plan.tasks[9].exchange, ExchangeId{2});
  EXPECT_EQ(plan.tasks[1].worker_index, 1);
  EXPECT_EQ(plan.tasks[9].worker_index, 1);
  EXPECT_EQ(plan.piece(plan.tasks[1]).columns, (ColumnRange{2, 2}));
  EXPECT_EQ(plan.value(plan.tasks[6]), attention::kRoundedPartial);
  EXPECT_EQ(plan.value(plan.tasks[9]), attention::kRoundedPartial);
  EXPECT_EQ(plan.tasks[0].lane, Lane::Fetch);
  EXPECT_EQ(plan.tasks[8].lane, Lane::Return);
  EXPECT_TRUE(plan.tasks[8].completes_output());
  ASSERT_EQ(plan.tasks.size(), 12u);  // both results are put out
  EXPECT_EQ(plan.tasks[11].inputs[0], plan.output(TaskId{9}));
  EXPECT_TRUE(verify(plan).holds()) << write_plan(plan);
  expect_round_trip(plan);
}

TEST(PlanFile, PlansWithExchangesReadBack) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 5u, 8u})
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
      for (const std::uint32_t heads : {2u, 6u, 8u})
        for (const std::uint32_t group : {1u, 2u}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", workers, to_text(pass), heads, group));
          Problem p = small_problem(workers, 3 * workers + 1, pass);
          p.heads = heads;
          p.kv_heads = heads / group;
          expect_round_trip(ulysses_by_hand(p));
          expect_round_trip(all_gather_by_hand(p, 1));
        }
}

TEST(PlanFile, AMemberOfAnExchangeMayGiveOrGetNothing) {
  const Plan plan = read_plan(file_of(R"(
{"do":"exchange","in":["KV0"],"rows":[],"members":2},
{"do":"exchange","in":[],"worker":1,"tensor":"key_value","rows":[0,1],"bytes":512})"),
                              "plan");
  EXPECT_EQ(plan.regions[plan.rows(plan.tasks[0]).value], (Region{{0}, 0}));
  EXPECT_EQ(plan.works[plan.tasks[0].work.value].bytes, Bytes{0});
  EXPECT_FALSE(plan.tasks[1].inputs[0].valid());
  EXPECT_EQ(plan.piece(plan.tasks[1]).columns, (ColumnRange{0, 2}));
  EXPECT_THAT(write_plan(plan), HasSubstr(R"("in":["KV0"],"members":2,"rows":[]})"));
  EXPECT_THAT(write_plan(plan), HasSubstr(R"("in":[],"tensor":"key_value","rows":[0,1]})"));
  expect_round_trip(plan);
}

TEST(PlanFile, PartsThatAnExchangeAddsUpAreCompleteBehindIt) {
  const Plan plan = read_plan(file_of(R"(
{"do":"attend","in":["Q0","KV0"]},
{"do":"exchange","in":[0],"rows":[0,1],"members":2},
{"do":"exchange","in":[],"worker":1,"tensor":"partial","rows":[0,1]},
{"do":"exchange","in":["KV0"],"rows":[0,1],"members":1,"complete":false,"lane":"compute"})"),
                              "plan");
  EXPECT_EQ(plan.tasks[0].completes, 0);
  EXPECT_EQ(plan.tasks[1].completes, 1);
  EXPECT_EQ(plan.tasks[1].lane, Lane::Return);
  EXPECT_EQ(plan.tasks[2].completes, 1);
  EXPECT_EQ(plan.tasks[3].completes, 0);
  EXPECT_EQ(plan.tasks[3].lane, Lane::Compute);
  ASSERT_EQ(plan.tasks.size(), 5u);  // what worker 1 gets is not at home there
  EXPECT_EQ(plan.tasks[4].inputs[0], plan.output(TaskId{1}));
  expect_round_trip(plan);
}

TEST(PlanFile, ARoundedResultIsPutOutInPlaceOfTheOther) {
  const Plan plan = read_plan(file_of(R"({"do":"attend","in":["Q0","KV0"],"complete":true},
{"do":"round","in":[0]},{"do":"output","in":[1]},
{"do":"round","in":[0],"rows":[0,1],"heads":[1,2]})"),
                              "plan");
  EXPECT_EQ(plan.works[plan.tasks[1].work.value].bytes, Bytes{4 * 4 * (16 + 1) * 4});  // reads
  EXPECT_EQ(plan.works[plan.tasks[2].work.value].bytes, Bytes{4 * 4 * 16 * 2});
  EXPECT_EQ(plan.piece(plan.tasks[3]).columns, (ColumnRange{1, 2}));
  expect_round_trip(plan);
}

TEST(PlanFile, AnExchangeWithoutAllOfItsMembersIsRejected) {
  EXPECT_EQ(error_of(ulysses_with(R"(,"members":2},)", "},")),
            "plan.json: task 0: \"members\" is missing: the first task of an exchange says how "
            "many there are");
  EXPECT_EQ(error_of(ulysses_with(R"("members":2})", R"("members":3})")),
            "plan.json: task 2: only the first task of an exchange says \"members\"; this is one "
            "of the 3 members that begin with task 0");
  EXPECT_EQ(error_of(ulysses_with(R"([0,1],"members":2})", R"([0,1],"members":3})")),
            "plan.json: task 4: task 2 begins an exchange of 3 members, so this must be an "
            "exchange, not attend");
  EXPECT_EQ(error_of(ulysses_with(R"([0,4],"members":2,)", R"([0,4],"members":3,)")),
            "plan.json: task 8: \"members\" is 3, but the file has only 2 tasks from here on");
  EXPECT_EQ(error_of(ulysses_with(R"("members":2})", R"("members":1})")),
            "plan.json: task 1: \"members\" is missing: the first task of an exchange says how "
            "many there are");
  EXPECT_THAT(error_of(ulysses_with(R"("members":2})", R"("members":0})")),
              HasSubstr("task 0: \"members\" must be a whole number from 1 to"));
  EXPECT_EQ(error_of(R"({"do":"attend","in":["Q0","KV0"],"members":1})"),
            "plan.json: task 0: \"members\" has no meaning for attend tasks");
}

TEST(PlanFile, AnExchangeThatDoesNotSayWhatItGetsIsRejected) {
  const auto with = [](std::string_view fields) {
    return error_of(fmt::format(R"({{"do":"exchange",{},"members":1}})", fields));
  };
  EXPECT_EQ(with(R"("in":["Q0"])"), "plan.json: task 0: \"rows\" is missing");
  EXPECT_EQ(with(R"("rows":[0,1])"), "plan.json: task 0: \"in\" is missing");
  EXPECT_EQ(with(R"("in":[],"rows":[0,1],"tensor":"query")"),
            "plan.json: task 0: \"worker\" is missing, and \"in\" is empty");
  EXPECT_EQ(with(R"("in":[],"rows":[0,1],"worker":0)"),
            "plan.json: task 0: \"tensor\" is missing, and \"in\" is empty");
  EXPECT_EQ(with(R"("in":["Q0","Q1"],"rows":[0,1])"),
            "plan.json: task 0: exchange takes 1 input, not 2");
  EXPECT_EQ(with(R"("in":["Q0"],"tensor":"key_value","rows":[0,1])"),
            "plan.json: task 0: \"tensor\" is key_value, but the exchange is of query");
  EXPECT_THAT(with(R"("in":["Q0"],"rows":[0,0])"), HasSubstr("at least one chunk"));
  EXPECT_THAT(with(R"("in":["Q0"],"rows":7)"), HasSubstr("\"rows\" must be a list, not 7"));
  EXPECT_THAT(with(R"("in":["KV0"],"rows":[0,1],"heads":[1,2])"), HasSubstr("kv_heads are 0 to 1"));
  EXPECT_THAT(with(R"("in":["Q0"],"rows":[0,1],"bytes":1)"), HasSubstr("but it must be 512"));
  for (const char* field : {"\"with_previous\":true", "\"slot\":0", "\"to\":1", "\"keys\":[0,1]"})
    EXPECT_THAT(with(fmt::format(R"("in":["Q0"],"rows":[0,1],{})", field)),
                HasSubstr("has no meaning for exchange tasks"));
  EXPECT_THAT(error_of(R"({"do":"attend","in":["Q0","KV0"],"rows":[]})"),
              HasSubstr("must be [first chunk, number of chunks]"));
}

TEST(PlanFile, WhatAnExchangeOrARoundingDoesNotMakeCannotBeRead) {
  EXPECT_EQ(error_of(R"({"do":"exchange","in":["KV0"],"rows":[],"members":1},
{"do":"send","in":[0],"to":1})"),
            "plan.json: task 1: input 0: that member of an exchange gets nothing");
  EXPECT_EQ(error_of(R"({"do":"round","in":["Q0"]})"),
            "plan.json: task 0: round takes a partial, query_gradient or key_value_gradient "
            "tensor, not query");
  EXPECT_THAT(error_of(R"({"do":"round","in":[]})"), HasSubstr("round takes 1 input, not 0"));
  EXPECT_THAT(error_of(R"({"do":"attend","in":["Q0","KV0"]},{"do":"round","in":[0]},
{"do":"merge","in":[0,1]})"),
              HasSubstr("input 2 of merge must be a partial tensor, not rounded_partial"));
  EXPECT_THAT(error_of(R"({"do":"output","in":["Q0"]})"), HasSubstr("rounded or not, not query"));
}

TEST(PlanFile, AFileOfVersionOneHasNoExchangesAndNothingRounded) {
  EXPECT_THAT(error_of(R"({"do":"exchange","in":["Q0"],"rows":[0,1],"members":1})", 1),
              HasSubstr("\"members\" needs \"version\":2"));
  EXPECT_EQ(error_of(R"({"do":"exchange","in":["Q0"],"rows":[0,1]})", 1),
            "plan.json: task 0: exchange needs \"version\":2; this file says 1");
  EXPECT_EQ(error_of(R"({"do":"attend","in":["Q0","KV0"]},{"do":"round","in":[0]})", 1),
            "plan.json: task 1: round needs \"version\":2; this file says 1");
  EXPECT_EQ(
      error_of(R"({"do":"receive","from":null,"worker":0,"tensor":"rounded_partial","rows":[0,1]})",
               1),
      "plan.json: task 0: rounded_partial needs \"version\":2; this file says 1");
}

}  // namespace
}  // namespace ringsched
