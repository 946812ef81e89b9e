// The errors for plan files that break the rules of docs/plan-format.md: one line, with the place.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "support/cases.hpp"
#include "support/paths.hpp"
#include "support/plan_texts.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string error_of_plan(std::string_view json) {
  try {
    read_plan(json, "plan.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "it was read";
}

TEST(PlanFile, ATextThatIsNoJsonIsRejectedWithItsPlace) {
  EXPECT_EQ(error_of_plan(""), "plan.json:1:1: the file is empty");
  EXPECT_EQ(error_of_plan("  \n"), "plan.json:2:1: the file is empty");
  EXPECT_EQ(error_of_plan("{\"format\":\n \"a\"\n \"b\":1}"), "plan.json:3:2: expected ',' or '}'");
  EXPECT_EQ(error_of_plan("{\"a\":[1, NaN]}"),
            "plan.json:1:10: expected a value: a number, a string, true, false, null, a list or an "
            "object");
  EXPECT_EQ(error_of_plan("{\"a\":" + std::string(100, '[')),
            "plan.json:1:21: nested more than 16 levels deep");
  EXPECT_EQ(error_of_plan("{\"a\":\"\xff\"}"), "plan.json: the text is not valid UTF-8");
  for (const char* text : {"[]", "7", "\"a\"", "true", "x", "\x1f\x8b"})
    EXPECT_EQ(error_of_plan(text), "plan.json:1:1: expected an object, which begins with '{'");
  EXPECT_EQ(error_of_plan("\xef\xbb\xbf{}"),
            "plan.json:1:1: the file starts with a byte order mark; save it as UTF-8 without one");
  for (const char* number : {"123456789012345678901234567890", "-9223372036854775809",
                             "18446744073709551616", "1e999", "-0.5E+400"})
    EXPECT_EQ(error_of_plan(fmt::format("{{\n\"a\":{}}}", number)),
              "plan.json:2:5: the number is too large");
  EXPECT_EQ(error_of_plan("{\"a\":" + std::string(2000, '1') + "}"),
            "plan.json:1:6: the number is too large");
  for (const char* half : {"\\ud800", "\\udc00", "\\ud800\\n", "\\ud800\\u0041", "\\ud8ff\\ud8ff"})
    EXPECT_EQ(error_of_plan(fmt::format("{{\"a\":1,\n \"x{}\":2}}", half)),
              "plan.json:2:4: half of a surrogate pair in a string");
  EXPECT_EQ(error_of_plan("{\"a\":[1e-999, 18446744073709551615, -9223372036854775808, "
                          "\"\\ud83d\\ude00\" 1]}"),
            "plan.json:1:74: expected ',' or ']'");
}

TEST(PlanFile, EachByteThatJsonCannotHaveIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> faults[] = {
      {"{a:1}", "1:2: expected the name of a field, in quotes"},
      {"{\"a\" 1}", "1:6: expected ':'"},
      {"{\"a\":1,}", "1:8: expected the name of a field, in quotes"},
      {"{\"a\":[1,]}", "1:9: expected a value"},
      {"{\"a\":tru}", "1:9: expected true"},
      {"{\"a\":nul\n}", "1:9: expected null"},
      {"{\"a\":01}", "1:7: expected ',' or '}'"},
      {"{\"a\":-}", "1:7: expected a digit"},
      {"{\"a\":1.}", "1:8: expected a digit"},
      {"{\"a\":1.5.2}", "1:9: expected ',' or '}'"},
      {"{\"a\":1e+}", "1:9: expected a digit"},
      {"{\"a\":\"\n\"}", "1:7: a line break or control character inside a string"},
      {"{\"a\":\"\\x\"}", "1:8: unknown escape in a string"},
      {"{\"a\":\"\\u12g4\"}", "1:11: expected four hexadecimal digits after \\u"},
      {"{\"a\":1]", "1:7: expected ',' or '}'"},
      {"{}\n {}", "2:2: extra text after the end of the JSON"},
      {"{\"a\":\"", "1:7: the file is cut off here"}};
  for (const auto& [text, says] : faults)
    EXPECT_THAT(error_of_plan(text), StartsWith(fmt::format("plan.json:{}", says))) << text;
}

TEST(PlanFile, APlanFileCutShortAnywhereIsRejected) {
  const std::string text =
      write_plan(build_plan(problem(3, 48, Mask::causal(), Pass::Both), find_schedule("ring")));
  for (std::size_t n = 1; n + 1 < text.size(); ++n)
    ASSERT_THAT(error_of_plan(std::string_view(text).substr(0, n)),
                HasSubstr("the file is cut off"))
        << n;
}

TEST(PlanFile, ADamagedByteNeverDoesMoreThanChangeThePlan) {
  const std::string text =
      write_plan(build_plan(problem(2, 8, Mask::causal(), Pass::Both), find_schedule("ring")));
  for (std::size_t at = 0; at < text.size(); at += kSanitized ? 7 : 1)
    for (const char c : {'"', '9', '-', ',', '[', ' '}) {
      std::string damaged = text;
      damaged[at] = c;
      try {
        const std::string once = write_plan(read_plan(damaged, "damaged"));
        ASSERT_EQ(write_plan(read_plan(once, "again")), once);
      } catch (const Error& e) {
        ASSERT_THAT(std::string(e.what()), StartsWith("damaged:")) << at;
      }
    }
}

TEST(PlanFile, AnotherFormatOrANewerVersionIsRejected) {
  EXPECT_EQ(error_of_plan("{}"),
            "plan.json: this is not a plan file: it lacks \"format\":\"ringsched-plan\"");
  EXPECT_EQ(error_of_plan(R"({"format":"ringsched-plan","version":3,"colour":1})"),
            "plan.json: the file has version 3; this ringsched reads versions 1 to 2");
  EXPECT_THAT(error_of_plan(R"({"format":"ringsched-plan","version":"1"})"),
              HasSubstr("\"version\" must be a whole number"));
  EXPECT_EQ(error_of_plan(R"({"format":"ringsched-plan"})"), "plan.json: \"version\" is missing");
}

TEST(PlanFile, AFileOfVersionOneHasNoFieldsOfVersionTwo) {
  const auto old = [](std::string file) {
    return error_of_plan(file.replace(file.find("\"version\":2"), 11, "\"version\":1"));
  };
  EXPECT_EQ(old(file_of(R"({"do":"attend","in":["Q0","KV0"],"heads":[0,4]})")),
            "plan.json: task 0: \"heads\" needs \"version\":2; this file says 1");
  EXPECT_THAT(old(file_of(R"({"do":"attend","in":["Q0","KV0"],"complete":false})")),
              HasSubstr("\"complete\" needs \"version\":2"));
  EXPECT_EQ(old(fmt::format(R"({}"given":[],"tasks":[]}})", kHead)),
            "plan.json: \"given\" needs \"version\":2; this file says 1");
  EXPECT_THAT(old(R"({"format":"ringsched-plan","version":2,"problem":{"workers":1,"tokens":4,
                      "heads":1,"kv_heads":1,"head_dim":4,"dtype":"fp32","mask":"causal",
                      "pass":"forward","new_tokens":1},"tasks":[]})"),
              HasSubstr("\"new_tokens\" needs \"version\":2"));
  EXPECT_THAT(old(fmt::format(R"({}"layout":"decode","tasks":[]}})", kHead)),
              HasSubstr("layout decode needs \"version\":2"));
  EXPECT_EQ(old(file_of("")), "it was read");
}

