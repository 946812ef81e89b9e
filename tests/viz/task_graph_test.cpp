#include "ringsched/viz/task_graph.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/libraries.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Edges = std::set<std::pair<std::uint32_t, std::uint32_t>>;

struct Drawn {
  std::map<std::uint32_t, std::uint32_t> worker_of;  // by task: the cluster it stands in
  Edges edges;  // between tasks, but the invisible, and those that only join what is one exchange
};

// Our dot files have one statement to a line.
Drawn parse(const std::string& dot) {
  Drawn d;
  std::istringstream in(dot);
  unsigned cluster = ~0u, a = 0, b = 0;
  for (std::string line; std::getline(in, line);) {
    if (std::sscanf(line.c_str(), "subgraph cluster_%u", &cluster) == 1) continue;
    if (line == "}") cluster = ~0u;
    if (std::sscanf(line.c_str(), "t%u -> t%u", &a, &b) == 2 && line.find("invis") == line.npos &&
        line.find("dir=none") == line.npos) {
      EXPECT_TRUE(d.edges.emplace(a, b).second) << line;
    } else if (line.find("->") == line.npos && std::sscanf(line.c_str(), "t%u [", &a) == 1) {
      EXPECT_TRUE(d.worker_of.emplace(a, cluster).second) << line;
    }
  }
  return d;
}

// With the fewest words, no arrow says only in which order a worker does things.
Edges data_edges(const Plan& plan) {
  Edges edges;
  for (std::uint32_t b = 0; b < plan.tasks.size(); ++b) {
    const Task& t = plan.tasks[b];
    for (const TensorId input : t.inputs)
      if (input.valid() && plan.producer(input).valid())
        edges.emplace(plan.producer(input).value, b);
    if (t.kind == TaskKind::Receive) edges.emplace(t.peer.value, b);
  }
  return edges;
}

// Whatever comes before what, directly: data, messages, control edges, groups of a lane.
Edges all_edges(const Plan& plan) {
  Edges edges = data_edges(plan);
  for (std::uint32_t b = 0; b < plan.tasks.size(); ++b) {
    const Task& t = plan.tasks[b];
    for (std::uint32_t a = 0; a < b; ++a) {
      const Task& s = plan.tasks[a];
      if (s.worker_index != t.worker_index || s.lane != t.lane) continue;
      // Of one group if all after `a` in the lane, up to `b`, were posted with those before.
      bool one_group = true;
      for (std::uint32_t k = a + 1; k <= b; ++k)
        if (plan.tasks[k].worker_index == t.worker_index && plan.tasks[k].lane == t.lane)
          one_group = one_group && plan.tasks[k].with_previous;
      if (!one_group) edges.emplace(a, b);
    }
  }
  for (const ControlEdge& e : plan.controls) edges.emplace(e.before.value, e.after.value);
  return edges;
}

using Matrix = std::vector<std::vector<char>>;
Matrix reachable(const Edges& edges, std::size_t n) {
  Matrix m(n, std::vector<char>(n, 0));
  for (const auto& [a, b] : edges) m[a][b] = 1;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t a = 0; a < n; ++a)
      if (m[a][k])
        for (std::size_t b = 0; b < n; ++b) m[a][b] = static_cast<char>(m[a][b] | m[k][b]);
  return m;
}

class TaskGraphOf : public testing::TestWithParam<Case> {};

TEST_P(TaskGraphOf, OrdersWhatThePlanOrdersWithNoEdgeTooMany) {
  const Case c = GetParam();
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
    for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
      SCOPED_TRACE(to_text(pass));
      const Plan plan = limit_communication(
          build_plan(small_problem(c.workers, 41 * c.workers, pass), *c.schedule), {overlap, 0});
      if (plan.tasks.size() > 250) continue;
      const Drawn drawn = parse(task_graph_dot(plan));
      ASSERT_EQ(drawn.worker_of.size(), plan.tasks.size());
      for (const auto& [task, worker] : drawn.worker_of)
        EXPECT_EQ(worker, plan.tasks[task].worker_index);
      const Matrix should = reachable(all_edges(plan), plan.tasks.size());
      EXPECT_TRUE(reachable(drawn.edges, plan.tasks.size()) == should);
      for (const auto& [a, b] : drawn.edges)
        for (std::size_t k = 0; k < plan.tasks.size(); ++k)
          EXPECT_FALSE(should[a][k] && should[k][b]) << a << " to " << b << ", also by " << k;
    }
}

