#include "ringsched/scheduler/plan_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Problem problem(std::uint32_t workers, std::int64_t tokens, const Mask& mask = Mask::causal(),
                Pass pass = Pass::Forward) {
  Problem p;
  p.workers = workers;
  p.tokens = Tokens{tokens};
  p.mask = mask;
  p.pass = pass;
  return p;
}

// The same tasks in the same order, however regions and works are numbered.
void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.problem, b.problem);
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.controls, b.controls);
  EXPECT_EQ(a.slots, b.slots);
  ASSERT_EQ(a.initial.size(), b.initial.size());
  ASSERT_EQ(a.tasks.size(), b.tasks.size());
  for (std::uint32_t i = 0; i < a.tasks.size(); ++i) {
    const Task &s = a.tasks[i], &t = b.tasks[i];
    SCOPED_TRACE(fmt::format("task {}", i));
    EXPECT_EQ(s.kind, t.kind);
    EXPECT_EQ(s.makes, t.makes);
    EXPECT_EQ(s.lane, t.lane);
    EXPECT_EQ(s.with_previous, t.with_previous);
    EXPECT_EQ(s.worker_index, t.worker_index);
    EXPECT_EQ(s.step, t.step);
    EXPECT_EQ(s.inputs, t.inputs);
    EXPECT_EQ(a.works[s.work.value], b.works[t.work.value]);
    EXPECT_EQ(a.regions[s.region.value], b.regions[t.region.value]);
    if (is_attend(s.kind)) {
      EXPECT_EQ(a.regions[s.keys.value], b.regions[t.keys.value]);
    }
    if (is_transfer(s.kind)) {
      EXPECT_EQ(s.peer, t.peer);
    }
  }
}

void expect_round_trip(const Plan& plan) {
  const std::string text = write_plan(plan);
  const Plan back = read_plan(text, "plan");
  EXPECT_EQ(write_plan(back), text);
  expect_same(plan, back);
}

std::string error_of(std::string_view json) {
  try {
    read_plan(json, "plan.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "it was read";
}

constexpr std::string_view kHead =
    R"({"format":"ringsched-plan","version":1,"problem":{"workers":2,"tokens":8,"heads":4,)"
    R"("kv_heads":2,"head_dim":16,"dtype":"bf16","mask":"causal","pass":"forward"},)";

std::string file_of(std::string_view tasks) {
  return fmt::format("{}\"tasks\":[{}]}}", kHead, tasks);
}
std::string file_with_layout(std::string_view layout) {
  return fmt::format("{}\"layout\":{},\"tasks\":[]}}", kHead, layout);
}
std::string backward(std::string file) { return file.replace(file.find("forward"), 7, "backward"); }

constexpr std::string_view kRing = R"({"do":"attend","in":["Q0","KV0"]},
{"do":"attend","in":["Q1","KV1"]},
{"do":"send","in":["KV0"],"to":1,"step":1},
{"do":"receive","from":2},
{"do":"attend","in":["Q1",3]},
{"do":"merge","in":[1,4]})";

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
    return Layout{.name = "custom",
                  .chunks = {{0, 2, 4}, {8, 1, 3}, {1, 2, 4}, {11, 1, 1}},
                  .first = {0, 2, 3, 4}};
  };
  const Plan plan = build_plan(problem(3, 12, Mask::causal(), Pass::Both), schedule);
  EXPECT_THAT(write_plan(plan), HasSubstr(R"({"worker":0,"start":0,"count":4,"stride":2},)"));
  EXPECT_THAT(write_plan(plan), HasSubstr(R"({"worker":2,"start":11,"count":1})"));
  expect_round_trip(plan);
}

TEST(PlanFile, ControlEdgesAndBufferSlotsReadBack) {
  const Plan plan =
      limit_communication(build_plan(problem(6, 96, Mask::full()), find_schedule("ring")),
                          {.overlap = Overlap::Prefetch, .buffers = 2});
  EXPECT_FALSE(plan.controls.empty());
  EXPECT_FALSE(plan.slots.empty());
  expect_round_trip(plan);
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
  EXPECT_EQ(plan.tasks[3].makes, TensorKind::Query);
  expect_round_trip(plan);
}