TEST(PlanFile, HeadsThatTheProblemDoesNotHaveAreRejected) {
  const auto with = [](std::string_view task) {
    return error_of_plan(file_of(fmt::format("{{{}}}", task)));
  };
  EXPECT_EQ(with(R"("do":"attend","in":["Q0","KV0"],"heads":[3,2])"),
            "plan.json: task 0: \"heads\" is [3, 2], but the heads are 0 to 3");
  EXPECT_EQ(with(R"("do":"send","in":["KV0"],"heads":[2,1])"),
            "plan.json: task 0: \"heads\" is [2, 1], but the kv_heads are 0 to 1");
  EXPECT_EQ(with(R"("do":"send","in":["KV0"],"heads":[1,0])"),
            "plan.json: task 0: \"heads\" is [1, 0]: at least one kv_head");
  EXPECT_THAT(with(R"("do":"send","in":["Q0"],"heads":[1])"),
              HasSubstr("must be [first head, number of heads]"));
  EXPECT_THAT(with(R"("do":"send","in":["Q0"],"heads":2)"), HasSubstr("must be a list, not 2"));
  EXPECT_THAT(with(R"("do":"send","in":["KV0"],"heads":[0,1],"bytes":512)"),
              HasSubstr("\"bytes\" is 512, but it must be 256 for this task"));
}

