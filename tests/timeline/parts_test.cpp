// Timelines of plans whose tasks work on parts of shares.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/share_label.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Timeline timeline_of(const char* schedule, std::uint32_t workers, Pass pass = Pass::Forward) {
  return timeline_of(build_plan(small_problem(workers, 8 * workers, pass), find_schedule(schedule)),
                     TimelineSource::Predicted, "m");
}

constexpr ChunksOfShare kAll, kFront{0, 0}, kBack{1, 1};

// In zigzag all queries see the front of earlier workers' keys, and only the back of the queries
// sees keys of later workers.
TEST(TimelineParts, SayWhichHalvesZigzagAttends) {
  for (const Pass pass : {Pass::Forward, Pass::Both}) {
    const Timeline t = timeline_of("zigzag", 5, pass);
    std::size_t halves = 0;
    for (std::uint32_t id = 0; id < t.tasks.size(); ++id) {
      const TimelineTask& x = t.tasks[id];
      if (!is_attend(x.kind)) continue;
      const TaskPart* const part = t.part(id);
      EXPECT_EQ(part != nullptr, x.queries != x.other) << id;
      if (!part) continue;
      EXPECT_EQ(part->queries, x.queries < x.other ? kBack : kAll) << id;
      EXPECT_EQ(part->keys, x.queries < x.other ? kAll : kFront) << id;
      ++halves;
    }
    EXPECT_EQ(halves, pass == Pass::Both ? 40u : 20u);
  }
}

TEST(TimelineParts, SayWhatIsMovedAndMerged) {
  const Timeline t = timeline_of("balanced-split", 4);
  int moved = 0;
  for (const TaskPart& p : t.parts) {
    const TimelineTask& x = t.tasks[p.task.value];
    EXPECT_TRUE(is_attend(x.kind) || p.keys == kAll);
    moved += is_send(x.kind) && p.queries == kBack ? 1 : 0;
  }
  EXPECT_EQ(moved, 4) << "two workers have half of their queries helped, and get half a result";
}

TEST(TimelineParts, ReadAsTheyWereWritten) {
  for (const char* schedule : {"zigzag", "balanced-split"})
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
      const Timeline t = timeline_of(schedule, 4, pass);
      ASSERT_FALSE(t.parts.empty());
      EXPECT_EQ(read_timeline(write_timeline(t), "text"), t);
    }
  for (const char* schedule : {"ring", "balanced", "striped", "ulysses"})
    EXPECT_THAT(write_timeline(timeline_of(schedule, 4)), Not(HasSubstr("\"parts\""))) << schedule;
}

TEST(TimelineParts, OfNoTaskOrOfNothingAreRefused) {
  const std::string text = write_timeline(timeline_of("zigzag", 2));
  const std::string list = "\"parts\": [";
  const std::size_t at = text.find(list);
  ASSERT_NE(at, std::string::npos);
  const auto refusal = [&](const std::string& parts) -> std::string {
    std::string other = text;
    other.replace(at + list.size(), text.find("],\n", at) - at - list.size(), parts);
    try {
      read_timeline(other, "t.json");
    } catch (const Error& e) {
      return e.what();
    }
    return "it was read";
  };
  EXPECT_EQ(refusal("[0,1,1,-1,-1], [1,-1,-1,0,2]"), "it was read");
  EXPECT_EQ(refusal(""), "it was read");
  for (const char* wrong : {"7", "[0,1,1,0]", "[0,1,1,0,0,0]", "[99,1,1,0,0]", "[-1,1,1,0,0]",
                            "[0,1,0,0,0]", "[0,-1,0,0,0]", "[0,0,-1,0,0]", "[0,-2,-2,0,0]",
                            "[0,0,4294967295,0,0]", "[0,-1,-1,-1,-1]", "[0,0.5,1,0,0]"})
    EXPECT_THAT(refusal(wrong), HasSubstr("t.json: part 0: ")) << wrong;
  EXPECT_THAT(refusal("[1,1,1,0,0], [1,1,1,0,0]"), HasSubstr("t.json: part 1: \"task\""));
  const Timeline t = timeline_of("zigzag", 2);
  std::uint32_t other = 0;
  while (is_attend(t.tasks[other].kind)) ++other;
  EXPECT_EQ(refusal(fmt::format("[{},1,1,0,0]", other)),
            fmt::format("t.json: part 0: task {} attends no keys", other));
}

TEST(ChunksLabel, CountsInLettersAndThenInNumbers) {
  EXPECT_EQ(chunks_label(0, 0), "a");
  EXPECT_EQ(chunks_label(1, 2), "bc");
  EXPECT_EQ(chunks_label(1, 3), "b-d");
  EXPECT_EQ(chunks_label(25, 25), "z");
  EXPECT_EQ(chunks_label(26, 26), ".27");
  EXPECT_EQ(chunks_label(3, 29), ".4-30");
  EXPECT_EQ(chunks_label(0xfffffffe, 0xfffffffe), ".4294967295");
}

}  // namespace
}  // namespace ringsched