TEST(PlanFile, ATextThatIsNoJsonIsRejectedWithItsPlace) {
  EXPECT_EQ(error_of(""), "plan.json: the file is empty");
  EXPECT_EQ(error_of("  \n"), "plan.json: the file is empty");
  EXPECT_EQ(error_of("{\"format\":\n \"a\"\n \"b\":1}"),
            "plan.json: line 3, column 2: expected ',' or '}'");
  EXPECT_EQ(error_of("[1, NaN]"),
            "plan.json: line 1, column 5: expected a value: a number, a string, true, false, null, "
            "a list or an object");
  EXPECT_EQ(error_of(std::string(100, '[')),
            "plan.json: line 1, column 17: nested more than 16 levels deep");
  EXPECT_EQ(error_of("{\"a\":\"\xff\"}"), "plan.json: the text is not valid UTF-8");
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object, not a list"));
  EXPECT_EQ(error_of("\xef\xbb\xbf{}"),
            "plan.json: the text begins with a byte order mark; write it as UTF-8 without one");
  for (const char* number : {"123456789012345678901234567890", "-9223372036854775809",
                             "18446744073709551616", "1e999", "-0.5E+400"})
    EXPECT_EQ(error_of(fmt::format("{{\n\"a\":{}}}", number)),
              "plan.json: line 2, column 5: the number is too large");
  for (const char* half : {"\\ud800", "\\udc00", "\\ud800\\n", "\\ud800\\u0041", "\\ud8ff\\ud8ff"})
    EXPECT_EQ(error_of(fmt::format("[1,\n \"x{}\"]", half)),
              "plan.json: line 2, column 4: half of a surrogate pair in a string");
  EXPECT_EQ(error_of("[1e-999, 18446744073709551615, -9223372036854775808, \"\\ud83d\\ude00\" 1]"),
            "plan.json: line 1, column 69: expected ',' or ']'");
}

TEST(PlanFile, APlanFileCutShortAnywhereIsRejected) {
  const std::string text =
      write_plan(build_plan(problem(3, 48, Mask::causal(), Pass::Both), find_schedule("ring")));
  for (std::size_t n = 1; n + 1 < text.size(); ++n)
    ASSERT_THAT(error_of(std::string_view(text).substr(0, n)), HasSubstr("the file ends in")) << n;
}

TEST(PlanFile, ADamagedByteNeverDoesMoreThanChangeThePlan) {
  const std::string text =
      write_plan(build_plan(problem(2, 8, Mask::causal(), Pass::Both), find_schedule("ring")));
  for (std::size_t at = 0; at < text.size(); ++at)
    for (const char c : {'"', '9', '-', ',', '[', ' '}) {
      std::string damaged = text;
      damaged[at] = c;
      try {
        const std::string once = write_plan(read_plan(damaged, "damaged"));
        ASSERT_EQ(write_plan(read_plan(once, "again")), once);
      } catch (const Error& e) {
        ASSERT_THAT(std::string(e.what()), StartsWith("damaged: ")) << at;
      }
    }
}

TEST(PlanFile, AnotherFormatOrANewerVersionIsRejected) {
  EXPECT_EQ(error_of("{}"),
            "plan.json: this is no plan file: it lacks \"format\":\"ringsched-plan\"");
  EXPECT_EQ(error_of(R"({"format":"ringsched-plan","version":3,"colour":1})"),
            "plan.json: this file is version 3; this ringsched reads version 1");
  EXPECT_THAT(error_of(R"({"format":"ringsched-plan","version":"1"})"),
              HasSubstr("\"version\" must be a whole number"));
  EXPECT_EQ(error_of(R"({"format":"ringsched-plan"})"), "plan.json: \"version\" is missing");
}