TEST(PlanFile, CompletenessOfWhatATaskDoesNotMakeIsRejected) {
  const auto with = [](std::string_view task) {
    const std::string ring = fmt::format("{},{{{}}}", kRing, task);
    return error_of_plan(file_of(ring));
  };
  EXPECT_EQ(with(R"("do":"output","in":[0],"complete":true)"),
            "plan.json: task 6: \"complete\" has no meaning for output tasks");
  EXPECT_THAT(with(R"("do":"merge","in":[0,0],"complete":1)"),
              HasSubstr("must be true or false, not 1"));
  EXPECT_THAT(with(R"("do":"merge","in":[0,0],"complete":[true])"),
              HasSubstr("must be true or false"));
  std::string backward = file_of(R"({"do":"prepare","in":["O0","dO0"]},
{"do":"attend_backward","in":["Q0",0,"KV0"],"complete":[true]})");
  EXPECT_EQ(error_of_plan(backward.replace(backward.find("forward"), 7, "backward")),
            "plan.json: task 1: \"complete\" must have 2 entries, one for each output, not 1");
}

TEST(PlanFile, AWrongListOfWhatIsGivenIsRejected) {
  const auto given = [](std::string_view list, std::string_view task = "") {
    return error_of_plan(fmt::format(R"({}"given":[{}],"tasks":[{}]}})", kHead, list, task));
  };
  EXPECT_EQ(given(R"({"tensor":"output_gradient","worker":0})"),
            "plan.json: given 0: a plan with pass forward is given no output_gradient");
  EXPECT_EQ(given(R"({"tensor":"query","worker":0},{"tensor":"query"})"),
            "plan.json: given 1: \"worker\" is missing");
  EXPECT_THAT(given(R"({"tensor":"querry","worker":0})"), HasSubstr("did you mean query?"));
  EXPECT_THAT(given(R"({"tensor":"query","worker":2})"), HasSubstr("from 0 to 1, not 2"));
  EXPECT_THAT(given(R"({"tensor":"query","worker":0,"rows":[2,1]})"),
              HasSubstr("chunks are 0 to 1"));
  EXPECT_THAT(given(R"({"tensor":"query","worker":0,"head":[2,1]})"),
              HasSubstr("did you mean heads?"));
  EXPECT_THAT(given("7"), HasSubstr("given 0: \"given\" must be an object, not 7"));
  const char* one = R"({"tensor":"query","worker":0})";
  EXPECT_EQ(given(one, R"({"do":"send","in":["KV0"]})"),
            "plan.json: task 0: KV0 does not exist; worker 0 is given 0 key_value tensors");
  EXPECT_EQ(given(one, R"({"do":"send","in":["Q0.1"]})"),
            "plan.json: task 0: Q0.1 does not exist; worker 0 is given 1 query tensor");
  for (const char* name : {"Q0.0", "Q0.01", "Q0.", "Q.1", "0.2", "Q0.1.1"})
    EXPECT_THAT(given(one, fmt::format(R"({{"do":"send","in":["{}"]}})", name)),
                HasSubstr("unknown tensor"));
}

