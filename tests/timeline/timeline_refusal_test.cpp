// The errors for timelines that break the rules of docs/timeline-format.md: one line, with the
// place.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kGood = R"({
"format": "ringsched-timeline",
"version": 1,
"source": "measured",
"program": "p",
"machine": "m",
"schedule": "ring",
"plan_hash": "0123456789abcdef",
"problem": {"workers": 2, "tokens": 64, "heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "bf16", "mask": "causal", "pass": "forward"},
"kinds": ["attend", "output"],
"tensors": ["query", "partial"],
"lanes": ["compute"],
"columns": ["kind", "makes", "worker", "lane", "step", "queries", "other", "start_ps", "duration_ps"],
"tasks": [
[0,1,0,0,0,0,0,0,26],
[0,1,1,0,0,1,1,0,26]
]
}
)";
const std::string kRow = "[0,1,1,0,0,1,1,0,26]";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("not in the timeline: " + from);
  return text.replace(at, from.size(), to);
}

// Without the line (or member) that begins with this.
std::string without(const std::string& field) {
  std::string text = kGood;
  const std::size_t at = text.find("\"" + field + "\"");
  return text.replace(at, field.size() + 2, "\"x\"");
}

TEST(TimelineText, OfARunThatDidNotEndSaysSo) {
  const std::string head = "\"kinds\"", why = "\"incomplete\": \"process 1 is \\\"gone\\\"\",\n";
  const Timeline t = read_timeline(with(head, why + "\"unfinished\": [1],\n" + head), "t.json");
  EXPECT_EQ(t.incomplete, "process 1 is \"gone\"");
  EXPECT_EQ(t.unfinished, std::vector<TaskId>{TaskId{1}});
  EXPECT_EQ(read_timeline(write_timeline(t), "again"), t);
  EXPECT_TRUE(read_timeline(with(head, why + head), "t.json").unfinished.empty());
  const auto refused = [&](const std::string& more, const char* told) {
    try {
      read_timeline(with(head, more + head), "t.json");
      ADD_FAILURE() << more;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(told)) << more;
    }
  };
  refused("\"incomplete\": \"\",\n", "must give a reason");
  refused("\"unfinished\": [1],\n", "needs");
  refused(why + "\"unfinished\": [2],\n", "unfinished");
  refused(why + "\"unfinished\": [1, 0],\n", "unfinished");
  refused(why + "\"unfinished\": [1, 1],\n", "unfinished");
  refused(why + "\"unfinished\": 1,\n", "unfinished");
}

TEST(TimelineText, OfThisTestIsGood) {
  const Timeline t = read_timeline(kGood, "t.json");
  EXPECT_EQ(t.tasks.size(), 2u);
  EXPECT_EQ(t.makespan().value, 26);
  EXPECT_EQ(t.source, TimelineSource::Measured);
}

TEST(TimelineText, MissesEachFieldThatIsNotThere) {
  for (const char* field :
       {"format",  "version", "source", "program", "machine",  "schedule", "plan_hash",
        "problem", "workers", "tokens", "heads",   "kv_heads", "head_dim", "dtype",
        "mask",    "pass",    "kinds",  "tensors", "lanes",    "columns",  "tasks"})
    try {
      read_timeline(without(field), "t.json");
      ADD_FAILURE() << field;
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), fmt::format("t.json: \"{}\" is missing", field));
    }
}

struct BadTimeline {
  const char* name;
  std::string text;
  std::string says;
};

void PrintTo(const BadTimeline& b, std::ostream* out) { *out << b.name; }

class MalformedTimeline : public testing::TestWithParam<BadTimeline> {};

TEST_P(MalformedTimeline, IsRefusedInOneLineWithThePlace) {
  const auto& [name, text, says] = GetParam();
  try {
    read_timeline(text, "t.json");
    FAIL() << "it was read";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), StartsWith("t.json:"));
    EXPECT_THAT(e.what(), HasSubstr(says));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  }
}

