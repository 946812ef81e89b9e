// How pictures and traces name attends in decoding, where all queries are of the new tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "ringsched/viz/terminal.hpp"
#include "ringsched/viz/trace.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Plan decoding() {
  Problem p = small_problem(3, 24);
  p.new_tokens = {2};
  return build_plan(p, find_schedule("ring-decode"));
}

// Everything takes equally long, one after the other by steps.
Timeline timed_by_step(const Plan& plan) {
  Timeline t = timeline_of(plan, TimelineSource::Predicted, "m");
  for (TimelineTask& x : t.tasks) {
    x.start_ps = std::int64_t{x.step} * 1'000'000;
    x.end_ps = x.start_ps + 1'000'000;
  }
  return t;
}

TEST(DecodePicture, AGanttChartNamesTheKeysOfAnAttendAlone) {
  const std::string chart = svg(gantt(timed_by_step(decoding())));
  EXPECT_THAT(chart, HasSubstr("<title>k1, worker 2, step 1"));
  EXPECT_THAT(chart, HasSubstr(">k1</text>"));
  EXPECT_THAT(chart, HasSubstr("attend: new tokens"));
  EXPECT_THAT(chart, HasSubstr("keys of worker 1"));
  EXPECT_THAT(chart, Not(HasSubstr("queries of 1")));
  EXPECT_THAT(chart, Not(HasSubstr("own queries")));
  EXPECT_THAT(chart, Not(HasSubstr("q2 k1")));
}

TEST(DecodePicture, SoDoTracesTheTaskGraphThePageAndTheTerminal) {
  const Plan plan = decoding();
  const Timeline t = timed_by_step(plan);
  EXPECT_THAT(chrome_trace(t),
              HasSubstr("\"name\":\"attend k1\",\"cname\":\"rail_idle\",\"args\":{\"task\":"));
  EXPECT_THAT(chrome_trace(t), Not(HasSubstr("\"queries\":")));
  EXPECT_THAT(kineto_trace(t, 1), Not(HasSubstr("\"queries\":")));
  const std::string graph = task_graph_dot(plan, {});
  EXPECT_THAT(graph, HasSubstr("label=\"k1\""));
  EXPECT_THAT(graph, HasSubstr("k1: the new tokens attend keys of worker 1"));
  EXPECT_THAT(graph, Not(HasSubstr("q3 k1")));
  EXPECT_THAT(html_page({&t, 1}), HasSubstr("\"decodes\":true"));
  EXPECT_THAT(terminal_gantt(t, {80, false}), HasSubstr("0, 1, ... the new tokens on that worker"));
}

}  // namespace
}  // namespace ringsched