TEST(PlanFile, LanesThatNoPlanMayHaveAreRejected) {
  const auto lanes = [](std::string_view list, std::string_view lane = "fetch") {
    return error_of_plan(fmt::format(
        R"({}"lanes":{},"tasks":[{{"do":"send","in":["Q0"],"lane":"{}"}}]}})", kHead, list, lane));
  };
  EXPECT_EQ(lanes(R"(["compute","fetch","return","outer"])", "outer"), "it was read");
  EXPECT_EQ(lanes(R"(["compute","fetch","return","outer"])", "inner"),
            "plan.json: task 0: unknown lane 'inner' (known: compute, fetch, return, outer)");
  EXPECT_EQ(lanes(R"(["compute","fetch"])"),
            "plan.json: \"lanes\": there are 2 lanes; 3 to 8 are allowed");
  EXPECT_EQ(lanes(R"(["compute","return","fetch"])"),
            "plan.json: \"lanes\": lane 1 is 'return'; it must be 'fetch'");
  EXPECT_THAT(lanes(R"(["compute","fetch","return",7])"), HasSubstr("must be a string, not 7"));
  EXPECT_THAT(lanes("{}"), HasSubstr("\"lanes\" must be a list"));
  const std::string old =
      fmt::format(R"({}"lanes":["compute","fetch","return"],"tasks":[]}})", kHead);
  EXPECT_THAT(
      error_of_plan(std::string(old).replace(old.find("\"version\":2"), 11, "\"version\":1")),
      HasSubstr("\"lanes\" needs \"version\":2"));
}

TEST(PlanFile, AnUnknownOrRepeatedFieldIsRejected) {
  EXPECT_THAT(error_of_plan(file_of(R"({"do":"attend","in":["Q0","KV0"],"stepp":1})")),
              StartsWith("plan.json: task 0: unknown field 'stepp'; did you mean step?"));
  EXPECT_EQ(error_of_plan(file_of(R"({"do":"attend","in":["Q0","KV0"],"step":1,"step":1})")),
            "plan.json: task 0: \"step\" is given twice");
  EXPECT_EQ(error_of_plan(file_of(R"({"do":"attend","in":["Q0","KV0"],"to":1})")),
            "plan.json: task 0: \"to\" has no meaning for attend tasks");
  EXPECT_THAT(error_of_plan(file_of(R"({"do":"atend"})")), HasSubstr("did you mean attend?"));
  EXPECT_THAT(error_of_plan(file_with_layout(R"({"chunks":[],"name":1})")),
              StartsWith("plan.json: layout: unknown field 'name'"));
  EXPECT_THAT(error_of_plan(file_of("{\"a\\nb\":1}")), Not(HasSubstr("\n")));
}

TEST(PlanFile, AWrongReferenceIsRejectedWithItsTask) {
  const auto after_ring = [](std::string_view task) {
    return error_of_plan(file_of(fmt::format("{},{}", kRing, task)));
  };
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,6]})"),
              StartsWith("plan.json: task 6: input 6: a task reads outputs of earlier tasks only"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,99]})"), HasSubstr("no such task"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,-1]})"), HasSubstr("no such task"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,2]})"),
              HasSubstr("is a send, which has no output"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"4.1"]})"), HasSubstr("second output"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"Q7"]})"), HasSubstr("workers are 0 to 1"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"dO0"]})"), HasSubstr("pass forward"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"K0"]})"), HasSubstr("unknown tensor \"K0\""));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,1.5]})"), HasSubstr("not 1.5"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5]})"), HasSubstr("merge takes 2 inputs, not 1"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,"Q1"]})"),
              HasSubstr("input 2 of merge must be a partial tensor, not query"));
  EXPECT_THAT(after_ring(R"({"do":"reduce","in":[5,4]})"), HasSubstr("not partial"));
  EXPECT_THAT(after_ring(R"({"do":"output","in":["Q0"]})"), HasSubstr("not query"));
  EXPECT_THAT(after_ring(R"({"do":"receive","from":2})"),
              HasSubstr("task 3 already receives what task 2 sends"));
  EXPECT_THAT(after_ring(R"({"do":"receive","from":1})"), HasSubstr("task 1 is attend"));
  EXPECT_THAT(after_ring(R"({"do":"receive"})"), HasSubstr("\"from\" is missing"));
  EXPECT_THAT(after_ring(R"({"do":"receive","from":null})"), HasSubstr("\"worker\" is missing"));
  EXPECT_THAT(after_ring(R"({"do":"merge","in":[5,4],"after":[6]})"), HasSubstr("earlier task"));
}