TEST(PlanFile, AnUnknownOrRepeatedFieldIsRejected) {
  EXPECT_THAT(error_of(file_of(R"({"do":"attend","in":["Q0","KV0"],"stepp":1})")),
              StartsWith("plan.json: task 0: there is no field 'stepp'; did you mean step?"));
  EXPECT_EQ(error_of(file_of(R"({"do":"attend","in":["Q0","KV0"],"step":1,"step":1})")),
            "plan.json: task 0: \"step\" is given twice");
  EXPECT_EQ(error_of(file_of(R"({"do":"attend","in":["Q0","KV0"],"to":1})")),
            "plan.json: task 0: \"to\" says nothing of attend tasks");
  EXPECT_THAT(error_of(file_of(R"({"do":"atend"})")), HasSubstr("did you mean attend?"));
  EXPECT_THAT(error_of(file_with_layout(R"({"chunks":[],"name":1})")),
              StartsWith("plan.json: layout: there is no field 'name'"));
  EXPECT_THAT(error_of(file_of("{\"a\\nb\":1}")), Not(HasSubstr("\n")));
}

TEST(PlanFile, AWrongReferenceIsRejectedWithItsTask) {
  const auto after_ring = [](std::string_view task) {
    return error_of(file_of(fmt::format("{},{}", kRing, task)));
  };
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,6]})"),
              StartsWith("plan.json: task 6: input 6: a task reads what earlier tasks made"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,99]})"), HasSubstr("there is no such task"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,-1]})"), HasSubstr("there is no such task"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,2]})"), HasSubstr("is a send and makes no"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"4.1"]})"), HasSubstr("second output"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"Q7"]})"), HasSubstr("the workers are 0 to 1"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"dO0"]})"), HasSubstr("pass forward"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"K0"]})"),
              HasSubstr("there is no tensor \"K0\""));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,1.5]})"), HasSubstr("not 1.5"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5]})"), HasSubstr("merge takes 2 inputs, not 1"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"Q1"]})"),
              HasSubstr("input 2 of merge must be a partial tensor, not query"));
  EXPECT_THAT(after_ring(R"({"do":"reduce","in":[5,4]})"), HasSubstr("not partial"));
  EXPECT_THAT(after_ring(R"({"do":"output","in":["Q0"]})"), HasSubstr("not query"));
  EXPECT_THAT(after_ring(R"({"do":"receive","from":2})"), HasSubstr("received by task 3 already"));
  EXPECT_THAT(after_ring(R"({"do":"receive","from":1})"), HasSubstr("task 1 is attend"));
  EXPECT_THAT(after_ring(R"({"do":"receive"})"), HasSubstr("\"from\" is missing"));
  EXPECT_THAT(after_ring(R"({"do":"receive","from":null})"), HasSubstr("\"worker\" is missing"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,4],"after":[6]})"), HasSubstr("earlier task"));
}