const BadTimeline kBad[] = {
    {"nothing", "", "t.json:1:1"},
    {"no_object", "[1]", "t.json:1:1: expected an object"},
    {"cut_off", kGood.substr(0, kGood.size() - 4), "t.json:1"},
    {"byte_order_mark", "\xef\xbb\xbf" + kGood, "byte order mark"},
    {"not_utf8", with("\"m\"", "\"\xff\""), "UTF-8"},
    {"comma_too_many", with("26]\n]", "26],\n]"), "t.json:17:"},
    {"too_deep", with("\"m\"", std::string(16, '[')), "t.json:6:27: nested more than 16"},
    {"other_format", with("ringsched-timeline", "ringsched-plan"),
     "\"format\" must be \"ringsched-timeline\", not \"ringsched-plan\""},
    {"format_of_two_lines", with("ringsched-timeline", "a\\nb"), "\"format\" must be"},
    {"other_version", with("\"version\": 1", "\"version\": 2"), "\"version\" must be 1"},
    {"version_as_text", with("\"version\": 1", "\"version\": \"1\""), "\"version\""},
    {"other_source", with("measured", "guessed"),
     "must be \"predicted\", \"measured\" or \"emulated\""},
    {"long_name", with("\"m\"", "\"" + std::string(5'000'000, 'x') + "\""),
     "\"machine\" has 5000000 bytes; at most 1000 are allowed"},
    {"number_for_a_text", with("\"m\"", "3"), "\"machine\""},
    {"problem_as_list", with("\"problem\": {", "\"problem\": [], \"x\": {"), "\"problem\""},
    {"no_workers", with("\"workers\": 2", "\"workers\": 0"), "\"workers\""},
    {"too_many_workers", with("\"workers\": 2", "\"workers\": 65536"), "\"workers\""},
    {"fewer_tokens_than_workers", with("\"tokens\": 64", "\"tokens\": 1"), "token"},
    {"heads_that_do_not_divide", with("\"kv_heads\": 2", "\"kv_heads\": 3"), "heads"},
    {"other_dtype", with("bf16", "fp8"), "fp8"},
    {"other_mask", with("causal", "casual"), "casual"},
    {"other_pass", with("\"forward\"", "\"sideways\""), "sideways"},
    {"unknown_kind", with("\"output\"]", "\"outpt\"]"), "\"kinds\": unknown name 'outpt'"},
    {"unknown_tensor", with("\"query\",", "\"qu\\nery\","), "\"tensors\": unknown name 'qu?ery'"},
    {"lane_without_a_name", with("[\"compute\"]", "[\"compute\", \"\"]"),
     "\"lanes\": the name of lane 3 has 0 bytes"},
    {"lane_with_control_character", with("[\"compute\"]", "[\"compute\", \"a\\u0007\"]"),
     "\"lanes\": the name of lane 3, 'a?', has a control character"},
    {"nine_lanes", with("[\"compute\"]", "[\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]"),
     "\"lanes\": there are 9 lanes; 3 to 8 are allowed"},
    {"lane_past_the_last", with("[0,1,0,0,", "[0,1,0,1,"), "\"lane\""},
    {"kinds_as_text", with("[\"attend\", \"output\"]", "\"attend\""), "\"kinds\""},
    {"column_missing", with("\"kind\", \"makes\"", "\"makes\""), "\"columns\" must be: kind"},
    {"columns_short", with(", \"duration_ps\"", ""), "\"columns\" must be: kind"},
    {"columns_long", with("\"duration_ps\"", "\"duration_ps\", \"x\""), "\"columns\" must be"},
    {"row_too_short", with(kRow, "[0,1,1,0,0,1,1,0]"), "task 1: must be a list of 9 numbers"},
    {"row_too_long", with(kRow, "[0,1,1,0,0,1,1,0,26,0]"), "task 1: must be a list of 9"},
    {"row_no_list", with(kRow, "7"), "task 1: must be a list of 9"},
    {"kind_beyond_the_list", with(kRow, "[2,1,1,0,0,1,1,0,26]"), "task 1: \"kind\""},
    {"makes_beyond_the_list", with(kRow, "[0,2,1,0,0,1,1,0,26]"), "task 1: \"makes\""},
    {"no_such_worker", with(kRow, "[0,1,2,0,0,1,1,0,26]"), "task 1: \"worker\""},
    {"no_such_lane", with(kRow, "[0,1,1,1,0,1,1,0,26]"), "task 1: \"lane\""},
    {"negative_step", with(kRow, "[0,1,1,0,-1,1,1,0,26]"), "task 1: \"step\""},
    {"step_too_large", with(kRow, "[0,1,1,0,4294967296,1,1,0,26]"), "task 1: \"step\""},
    {"queries_of_nobody", with(kRow, "[0,1,1,0,0,2,1,0,26]"), "task 1: \"queries\""},
    {"other_of_nobody", with(kRow, "[0,1,1,0,0,1,2,0,26]"), "task 1: \"other\""},
    {"negative_start", with(kRow, "[0,1,1,0,0,1,1,-1,26]"), "task 1: \"start_ps\""},
    {"fractional_start", with(kRow, "[0,1,1,0,0,1,1,0.5,26]"), "task 1: \"start_ps\""},
    {"negative_duration", with(kRow, "[0,1,1,0,0,1,1,0,-26]"), "task 1: \"duration_ps\""},
    {"start_beyond_time", with(kRow, "[0,1,1,0,0,1,1,4611686018427387904,26]"),
     "task 1: \"start_ps\""},
    {"duration_beyond_numbers", with(kRow, "[0,1,1,0,0,1,1,0,99999999999999999999]"), "t.json:16:"},
};

INSTANTIATE_TEST_SUITE_P(Timeline, MalformedTimeline, testing::ValuesIn(kBad),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace ringsched