TEST(PlanFile, AFileThatContradictsItselfIsRejected) {
  EXPECT_EQ(error_of_plan(file_of(R"({"do":"attend","in":["Q0","KV0"],"pairs":11})")),
            "plan.json: task 0: \"pairs\" is 11, but it must be 10 for this task");
  EXPECT_THAT(error_of_plan(file_of(R"({"do":"send","in":["KV0"],"bytes":1})")),
              HasSubstr("\"bytes\" is 1, but it must be 512 for this task"));
  EXPECT_THAT(error_of_plan(file_of(R"({"do":"send","in":["KV0"],"tensor":"query"})")),
              HasSubstr("the send sends key_value"));
  EXPECT_THAT(error_of_plan(file_of(R"({"do":"send","in":["KV0"],"to":1},
                                  {"do":"receive","from":0,"worker":0})")),
              HasSubstr("task 1: \"worker\" is 0, but task 0 sends to worker 1"));
}

TEST(PlanFile, ANumberOutOfRangeIsRejected) {
  const auto attend_with = [](std::string_view field) {
    return error_of_plan(file_of(fmt::format(R"({{"do":"attend","in":["Q0","KV0"],{}}})", field)));
  };
  EXPECT_THAT(attend_with(R"("worker":2)"),
              HasSubstr("\"worker\" must be a whole number from 0 to 1, not 2"));
  EXPECT_THAT(attend_with(R"("worker":"0")"), HasSubstr("not \"0\""));
  EXPECT_THAT(attend_with(R"("step":-1)"), HasSubstr("\"step\""));
  for (const char* rows : {"[0, 99]", "[1, 2]", "[2, 1]", "[99, 1]", "[1, 9223372036854775807]"})
    EXPECT_EQ(attend_with(fmt::format("\"rows\":{}", rows)),
              fmt::format("plan.json: task 0: \"rows\" is {}, but the chunks are 0 to 1", rows));
  EXPECT_THAT(attend_with(R"("rows":[1,0])"), HasSubstr("\"rows\" is [1, 0]: at least one chunk"));
  EXPECT_THAT(attend_with(R"("rows":[0,"x"])"),
              HasSubstr("must be [first chunk, number of chunks], and \"x\" is neither"));
  EXPECT_THAT(attend_with(R"("rows":[0])"), HasSubstr("[first chunk, number of chunks]"));
  EXPECT_THAT(attend_with(R"("keys":[-1,1])"), HasSubstr("\"keys\" must be [first chunk, number"));
  EXPECT_THAT(attend_with(R"("lane":"fast")"), HasSubstr("unknown lane 'fast'"));
}

TEST(PlanFile, DummyHeadsThatLeaveNoProblemAreRejected) {
  const auto dummies = [](std::string_view list) {
    return error_of_plan(fmt::format(R"({}"dummy_heads":{},"tasks":[]}})", kHead, list));
  };
  EXPECT_EQ(dummies("[2,1]"), "it was read");  // of 4 heads, 2 of keys and values
  EXPECT_EQ(dummies("[0,0]"), "it was read");
  EXPECT_THAT(dummies("[4,1]"), HasSubstr("\"dummy_heads\""));
  EXPECT_THAT(dummies("[2,2]"), HasSubstr("\"dummy_heads\""));
  EXPECT_THAT(dummies("[1,0]"), StartsWith("plan.json: dummy_heads: kv_heads"));
  EXPECT_THAT(dummies("[1]"), HasSubstr("must be [heads, key/value heads], not 1 numbers"));
  EXPECT_THAT(dummies("2"), HasSubstr("\"dummy_heads\""));
}

TEST(PlanFile, ALayoutThatDoesNotHoldEveryTokenOnceIsRejected) {
  const auto chunks = [](std::string_view list) {
    return error_of_plan(file_with_layout(fmt::format(R"({{"chunks":[{}]}})", list)));
  };
  EXPECT_THAT(chunks(""), HasSubstr("worker 0 has no chunk"));
  EXPECT_THAT(chunks(R"({"worker":1,"start":0,"count":8})"), HasSubstr("worker 0 has no chunk"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":2},{"worker":1,"start":2,"count":4},)"
                     R"({"worker":0,"start":6,"count":2})"),
              HasSubstr("chunk 2: worker 0 has chunk 0, but not chunk 1; list the chunks of a "
                        "worker together"));
  const std::string turned =
      R"({"chunks":[{"worker":1,"start":0,"count":4},{"worker":0,"start":4,"count":4}]})";
  std::string old = file_with_layout(turned);
  EXPECT_EQ(read_plan(old, "turned").layout.owner({0}).value, 1u);
  old.replace(old.find("\"version\":2"), 11, "\"version\":1");
  EXPECT_THAT(error_of_plan(old), HasSubstr("chunk 0: worker 1 is out of order; in version 1"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":4},{"worker":1,"start":4,"count":5})"),
              StartsWith("plan.json: chunk 1: its last token is 8"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":0})"), HasSubstr("\"count\""));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0,"count":4},{"worker":1,"start":3,"count":4})"),
              StartsWith("plan.json: layout: token 3 is in chunks 0 and 1"));
  EXPECT_THAT(chunks(R"({"worker":0,"start":0})"), HasSubstr("chunk 0: \"count\" is missing"));
  EXPECT_THAT(error_of_plan(file_with_layout("\"spiral\"")), StartsWith("plan.json: layout: "));
  EXPECT_THAT(error_of_plan(file_with_layout("7")), HasSubstr("not 7"));
}