TEST_P(TaskGraphOf, HasAllDataDependenciesWhateverTheWords) {
  const Case c = GetParam();
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
    SCOPED_TRACE(to_text(pass));
    const Plan plan = limit_communication(
        build_plan(small_problem(c.workers, 41 * c.workers, pass), *c.schedule), {});
    if (plan.tasks.size() > 250) continue;
    const std::size_t n = plan.tasks.size();
    const Matrix should = reachable(data_edges(plan), n);
    const Drawn least = parse(task_graph_dot(plan, {}, {}, GraphWords::Least));
    EXPECT_TRUE(reachable(least.edges, n) == should);
    for (const auto& [a, b] : least.edges)
      for (std::size_t k = 0; k < n; ++k)
        EXPECT_FALSE(should[a][k] && should[k][b]) << a << " to " << b << ", also by " << k;
    for (const GraphWords words : {GraphWords::Full, GraphWords::Few}) {
      const Matrix all = reachable(parse(task_graph_dot(plan, {}, {}, words)).edges, n);
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) ASSERT_LE(should[a][b], all[a][b]) << a << " to " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TaskGraphOf, testing::ValuesIn(all_schedules(4)),
                         [](const auto& i) { return i.param.name(); });

Plan plan_of(std::uint32_t workers) {
  return limit_communication(
      build_plan(small_problem(workers, 64 * workers), find_schedule("balanced")), {});
}

TEST(TaskGraph, OfAWorkerHasItsTasksAndTheOtherEndsOfItsMessages) {
  const Plan plan = plan_of(8);
  const std::string dot = task_graph_dot(plan, {WorkerId{0}});
  const Drawn drawn = parse(dot);
  std::size_t own = 0, messages = 0;
  for (const Task& t : plan.tasks) {
    own += t.worker_index == 0 ? 1 : 0;
    messages += t.worker_index == 0 && is_transfer(t.kind) ? 1 : 0;
  }
  EXPECT_EQ(drawn.worker_of.size(), own);
  std::size_t stubs = 0;
  for (std::size_t at = 0; (at = dot.find("\ns", at)) != dot.npos; ++at)
    stubs += dot.compare(at, 6, "\nsubgr") != 0 && dot.compare(at, 5, "\nstep") != 0 &&
                     dot.find("[label=\"worker", at) < dot.find('\n', at + 1)
                 ? 1
                 : 0;
  EXPECT_EQ(stubs, messages);
}

TEST(TaskGraph, OfStepsHasTheirTasks) {
  const Plan plan = plan_of(5);
  const Drawn drawn = parse(task_graph_dot(plan, {{}, 1, 1}));
  for (const auto& [task, worker] : drawn.worker_of) EXPECT_EQ(plan.tasks[task].step, 1u);
  EXPECT_FALSE(drawn.worker_of.empty());
}

TEST(TaskGraph, MarksHelpersAndExplainsItself) {
  EXPECT_THAT(task_graph_dot(plan_of(4)), HasSubstr("peripheries=2"));
  EXPECT_THAT(task_graph_dot(plan_of(4)), HasSubstr("double border"));
  const Plan ring = build_plan(small_problem(4, 256), find_schedule("ring"));
  EXPECT_THAT(task_graph_dot(ring), Not(HasSubstr("double border"))) << "nobody helps";
}