TEST(PlanFile, AFileThatContradictsItselfIsRejected) {
  EXPECT_EQ(error_of(file_of(R"({"do":"attend","in":["Q0","KV0"],"pairs":11})")),
            "plan.json: task 0: \"pairs\" is 11, but this task has 10");
  EXPECT_THAT(error_of(file_of(R"({"do":"send","in":["KV0"],"bytes":1})")),
              HasSubstr("\"bytes\" is 1, but this task has 512"));
  EXPECT_THAT(error_of(file_of(R"({"do":"send","in":["KV0"],"tensor":"query"})")),
              HasSubstr("what is sent is key_value"));
  EXPECT_THAT(error_of(file_of(R"({"do":"send","in":["KV0"],"to":1},
                                  {"do":"receive","from":0,"worker":0})")),
              HasSubstr("task 1: \"worker\" is 0, but task 0 sends to worker 1"));
}

TEST(PlanFile, ANumberOutOfRangeIsRejected) {
  const auto attend_with = [](std::string_view field) {
    return error_of(file_of(fmt::format(R"({{"do":"attend","in":["Q0","KV0"],{}}})", field)));
  };
  EXPECT_THAT(attend_with(R"("worker":2)"),
              HasSubstr("\"worker\" must be a whole number from 0 to 1, not 2"));
  EXPECT_THAT(attend_with(R"("worker":"0")"), HasSubstr("not \"0\""));
  EXPECT_THAT(attend_with(R"("step":-1)"), HasSubstr("\"step\""));
  EXPECT_THAT(attend_with(R"("rows":[0,3])"), HasSubstr("\"rows\""));
  EXPECT_THAT(attend_with(R"("rows":[1,2])"), HasSubstr("but the chunks are 0 to 1"));
  EXPECT_THAT(attend_with(R"("rows":[0,0])"), HasSubstr("\"rows\""));
  EXPECT_THAT(attend_with(R"("rows":[0])"), HasSubstr("[first chunk, number of chunks]"));
  EXPECT_THAT(attend_with(R"("keys":[-1,1])"), HasSubstr("\"keys\""));
  EXPECT_THAT(attend_with(R"("lane":"fast")"), HasSubstr("there is no lane 'fast'"));
}

TEST(PlanFile, ALayoutThatDoesNotHoldEveryTokenOnceIsRejected) {
  const auto chunks = [](std::string_view list) {
    return error_of(file_with_layout(fmt::format(R"({{"chunks":[{}]}})", list)));
  };
  EXPECT_THAT(chunks(""), HasSubstr("worker 0 has no chunk"));
  EXPECT_THAT(chunks(R"({"worker":1,"start":0,"count":8})"), HasSubstr("before worker 0"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":4},{"worker":1,"start":4,"count":5})"),
              StartsWith("plan.json: chunk 1: its last position is 8"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":0})"), HasSubstr("\"count\""));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":4},{"worker":1,"start":3,"count":4})"),
              StartsWith("plan.json: layout: token 3 is in chunk 0 and in chunk 1"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0})"), HasSubstr("chunk 0: \"count\" is missing"));
  EXPECT_THAT(error_of(file_with_layout("\"spiral\"")), StartsWith("plan.json: layout: "));
  EXPECT_THAT(error_of(file_with_layout("7")), HasSubstr("not 7"));
}

TEST(PlanFile, AProblemThatMakesNoSenseIsRejectedWithTheNameOfTheFile) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string file = file_of("");
    return error_of(file.replace(file.find(from), from.size(), to));
  };
  EXPECT_THAT(with("\"heads\":4", "\"heads\":3"), StartsWith("plan.json: problem: "));
  EXPECT_THAT(with("\"causal\"", "\"casual\""), StartsWith("plan.json: problem: "));
  EXPECT_THAT(with("\"workers\":2", "\"workers\":0"), HasSubstr("from 1 to 65535, not 0"));
  EXPECT_THAT(with("\"head_dim\":16,", ""), HasSubstr("problem: \"head_dim\" is missing"));
}

// A few letters must not make the reader compare 65535 chunks with as many.
TEST(PlanFile, ASmallFileCannotAskForMuchWork) {
  std::string file =
      file_of(R"({"do":"attend","in":["Q0","KV0"],"rows":[0,65535],"keys":[0,65535]})");
  file.replace(file.find("\"workers\":2,\"tokens\":8"), 22,
               "\"workers\":65535,\"tokens\":2147483647");
  EXPECT_THAT(error_of(file), HasSubstr("task 0: the tasks so far attend too many chunks"));
}

// Seeds of the fuzzer, and what it found.
TEST(PlanFile, EveryFileOfTheCorpusIsReadOrRejected) {
  const std::filesystem::path corpus = RINGSCHED_SOURCE_DIR "/tests/fuzz/corpus/plan_file";
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path());
    try {
      const std::string text = write_plan(read_plan_file(entry.path()));
      EXPECT_EQ(write_plan(read_plan(text, "its own text")), text);
    } catch (const Error& e) {
      EXPECT_THAT(std::string(e.what()), Not(HasSubstr("\n")));
    }
  }
}

}  // namespace
}  // namespace ringsched