TEST(PlanFile, AProblemThatMakesNoSenseIsRejectedWithTheNameOfTheFile) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string file = file_of("");
    return error_of_plan(file.replace(file.find(from), from.size(), to));
  };
  EXPECT_THAT(with("\"heads\":4", "\"heads\":3"), StartsWith("plan.json: problem: "));
  EXPECT_THAT(with("\"causal\"", "\"casual\""), StartsWith("plan.json: problem: "));
  EXPECT_THAT(with("\"workers\":2", "\"workers\":0"), HasSubstr("from 1 to 65535, not 0"));
  EXPECT_THAT(with("\"head_dim\":16,", ""), HasSubstr("problem: \"head_dim\" is missing"));
}

TEST(PlanFile, ALongTextOfAFileIsNotSaidWhole) {
  const std::string much(5'000'000, 'x');
  const auto with = [](std::string_view from, const std::string& to) {
    std::string file = file_of("");
    return error_of_plan(file.replace(file.find(from), from.size(), to));
  };
  EXPECT_EQ(with("\"problem\"", "\"schedule\":\"" + much + "\",\"problem\""),
            "plan.json: \"schedule\" has 5000000 bytes; at most 1000 are allowed");
  for (const std::string& error :
       {with("\"causal\"", "\"" + much + "\""), with("\"bf16\"", "\"" + much + "\""),
        with("\"heads\"", "\"" + much + "\""), with("\"heads\":4", "\"heads\":\"" + much + "\""),
        with("ringsched-plan", much), error_of_plan(file_with_layout("\"" + much + "\"")),
        error_of_plan(file_of("{\"do\":\"" + much + "\"}")),
        error_of_plan(file_of("{\"do\":\"send\",\"in\":[\"" + much + "\"]}"))})
    EXPECT_LT(error.size(), 300u) << error;
}

// Seeds of the fuzzer, and what it found.
TEST(PlanFile, EveryFileOfTheCorpusIsReadOrRejected) {
  const std::filesystem::path corpus = source_folder() / "tests/fuzz/corpus/plan_file";
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