std::string refusal_of_plan(const Plan& plan, const GraphPart& part) {
  try {
    task_graph_dot(plan, part);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(TaskGraph, RefusesWhatNobodyCanRead) {
  EXPECT_THAT(refusal_of_plan(plan_of(32), {}), HasSubstr("--worker 0"));
  EXPECT_THAT(refusal_of_plan(plan_of(4), {WorkerId{4}}), HasSubstr("workers 0 to 3"));
  EXPECT_THAT(refusal_of_plan(plan_of(4), {{}, 9, 10}), HasSubstr("steps 0 to"));
  EXPECT_THAT(refusal_of_plan(plan_of(4), {{}, 2, 1}),
              HasSubstr("the first step is after the last"));
  EXPECT_THAT(refusal_of_plan(Plan{}, {}), HasSubstr("nothing to draw"));
}

TEST(TaskGraph, IsLaidOutByGraphviz) {
  Plan plan = plan_of(3);
  plan.schedule = "a \"name\" \\ <b>";
  const std::string dot = task_graph_dot(plan);
  std::string svg;
  try {
    svg = laid_out(dot, GraphFormat::Svg);
  } catch (const Error& e) {
    ASSERT_THAT(e.what(), HasSubstr("libgraphviz-dev"));
    GTEST_SKIP() << "built without Graphviz";
  }
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("a &quot;name&quot; \\ &lt;b&gt;"));
  EXPECT_EQ(dot, task_graph_dot(plan));
  EXPECT_THAT(laid_out(dot, GraphFormat::Png), StartsWith("\x89PNG"));
  EXPECT_THAT(laid_out(dot, GraphFormat::Pdf), StartsWith("%PDF"));
  EXPECT_THROW(laid_out("digraph {", GraphFormat::Svg), Error);
  // Graphviz would number by addresses, which differ when memory has been used before.
  std::vector<std::string> taken;
  for (std::size_t i = 0; i < 300; ++i) taken.emplace_back(8 + i % 90, 'x');
  for (std::size_t i = 0; i < 300; i += 3) taken[i] = {};
  EXPECT_EQ(laid_out(dot, GraphFormat::Svg), svg) << "after an error too";
}

// From left to right, and each arrow from the lower edge of the one box, or its side, downwards.
// On a narrow page boxes have fewer words, and all of them can be read.
TEST(TaskGraph, OfFourWorkersFitsAColumn) {
  for (const char* schedule : {"ring", "zigzag", "balanced"}) {
    const Plan plan = build_plan(small_problem(4, 330), find_schedule(schedule));
    for (const char* medium : {"column", "text", "slide"}) {
      if (std::string_view(schedule) != "ring" && std::string_view(medium) != "column") continue;
      const Page page = page_for(medium);
      std::string svg;
      try {
        svg = task_graph(plan, {}, GraphFormat::Svg, page);
      } catch (const Error& e) {
        ASSERT_THAT(e.what(), HasSubstr("without Graphviz"));
        GTEST_SKIP() << "built without Graphviz";
      }
      EXPECT_THAT(svg, HasSubstr(fmt::format("width=\"{:.0f}pt\"", page.width))) << schedule;
      EXPECT_THAT(svg, HasSubstr("q3 k2"));
    }
    EXPECT_THAT(task_graph(plan, {}, GraphFormat::Svg, page_for("text")), HasSubstr(">merge"));
  }
  EXPECT_THROW(task_graph(plan_of(8), {}, GraphFormat::Svg, page_for("column")), Error);
}

// Its words are smaller then, or fewer, or it refuses.
TEST(TaskGraph, IsNotTallerThanAPage) {
  if (graphviz_version().empty()) GTEST_SKIP() << "built without Graphviz";
  std::size_t drawn = 0;
  for (const char* schedule : {"zigzag", "ulysses"})
    for (const Pass pass : {Pass::Forward, Pass::Both})
      for (const char* medium : {"column", "text", "slide"}) {
        if (pass == Pass::Both && std::string_view(medium) != "text") continue;  // takes long
        if (kSanitized && std::string_view(medium) == "slide") continue;
        SCOPED_TRACE(fmt::format("{}, {}, {}", schedule, to_text(pass), medium));
        const Plan plan = build_plan(small_problem(4, 320, pass), find_schedule(schedule));
        const Page page = page_for(medium);
        try {
          const std::string svg = task_graph(plan, {}, GraphFormat::Svg, page);
          double width = 0, height = 0;
          ASSERT_EQ(std::sscanf(svg.c_str() + svg.find("<svg"),
                                "<svg width=\"%lfpt\" height=\"%lfpt\"", &width, &height),
                    2);
          EXPECT_NEAR(width, page.width, 1);
          EXPECT_LE(height, page.height + 1);
          ++drawn;
        } catch (const Error& e) {
          EXPECT_THAT(e.what(), HasSubstr("nobody could read its words"));
          EXPECT_THAT(e.what(), HasSubstr("--steps 0-1"));
          EXPECT_EQ(pass, Pass::Both);
        }
      }
  EXPECT_GE(drawn, 4u);
}

TEST(TaskGraph, HasEachTaskWhateverTheWords) {
  const Plan plan = plan_of(4);
  const Drawn full = parse(task_graph_dot(plan));
  const auto count = [](const std::string& dot, const char* what) {
    std::size_t n = 0;
    for (std::size_t at = dot.find(what); at != dot.npos; at = dot.find(what, at + 1)) ++n;
    return n;
  };
  for (const GraphWords words : {GraphWords::Few, GraphWords::Least}) {
    const std::string dot = task_graph_dot(plan, {}, {}, words);
    const Drawn fewer = parse(dot);
    EXPECT_EQ(fewer.worker_of, full.worker_of);
    const bool least = words == GraphWords::Least;
    EXPECT_EQ(count(dot, "style=dashed") > 0, !least);
    EXPECT_EQ(count(dot, "label=\"get "),
              least ? 0 : count(task_graph_dot(plan), "label=\"receive "));
    EXPECT_EQ(count(dot, "penwidth=2 color"), count(task_graph_dot(plan), "penwidth=2 color"))
        << "messages";
    EXPECT_THAT(dot, Not(HasSubstr(" from ")));
  }
}

TEST(TaskGraph, HasItsWorkersInOrderAndAllItsArrows) {
  for (const char* schedule : {"balanced", "zigzag", "ring", "ulysses", "double-ring:node=2"})
    for (const std::uint32_t workers : {3u, 4u, 6u}) {
      if (workers == 3 && std::string_view(schedule).starts_with("double")) continue;
      if (workers == 6 && std::string_view(schedule) == "ulysses") continue;  // of four heads
      SCOPED_TRACE(schedule);
      const Plan plan = limit_communication(
          build_plan(small_problem(workers, 64 * workers), find_schedule(schedule)), {});
      const std::string dot = task_graph_dot(plan, {{}, 0, 2});
      std::string svg;
      try {
        svg = laid_out(dot, GraphFormat::Svg);
      } catch (const Error&) {
        GTEST_SKIP() << "built without Graphviz";
      }
      double before = -1e9;
      for (std::uint32_t w = 0; w < workers; ++w) {
        const std::size_t name = svg.find(fmt::format(">worker {}</text>", w));
        ASSERT_NE(name, svg.npos);
        const double x = std::stod(svg.substr(svg.rfind(" x=\"", name) + 4));
        EXPECT_GT(x, before) << w;
        before = x;
      }
      const Drawn drawn = parse(dot);
      for (const auto& [a, b] : drawn.edges)
        EXPECT_THAT(svg, HasSubstr(fmt::format("<title>t{}&#45;&gt;t{}</title>", a, b)));
    }
}

// The first attends of a step stand in one line, below all that they wait for.
TEST(TaskGraph, HasItsStepsInLines) {
  const Plan plan = plan_of(4);
  std::map<std::string, std::size_t> line_of;  // by task or step
  std::size_t lines = 0;
  std::istringstream in(task_graph_dot(plan));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("{ rank=same")) continue;
    std::istringstream words(line.substr(11));
    for (std::string word; words >> word;) line_of[word] = lines;
    ++lines;
  }
  for (const auto& [a, b] : all_edges(plan))
    EXPECT_LT(line_of.at(fmt::format("t{}", a)), line_of.at(fmt::format("t{}", b)));
  std::set<std::pair<std::uint32_t, Step>> seen;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (is_attend(t.kind) && seen.emplace(t.worker_index, t.step).second) {
      EXPECT_EQ(line_of.at(fmt::format("t{}", id)), line_of.at(fmt::format("step{}", t.step)));
    }
  }
}

}  // namespace
}  // namespace ringsched
